"""The cells of the notebook of the samples run, and each result shows itself there."""

import json
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from IPython.utils.capture import capture_output
from matplotlib._pylab_helpers import Gcf
from traitlets.config import Config

import mhaviz

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


@pytest.fixture(params=["alone", "with formatters of the inline backend"])
def notebook(shell, request):
    """Run a cell as a notebook does, and count the pictures below it."""
    shell.kernel = None  # which a terminal has not
    if "inline" in request.param:
        select_figure_formats(shell, {"png"})  # as matplotlib's inline backend does
    shell.user_ns |= {
        "mhaviz": mhaviz,
        "attention": mhaviz.attend(mhaviz.load("random", d_model=4, n_heads=1), "a b c"),
        "weights": np.full((1, 3, 3), 1 / 3),
    }

    def run(cell):
        with capture_output() as captured:
            shell.run_cell(cell, store_history=True).raise_error()
        assert not Gcf.figs, "pyplot, which shows its figures after the cell, has none"
        assert "<" not in captured.stdout
        return sum("image/png" in output.data for output in captured.outputs)

    return run


@pytest.mark.parametrize(("cells", "pictures"), [
    (["attention.plot()"], [1]),
    (["figure = attention.plot()", "figure", "figure"], [0, 1, 1]),
    (["figure = attention.plot()\nfigure.axes[0].set_title('mine')\nfigure"], [1]),
    (["mhaviz.explain('random', 'a b', 'b').plot()"], [1]),
    (["mhaviz.display_attention(list('abc'), list('abc'), weights)"], [1]),
    (["figure = mhaviz.display_attention(list('abc'), list('abc'), weights)\nfigure", "figure"], [1, 1]),
])  # fmt: skip
def test_a_notebook_shows_a_figure_once(notebook, cells, pictures):
    assert [notebook(cell) for cell in cells] == pictures
