"""Five ways to compute the same attention, as a figure."""

from mhaviz.pages.implementations import implementations_page
from mhaviz.records import ImplementationComparison
from mhaviz.views.figure.page import draw_page
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.look import Look


def implementations_figure(comparison: ImplementationComparison, look: Look | None = None) -> Sheet:
    """Two plots, and below them what the ways are, what was skipped, and how exact they are."""
    return draw_page(implementations_page(comparison), look)
