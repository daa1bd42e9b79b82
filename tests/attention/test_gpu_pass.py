"""The kernels for GPUs, interpreted on the CPU, against the plain computation in float64.

Triton comes with PyTorch for GPUs alone, so these tests are skipped where it has not been installed by itself. Its
interpreter cannot multiply bfloat16: the same kernels are run in float16.
"""

import os
from dataclasses import replace

import pytest
import torch
from rounding import rounding

os.environ.setdefault("TRITON_INTERPRET", "1")  # before it is imported
pytest.importorskip("triton", reason="Triton is not installed")

from mhaviz.attention import gpu_pass, map, short_map
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.gpu_pass import gpu_map, is_for
from mhaviz.attention.map import attention_map
from mhaviz.attention.pooled_map import Wanted

CLOSE = rounding()

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # −∞ · 0, not used

ALL = {"reduce": "both", "entropy": True, "top_keys": 1, "received": True, "local": 3}


def draw(n_heads, n_kv_heads, q_length, k_length, d_key, batch_size=2):
    torch.manual_seed(0)
    query = torch.randn(batch_size, n_heads, q_length, d_key).half()
    return query, (2 * torch.randn(batch_size, n_kv_heads, k_length, d_key)).half()


PROBLEMS = {
    "self": (draw(2, 2, 140, 140, 16), {}, {}),
    "causal with a cache, grouped": (draw(4, 2, 70, 130, 24, 1), {"causal": True}, {"rows": 11}),
    "causal with hidden queries": (draw(2, 1, 90, 40, 8, 1), {"causal": True}, {"rows": 45}),
    "sinks": (draw(2, 1, 66, 66, 64, 1), {"sinks": torch.tensor([0.5, -1.0])}, {}),
    "a window": (draw(1, 1, 130, 150, 8, 1), {"causal": True}, {"window": (5, 120, 30, 141), "rows": 115}),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_all_that_can_be_asked(problem):
    (query, key), rule, asked = problem
    cells = {"rows": 7, "columns": 9} | asked
    window = cells.pop("window", None) or (0, query.shape[2], 0, key.shape[2])
    wanted = Wanted(window, **cells, **ALL)
    call = AttentionCall(query, key, key, 0.25, rule.get("causal", False), sinks=rule.get("sinks"))
    assert is_for(call, None, wanted)
    found = gpu_map(call, wanted)
    expected = attention_map(query.double(), key.double(), scale=0.25, **rule, **cells, **ALL, window=window)
    for name in ("weights", "largest", "entropy", "top_weights", "received", "local"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=CLOSE, atol=CLOSE, msg=name)
    there = expected.top_weights > 0
    assert torch.equal(found.top_keys[there], expected.top_keys[there])


@pytest.mark.parametrize("reduce", ["mass", "max"])
def test_one_number_a_cell_some_heads_at_a_time(monkeypatch, reduce):
    monkeypatch.setattr(gpu_pass, "_AT_ONCE", 4 * 8 * 100 * 2)
    query, key = draw(3, 3, 100, 100, 16)
    done = []
    found = gpu_map(AttentionCall(query, key, key, 0.25), Wanted((0, 100, 0, 100), 8, 8, reduce), done.append)
    expected = attention_map(query.double(), key.double(), scale=0.25, rows=8, columns=8, reduce=reduce)
    torch.testing.assert_close(found.weights, expected.weights, rtol=CLOSE, atol=CLOSE)
    assert done == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_map_is_computed_by_them_where_they_are_right(monkeypatch):
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", 0)
    monkeypatch.setattr(map, "takes", is_for)
    query, key = draw(1, 1, 80, 80, 16, 1)
    assert attention_map(query, key, rows=5).weights.shape == (1, 1, 5, 80)
    monkeypatch.setattr(map, "gpu_map", lambda *arguments: "by the kernels")
    monkeypatch.setattr(map, "replace", lambda found, **fields: found)
    assert attention_map(query, key, rows=5) == "by the kernels"


def test_what_they_are_not_made_for():
    query, key = draw(1, 1, 8, 8, 16, 1)
    call, wanted = AttentionCall(query, key, key, 0.25), Wanted((0, 8, 0, 8))
    assert is_for(call, None, wanted)
    assert not is_for(replace(call, query=query.float(), key=key.float()), None, wanted)
    assert not is_for(replace(call, mask=torch.ones(1, 1, 8, 8, dtype=torch.bool)), None, wanted)
    assert not is_for(replace(call, softcap=30.0), None, wanted)
    assert not is_for(call, torch.ones(1, 8), wanted)
    assert not is_for(call, None, wanted._replace(top_keys=2))
    assert not gpu_pass.takes(call, None, wanted), "there is no GPU"


def test_they_are_looked_at_before_they_are_trusted(monkeypatch):
    device = torch.device("cpu")
    look = gpu_pass._is_right.__wrapped__
    assert all(look(device, torch.float16, features) for features in (16, 64))
    monkeypatch.setattr(gpu_pass, "gpu_map", lambda call, wanted: gpu_map(replace(call, scale=0.126), wanted))
    assert not look(device, torch.float16, 64)

    def broken(call, wanted):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(gpu_pass, "gpu_map", broken)
    assert not look(device, torch.float16, 64)
