"""Numbers along the sides of one map: the mean weight on each key, and the entropy of each query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.words import position_text
from mhaviz.results.attention import AttentionMap, row_entropies
from mhaviz.units import with_minus

_NAMED = 2  # keys with names, as in the table of a long map


@dataclass(frozen=True)
class Margin:
    """Numbers along one side of a map.

    Attributes:
        text: name of the numbers.
        values: float64, one for each cell; NaN: none.
        named: cells of the keys that receive the most weight, with their positions and tokens.
    """

    text: str
    values: NDArray[np.float64]
    named: tuple[tuple[int, str], ...] = ()

    @property
    def highest(self) -> str:
        """Largest number, in two digits."""
        return with_minus(f"{np.nanmax(self.values, initial=0.0):.2g}")


def key_margin(m: AttentionMap) -> Margin | None:
    """Return r_j = Σ_i A_ij / n over the n queries of the map; None for numbers that are no weights, and for maxima.

    Queries that do not see a key count, with a weight of 0: the map does not know all masks. The number of a cell of
    several keys is their mean.
    """
    quantity = m.quantity
    if quantity.row != "query" or quantity.is_signed or quantity.reduction == "max":
        return None
    queries = np.diff(m.rows.edges)
    n = queries.sum()
    totals = queries @ m.weights[0].astype(np.float64)  # a cell is the mean over its queries
    if m.summary is not None:
        sinks = [sink for sink in m.summary.heads[0].sinks[:_NAMED] if m.columns.start <= sink.key < m.columns.end]
        named = [(m.columns.cell_of(sink.key), position_text(sink.key, sink.token)) for sink in sinks]
    else:
        order = np.argsort(-totals, kind="stable")[:_NAMED].tolist() if not m.columns.is_pooled else []
        named = [(j, position_text(m.columns.start + j, m.keys[j])) for j in order]
    return Margin(f"mean {quantity.name} over {n:,} queries", totals / n / np.diff(m.columns.edges), tuple(named))


def without_keys(margin: Margin, keys: Sequence[int]) -> Margin:
    """Return the numbers of all keys of a whole map but these, and the names of those among them that have one."""
    others = [key for key in range(len(margin.values)) if key not in keys]
    named = tuple((others.index(key), text) for key, text in margin.named if key in others)
    return replace(margin, values=margin.values[others], named=named)


def query_margin(m: AttentionMap) -> Margin | None:
    """Return the entropy of each query, for a cell of several their mean; None where it is not known."""
    if m.summary is not None:
        values = np.array(m.summary.heads[0].entropies, np.float64)
    elif m.is_whole and m.quantity.has_row_sums and m.to_special is None and m.quantity.row == "query":
        values = row_entropies(m.weights[0].astype(np.float64))
    else:
        return None
    return Margin("entropy", values) if values.size else None
