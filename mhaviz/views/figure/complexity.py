"""What attention costs, as a figure."""

from mhaviz.pages.complexity import complexity_page
from mhaviz.records import Complexity
from mhaviz.views.figure.page import draw_page
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.look import Look


def complexity_figure(complexity: Complexity, look: Look | None = None) -> Sheet:
    """Operations beside times, bytes below them, and beside these the terms and where curves cross."""
    return draw_page(complexity_page(complexity), look)
