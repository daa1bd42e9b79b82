"""Inputs whose weights are too many: when they are pooled, and what the user is told before it takes a while."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mhaviz.cli.delivery import Delivery
from mhaviz.cli.options import Pool
from mhaviz.cli.progress import progress
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.limits import MOST_CELLS
from mhaviz.units import readable_bytes, readable_seconds

if TYPE_CHECKING:
    import torch

    from mhaviz.analyses.pooled_maps import MapSize, OpenWindow, Pooling
    from mhaviz.attention.model import Inputs, Model
    from mhaviz.records import Attention, Cells

MAX_TOKENS = 2**18
"""Longer inputs take longer than most people would wait; they can be had by asking for them."""

_COPIES = 3  # of the weights: those of the layer, of the record, of the picture
_FEW_SCORES = 2 * 10**9  # what takes a second or two is not worth an announcement


@dataclass(frozen=True)
class LongInputs:
    """What the user has asked of inputs that may be long; see the options of these names.

    ``size``: None by default; ``delivery``: tells what will become of them.
    """

    pool: Pool | None
    size: int | None
    window: "OpenWindow | None"
    memory: int | None
    summary: bool | None
    delivery: Delivery

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise ArgumentError(f"--size: expected at least 1 cell, got {self.size}")

    def plan(self, longest: int, n_maps: int, n_heads: int, device: "torch.device") -> "Pooling | None":
        """How to pool, or None where all weights are drawn: they fit the picture and the memory, and nothing is asked.

        Args:
            longest: tokens of the longest input.
            n_maps: how many maps there will be.
            n_heads: of each.
            device: where they are computed.

        Raises:
            MhavizError: the cells that were asked for do not fit into memory.
        """
        from mhaviz.analyses.pooled_maps import Pooling
        from mhaviz.devices import free_memory

        size, asked = self.size or MOST_CELLS, self.pool or self.window or self.summary
        allowed = self.memory or (free_memory(device) or 2**32) // 4
        a_cell = 4 * _COPIES * n_maps * n_heads * (1 + (self.pool is Pool.both))
        cells = min(size, longest)
        if a_cell * cells**2 > allowed:
            fitting = max(math.isqrt(allowed // a_cell), 1)
            if self.size is not None and longest > size:
                raise MhavizError(
                    f"--size {size} needs {readable_bytes(a_cell * size**2)} for {n_maps * n_heads} "
                    f"head{'s' * (n_maps * n_heads != 1)}, where {readable_bytes(allowed)} may be used: "
                    f"--size {fitting} would fit; or take fewer heads, or more --memory"
                )
            cells = fitting
        elif longest <= size and not asked:
            return None
        summary = self.summary if self.summary is not None else longest > cells
        reductions: dict[Pool | None, Literal["mass", "max", "both"]] = {Pool.max: "max", Pool.both: "both"}
        return Pooling(cells, reductions.get(self.pool, "mass"), self.window, self.memory, summary)

    def map(
        self,
        model: "Model",
        inputs: "Inputs",
        heads: Sequence[int],
        hide_special: bool,
        pooling: "Pooling",
    ) -> "Attention":
        """The pooled maps, announced if they take a while. Raises as ``pooled_maps`` does."""
        from mhaviz.analyses.pooled_maps import map_sizes, pooled_maps

        self._announce(map_sizes(model, inputs, heads, hide_special), pooling, model.device)
        with progress(self.delivery.quiet, time_left=True) as told:
            return pooled_maps(model, inputs, pooling, heads, hide_special, lambda done: told(done, "of the map"))

    def _announce(self, sizes: "Sequence[MapSize]", pooling: "Pooling", device: "torch.device") -> None:
        """Say what will become of the weights, what it takes, and how long."""
        from mhaviz.analyses.pooled_maps import bytes_needed, cells_of, scores_needed, seconds_needed
        from mhaviz.devices import require_memory

        said = [_becoming(cells) for size in sizes if (cells := cells_of(size, pooling))]
        self.delivery.tell(dict.fromkeys(said))
        needed = bytes_needed(sizes, pooling, device)
        require_memory(needed, device, "the map")
        if self.delivery.quiet or scores_needed(sizes, pooling) < _FEW_SCORES:
            return
        seconds = readable_seconds(seconds_needed(sizes, pooling, device), 2)
        takes = f"about {seconds} and {readable_bytes(needed)} of memory"
        self.delivery.tell([f"this takes {takes}; Ctrl-C stops it"])


def _becoming(cells: "Sequence[Cells]") -> str:
    """How many tokens become how many cells, and by which reduction."""
    from mhaviz.views.captions import cells_texts

    sides = cells[0].rows, cells[0].columns
    n_queries, n_keys = (side.end - side.start for side in sides)
    tokens = f"{n_queries:,}" if n_queries == n_keys else f"{n_queries:,} × {n_keys:,}"
    shape = " × ".join(f"{len(side):,}" for side in sides)
    return f"{tokens} tokens become {shape} cells: {cells_texts(cells)}"
