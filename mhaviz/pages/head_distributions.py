"""How a number of some heads is distributed over the sentences: a row of shades a head."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Panels
from mhaviz.pages.panels import Panel, Scale
from mhaviz.records import EDGES, Axis


def distribution_panels(name: str, counts: Mapping[str, NDArray[np.int64]], sentence: str) -> Panels:
    """A picture whose columns are the bins of the number, and whose cells are shares of the sentences.

    Args:
        name: of the number, in ``EDGES``.
        counts: of each head by its label, (n_bins,): how many sentences have a number in each bin.
        sentence: what the shares are of is called, one of it.
    """
    table = np.stack(list(counts.values()))
    last = len(EDGES[name]) if EDGES[name][-1] < 1 else int(np.flatnonzero(table.any(axis=0))[-1]) + 1
    shares = (table / np.maximum(table.sum(axis=1, keepdims=True), 1))[:, :last]
    panel = Panel(name, shares.astype(np.float32), Scale(high=float(shares.max()) or 1.0))
    rows, columns = Axis.of(counts), Axis.of(f"{begin:g}" for begin in EDGES[name][:last])
    reading = f"columns: {_bins_text(name, last)}; rows: layer.head, mean, 95 % interval"
    return Panels(
        f"distribution of {name} over {sentence}s",
        (panel,),
        rows,
        columns,
        name,
        caption=reading,
        scales=(f"share of {sentence}s",),
    )


def _bins_text(name: str, n_bins: int) -> str:
    """ "20 bins of 0.05 from 0 on", or where each begins."""
    begins = EDGES[name][:n_bins]
    if name == "distance":
        return f"bins that begin at {', '.join(f'{begin:g}' for begin in begins)} tokens"
    return f"{n_bins} bins of {EDGES[name][1]:g} from 0 on"
