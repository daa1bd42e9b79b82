"""Figures in notebooks: shown without pyplot as the value of a cell, and once in a cell."""

import io
import sys
from typing import Any

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """Figure that a notebook shows as the value of a cell, whatever backend is chosen.

    Attributes:
        shown_in_cell: number of the notebook's cell that has shown the figure last.
    """

    shown_in_cell: int | None = None

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG."""
        png = io.BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()

    def _ipython_display_(self) -> None:
        """Show the figure as the value of a cell, unless the cell has shown it already."""
        if notebook() is None:
            raise NotImplementedError  # then IPython uses another representation
        self.show_in_cell()

    def show_in_cell(self) -> None:
        """Show the figure below the running cell of a notebook, unless the cell has shown it already."""
        shell = notebook()
        if shell is None or self.shown_in_cell == shell.execution_count:
            return
        from IPython.display import Image, display

        display(Image(data=self._repr_png_()))
        self.shown_in_cell = shell.execution_count


def notebook() -> Any:
    """Return the notebook that this runs in; None in a script, and in IPython's terminal, which shows no pictures."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None
