"""What of a program is recorded."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from mhaviz.api.passes import Passes
from mhaviz.attention.pooled_map import Pooling
from mhaviz.errors import ArgumentError, parameter
from mhaviz.numbering import Numbers
from mhaviz.recording.modules import Place
from mhaviz.recording.sites import SeenSite


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
        self.patterns = None if module is None else (module,) if isinstance(module, str) else tuple(module)
        self.layers = None if layer is None else (layer,) if isinstance(layer, int) else tuple(layer)
        self.heads = None if head is None else (head,) if isinstance(head, int) else tuple(head)
        self.passes = Passes.of(passes)
        self.examples = None if examples == "all" else (examples,) if isinstance(examples, int) else tuple(examples)
        if self.examples is not None and (not self.examples or any(not _is_position(one) for one in self.examples)):
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
        """Whether a pattern is of its name."""
        return any(fnmatchcase(site.name, pattern) for pattern in self.patterns or ())


def _is_position(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
