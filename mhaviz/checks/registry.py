"""Registry of probes: a function for each code, whose docstring is the page of the code."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from mhaviz.results.check import Finding

if TYPE_CHECKING:
    from mhaviz.checks.evidence import Evidence

Find = Callable[["Evidence"], Iterator[Finding]]
"""A probe: yields what it finds, and raises ``CannotProbe`` where it cannot."""


class CannotProbe(Exception):  # noqa: N818 - it is a normal outcome
    """A property that a layer cannot be probed for; its text is the reason."""


@dataclass(frozen=True)
class Probe:
    """A probe.

    Attributes:
        code: stable name of what it finds.
        name: what it probes, such as "scale of q·k".
        find: its function.
        unless: codes of findings that explain what it would find.
    """

    code: str
    name: str
    find: Find
    unless: frozenset[str]

    @cached_property
    def explanation(self) -> str:
        """Its page: what the code means, why it hides, how to mend it."""
        return inspect.cleandoc(self.find.__doc__ or "")

    @property
    def line(self) -> int:
        """Line of its file at which it begins."""
        return inspect.getsourcelines(self.find)[1]

    @property
    def meaning(self) -> str:
        """The first line of its page."""
        return self.explanation.partition("\n")[0]


_FILES = (
    "calls",
    "layout",
    "softmax",
    "sentences",
    "scale",
    "masks",
    "hidden_rows",
    "causality",
    "positions",
    "cache",
    "gradients",
)
"""Files of ``probes``, in the order in which their probes run: a cause before what follows from it."""

_PROBES: dict[str, Probe] = {}


@cache
def codes() -> dict[str, Probe]:
    """Return all probes by code, in the order in which they run: that of ``_FILES``, and of the lines of each."""
    for name in _FILES:
        import_module(f"{__package__}.probes.{name}")
    places = {f"{__package__}.probes.{name}": number for number, name in enumerate(_FILES)}
    return dict(sorted(_PROBES.items(), key=lambda item: (places[item[1].find.__module__], item[1].line)))


def probe(code: str, name: str, unless: str = "") -> Callable[[Find], Find]:
    """Enter the decorated function as the probe of a code.

    Args:
        code: stable name of what it finds.
        name: what it probes, for the line that says what was probed.
        unless: codes, separated by spaces, of findings that explain what it would find.
    """

    def enter(find: Find) -> Find:
        _PROBES[code] = Probe(code, name, find, frozenset(unless.split()))
        return find

    return enter
