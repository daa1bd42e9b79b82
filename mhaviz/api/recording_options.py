"""What of a program is recorded: which attentions, forward passes and examples."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from mhaviz.attention.pooled_map import Pooling
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.numbering import Numbers
from mhaviz.observe.modules import Place
from mhaviz.observe.sites import SeenSite

_RUN = re.compile(r"(\d+)(-)?(\d+)?")
_LAST = "last"


class RecordingOptions:
    """The arguments of ``mhaviz.record``, checked.

    Attributes:
        patterns, layers, heads, passes, examples: those that are wanted; None: all.
        pooling: how inputs are pooled that are longer than its size, and shorter ones if a reduction was asked for.
        tokens: names; grid: rows and columns of patches; None: as the program tells.
        page: whether queries and keys are kept for a page for the browser.

    Raises:
        ArgumentError: options that make no sense.
    """

    def __init__(
        self,
        module: str | Sequence[str] | None,
        layer: Numbers,
        head: Numbers,
        passes: Any,
        examples: int | Sequence[int] | Literal["all"],
        pool: Literal["mass", "max", "both"] | None,
        size: int | None,
        tokens: Sequence[str] | None,
        grid: tuple[int, int] | None,
        page: bool,
    ) -> None:
        self.patterns, self.layers, self.heads = map(_several, (module, layer, head))
        self.passes = Passes.of(passes)
        self.examples = None if examples == "all" else _several(examples)
        if self.examples is not None and not (self.examples and all(map(_is_position, self.examples))):
            raise ArgumentError(f"{parameter('examples')}: expected numbers from 0 on, or all, got {examples!r:.60}")
        if grid is not None and (len(grid) != 2 or min(grid) < 1):
            raise ArgumentError(f"{parameter('grid')}: expected rows and columns, such as (14, 14), got {grid!r:.60}")
        self.pooling = Pooling(size, pool)
        self.tokens = None if tokens is None else tuple(map(str, tokens))
        self.grid = None if grid is None else (int(grid[0]), int(grid[1]))
        self.page = page

    def wants(self, site: SeenSite) -> bool:
        """Whether an attention is recorded, as far as its name tells."""
        return self.patterns is None or self.names(site)

    def names(self, site: SeenSite | Place) -> bool:
        """Whether a pattern is of its name, with the model's or without."""
        own = (site.name, site.full_name) if isinstance(site, SeenSite) else (site.name,)
        names = {*own, *(re.sub(r"^model \d+\.", "", name) for name in own)}
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.patterns or ())


def _several(given: Any) -> tuple[Any, ...] | None:
    """One, or several, as a tuple; None: all."""
    return None if given is None else (given,) if isinstance(given, int | str) else tuple(given)


def _is_position(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


@dataclass(frozen=True)
class Passes:
    """Runs of passes: each from a first number up to an end, None being no end.

    Attributes:
        runs: those that are kept.
        is_first: whether nobody has chosen: the first pass that reaches each attention.
        with_last: whether the last one is kept as well, whichever it is.
    """

    runs: tuple[tuple[int, int | None], ...] = ((0, 1),)
    is_first: bool = True
    with_last: bool = False

    @classmethod
    def of(cls, given: Any) -> "Passes":
        """Of a number, several numbers, or a text: "0,100,200-", "0-9", "0,last"; −1 is the last.

        Raises ArgumentError if it cannot be read.
        """
        if given is None:
            return cls()
        if isinstance(given, str):
            texts = [part.strip() for part in given.split(",")]
            runs = tuple(_run_in(text, given) for text in texts if text.lower() != _LAST)
            return cls(runs, False, len(runs) < len(texts))
        if isinstance(given, range) and given.step == 1 and given and given[0] >= 0:
            return cls(((given.start, given.stop),), False)
        numbers = [given] if not isinstance(given, Iterable) else list(given)
        if not numbers or any(type(number) is not int or number < -1 for number in numbers):
            raise _wrong(given)
        return cls(tuple((number, number + 1) for number in numbers if number >= 0), False, -1 in numbers)

    def wants(self, number: int) -> bool:
        """Whether this pass is recorded, for good or until another one comes."""
        return self.with_last or self.keeps(number)

    def keeps(self, number: int) -> bool:
        """Whether it is kept whatever comes after it."""
        return any(first <= number and (end is None or number < end) for first, end in self.runs)

    def beyond(self, last: int) -> list[int]:
        """The first of each run that begins after this pass."""
        return [first for first, _ in self.runs if first > last]

    def begins_by(self, last: int) -> bool:
        """Whether one of the passes up to this is recorded."""
        return any(first <= last for first, _ in self.runs)


def _run_in(part: str, whole: object) -> tuple[int, int | None]:
    found = _RUN.fullmatch(part)
    if found is None or (found[3] and not found[2]) or len(part) > 40:
        raise _wrong(whole)
    first = int(found[1])
    if not found[2]:
        return first, first + 1
    if found[3] and int(found[3]) < first:
        raise _wrong(whole)
    return first, int(found[3]) + 1 if found[3] else None


def _wrong(given: object) -> ArgumentError:
    return ArgumentError(
        f'{parameter("passes")}: expected numbers from 0 on, or last, such as "0,100,200-,last", got {quoted(given)}'
    )
