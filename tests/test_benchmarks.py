"""Every benchmark starts, with what stands beside it alone: it is run as a script."""

import runpy
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
HELPERS = {path.stem for path in TESTS.glob("*.py")}


@pytest.mark.parametrize("script", sorted((TESTS / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_it_finds_what_it_imports(monkeypatch, script):
    monkeypatch.setattr(sys, "path", [str(script.parent), *(path for path in sys.path if Path(path) != TESTS)])
    for name in HELPERS & set(sys.modules):
        monkeypatch.delitem(sys.modules, name)
    runpy.run_path(str(script), run_name="imported")
