"""Weights that dropout changes: those that are observed are those of the same program in inference, without dropout."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from watched import CLOSE, watch

from mhaviz import record
from mhaviz.observe.mode import Observer

B, H, L, K, D = 2, 3, 5, 7, 4
Q, KEYS, V = (torch.randn(B, H, n, D, generator=torch.Generator().manual_seed(n)) for n in (L, K, K + 1))
V = V[:, :, :K]
SEEN = torch.rand(L, K, generator=torch.Generator().manual_seed(1)) > 0.4
P = 0.4


def softmax(scale=0.5):
    return (Q @ KEYS.mT * scale).softmax(-1)


def _by_random_mask(A):
    A *= torch.empty_like(A).bernoulli_(1 - P) / (1 - P)
    return A


def _whole():
    return torch.rand(B, H, L, K)


def _changed(change):
    u = _whole()
    change(u)
    return u


def _set(A, mask):
    A[mask] = 0
    return A


DROPOUTS = {
    "F.dropout": lambda A: F.dropout(A, P),
    "nn.Dropout": nn.Dropout(P),
    "nn.Dropout in place": nn.Dropout(P, inplace=True),
    "F.dropout in place": lambda A: F.dropout(A, P, inplace=True),
    "F.dropout2d": lambda A: F.dropout2d(A, P),
    "F.alpha_dropout": lambda A: F.alpha_dropout(A, P, training=True),
    "F.feature_alpha_dropout": lambda A: F.feature_alpha_dropout(A, P, training=True),
    "torch.dropout": lambda A: torch.dropout(A, P, train=True),
    "torch.dropout by names": lambda A: torch.dropout(input=A, p=P, train=True),
    "torch.dropout_": lambda A: torch.dropout_(A, P, True),
    "torch.native_dropout": lambda A: torch.native_dropout(A, P, True)[0],
    "torch.feature_dropout": lambda A: torch.feature_dropout(A, P, True),
    "torch.alpha_dropout": lambda A: torch.alpha_dropout(A, P, True),
    "all of it": lambda A: F.dropout(A, 1.0),
    "twice": lambda A: F.dropout(F.dropout(A, P), P),
    "bernoulli": lambda A: A * torch.bernoulli(torch.full_like(A, 1 - P)) / (1 - P),
    "bernoulli in place": _by_random_mask,
    "a distribution": lambda A: A * torch.distributions.Bernoulli(probs=1 - P).sample(A.shape).div(1 - P),
    "rand": lambda A: A * (torch.rand(B, H, L, K) > P) / (1 - P),
    "rand_like": lambda A: A * (torch.rand_like(A) < 1 - P).float().div_(1 - P),
    "uniform": lambda A: A * torch.empty(B, H, L, K).uniform_().ge(P) * (1 / (1 - P)),
    "mask rescaled": lambda A: A * ((torch.rand_like(A) > P) / (1 - P)),
    "weights rescaled": lambda A: torch.where(torch.rand_like(A) > P, A / (1 - P), 0),
    "where zeros": lambda A: torch.where(torch.rand_like(A) < P, torch.zeros_like(A), A) / (1 - P),
    "set": lambda A: _set(A, torch.rand_like(A) < P) / (1 - P),
    "floor": lambda A: A / (1 - P) * (torch.rand_like(A) + (1 - P)).floor(),
    "floor in place": lambda A: A.div(1 - P) * (1 - P + torch.rand(A.shape)).floor_(),
    "a limit in a tensor": lambda A: A * (torch.rand_like(A) > torch.tensor(P)) / (1 - torch.tensor(P)),
    "numbers moved": lambda A: A * (1 - torch.rand_like(A).sub_(0.5) > P + 0.5) / (1 - P),
    "numbers moved in place": lambda A: A * (_changed(lambda u: u.sub_(0.5)) > 0).float() / 0.5,
    "bernoulli by a number": lambda A: A * torch.bernoulli(A, p=1 - P) / (1 - P),
    "as the weights": lambda A: A * (torch.rand_like(A) > P).type_as(A).view_as(A) / (1 - P),
    "seen through another mask": lambda A: A * (torch.rand_like(A) > P) * torch.ones(L, K) / (1 - P),
    "axes of the mask moved": lambda A: A * (torch.rand(B, H, K, L) > P).transpose(2, 3).contiguous() / (1 - P),
    "filled": lambda A: A.masked_fill(torch.rand_like(A) < P, 0) / (1 - P),
    "filled where not": lambda A: A.masked_fill(~(torch.rand_like(A) > P), 0.0) / (1 - P),
    "where": lambda A: torch.where(torch.rand_like(A) < P, 0, A) / (1 - P),
    "where, as a method": lambda A: A.where(torch.rand_like(A) > P, 0) / (1 - P),
}
"""Dropout, of which the mean is the same as in inference."""


@pytest.mark.parametrize("name", DROPOUTS)
def test_weights_are_those_before_dropout(name):
    def program():
        torch.manual_seed(0)
        A = DROPOUTS[name](softmax())
        return A @ V

    expected = program()
    seen, output = watch(program)
    assert torch.equal(output, expected), "the program computes what it did, with the same random numbers"
    assert not torch.allclose(softmax() @ V, output)
    assert seen.missed == []
    assert seen.only().is_before_dropout
    torch.testing.assert_close(seen.weights(), softmax(), rtol=0, atol=CLOSE)


def _written(A):
    A[..., 0] = 0
    return A


CHANGES = {
    "a mask": lambda A: A * SEEN,
    "a mask in place": lambda A: A.mul_(SEEN),
    "filled": lambda A: A.masked_fill(~SEEN, 0),
    "filled in place": lambda A: A.masked_fill_(~SEEN, 0),
    "set by a mask": lambda A: A.index_put((~SEEN.expand_as(A),), torch.zeros(())),
    "written": _written,
    "normalised": lambda A: A / (A.sum(-1, keepdim=True) + 1e-9),
    "normalised in place": lambda A: A.div_(A.sum(-1, keepdim=True) + 1e-9),
    "masked and normalised": lambda A: (M := A * SEEN) / M.sum(-1, keepdim=True).clamp(min=1e-6),
    "normalised by F": lambda A: F.normalize(A, p=1, dim=-1),
    "a softmax": lambda A: (A * 5).softmax(-1),
    "what is above 0": lambda A: torch.where(A > 0, A, A.mean()),
    "cast": lambda A: A.double().float(),
    "views": lambda A: A.flatten(0, 1).transpose(-2, -1).contiguous().mT.unflatten(0, (B, H)),
    "copies": lambda A: A.clone().detach().data,
    "two hops": lambda A: A @ A[..., :L, :].mT @ A,
    "mixed heads": lambda A: torch.einsum("bhij,hg->bgij", A, torch.eye(H).roll(1, 0) + 0.1),
    "interpolated": lambda A: torch.lerp(A, softmax(2.0), 0.3),
    "copied": lambda A: torch.empty_like(A).copy_(A),
    "added in place": lambda A: softmax(2.0).add_(A),
    "by names": lambda A: torch.mul(input=A, other=SEEN),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_weights_after_dropout_changes_those_without_it(name):
    """The oracle is the program in inference."""

    def program(is_training=True):
        torch.manual_seed(0)
        return CHANGES[name](F.dropout(softmax(), P, is_training)) @ V

    expected = CHANGES[name](softmax())
    torch.testing.assert_close(expected @ V, program(False))
    seen, output = watch(program)
    assert torch.equal(output, program())
    assert seen.missed == []
    assert seen.only().is_before_dropout
    torch.testing.assert_close(seen.weights(), expected, rtol=0, atol=CLOSE)


def _through_a_view(A):
    A[..., 0].zero_()
    return A


def _before_it_meets(A):
    dropped = F.dropout(A, P)
    A.mul_(0)
    return dropped


def test_weights_before_and_after_a_change_are_both_observed():
    def program():
        A = F.dropout(softmax(), P)
        return A @ V + (A * SEEN) @ V.flip(-1)

    seen, _ = watch(program)
    assert [one.is_before_dropout for one in seen] == [True, True]
    assert torch.equal(seen.weights(0), softmax())
    assert torch.equal(seen.weights(1), softmax() * SEEN)


UNKNOWN = {
    "written through a view": lambda: _through_a_view(F.dropout(softmax(), P)),
    "weights that are gone": lambda: _before_it_meets(softmax()),
    "random numbers": lambda: torch.rrelu(F.dropout(softmax(), P), training=True),
    "scores": lambda: F.dropout(Q @ KEYS.mT, P).softmax(-1),
    "a mask, then in place": lambda: F.dropout(softmax() * (_whole() > P), P, inplace=True),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_weights_are_without_dropout_is_not_guessed(name):
    seen, _ = watch(lambda: UNKNOWN[name]() @ V)
    assert list(seen) == []
    (line,) = seen.missed
    assert line.endswith(
        "changes its weights after dropout, or drops scores; what they are without it is not known; not shown"
    )


RANDOM = {
    "of an input": lambda A: A * (torch.rand(B, 1, L, K + 1)[..., :K] > P),
    "of an input of the same shape": lambda A: A * (_whole() > P),
    "of an input, rescaled": lambda A: A * (torch.rand(B, H, L, K + 1)[..., :1] > P) / (1 - P),
    "padding": lambda A: A * (torch.rand(B, 1, 1, K) > P),
    "padding, expanded and rescaled": lambda A: A * (torch.rand(B, 1, 1, K).expand_as(A) > P) / (1 - P),
    "padding, rescaled": lambda A: A.masked_fill(torch.rand(B, 1, 1, K) < P, 0) / (1 - P),
    "normalised": lambda A: (M := A * (_whole() > P)) / M.sum(-1, keepdim=True).clamp(min=1e-9),
    "normalised and rescaled": lambda A: (M := A * (_whole() > P)) / (M.sum(-1, keepdim=True) + 1e-9) / (1 - P),
    "a softmax": lambda A: (A * (_whole() > P)).softmax(-1),
    "mixed heads": lambda A: torch.einsum("bhij,hg->bgij", A * (_whole() > P), torch.eye(H).roll(1, 0) + 0.1),
    "added": lambda A: A * (_whole() > P) + softmax(2.0),
    "noise": lambda A: A + torch.rand_like(A) * 0.01,
    "integers": lambda A: A * torch.randint(0, 2, A.shape),
    "one number": lambda A: A * torch.bernoulli(torch.ones(()) - P) / (1 - P),
    "probabilities": lambda A: A * torch.bernoulli(torch.linspace(0, 1, K).expand_as(A)),
    "a mask of a mask": lambda A: A.masked_fill(torch.bernoulli(torch.full((K,), P)) == 0, 0),
    "another scale": lambda A: A * (_whole() > P) / P,
    "filled with others": lambda A: A.masked_fill(_whole() < P, 0.1) / (1 - P),
    "floor alone": lambda A: A * (_whole() + P).floor_(),
    "changed": lambda A: A * (_changed(lambda u: u.sqrt_()) > 0.5) / 0.5,
    "cut": lambda A: A * (torch.rand(2 * B, H, L, K) > P).chunk(2)[1] / (1 - P),
    "changed through a view": lambda A: A * (_changed(lambda u: u[..., 0].zero_()) > 0.5) / 0.5,
    "changed by out": lambda A: A * (_changed(lambda u: torch.sqrt(u, out=u)) > 0.5) / 0.5,
    "in place": lambda A: A.mul_(_whole() > P),
    "set": lambda A: _set(A, _whole() < P),
    "dropout after it": lambda A: F.dropout(A * (_whole() > 0.5), 0.0),
}
"""Random numbers that change weights and are no dropout."""


@pytest.mark.parametrize("name", RANDOM)
def test_weights_that_other_random_numbers_change_are_those_that_met_values(name):
    def program():
        torch.manual_seed(2)
        A = RANDOM[name](softmax())
        return A @ V, A

    expected, _ = program()
    seen, (output, A) = watch(program)
    assert torch.equal(output, expected)
    assert seen.missed == []
    assert not seen.only().is_before_dropout
    assert seen.only().is_random
    torch.testing.assert_close(seen.weights(), A, rtol=0, atol=CLOSE)


SCORES = {
    "padding": lambda x: x.masked_fill(torch.rand(B, 1, 1, K) < P, -9e9),
    "each": lambda x: x.masked_fill_(torch.rand(L, K) < P, -torch.inf).div(2),
    "multiplied": lambda x: x * torch.bernoulli(torch.full((K,), P)),
    "rescaled": lambda x: x * (torch.rand_like(x) > P) / (1 - P),
}


@pytest.mark.parametrize("name", SCORES)
def test_a_random_mask_on_scores_is_a_mask(name):
    def program():
        torch.manual_seed(2)
        A = SCORES[name](Q @ KEYS.mT).softmax(-1)
        return A @ V, A

    seen, (_, A) = watch(program)
    assert seen.missed == []
    assert not seen.only().is_before_dropout
    torch.testing.assert_close(seen.weights(), A, rtol=0, atol=CLOSE, equal_nan=True)


@pytest.mark.parametrize("change", [lambda A: A * 2, lambda A: 3 * A / A.sum(-1, keepdim=True), lambda A: A / P * P])
def test_numbers_that_multiply_weights_before_dropout_are_no_part_of_it(change):
    def program():
        A = change(softmax())
        return A * (torch.rand_like(A) > P) / (1 - P) @ V, A

    seen, (_, A) = watch(program)
    assert seen.only().is_before_dropout
    torch.testing.assert_close(seen.weights(), A, rtol=0, atol=CLOSE)


def test_output_rescaled_after_the_values():
    def program():
        A = softmax() * (_whole() > P)
        return A @ V / (1 - P), A

    seen, (_, A) = watch(program)
    assert seen.only().is_random
    assert torch.equal(seen.weights(), A)


@pytest.mark.parametrize("is_input", [False, True])
def test_a_notice_tells_of_random_numbers(is_input):
    with record() as recording:
        x = torch.rand(1, 6, 8)
        A = (x @ x.mT).softmax(-1) * (x[..., :6] > 0.5 if is_input else torch.rand(1, 1, 6) > 0.3)
        _ = A @ x
    said = "random numbers of the program changed some weights"
    assert said in recording.attention.source.remark
    assert said in recording.notices
    torch.testing.assert_close(torch.tensor(recording.attention[0].weights)[0], A[0], rtol=0, atol=CLOSE)


@pytest.mark.parametrize(
    "drop",
    [
        lambda A: F.dropout(A, 0.0),
        lambda A: F.dropout(A, P, training=False),
        lambda A: F.alpha_dropout(A, P),
        lambda A: torch.dropout(A, P, False),
        nn.Dropout(P).eval(),
        lambda A: A + torch.rand_like(A) * 0,
        lambda A: A * torch.bernoulli(SEEN.float()),  # given, not drawn
        lambda A: A * torch.bernoulli(A.detach()),  # sampled: what meets the values is what it draws
        torch.bernoulli,
    ],
)
def test_nothing_is_said_where_nothing_is_dropped(drop):
    def program():
        A = drop(softmax())
        return A @ V, A

    seen, (_, A) = watch(program)
    assert torch.equal(seen.weights(), A)
    assert not seen.only().is_before_dropout


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_gradients_do_not_matter(grad):
    def program():
        with grad():
            A = softmax()
            dropped = F.dropout(A, P, inplace=True) if A.is_inference() else F.dropout(A, P)
            return dropped.mul_(SEEN) @ V

    seen, _ = watch(program)
    assert torch.equal(seen.weights(), softmax() * SEEN)


def test_a_mask_that_dropout_makes_of_a_constant():
    """One mask for all layers, as in a recurrent net."""

    class Masked(nn.Module):
        def forward(self):
            mask = F.dropout(torch.ones(B, 1, 1, K), P)
            return (softmax() * mask) @ V

    seen, _ = watch(Masked())
    assert seen.only().is_before_dropout
    assert torch.equal(seen.weights(), softmax())


def test_no_memory_is_kept():
    """What autograd keeps of weights after dropout keeps nothing of those before it."""
    q, kept = Q.clone().requires_grad_(), []

    def program():
        A = (q @ KEYS.mT).softmax(-1).double()
        kept.append(weakref.ref(A))
        return F.dropout(A, P) @ V.double()

    with (watching := Observer(lambda observed: None)).watching():
        output = program()
        gc.collect()
        assert kept[0]() is None
    assert len(watching._by_hand._marks) == 0
    output.sum().backward()


class Layer(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.drop = how, nn.Dropout(P)
        self.kernel = nn.TransformerEncoderLayer(8, 2, 16, dropout=P, batch_first=True)

    def forward(self, x):
        if self.how == "encoder layer":
            return self.kernel(x)
        if self.how.startswith("attention"):
            return self.kernel.self_attn(x, x, x, need_weights="weights" in self.how)[0]
        q, k, v = F.linear(x, self.kernel.self_attn.in_proj_weight).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if self.how == "SDPA":
            return F.scaled_dot_product_attention(q, k, v, dropout_p=P if self.training else 0.0)
        return self.drop((q @ k.mT / 2).softmax(-1)) @ v


@pytest.mark.parametrize("how", ["by hand", "SDPA", "attention", "attention with weights", "encoder layer"])
def test_a_layer_in_training_is_drawn_as_in_inference_and_says_so(how):
    """One remark, in pictures and in notices, however the layer is written."""
    layer, x, maps = Layer(how), torch.randn(2, 5, 8), []
    for is_training in (True, False):
        with record(layer.train(is_training)) as recording:
            layer(x)
        said = ["some weights are those before dropout"] * is_training
        assert recording.attention.source.remark == "".join(said)
        assert [line for line in recording.notices if "dropout" in line] == said
        maps.append(torch.tensor(recording.attention[0].weights))
    torch.testing.assert_close(*maps, rtol=0, atol=CLOSE)
