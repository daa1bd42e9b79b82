"""Figures in notebooks: shown once when they are made, as pyplot does, and not again as the cell's result."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mhaviz.views.figure.sheet import Sheet


def notebook() -> Any:
    """Return the notebook that this runs in; None in a script, and in IPython's terminal, which shows no pictures."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None


def show_in_cell(sheet: "Sheet", shell: Any) -> None:
    """Show the figure below the running cell of this notebook, unless the cell has shown it already."""
    if sheet.shown_in_cell == shell.execution_count:
        return
    from IPython.display import Image, display

    display(Image(data=sheet._repr_png_()))
    sheet.shown_in_cell = shell.execution_count
