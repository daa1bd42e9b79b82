"""The head whose map has the highest peaks: the one that stands for others, and the order of those that remain."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.attention import AttentionMap


def most_peaked(maps: Sequence[AttentionMap]) -> int:
    """Return the index of the head whose rows have the largest maximum on average, as a share of their sum where rows
    of all keys are shares. For changes it is the head with the largest sum of absolute changes.

    Columns of ``AttentionMap.aside`` do not count, unless there are no others.
    """
    return int(np.argmax(peaks(maps)))


def peaks(maps: Sequence[AttentionMap]) -> list[float]:
    """Return what ``most_peaked`` compares, of each head."""
    return [_peak(m, weights) for m in maps for weights in m.weights]


def _peak(m: AttentionMap, weights: NDArray[np.float32]) -> float:
    sizes = np.nan_to_num(np.abs(weights))
    if m.quantity.is_signed:
        return float(sizes.sum())
    are_shares = m.quantity.rows_are_shares and not m.has_rest
    sums = sizes.sum(axis=1) if are_shares else np.ones(len(sizes))
    most = sizes.max(axis=1, where=compared(m)[0], initial=0.0)
    return float(np.divide(most, sums, out=np.zeros_like(most), where=sums > 0).mean())


def compared(m: AttentionMap) -> tuple[NDArray[np.bool_], str]:
    """Return the columns that count, and a text that names the others, ", first and special ones aside"."""
    of_first, of_special = m.aside
    counts = ~(of_first | of_special)
    if not counts.any():
        return ~counts, ""
    if not of_special.any():
        return counts, ", the first aside" * bool(of_first.any())
    return counts, f", {'first and ' * bool(of_first.any())}special ones aside"
