"""Which page shows a record: a new kind of record is a module beside this one and a row here."""

from collections.abc import Callable
from typing import Any

from mhaviz.errors import MhavizError
from mhaviz.pages.blocks import Page
from mhaviz.pages.complexity import complexity_page
from mhaviz.pages.difference import difference_page
from mhaviz.pages.head_statistics import head_statistics_page
from mhaviz.pages.implementations import implementations_page
from mhaviz.pages.maps import attention_page
from mhaviz.pages.scaling import sweep_page
from mhaviz.pages.training import evaluation_page, training_page
from mhaviz.records import (
    Attention,
    Complexity,
    Difference,
    Evaluation,
    HeadStatistics,
    ImplementationComparison,
    ScalingSweep,
    Training,
)

PAGES: dict[type, Callable[..., Page]] = {
    Attention: attention_page,
    Difference: difference_page,
    HeadStatistics: head_statistics_page,
    Complexity: complexity_page,
    Evaluation: evaluation_page,
    ImplementationComparison: implementations_page,
    ScalingSweep: sweep_page,
    Training: training_page,
}
"""Records that are shown in blocks alone. What teaches step by step has drawings of its own in ``views``."""


def page_of(record: object, **details: Any) -> Page:
    """The page that shows this record; ``details``: what its function takes beside it.

    Raises:
        MhavizError: it has none.
    """
    if type(record) not in PAGES:
        names = ", ".join(kind.__name__ for kind in PAGES)
        raise MhavizError(f"expected a record that is shown in blocks, one of {names}, got {type(record).__name__}")
    return PAGES[type(record)](record, **details)
