"""Every benchmark starts, with what stands beside it alone: it is run as a script."""

import importlib
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

TESTS = Path(__file__).parent
HELPERS = {path.stem for path in TESTS.glob("*.py")}


@pytest.mark.parametrize("script", sorted((TESTS / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_it_finds_what_it_imports(monkeypatch, script):
    monkeypatch.setattr(sys, "path", [str(script.parent), *(path for path in sys.path if Path(path) != TESTS)])
    for name in HELPERS & set(sys.modules):
        monkeypatch.delitem(sys.modules, name)
    runpy.run_path(str(script), run_name="imported")


def test_what_a_gpu_would_answer_is_asked_of_the_cpu(monkeypatch, capsys):
    """All rows but those of kernels that a CPU lacks, which are named."""
    script = TESTS / "benchmarks" / "gpu.py"
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--lengths", "8", "--longest", "16"])
    runpy.run_path(str(script), run_name="__main__")
    tables, _, missing = capsys.readouterr().out.partition("\nNot run:\n")
    rows = [line.strip("| ").split(" | ") for line in tables.splitlines() if line.startswith("| ") and "float" in line]
    kernels = {name: cells for name, *cells in rows if "attention" in name or "math" in name}
    assert len(rows) == len(kernels) + 8 == 32
    lacking = {name for name, cells in kernels.items() if cells[0].startswith("not run: ")}
    assert lacking == {name for name in kernels if name.startswith(("cudnn", "efficient"))}
    assert all(name in missing for name in lacking)
    for name in kernels.keys() - lacking:
        assert float(kernels[name][0]) < 1e-5
        assert kernels[name][-1] == "the same bits"


@pytest.fixture
def relevance_time(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    for name in ("measure", "relevance_time"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(TESTS / "benchmarks"))
    return importlib.import_module("relevance_time")


def test_relevance_is_measured_beside_eager_weights_that_give_the_same(relevance_time):
    ours, eager = (relevance_time.way(name, 48)() for name in ("relevance", "eager"))
    np.testing.assert_allclose(ours, eager, atol=1e-4 * eager.max())
    assert relevance_time.way("backward", 48)().abs().sum() > 0


@pytest.mark.slow  # half a minute: three processes import PyTorch and transformers
def test_relevance_takes_less_memory_than_eager_weights(relevance_time):
    *_, gradient, eager = relevance_time.rows(1, 2048)
    assert eager.mhaviz[0] < eager.peer[0] / 2
    assert gradient.mhaviz[0] < 2 * gradient.peer[0]
