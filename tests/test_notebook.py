"""The cells of the notebook of the samples run, and each result shows itself there."""

import json
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

NOTEBOOK = Path(__file__).parent.parent / "samples" / "notebook.ipynb"


@pytest.fixture
def shell():
    """What runs the cells in a kernel, without a process of its own."""
    yield InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    InteractiveShell.clear_instance()


def test_the_notebook_runs_and_shows_its_results(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "the file holds no outputs"
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            done = shell.run_cell("".join(cell["source"]))
            done.raise_error()
            if done.result is not None:
                shown.append(shell.display_formatter.format(done.result)[0])
    assert [{"text/plain", "text/html"} <= data.keys() for data in shown] == [True] * 4
    assert "<svg" in shown[0]["text/html"] or "<iframe" in shown[0]["text/html"]
    assert (tmp_path / "page.html").stat().st_size > 0
