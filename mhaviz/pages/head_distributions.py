"""How a number of some heads is distributed over the sentences: a row of shades a head."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Panels
from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.axis import Axis
from mhaviz.results.head_statistics import EDGES

_MOST_BINS = 20
"""Where there are more, two neighbours become one."""


def reading_text(has_interval: bool) -> str:
    """How to read the picture, and the labels of its rows."""
    label = "heads, mean and its 95 % interval" if has_interval else "heads and mean"
    return f"rows: {label}; columns are bins, from the number under them on"


def distribution_panels(
    name: str, counts: Mapping[str, NDArray[np.int64]], n_bins: int, sentence: str, n_heads: int
) -> Panels:
    """A picture whose columns are the bins of the number, and whose cells are shares of the sentences.

    Args:
        name: of the number, in ``EDGES``.
        counts: of each head by its label, (``N_BINS``,): how many sentences have a number in each bin.
        n_bins: so many bins are not empty, in whatever head.
        sentence: what the shares are of is called, one of it.
        n_heads: how many there are, of which these are the first.
    """
    table, begins = np.stack(list(counts.values())), EDGES[name]
    if n_bins > _MOST_BINS:
        table, begins, n_bins = table[:, ::2] + table[:, 1::2], begins[::2], -(-n_bins // 2)
    shares = (table / np.maximum(table.sum(axis=1, keepdims=True), 1))[:, :n_bins]
    rows, columns = Axis.of(counts), Axis.of(f"{begin:g}" for begin in begins[:n_bins])
    scale = Scale(high=float(shares.max()) or 1.0, name=f"share of {sentence}s")
    panel, title = Panel(name, shares.astype(np.float32), scale), f"distribution of {name} over {sentence}s"
    title += f": {len(counts)} of {n_heads:,} heads" * (len(counts) < n_heads)
    return Panels(title, (panel,), rows, columns, 1, is_main=False, where="drawn")
