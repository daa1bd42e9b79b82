"""Options of a recording: which attentions, forward passes and examples are recorded."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from mhaviz.attention.pooled_map import Pooling
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.numbering import Numbers
from mhaviz.observe.modules import Place
from mhaviz.observe.observed_site import ObservedSite

_RUN = re.compile(r"(\d{1,18})(-(\d{1,18})?)?")
_LAST = "last"


class RecordingOptions:
    """Checked arguments of ``mhaviz.record``.

    Attributes:
        patterns: patterns of the names of attentions to record; None: all.
        layers, heads, examples: numbers of what is drawn; None: all.
        passes: forward passes to record.
        pooling: how maps are pooled: those larger than its size, and smaller ones if it has a reduction.
        tokens: names of the tokens; None: those of the program.
        grid: rows and columns of an image's patches, with the position of the first, or without; None:
            those of the program.
        page: whether queries and keys are kept for a page for the browser.

    Raises:
        ArgumentError: an argument is invalid.
    """

    def __init__(
        self,
        module: str | Sequence[str] | None,
        layer: Numbers,
        head: Numbers,
        passes: Any,
        examples: int | Sequence[int] | Literal["all"],
        pool: Literal["mass", "max"] | None,
        size: int | None,
        tokens: Sequence[str] | None,
        grid: tuple[int, ...] | None,
        page: bool,
    ) -> None:
        self.patterns, self.layers, self.heads = map(_several, (module, layer, head))
        self.passes = Passes.of(passes)
        self.examples = None if examples == "all" else _several(examples)
        if self.examples is not None and not (self.examples and all(type(n) is int and n >= 0 for n in self.examples)):
            raise ArgumentError(f"{parameter('examples')}: expected numbers from 0 on, or all, got {examples!r:.60}")
        if grid is not None and (len(grid) not in (2, 3) or min(grid[:2]) < 1 or min(grid) < 0):
            raise ArgumentError(
                f"{parameter('grid')}: expected rows and columns, such as (14, 14), or with the position of the "
                f"first, (14, 14, 1), got {grid!r:.60}"
            )
        self.pooling = Pooling(size, pool)
        self.tokens = None if tokens is None else tuple(map(str, tokens))
        self.grid = None if grid is None else tuple(map(int, grid))
        self.page = page

    def wants(self, site: ObservedSite) -> bool:
        """Return whether an attention of this name is recorded."""
        return self.patterns is None or self.names(site)

    def draws(self, site: ObservedSite) -> bool:
        """Return whether the current pass of an attention is recorded."""
        return self.wants(site) and self.passes.wants(site.pass_number)

    def examples_of(self, batch_size: int) -> Sequence[int]:
        """Return the examples of a batch that are drawn."""
        wanted = self.examples
        return range(batch_size) if wanted is None else [place for place in wanted if place < batch_size]

    def names(self, site: ObservedSite | Place) -> bool:
        """Return whether a pattern matches its name, with or without the name of the model."""
        own = (site.name, site.full_name) if isinstance(site, ObservedSite) else (site.name,)
        names = {*own, *(re.sub(r"^model \d+\.", "", name) for name in own)}
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.patterns or ())


def _several(given: Any) -> tuple[Any, ...] | None:
    """Return one item, or several, as a tuple. None remains None."""
    return None if given is None else (given,) if isinstance(given, int | str) else tuple(given)


@dataclass(frozen=True)
class Passes:
    """Choice of forward passes.

    Attributes:
        runs: passes that are kept, as (first, end); the end is not included, and None is no end.
        is_first: whether no passes were chosen, so that the first pass of each attention is kept.
        with_last: whether the last pass is kept as well.
    """

    runs: tuple[tuple[int, int | None], ...] = ((0, 1),)
    is_first: bool = True
    with_last: bool = False

    @classmethod
    def of(cls, given: Any) -> "Passes":
        """Parse a number, several numbers, or a text such as "0,100,200-", "0-9" or "0,last". −1 is the last pass.

        Raises:
            ArgumentError: the choice cannot be read.
        """
        if given is None:
            return cls()
        if isinstance(given, str):
            texts = [part.strip() for part in given.split(",")]
            runs = tuple(_run_in(text, given) for text in texts if text.lower() != _LAST)
            return cls(runs, False, len(runs) < len(texts))
        if isinstance(given, range) and given.step == 1 and given and given[0] >= 0:  # which may be long
            return cls(((given.start, given.stop),), False)
        numbers = [given] if not isinstance(given, Iterable) else list(given)
        if not numbers or any(type(number) is not int or number < -1 for number in numbers):
            raise _wrong(given)
        return cls(tuple((number, number + 1) for number in numbers if number >= 0), False, -1 in numbers)

    def wants(self, number: int) -> bool:
        """Return whether this pass is recorded. It may be replaced by a later one, if only the last is kept."""
        return self.with_last or self.keeps(number)

    def keeps(self, number: int) -> bool:
        """Return whether this pass is kept even if others follow."""
        return any(first <= number and (end is None or number < end) for first, end in self.runs)

    def beyond(self, last: int) -> list[int]:
        """Return the first pass of each run that begins after this pass."""
        return [first for first, _ in self.runs if first > last]

    def begins_by(self, last: int) -> bool:
        """Return whether a run begins at this pass or before it, or the last pass is kept."""
        return self.with_last or any(first <= last for first, _ in self.runs)


def _run_in(part: str, whole: object) -> tuple[int, int | None]:
    found = _RUN.fullmatch(part)
    if found is None or (found[3] and int(found[3]) < int(found[1])):
        raise _wrong(whole)
    last = found[3] if found[2] else found[1]
    return int(found[1]), int(last) + 1 if last else None


def _wrong(given: object) -> ArgumentError:
    return ArgumentError(
        f'{parameter("passes")}: expected numbers from 0 on, or last, such as "0,100,200-,last", got {quoted(given)}'
    )
