"""Which tokens a number is made of, as passes tell it, and the time that they may take."""

import math
import time

import pytest
import torch
from checks.right_base import Heads
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mhaviz.api.checking import check
from mhaviz.checks.deadline import Deadline, TimeUpError
from mhaviz.checks.evidence import LENGTHS, Evidence
from mhaviz.checks.rows import Rows
from mhaviz.checks.signatures import adapted
from mhaviz.checks.tolerances import changes
from mhaviz.errors import MhavizError

D_MODEL = 32


def evidence(attend, d_model=D_MODEL):
    return Evidence(adapted(attend, d_model), 0, Deadline(60))


@given(st.floats(1e-2, 1e4), st.floats(3e-6, 1e-2))
def test_changes_are_relative_to_the_largest_number(size, change):
    before = torch.tensor([0.0, size, -size])
    after = before + torch.tensor([size * change, 0.0, 0.0])
    assert changes(before, after).tolist() == [True, False, False]


def test_rounding_is_no_change():
    """The same sum in another order."""
    generator = torch.Generator().manual_seed(0)
    x, W = (torch.randn(64, 64, generator=generator) for _ in range(2))
    forwards, backwards = x @ W, x.flip(1) @ W.flip(0)
    assert not torch.equal(forwards, backwards)
    assert not bool(changes(forwards, backwards).any())


def test_numbers_that_are_no_numbers():
    nan, inf = math.nan, math.inf
    before, after = torch.tensor([nan, nan, 1, inf, inf, 1]), torch.tensor([nan, 1, nan, inf, 1, inf])
    assert changes(before, after).tolist() == [False, True, True, False, True, True]
    assert not bool(changes(torch.full((2,), nan), torch.full((2,), nan)).any())


@pytest.mark.parametrize("causal", [False, True])
def test_what_outputs_depend_on_is_what_gradients_say(causal):
    heads = Heads().eval()
    layer = evidence(lambda x: heads(x, None, causal))
    x = layer.x[:1]
    jacobian = torch.autograd.functional.jacobian(lambda y: heads(y, None, causal).sum(-1), x)
    assert torch.equal(layer.depends[0], jacobian[0, :, 0].abs().amax(-1) > 0)
    assert layer.is_causal == causal


def test_a_mask_says_what_may_be_seen():
    layer = evidence(Heads().eval())
    for keep, causal in ((layer.keep, False), (None, True), (layer.keep, True)):
        influence = layer.influence(keep, causal)
        assert torch.equal(influence.on | torch.eye(layer.length, dtype=torch.bool), influence.expected)
        assert not bool(influence.leaks.any())


def test_a_leak_is_a_pair_of_query_and_key():
    heads = Heads().eval()

    def blurred(x, keep=None):
        output = heads(x, keep)
        output[:, 2] = output[:, 2] + x[:, 6]
        return output

    assert evidence(blurred).padded.leaks.nonzero().tolist() == [[1, 2, 6]]


def test_the_first_length_that_a_layer_takes():
    heads = Heads()

    def of_fours(x):
        return heads(x.unflatten(1, (-1, 4)).flatten(1, 2))

    assert LENGTHS[0] % 4
    assert evidence(of_fours).length == 8
    assert evidence(heads).length == LENGTHS[0]


def test_a_layer_that_takes_no_length_is_said_with_its_first_error():
    def attend(x):
        raise KeyError(f"length\n{x.shape[1]}")

    with pytest.raises(
        MhavizError, match=r"^attend: expected a layer that takes x \(3, 7, 32\), and it raises KeyError"
    ):
        _ = evidence(attend).length


def rows(tokens):
    """Rows made of these tokens, each of one; −1: of none."""
    of_token = torch.stack([tokens == token for token in range(int(tokens.max()) + 1)])
    return Rows(of_token, torch.ones(tokens.shape, dtype=torch.bool))


def test_axes_of_tokens():
    ordered = torch.arange(4)
    assert rows(ordered.expand(3, 2, 4)).axes == [2]
    assert rows(ordered[:, None].expand(3, 4, 2)).axes == [1]
    assert rows(ordered.repeat(3, 2)).axes == [1], "heads that lie behind one another"
    assert rows(ordered.repeat_interleave(2).expand(3, 8)).axes == [1], "heads that lie beside one another"
    assert rows(torch.tensor([[-1, 0, 1, 2, 3, -1]])).axes == [1], "learned keys around them"
    assert rows(torch.arange(8).reshape(2, 4)).axes == []
    assert rows(torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]])).axes == []


def test_tokens_of_rows():
    of_token = torch.tensor([[True, False, True], [False, False, True]])
    made = Rows(of_token, torch.ones(3, dtype=torch.bool))
    assert made.tokens.tolist() == [0, -1, -1]
    assert not made.are_single
    assert rows(torch.arange(3)).are_single


@pytest.mark.parametrize("side", ["query", "key", "value"])
def test_rows_of_a_layer_that_is_right(side):
    layer = evidence(Heads().eval())
    made = layer.rows(0, side)
    assert made.of_token.shape == (layer.length, 3, 4, layer.length)
    assert made.tokens.tolist() == torch.arange(layer.length).expand(3, 4, -1).tolist()
    assert made.of_first.nonzero()[:, 0].unique().tolist() == [0]


CALLS = []


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = Heads()

    def forward(self, x, keep=None):
        CALLS.append(x)
        time.sleep(0.02)
        return self.heads(x, keep)


def test_a_check_ends_in_time():
    layer = Slow()
    start = time.monotonic()
    with pytest.raises(TimeUpError, match=r"expected a check within 0\.2 seconds, and the layer takes longer"):
        check(layer, d_model=D_MODEL, time_limit=0.2)
    assert time.monotonic() - start < 2
    assert len(CALLS) > 3
    assert layer.training
