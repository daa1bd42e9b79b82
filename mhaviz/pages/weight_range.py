"""High end of a colour scale of weights."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.attention import AttentionMap

_MOSTLY = 0.9  # share of all attention that lies below the darkest colour
_NEARLY = 0.4  # share of the largest weight: a scale that would end here or above ends at the largest weight
_OF_EVEN = 2.0  # end of a scale at least, as a multiple of the mean weight
_DIGITS = 2  # significant digits of the end of a scale
_BINS = 2**15  # bins of weights by the upper half of their bits, which distinguishes numbers that differ by 1%
_AT_ONCE = 2**22  # weights that are copied together


def darkest_from(maps: Sequence[AttentionMap]) -> float:
    """Return the high end of a scale: the weight below which 90% of the attention lies, or the largest if near that.

    A scale up to the largest weight would leave most weights pale where a few keys, such as sinks, get nearly all, and
    one up to 1 would do so in long inputs, where many keys share the weights. The chosen end is 1 where each query
    attends to one key, and near 2 / n where n keys share its weight about evenly: such weights are neither pale nor
    dark, as none stands out.
    """
    sentences = {m.sentence for m in maps}
    if len(sentences) > 1:  # a short one has larger weights, which a long one must not cut off
        return max(darkest_from([m for m in maps if m.sentence == number]) for number in sentences)
    largest = max(map(largest_weight, maps))
    counts, mass = histograms(maps)
    below = mass.cumsum()
    if not below[-1]:
        return largest or 1.0
    place = int(np.searchsorted(below, _MOSTLY * below[-1]))
    end = float((np.array(place + 1, np.uint32) << 16).view(np.float32))
    step = 10.0 ** (math.floor(math.log10(end)) + 1 - _DIGITS)
    end = float(f"{math.ceil(end / step) * step:.{_DIGITS}g}")
    if end < _NEARLY * largest:
        return end
    if not all(m.quantity.is_distribution for m in maps):
        return largest
    even = float(mass.sum() / counts.sum())
    return max(largest, min(_OF_EVEN * even, 1.0))


def largest_weight(m: AttentionMap, first: int = 0) -> float:
    """Return the largest weight of the rows from ``first`` on, without sinks, which have a scale of their own."""
    if m.sinks is None:
        return float(m.weights[:, first:].max())
    return max(float(head[first:].max(where=_others(m), initial=-math.inf)) for head in m.weights)


def _others(m: AttentionMap) -> NDArray[np.bool_]:
    """Return which columns are no sinks, (columns,)."""
    return ~np.isin(np.arange(len(m.columns)), m.sinks.keys if m.sinks else ())


def histograms(maps: Sequence[AttentionMap]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the number of weights above 0 in each bin, and their sum, the smallest bin first.

    Weights of sinks do not count. Bins are the upper 16 bits of a float32, as positive floats are ordered like their
    bits. Sorting would copy all weights.
    """
    counts, mass = np.zeros(_BINS, np.int64), np.zeros(_BINS)
    for weights in (some for m in maps for some in _positive(m)):
        bins = weights.view(np.uint32) >> 16
        counts += np.bincount(bins, minlength=_BINS)
        mass += np.bincount(bins, weights, minlength=_BINS)
    return counts, mass


def _positive(attention_map: AttentionMap) -> Iterator[NDArray[np.float32]]:
    """Yield copies of the weights above 0 that no mask hides, some rows of a head at a time, without sinks."""
    hidden, others = attention_map.hidden, _others(attention_map) if attention_map.sinks else None
    rows = max(_AT_ONCE // attention_map.weights.shape[2], 1)
    for head in attention_map.weights:
        for start in range(0, len(head), rows):
            weights = head[start : start + rows]
            is_seen = weights > 0 if others is None else (weights > 0) & others
            yield weights[is_seen if hidden is None else is_seen & ~hidden[start : start + rows]]
