"""Which page shows a record: a new kind of record is a module beside this one and a row here."""

from collections.abc import Callable
from typing import Any

from mhaviz.errors import MhavizError
from mhaviz.pages.blocks import Page
from mhaviz.pages.complexity import complexity_page
from mhaviz.pages.implementations import implementations_page
from mhaviz.pages.scaling import sweep_page
from mhaviz.pages.training import evaluation_page, training_page
from mhaviz.records import Complexity, Evaluation, ImplementationComparison, ScalingSweep, Training

PAGES: dict[type, Callable[[Any], Page]] = {
    Complexity: complexity_page,
    Evaluation: evaluation_page,
    ImplementationComparison: implementations_page,
    ScalingSweep: sweep_page,
    Training: training_page,
}
"""Records that are shown in blocks alone. Those with maps have renderers of their own in ``views``."""


def page_of(record: object) -> Page:
    """The page that shows this record.

    Raises:
        MhavizError: it has none.
    """
    if type(record) not in PAGES:
        names = ", ".join(kind.__name__ for kind in PAGES)
        raise MhavizError(f"expected a record that is shown in blocks, one of {names}, got {type(record).__name__}")
    return PAGES[type(record)](record)
