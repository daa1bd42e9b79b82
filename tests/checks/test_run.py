"""A check leaves all as it was, finds the same again, and says what it could not probe."""

import random
import warnings

import numpy as np
import pytest
import torch
from checks import planted_a, planted_b
from checks.right_base import Heads
from torch import nn

from mhaviz.api.checking import check
from mhaviz.checks.registry import codes
from mhaviz.errors import ArgumentError

D_MODEL = 32


def planted(module, name):
    return next(one for one in module.MISTAKES if one.name == name).make()


class Block(nn.Module):
    """With all that a check may change: modes, gradients, buffers, one of which each call changes."""

    def __init__(self, dropout=0.3):
        super().__init__()
        self.heads, self.norm, self.drop = Heads(), nn.BatchNorm1d(D_MODEL), nn.Dropout(dropout)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))
        self.frozen = nn.Linear(D_MODEL, D_MODEL).requires_grad_(False)

    def forward(self, x, keep=None, causal=False):
        self.calls += 1
        self.last = x.detach().clone()
        y = self.drop(self.heads(x, keep, causal))
        return self.frozen(self.norm(y.transpose(1, 2)).transpose(1, 2))


@pytest.fixture
def block():
    torch.manual_seed(0)
    block = Block()
    block.norm.eval()
    block(torch.randn(2, 3, D_MODEL)).sum().backward()
    return block


def state(block):
    """All that is compared, as copies."""
    parameters = [(one.detach().clone(), one.grad, one.requires_grad, one._version) for one in block.parameters()]
    gradients = [None if gradient is None else gradient.clone() for _, gradient, _, _ in parameters]
    buffers = {name: buffer.clone() for name, buffer in block.named_buffers()}
    hooks = [(len(one._forward_hooks), len(one._forward_pre_hooks)) for one in block.modules()]
    return {
        "modes": [one.training for one in block.modules()],
        "parameters": [one[0] for one in parameters],
        "kinds": [one[2:] for one in parameters],
        "gradients": gradients,
        "buffers": buffers,
        "identities": [id(one) for one in (*block.parameters(), *block.buffers())],
        "hooks": hooks,
        "random numbers": torch.get_rng_state(),
        "others": (random.getstate(), str(np.random.get_state())),
        "settings": (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()),
    }


def assert_same(before, after):
    for name, value in before.items():
        if isinstance(value, tuple):
            assert after[name] == value, name
        else:
            torch.testing.assert_close(
                after[name], value, rtol=0, atol=0, equal_nan=True, msg=lambda m, n=name: f"{n} {m}"
            )


def test_all_is_left_as_it_was(block):
    before = state(block)
    assert "random" not in check(block, d_model=D_MODEL).codes
    assert_same(before, state(block))


def test_all_is_left_as_it_was_after_an_error(block):
    before = state(block)

    def raising(x, keep=None):
        block(x, keep)
        raise RuntimeError("no")

    with pytest.raises(Exception, match=r"raises RuntimeError in test_run\.py:\d+: no"):
        check(raising, d_model=D_MODEL)
    assert_same(before, state(block))


def test_a_graph_of_the_user_goes_on(block):
    """What a check changes in place and puts back would be an error of autograd."""
    output = block(torch.randn(2, 3, D_MODEL)).sum()
    check(block, d_model=D_MODEL)
    output.backward()


@pytest.mark.parametrize("held", ["a module", "a closure", "a method"])
def test_a_layer_in_training_is_checked_in_evaluation(held):
    layer = Heads()
    dropout = nn.Dropout(0.5)
    modes = []

    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.dropout = layer, dropout

        def forward(self, x, mask=None):
            modes.append((layer.training, dropout.training))
            return self.dropout(self.layer(x, mask))

    attend = Held()
    given = {"a module": attend, "a closure": lambda x, mask=None: attend(x, mask), "a method": attend.forward}[held]
    found = check(given, d_model=D_MODEL)
    assert found.codes == ("uniform-row",)
    assert set(modes) == {(False, False)}
    assert layer.training
    assert dropout.training


def test_where_gradients_are_off():
    """Of the caller: they are on while a check needs them."""
    layer = Heads()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert check(layer, d_model=D_MODEL).codes == ("uniform-row",)
            assert not torch.is_grad_enabled()
    assert check(Heads().requires_grad_(False), d_model=D_MODEL).codes == ("uniform-row",)


def test_warnings_of_a_layer_on_random_inputs_are_not_shown(recwarn):
    heads = Heads()

    def warning(x):
        warnings.warn("no mask", stacklevel=1)
        return heads(x)

    check(warning, d_model=D_MODEL)
    assert not recwarn.list
    warning(torch.zeros(1, 2, D_MODEL))
    assert recwarn.list


@pytest.mark.parametrize("name", ["CausalUnlessMasked", "InfiniteMask", "LayerMadeInForward", "OffsetOfHeads"])
def test_the_same_is_found_again(name):
    one = next(one for one in planted_b.MISTAKES if one.name == name)
    first, second = (check(one.make(), d_model=one.d_model) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_equal(a.to_dict(), b.to_dict())
    assert (first.probed, first.unprobed, first.source) == (second.probed, second.unprobed, second.source)


def test_other_random_numbers_find_the_same():
    """Of the caller's generator, which is another at the second call."""
    layer = planted(planted_a, "KernelDropout")
    first = check(layer, d_model=D_MODEL)
    torch.rand(7)
    assert [vars(one) for one in check(layer, d_model=D_MODEL)] == [vars(one) for one in first]


@pytest.mark.parametrize("seed", [1, 12345, 2**63 - 1])
@pytest.mark.parametrize("name", ["QuarterOfTheScale", "WeightsTimesMask", "KeysReshaped"])
def test_other_inputs_find_the_same(name, seed):
    one = next(one for one in planted_a.MISTAKES if one.name == name)
    assert check(one.make(), d_model=one.d_model, seed=seed).codes == (one.code,)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_are_those_of_pytorch(seed):
    with pytest.raises(ArgumentError, match="seed"):
        check(Heads(), d_model=D_MODEL, seed=seed)


def test_each_property_is_probed_or_it_is_said_why():
    found = check(Heads(), d_model=D_MODEL)
    names = dict.fromkeys(one.name for one in codes().values())
    told = [*found.probed, *(one.name for one in found.unprobed)]
    assert sorted(told) == sorted(names)
    assert {one.name: one.reason for one in found.unprobed} == {
        "cache": "it takes no cache",
        "packed documents": "it takes no documents",
    }


def test_what_another_mistake_hides_is_not_probed():
    found = check(planted(planted_a, "BatchTimesHeads"), d_model=D_MODEL)
    assert found.codes == ("heads-layout",)
    assert {one.name for one in found.unprobed if one.reason == "heads-layout hides it"} >= {"scale", "causality"}
    assert not {"scale", "causality"} & set(found.probed)


def test_a_layer_that_raises_on_what_is_unusual_is_probed_otherwise():
    heads = Heads()

    def attend(x, keep=None, causal=False):
        if keep is not None and not bool(keep.any(-1).all()):
            raise ZeroDivisionError("a sentence of\npadding alone")
        return heads(x, keep, causal)

    found = check(attend, d_model=D_MODEL)
    assert not found
    reasons = {one.name: one.reason for one in found.unprobed}
    assert reasons["hidden sentences"] == "the layer raises ZeroDivisionError: a sentence of padding alone"
    assert "padding" in found.probed


def test_progress_is_told_by_names():
    told = []
    found = check(Heads(), d_model=D_MODEL, on_progress=told.append)
    assert list(dict.fromkeys(told)) == list(dict.fromkeys(one.name for one in codes().values()))
    assert set(found.probed) <= set(told)
