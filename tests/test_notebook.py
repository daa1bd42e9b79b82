"""The notebook of the samples runs, and each result shows itself there."""

from pathlib import Path

import nbclient
import nbformat

SAMPLES = Path(__file__).parent.parent / "samples"


def test_the_notebook_runs_and_shows_its_results(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(SAMPLES / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [
        output.data
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    ]
    assert [{"text/plain", "text/html"} <= data.keys() for data in shown] == [True] * 4
    assert "<svg" in shown[0]["text/html"] or "<iframe" in shown[0]["text/html"]
    assert (tmp_path / "page.html").stat().st_size > 0


def test_the_notebook_holds_no_outputs():
    assert not any(cell.get("outputs") for cell in nbformat.read(SAMPLES / "notebook.ipynb", as_version=4).cells)
