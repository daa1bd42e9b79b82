"""Means of numbers of heads over texts, with intervals also where these are few."""

from collections.abc import Collection, Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.analyses.bootstrap import add_numbers, head_numbers, number_shapes, poisson_weights
from mhaviz.analyses.sums import Sums
from mhaviz.results.head_numbers import LEAST_FOR_INTERVAL
from mhaviz.results.intervals import student, wilson

_TEXTS = 256  # whose bootstrap draws are in memory at a time


def averages(
    values: NDArray[np.float64], has: NDArray[np.bool_], names: Sequence[str], shares: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return the fields of an ``AverageOfFew`` for each number, but for its chance.

    Args:
        values: (texts, n_layers, n_heads, numbers); NaN for heads that a layer lacks.
        has: (texts, n_layers, numbers), whether a text has the number.
        names: names of the numbers.
        shares: names of those that are 0 or 1 in each text.
    """
    sums = [_summed(values[:, row], has[:, row]) for row in range(values.shape[1])]
    return {name: _number(sums, place, name in shares) for place, name in enumerate(names)}


def _summed(values: NDArray[np.float64], has: NDArray[np.bool_]) -> Sums:
    """Return the sums of one layer over texts, from values (texts, n_heads, numbers) and has (texts, numbers)."""
    sums = Sums(number_shapes(*values.shape[1:]))
    for start in range(0, len(values), _TEXTS):
        part = slice(start, min(start + _TEXTS, len(values)))
        add_numbers(sums, values[part], has[part], poisson_weights(range(part.start, part.stop)))
    return sums


def _number(layers: Sequence[Sums], place: int, is_share: bool) -> dict[str, Any]:
    number: dict[str, Any] = head_numbers(layers, place)
    counts = np.array([int(sums["count"][0, place]) for sums in layers], np.int64)
    for row, n in enumerate(counts.tolist()):
        mean, spread = (number[name][row] for name in ("mean", "spread"))
        if is_share:
            ends = [wilson(one, n) if n and not np.isnan(one) else (nan, nan) for one in mean.tolist()]
            number["low"][row], number["high"][row] = np.array(ends).T
            number["spread"][row] = nan  # that of 0 and 1 says no more than the share
        elif 1 < n < LEAST_FOR_INTERVAL:
            reach = student(n - 1) * spread / np.sqrt(n)
            number["low"][row], number["high"][row] = np.clip([mean - reach, mean + reach], 0, 1)
    return {**number, "sentences": int(counts.max()), "by_layer": counts}
