"""The values that weights by hand have met, and what came of them, in whatever axes a program holds them."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.mode import Observer

Q, K, V = torch.randn(3, 2, 3, 5, 4, generator=torch.Generator().manual_seed(0)).unbind()  # batch heads length features
SCORES = "bhqd,bhkd->bhqk"


def weights(equation=SCORES):
    return torch.softmax(torch.einsum(equation, Q, K) / 2, dim=-1)


def matmul():
    return weights() @ V


def batched_matrices():
    A = weights().view(6, 5, 5)
    return torch.baddbmm(torch.zeros(1), A, V.reshape(6, 5, 4), beta=0)


def transposed():
    return V.mT @ weights().mT


def heads_third():
    return torch.einsum("bhqk,bkhd->bqhd", weights(), V.transpose(1, 2))


def heads_first():
    return torch.einsum("hbqk,bkhd->qbhd", weights("bhqd,bhkd->hbqk"), V.transpose(1, 2))


def two_axes_of_features():
    return torch.einsum("bhqk,bhkxy->bqxhy", weights(), V.view(2, 3, 5, 2, 2))


def one_key_head():
    return weights() @ V[:, :1]


def elements_and_a_sum():
    return (weights()[..., None] * V[:, :, None]).sum(3)


def elements_and_a_sum_that_keeps_its_axis():
    return (V.mT[:, :, None] * weights()[..., None, :]).sum(-1, keepdim=True)


def heads_that_are_summed():
    return torch.einsum("bhqk,bhkd->bqd", weights(), V)


class Attending(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.num_heads = function, 3

    def forward(self, q):
        return self.function()


def met(function):
    """What was met, weights, the values, and what came of them: (…, rows, columns)."""
    found = []

    def on_observed(observed):
        weighted = observed.weighted()
        found.append(
            (
                weighted,
                observed.call.weights(),
                *((weighted.value, weighted.arrange(weighted.made)) if weighted else ()),
            )
        )

    model = Attending(function)
    watch = Observer(on_observed, model)
    with torch.no_grad(), watch.watching():
        model(Q)
    assert not watch.missed
    (one,) = found
    return one


@pytest.mark.parametrize(
    "function",
    [
        *(matmul, batched_matrices, transposed, heads_third, heads_first, two_axes_of_features, one_key_head),
        *(elements_and_a_sum, elements_and_a_sum_that_keeps_its_axis),
    ],
)
def test_weights_make_of_values_what_the_program_made(function):
    weighted, A, value, made = met(function)
    assert torch.equal(value, V[:, :1].expand_as(V) if function is one_key_head else V)
    torch.testing.assert_close(A @ value, made)
    assert not weighted.have_met_again()


def test_what_is_not_of_single_heads_is_not_known():
    weighted, *_ = met(heads_that_are_summed)
    assert weighted is None


def test_weights_that_meet_values_twice():
    def halves():
        A = weights()
        return F.pad(A @ V[..., :2], (0, 2)) + F.pad(A @ V[..., 2:], (2, 0))

    weighted, *_ = met(halves)
    assert weighted.have_met_again()
