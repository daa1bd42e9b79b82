"""The shape trace against the numbers of the worked example, and against PyTorch's own counters."""

import tracemalloc

import numpy as np
import pytest
import torch
from looking import attend, traced
from rounding import rounding
from torch.utils.flop_counter import FlopCounterMode

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.models.step_recorder import StepRecorder

CLOSE = rounding()

SHAPES = {
    "E": (3, 6, 8),
    "X": (3, 6, 8),
    "Q": (3, 6, 8),
    "K": (3, 6, 8),
    "V": (3, 6, 8),
    "Q split": (3, 6, 4, 2),
    "K split": (3, 6, 4, 2),
    "V split": (3, 6, 4, 2),
    "Q heads": (3, 4, 6, 2),
    "K heads": (3, 4, 6, 2),
    "V heads": (3, 4, 6, 2),
    "S": (3, 4, 6, 6),
    "A": (3, 4, 6, 6),
    "H": (3, 4, 6, 2),
    "H swapped": (3, 6, 4, 2),
    "concat": (3, 6, 8),
    "O": (3, 6, 8),
}


def recorder(values_up_to=0):
    return StepRecorder(MultiHeadAttention(8, 2), values_up_to)


def test_the_worked_example_has_the_shapes_of_the_texts():
    trace = traced(RandomLayer(8, 4), WORKED_EXAMPLE)
    assert {step.name: step.shape for step in trace.steps} == SHAPES
    assert trace.step("Q").axes == ("batch_size", "q_length", "d_model")
    assert trace.step("Q").equation == "X Wq"
    assert trace.tokens[0] == ("i", "wonder", "what", "will", "come", "next")


def test_views_copies_and_new_numbers():
    trace = traced(RandomLayer(8, 4), WORKED_EXAMPLE)
    memory = {step.name: (step.memory, step.contiguous) for step in trace.steps}
    assert memory["Q"] == ("computed", True)
    assert memory["Q split"] == ("view", True)
    assert memory["Q heads"] == ("view", False)
    assert memory["H swapped"] == ("view", False)
    assert memory["concat"] == ("copy", True)
    assert trace.step("Q heads").bytes == 0
    assert trace.step("A").bytes == 3 * 4 * 6 * 6 * 4


def test_who_reads_what():
    inputs = {step.name: step.inputs for step in traced(RandomLayer(8, 4, causal=True), WORKED_EXAMPLE).steps}
    assert inputs["Q"] == inputs["K"] == inputs["V"] == ("X",)
    assert inputs["S"] == ("Q heads", "K heads")
    assert inputs["S masked"] == ("S",)
    assert inputs["H"] == ("A", "V heads")


def test_source_target_attention_has_two_inputs():
    trace = traced(RandomLayer(8, 4), ["one two three"], "un deux")
    assert trace.step("X target").shape == (1, 2, 8)
    assert trace.step("X source").shape == (1, 3, 8)
    assert trace.step("Q").inputs == ("X target",)
    assert trace.step("K").inputs == ("X source",)
    assert trace.step("S").shape == (1, 4, 2, 3)


def test_parameters_add_up_to_those_of_the_model():
    trace = traced(RandomLayer(8, 4), WORKED_EXAMPLE)
    table = (14 + 1) * 8  # 14 different words, and padding
    layer = sum(p.numel() for p in MultiHeadAttention(8, 4).parameters())
    assert sum(step.parameters for step in trace.steps) == table + layer
    assert trace.step("Q").parameters == 8 * 8 + 8


def test_parameters_of_a_pair_are_counted_once():
    trace = traced(RandomLayer(8, 4), ["one two three"], "un deux")
    layer = sum(p.numel() for p in MultiHeadAttention(8, 4).parameters())
    assert sum(step.parameters for step in trace.steps) == (5 + 1) * 8 + layer


def test_products_count_as_pytorch_counts_them():
    layer = MultiHeadAttention(24, 3).eval()
    x = torch.randn(2, 5, 24)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x, x, x)
    trace = RandomLayer(24, 3).trace_sizes(2, 5)
    biases = 4 * 2 * 5 * 24
    scale = 2 * 5 * 24
    softmax = 5 * 2 * 3 * 5 * 5
    assert sum(step.flops for step in trace.steps) == counter.get_total_flops() + biases + scale + softmax


@pytest.mark.parametrize("causal", [False, True])
def test_nothing_computed_gives_the_same_trace_as_everything_computed(causal):
    layer = RandomLayer(8, 4, causal=causal, device_name="cpu")
    for bare, real in zip(
        layer.trace(layer.encode(WORKED_EXAMPLE)).steps,
        layer.trace(layer.encode(WORKED_EXAMPLE), values=True).steps,
        strict=True,
    ):
        for name in (
            "name",
            "equation",
            "axes",
            "shape",
            "memory",
            "contiguous",
            "strides",
            "parameters",
            "flops",
            "bytes",
            "inputs",
        ):
            assert getattr(bare, name) == getattr(real, name), (bare.name, name)
        assert bare.values is None
        assert real.values.shape == real.shape


def test_values_are_the_numbers():
    layer = RandomLayer(8, 4, device_name="cpu")
    trace = layer.trace(layer.encode(["one two three"]), values=True)
    np.testing.assert_allclose(trace.step("A").values[0], attend(layer, ["one two three"]).maps[0].weights, atol=CLOSE)


def test_a_hundred_thousand_tokens_cost_nothing():
    tracemalloc.start()
    trace = RandomLayer(512, 32).trace_sizes(32, 100_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trace.step("A").shape == (32, 32, 100_000, 100_000)
    assert trace.step("A").bytes == 32 * 32 * 100_000**2 * 4
    assert peak < 20e6


def test_an_axis_has_one_size():
    record = recorder()
    with record:
        record("Q = X Wq", torch.zeros(1, 4), "n_heads d_key")
        with pytest.raises(ArgumentError, match=r"^concat: axis n_heads is 6 here, 1 earlier$"):
            record("concat = join", torch.zeros(6), "n_heads")


def test_a_tensor_has_the_rank_of_its_axes():
    record = recorder()
    with record, pytest.raises(ArgumentError, match=r"^S: expected 3 axes, a × b × c, got 2"):
        record("S = Q Kᵀ", torch.zeros(1, 4), "a b c")


def test_few_values_are_kept_many_are_not():
    record = recorder(values_up_to=4)
    with record:
        few = record("a = b", torch.ones(4), "x")
        record("c = d", torch.ones(5), "y")
        few.mul_(2)
    assert record.steps[0].values.tolist() == [1, 1, 1, 1], "a copy, of that moment"
    assert record.steps[1].values is None


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((0, 5), "`batch_size`: expected at least 1"), ((1, 0), "seq_length"), ((1, 10**11), "Storage size")],
)
def test_sizes_that_cannot_be(sizes, message):
    with pytest.raises(MhavizError, match=message):
        RandomLayer().trace_sizes(*sizes)
