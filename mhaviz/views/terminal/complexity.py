"""What attention costs, in the terminal."""

from mhaviz.pages.complexity import complexity_page
from mhaviz.records import Complexity
from mhaviz.views.terminal.page import PageView


def ComplexityView(complexity: Complexity) -> PageView:
    """The terms, the numbers, where they cross, and what fits into memory."""
    return PageView(complexity_page(complexity))
