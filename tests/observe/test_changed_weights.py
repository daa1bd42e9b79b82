"""Weights that a program changes after their softmax: what is observed is what it multiplies by the values."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from watched import watch

from mhaviz.observe.mode import Observer

B, H, L, K, D = 2, 3, 5, 7, 4
CHANGES = {}


def change(function):
    CHANGES[function.__name__] = function
    return function


def qkv():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(B, H, n, D, generator=generator) for n in (L, K, K)]


def softmax(scale=0.5):
    q, k, _ = qkv()
    return (q @ k.mT * scale).softmax(-1)


SEEN = torch.rand(L, K, generator=torch.Generator().manual_seed(1)) > 0.4


@change
def times_a_mask():
    return softmax() * SEEN


@change
def renormalised():
    A = softmax() * SEEN
    return A / (A.sum(-1, keepdim=True) + 1e-9)


@change
def renormalised_in_place():
    A = softmax()
    A *= SEEN
    A /= A.sum(-1, keepdim=True) + 1e-9
    return A


@change
def filled():
    return softmax().masked_fill(~SEEN, 0)


@change
def padded_queries_filled():
    return softmax().masked_fill(torch.arange(L)[:, None] > 2, 0.0)


@change
def assigned():
    A = softmax()
    A[..., 0] = 0
    return A


@change
def assigned_through_a_view():
    A = softmax()
    A[:, 0].zero_()
    return A


@change
def through_a_view_in_place():
    A = softmax()
    A.view(B * H, L, K).mul_(0.5)
    return A


@change
def where():
    return torch.where(SEEN, softmax(), torch.zeros(()))


@change
def clamped():
    return softmax().clamp(min=0.1)


@change
def lower_triangle():
    return softmax().tril()


@change
def put_by_index():
    return softmax().index_put((torch.tensor([0]),), torch.tensor(0.0))


@change
def sharpened():
    return F.normalize(softmax() ** 2, p=1, dim=-1)


@change
def thresholded():
    return F.threshold(softmax(), 0.1, 0.0)


@change
def gated_by_head():
    return softmax() * torch.tensor([0.2, 1.0, 2.0])[:, None, None]


@change
def softmax_of_a_softmax():
    return (softmax() * 5).softmax(-1)


@change
def dual_softmax():
    """Sun et al. 2021, LoFTR, arXiv 2104.00680, section 3.3."""
    return softmax(1.0).mT.softmax(-2).mT * softmax(1.0)


@change
def softmaxes_over_both_axes():
    q, k, _ = qkv()
    S = q @ k.mT
    return S.softmax(-2) * S.softmax(-1)


@change
def sum_of_two():
    return 0.3 * softmax() + 0.7 * softmax(2.0)


@change
def interpolated():
    return torch.lerp(softmax(), softmax(2.0), 0.3)


@change
def talking_heads():
    """Shazeer et al. 2020, arXiv 2003.02436."""
    mix = torch.rand(H, H, generator=torch.Generator().manual_seed(2))
    return (softmax().permute(0, 2, 3, 1) @ mix).permute(0, 3, 1, 2)


@change
def talking_heads_by_einsum_with_parameters():
    mix = nn.Parameter(torch.rand(H, H, generator=torch.Generator().manual_seed(2)), requires_grad=False)
    return torch.einsum("bhij,hg->bgij", softmax(), mix)


@change
def talking_heads_by_a_layer():
    layer = nn.Linear(H, H, bias=False).requires_grad_(False)
    layer.weight.abs_()
    return layer(softmax().permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@change
def talking_heads_by_a_convolution():
    layer = nn.Conv2d(H, H, 1, bias=False).requires_grad_(False)
    layer.weight.abs_()
    return layer(softmax())


@change
def masked_after_a_cast():
    return softmax().half().float() * SEEN


@change
def cast():
    return softmax().bfloat16().float()


@change
def masked_after_dropout_that_drops_nothing():
    return F.dropout(softmax(), 0.5, training=False) * SEEN


@change
def detached():
    return (softmax() * SEEN).detach().data


@change
def largest_weights():
    A = softmax()
    largest = A.topk(2, dim=-1)
    return torch.zeros_like(A).scatter(-1, largest.indices, largest.values / largest.values.sum(-1, keepdim=True))


@change
def largest_scores():
    q, k, _ = qkv()
    S = q @ k.mT
    largest = S.topk(3)
    return torch.zeros_like(S).scatter(-1, largest.indices, largest.values.softmax(-1))


@change
def largest_scores_by_exponentials():
    q, k, _ = qkv()
    S = q @ k.mT
    largest = S.topk(3)
    E = (largest.values - largest.values.amax(-1, keepdim=True)).exp()
    return torch.zeros_like(S).scatter_(-1, largest.indices, E / E.sum(-1, keepdim=True))


@change
def largest_scores_among_others():
    q, k, _ = qkv()
    S = q @ k.mT
    largest = S.topk(3)
    return torch.full_like(S, -torch.inf).scatter(-1, largest.indices, largest.values).softmax(-1)


@pytest.mark.parametrize("name", CHANGES)
def test_what_meets_the_values_is_what_is_caught(name):
    value = qkv()[2]
    torch.manual_seed(3)
    expected = CHANGES[name]() @ value

    def program():
        A = CHANGES[name]()
        return A @ value, A

    torch.manual_seed(3)
    seen, (output, A) = watch(program)
    assert torch.equal(output, expected)
    assert seen.missed == []
    assert torch.equal(seen.weights(), A)


def test_negative_weights_are_refused():
    """Ye et al. 2024, the differential transformer, arXiv 2410.05258."""
    seen, _ = watch(lambda: (softmax() - 0.8 * softmax(2.0)) @ qkv()[2])
    assert list(seen) == []
    (line,) = seen.missed
    assert "subtracts two softmaxes, and multiplies its values by negative weights, down to -0." in line


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_heads_that_are_subtracted_are_said(join):
    """Two softmaxes for each head, as parts of one tensor."""

    def program():
        first, second = join([softmax(), softmax(2.0)], 1).chunk(2, dim=1)
        return (first - 0.8 * second).view(B, H, L, K) @ qkv()[2]

    seen, _ = watch(program)
    (line,) = seen.missed
    assert "subtracts two softmaxes" in line


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_softmaxes_over_two_sets_of_keys_that_are_joined(share):
    """What meets the values is drawn: each row sums to 1 for each set, or to its share."""
    q, k, v = qkv()
    others = torch.randn(2, B, H, 4, D, generator=torch.Generator().manual_seed(4))

    def program():
        A = torch.cat([share * (q @ k.mT).softmax(-1), (q @ others[0].mT).softmax(-1)], dim=-1)
        return A @ torch.cat([v, others[1]], dim=-2), A

    seen, (_, A) = watch(program)
    assert seen.missed == []
    assert torch.equal(seen.weights(), A)


def test_parts_of_a_softmax_that_are_joined_in_another_order_are_not_drawn():
    def program():
        before, after = softmax().split([3, K - 3], -1)
        return torch.cat([after, before], -1) @ qkv()[2].roll(-3, -2)

    seen, _ = watch(program)
    assert list(seen) == []
    (line,) = seen.missed
    assert "not known which" in line


@pytest.mark.parametrize("is_in_one", [True, False])
def test_heads_that_are_mixed_as_they_meet_values(is_in_one):
    """Shazeer et al. 2020, talking heads, arXiv 2003.02436: what meets the values is of all heads."""
    mix, value = torch.eye(H).roll(1, 0) * 0.5 + 0.1, qkv()[2]
    expected = softmax().mT.transpose(1, 3) @ mix  # (…, heads)

    def program():
        if is_in_one:
            return torch.einsum("bhij,hg,bgjd->bgid", softmax(), mix, value)
        return torch.einsum("bhij,hg->bgij", softmax(), mix) @ value

    seen, output = watch(program)
    torch.testing.assert_close(torch.einsum("bijg,bgjd->bgid", expected, value), output)
    if seen:
        torch.testing.assert_close(seen.weights(), expected.permute(0, 3, 1, 2))
    assert (len(seen), [line.partition(": ")[2] for line in seen.missed]) == (
        (0, ["sums over its queries, or over heads, in the product with values; not shown"]) if is_in_one else (1, [])
    )


@pytest.mark.parametrize("equation", ["bhij,bjd->bhd", "bhij,bhjd->bhd", "bhij,bhjd->bd", "bhij,bhjd->bid"])
def test_queries_that_are_summed_as_they_meet_values(equation):
    """What a pool over queries leaves is no query; heads that are summed have met the values each by itself."""
    value = qkv()[2][:, 0] if ",bjd" in equation else qkv()[2]
    seen, output = watch(lambda: torch.einsum(equation, softmax(), value))
    expected = softmax() @ (value if value.ndim == 4 else value[:, None])
    summed = [axis for axis, letter in enumerate("bhid") if letter not in equation.partition(">")[2]]
    torch.testing.assert_close(output, expected.sum(summed))
    if "i" in equation.partition(">")[2]:
        torch.testing.assert_close(seen.weights(), softmax())
    else:
        assert (len(seen), len(seen.missed)) == (0, 1)
        assert "sums over its queries, or over heads, in the product with values" in seen.missed[0]


def test_what_a_change_takes_away_goes_to_no_sink():
    _, _, value = qkv()
    sinks = [
        watch(lambda A=A: A() @ value)[0].only().call.has_sink
        for A in (times_a_mask, gated_by_head, lambda: F.dropout(softmax(), 0.5), _with_a_sink)
    ]
    assert sinks == [False, False, False, True]


def _with_a_sink():
    q, k, _ = qkv()
    return torch.cat([q @ k.mT, torch.ones(B, H, L, 1)], -1).softmax(-1)[..., :-1]


def test_weights_before_and_after_a_change_are_both_caught():
    """Both meet values; neither is the other."""
    value = qkv()[2]

    def program():
        A = softmax()
        masked = A * SEEN
        return A @ value + masked @ value.flip(-1), A, masked

    seen, (_, A, masked) = watch(program)
    assert torch.equal(seen.weights(0), A)
    assert torch.equal(seen.weights(1), masked)


def test_one_head_of_changed_weights_is_zeroed():
    class Attending(nn.Module):
        num_heads = H

        def forward(self, q, k, v):
            return renormalised() @ v

    model, zeroed = Attending(), renormalised()
    zeroed[:, 1] = 0
    with torch.no_grad(), Observer(lambda observed: observed.zero([1]), model).watching():
        output = model(*qkv())
    torch.testing.assert_close(output, zeroed @ qkv()[2])


def test_a_softmax_over_the_queries_leaves_hidden_states_alone():
    """What it makes of values is no weights, whatever becomes of it: the attention that reads it is found."""

    def program(x):
        x = F.gelu((x @ x.mT).softmax(-2) @ x)
        A = (x @ x.mT).softmax(-1)
        return A @ x, A

    seen, (_, A) = watch(program, torch.randn(2, 3, 5, 4))
    assert torch.equal(seen.weights(), A)


def _squares():
    """Weights of five tokens for each other, twice."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, L, D, generator=generator) for _ in range(3))
    return lambda: (q @ k.mT).softmax(-1), lambda: (k @ q.mT).softmax(-1), v


@pytest.mark.parametrize(
    "multiply",
    [
        lambda A, C: torch.matmul(*[A()] * 2),
        lambda A, C: A() @ C(),
        lambda A, C: torch.einsum("bhqm,bhkm->bhqk", A(), C()),
    ],
    ids=["two hops", "of two softmaxes", "that share their keys"],
)
def test_weights_that_meet_weights_are_not_those_that_meet_the_values(multiply):
    class Attending(nn.Module):
        def forward(self):
            A, C, value = _squares()
            both = multiply(A, C)
            return (both @ value).transpose(1, 2).flatten(2), both

    seen, (_, both) = watch(Attending())
    assert seen.missed == []
    assert torch.equal(seen.weights(), both)


ORDER = torch.tensor([3, 1, 0, 2, 6, 5, 4])


@pytest.mark.parametrize(
    "reorder",
    [
        lambda x: x[..., ORDER],
        lambda x: x[..., ORDER.tolist()],
        lambda x: x.index_select(-1, ORDER),
        lambda x: x.index_select(-2, torch.tensor([4, 0, 1, 3, 2])),
        lambda x: x.gather(-1, ORDER.expand(B, H, L, K)),
        lambda x: x.take_along_dim(ORDER.expand(1, 1, 1, K), dim=-1),
        lambda x: x.flip(-1),
        lambda x: x.roll(1, dims=-1) * 2,
        lambda x: x.sort(-1).values,
        lambda x: x[..., torch.tensor([2, 0])],
    ],
)
def test_keys_in_another_order_are_refused(reorder):
    """Whether the values are in that order, too, nobody can tell."""
    value = qkv()[2][:, :, : reorder(softmax()).shape[-1]]
    seen, _ = watch(lambda: reorder(softmax()) @ value)
    assert list(seen) == []
    (line,) = seen.missed
    assert "reorders its keys" in line


def test_examples_and_heads_may_be_chosen_by_their_numbers():
    value = qkv()[2]

    def program():
        A = softmax()[torch.tensor([1, 0])][:, [2, 0, 1]]
        return A @ value, A

    seen, (_, A) = watch(program)
    assert torch.equal(seen.weights(), A)


def test_a_part_that_is_changed_is_never_shown_as_the_whole():
    seen, _ = watch(lambda: (softmax()[..., 4:] * 0.5) @ qkv()[2][:, :, 4:])
    assert list(seen) == []
    (line,) = seen.missed
    assert "changes a part" in line
