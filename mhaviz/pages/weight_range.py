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
    largest = max(float(m.weights.max()) for m in maps)
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


def histograms(maps: Sequence[AttentionMap]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the number of weights above 0 in each bin, and their sum, the smallest bin first.

    Bins are the upper 16 bits of a float32, as positive floats are ordered like their bits. Sorting would copy all
    weights.
    """
    counts, mass = np.zeros(_BINS, np.int64), np.zeros(_BINS)
    for weights in (some for m in maps for some in _positive(m)):
        bins = weights.view(np.uint32) >> 16
        counts += np.bincount(bins, minlength=_BINS)
        mass += np.bincount(bins, weights, minlength=_BINS)
    return counts, mass


def _positive(attention_map: AttentionMap) -> Iterator[NDArray[np.float32]]:
    """Yield copies of the weights above 0 that no mask hides, some rows of a head at a time."""
    hidden = attention_map.hidden
    rows = max(_AT_ONCE // attention_map.weights.shape[2], 1)
    for head in attention_map.weights:
        for start in range(0, len(head), rows):
            weights = head[start : start + rows]
            is_seen = weights > 0
            yield weights[is_seen if hidden is None else is_seen & ~hidden[start : start + rows]]
