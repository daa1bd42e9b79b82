"""Five ways to compute the same attention, in the terminal."""

from mhaviz.pages.implementations import implementations_page
from mhaviz.records import ImplementationComparison
from mhaviz.views.terminal.page import PageView


def ImplementationsView(comparison: ImplementationComparison) -> PageView:
    """Every way at every length."""
    return PageView(implementations_page(comparison))
