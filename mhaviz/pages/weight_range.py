"""Where a scale of weights ends."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.attention import AttentionMap

_MOSTLY = 0.9  # of all attention that is drawn, the share that lies below the darkest colour
_NEARLY = 0.4  # of the largest weight: where most lies below so much of it, the scale ends at the largest
_DIGITS = 2  # of the end of a scale
_BINS = 2**15  # of weights by the upper half of their bits, which tells numbers apart that differ by 1 %
_AT_ONCE = 2**22  # weights that are copied together


def darkest_from(maps: Sequence[AttentionMap]) -> float:
    """The weight from which on colours are darkest, so that most of the attention has a colour of its own.

    A few keys that get nearly all weight, as sinks do, would leave all others pale; in long inputs, where weights get
    smaller the more keys share them, so would a scale that ends at 1. So it ends where most of the attention, not most
    of the cells, lies below: at 1 where each query has one key, and near 1 / n where n keys share its weight evenly.
    """
    sentences = {m.sentence for m in maps}
    if len(sentences) > 1:  # a short one, whose weights are large, is not cut off by a long one
        return max(darkest_from([m for m in maps if m.sentence == number]) for number in sentences)
    largest = max(float(m.weights.max()) for m in maps)
    _, mass = histograms(maps)
    below = mass.cumsum()
    if not below[-1]:
        return largest or 1.0
    place = int(np.searchsorted(below, _MOSTLY * below[-1]))
    end = float((np.array(place + 1, np.uint32) << 16).view(np.float32))
    step = 10.0 ** (math.floor(math.log10(end)) + 1 - _DIGITS)
    end = float(f"{math.ceil(end / step) * step:.{_DIGITS}g}")
    return end if end < _NEARLY * largest else largest


def histograms(maps: Sequence[AttentionMap]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many weights above 0 there are of each size, and what they sum to, smallest first.

    Numbers above 0 are ordered as their bits are. Sorting would need a copy of all of them.
    """
    counts, mass = np.zeros(_BINS, np.int64), np.zeros(_BINS)
    for weights in (some for m in maps for some in _positive(m)):
        bins = weights.view(np.uint32) >> 16
        counts += np.bincount(bins, minlength=_BINS)
        mass += np.bincount(bins, weights, minlength=_BINS)
    return counts, mass


def _positive(attention_map: AttentionMap) -> Iterator[NDArray[np.float32]]:
    """The weights above 0, as far as no mask hides them, some rows of a head at a time: they are copies."""
    hidden = attention_map.hidden
    rows = max(_AT_ONCE // attention_map.weights.shape[2], 1)
    for head in attention_map.weights:
        for start in range(0, len(head), rows):
            weights = head[start : start + rows]
            is_seen = weights > 0
            yield weights[is_seen if hidden is None else is_seen & ~hidden[start : start + rows]]
