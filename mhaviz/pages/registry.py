"""Registry of results: the function that makes the page of each type, and the formats that it can be saved in.

A type is registered once, by ``shown`` above the function that makes its page.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from mhaviz.errors import MhavizError

if TYPE_CHECKING:
    from mhaviz.pages.blocks import Page

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
RESULT_SUFFIXES = (*FIGURE_SUFFIXES, ".json")
PAGE_SUFFIXES = (*RESULT_SUFFIXES, ".html")
HEAD_SUFFIXES = (*PAGE_SUFFIXES, ".csv")
ABLATION_SUFFIXES = (*RESULT_SUFFIXES, ".csv")
HEALTH_SUFFIXES = (*RESULT_SUFFIXES, ".csv")
CHECK_SUFFIXES = (*RESULT_SUFFIXES, ".sarif")
MAP_SUFFIXES = (*RESULT_SUFFIXES, ".safetensors", ".npz", ".csv", ".html")


@dataclass(frozen=True)
class Entry:
    """How one type of result is shown.

    Attributes:
        page: function that makes its page.
        formats: suffixes of the files that it can be saved in.
    """

    page: "Callable[..., Page]"
    formats: tuple[str, ...]


_ENTRIES: dict[type, Entry] = {}
_MakePage = TypeVar("_MakePage", bound="Callable[..., Page]")


def shown(result: type, formats: tuple[str, ...] = RESULT_SUFFIXES) -> Callable[[_MakePage], _MakePage]:
    """Register the decorated function as the one that makes the pages of a type of result; see ``Entry``."""

    def enter(make: _MakePage) -> _MakePage:
        _ENTRIES[result] = Entry(make, formats)
        return make

    return enter


def entry_of(result: object) -> Entry:
    """Return how a result is shown. The page of a result in ``results/NAME.py`` is in ``pages/NAME.py``, which is
    imported on first use.

    Raises:
        MhavizError: its type is not registered.
    """
    kind = type(result)
    if kind not in _ENTRIES:
        name = f"{__package__}.{kind.__module__.rpartition('.')[2]}"
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    if kind not in _ENTRIES:
        raise MhavizError(f"expected a result that can be shown, got {kind.__name__}")
    return _ENTRIES[kind]


def page_of(result: object, **details: Any) -> "Page":
    """Return the page of a result; ``details``: further arguments of its function, such as the order of heads."""
    return entry_of(result).page(result, **details)
