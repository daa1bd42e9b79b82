"""The steps of an attention that a watch tells, with the program's own tensors."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from watched import CLOSE, watch

from mhaviz.observe import mode
from mhaviz.observe.mode import Observer

B, H, L, K, D = 2, 3, 5, 7, 4
D_MODEL = H * D


class Attend(nn.Module):
    """Projections, then what a subclass or an argument says."""

    def __init__(self, mix=None):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(D_MODEL, D_MODEL) for _ in range(4))
        self.mix = mix

    def forward(self, x, memory):
        inputs = zip((self.query, self.key, self.value), (x, memory, memory), strict=True)
        q, k, v = (W(y).unflatten(-1, (H, D)).transpose(1, 2) for W, y in inputs)
        return self.out(self.mix(q, k, v).transpose(1, 2).flatten(2))


def by_hand(q, k, v):
    return (q @ k.mT / math.sqrt(D)).softmax(-1) @ v


def written_out(q, k, v):
    scores = q @ k.mT / math.sqrt(D)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True) @ v


def fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def inputs():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(B, length, D_MODEL, generator=generator, requires_grad=True) for length in (L, K))


def steps_of(function, *args, model=None):
    """The steps, and what the function returns."""
    steps = []
    with Observer(lambda observed: None, model, on_step=steps.append).watching():
        result = function(*args)
    return steps, result


def names(steps):
    return [step.name for step in steps]


@pytest.mark.parametrize(
    ("mix", "middle"),
    [(by_hand, ["scores", "softmax", "values"]), (written_out, ["scores", "softmax", "values"]), (fused, ["fused"])],
)
def test_steps_in_their_order(mix, middle):
    steps, output = steps_of(Attend(mix), *inputs())
    told = [name for name in names(steps) if name != "combined"]
    assert told == ["projection"] * 3 + middle + ["projection"]
    assert steps[-1].result is output


@pytest.mark.parametrize("mix", [by_hand, written_out])
def test_tensors_are_those_of_the_program(mix):
    """With their graphs: what a step has made of its tensors can be computed again, and derived."""
    held = {}

    def mixing(q, k, v):
        held.update(q=q, k=k, v=v)
        return mix(q, k, v)

    steps, _ = steps_of(Attend(mixing), *inputs())
    scores, softmax, values = (
        next(step for step in steps if step.name == name) for name in ("scores", "softmax", "values")
    )
    assert any(x is held["q"] for x in scores.given)
    torch.testing.assert_close(scores.result, held["q"] @ held["k"].mT)
    expected = torch.softmax(held["q"] @ held["k"].mT / math.sqrt(D), -1)
    torch.testing.assert_close(softmax.result, expected, atol=CLOSE, rtol=CLOSE)
    assert softmax.axis == -1
    assert softmax.number == values.number == scores.number
    assert values.given[values.which] is softmax.result
    assert values.along == (-1,)
    torch.testing.assert_close(values.result, expected @ held["v"], atol=CLOSE, rtol=CLOSE)
    (gradient,) = torch.autograd.grad(values.result.sum(), scores.given[0], retain_graph=True)
    assert gradient.shape == held["q"].shape


@pytest.mark.parametrize(("given", "scale"), [({}, D**-0.5), ({"scale": 0.25}, 0.25)])
def test_a_fused_kernel_is_told_with_its_scale_and_mask(given, scale):
    mask = torch.ones(L, K, dtype=torch.bool).tril()
    held = []

    def mix(q, k, v):
        held.extend((q, k, v))
        return F.scaled_dot_product_attention(q, k, v, mask, **given)

    steps, _ = steps_of(Attend(mix), *inputs())
    (step,) = (step for step in steps if step.name == "fused")
    assert len(step.given) == 4
    assert all(x is y for x, y in zip(step.given, (*held, mask), strict=True))
    assert step.scale == scale


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_of_pytorch(need_weights):
    module = nn.MultiheadAttention(D_MODEL, H, batch_first=True)
    x, memory = inputs()
    steps, (_, weights) = steps_of(lambda: module(x, memory, memory, need_weights=need_weights))
    (step,) = steps
    assert step.name == "fused"
    query, key, value = step.given
    assert step.result.shape == value[:, :, :L].shape == (B, H, L, D)
    if need_weights:
        torch.testing.assert_close((query @ key.mT * step.scale).softmax(-1).mean(1), weights, atol=CLOSE, rtol=CLOSE)


def test_an_attention_that_no_recording_draws():
    """A softmax over queries, whose weights a recording refuses."""

    def over_queries(q, k, v):
        return (q @ k.mT).softmax(-2) @ v

    steps, _ = steps_of(Attend(over_queries), *inputs())
    (softmax,) = (step for step in steps if step.name == "softmax")
    assert softmax.axis == -2
    (values,) = (step for step in steps if step.name == "values")
    assert values.along == (-2,)


def test_scores_that_meet_values_without_a_softmax():
    steps, _ = steps_of(Attend(lambda q, k, v: q @ k.mT @ v), *inputs())
    scores, unweighed = [step for step in steps if step.name != "projection"][:2]
    assert names([scores, unweighed]) == ["scores", "unweighed"]
    assert unweighed.number == scores.number
    assert unweighed.given[unweighed.which] is scores.result


@pytest.mark.parametrize(
    ("drop", "told"),
    [
        (lambda A: F.dropout(A, 0.5), 1),
        (nn.Dropout(0.5), 1),
        (lambda A: F.dropout(A, 0.0), 0),
        (nn.Dropout(0.5).eval(), 0),
    ],
)
def test_dropout_that_drops(drop, told):
    steps, _ = steps_of(Attend(lambda q, k, v: drop((q @ k.mT).softmax(-1)) @ v), *inputs())
    assert names(steps).count("dropout") == told


@pytest.mark.parametrize(("p", "told"), [(0.5, 1), (0.0, 0)])
def test_dropout_of_a_kernel(p, told):
    steps, _ = steps_of(Attend(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=p)), *inputs())
    assert names(steps).count("dropout") == told


def test_steps_have_modules_and_lines():
    model = nn.ModuleDict({"block": Attend(by_hand)})
    steps, _ = steps_of(model["block"], *inputs(), model=model)
    lines = Path(__file__).read_text().splitlines()
    middle = [step for step in steps if step.name in ("scores", "softmax", "values")]
    assert {step.module for step in middle} == {"block"}
    for step in middle:
        assert Path(step.file) == Path(__file__)
        assert lines[step.line - 1] == "    return (q @ k.mT / math.sqrt(D)).softmax(-1) @ v"
    assert [step.module for step in steps if step.name == "projection"] == [
        f"block.{name}" for name in ("query", "key", "value", "out")
    ]


@pytest.mark.parametrize("mix", [by_hand, written_out, fused])
def test_no_step_is_made_where_nobody_listens(monkeypatch, mix):
    made = []
    monkeypatch.setattr(mode, "Step", lambda *args, **kwargs: made.append(args))
    monkeypatch.setattr(Observer, "_take_step", lambda *args, **kwargs: made.append(args))
    seen, _ = watch(Attend(mix), *inputs())
    assert len(seen) == 1
    assert not made


@pytest.mark.parametrize("mix", [by_hand, written_out, fused])
def test_the_output_is_the_same_bit_for_bit(mix):
    layer = Attend(mix)
    expected = layer(*inputs())
    _, output = steps_of(layer, *inputs())
    assert torch.equal(output, expected)


@pytest.mark.parametrize("mix", [by_hand, written_out, fused])
def test_errors_of_who_listens_do_not_reach_the_program(mix):
    def failing(step):
        raise RuntimeError("not mine")

    layer = Attend(mix)
    expected = layer(*inputs())
    watching = Observer(lambda observed: None, on_step=failing)
    with watching.watching():
        output = layer(*inputs())
    assert torch.equal(output, expected)
    assert any(line.endswith("not followed, RuntimeError: not mine") for line in watching.missed)
