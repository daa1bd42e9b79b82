"""Bootstrap over sentences: the variation of a mean between corpora of the same kind.

A bootstrap replicate of a corpus of n sentences draws n of them with replacement. Here n is not known before the last
sentence, and several processes may read the sentences. So each sentence is drawn a Poisson(1) number of times,
independently of the others: the Poisson bootstrap of Hanley and MacGibbon 2006, "Creating non-parametric bootstrap
samples using Poisson frequencies", and of Chamandy et al. 2012, "Estimating uncertainty for massive data streams",
section 3.
"""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache
from math import factorial, nan

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.analyses.sums import Array, Sums, stacked
from mhaviz.results.head_numbers import LEAST_FOR_INTERVAL, LEVEL, REPLICATES, SEED

_MOST_DRAWN = 20  # draws of a sentence in a replicate; more have a probability below 2^-64


def poisson_weights(numbers: Sequence[int], texts_apart: int = 1) -> Array:
    """Return the number of times that each sentence is drawn in each replicate, float64, (sentences, replicates).

    These depend only on ``SEED`` and the index of the sentence, so that they are the same in any batch, process and
    order. The bits of Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") are turned into
    Poisson numbers by inversion, as NumPy guarantees a stable stream for the bits, but not for its distributions.

    Args:
        numbers: index of each sentence in the corpus, from 0.
        texts_apart: number of consecutive sentences that belong to one text, and are drawn together.
    """
    weights = np.empty((len(numbers), REPLICATES))
    for row, number in zip(weights, numbers, strict=True):
        key = np.array([SEED, number // texts_apart], np.uint64)
        bits = np.random.Philox(key=key).random_raw(REPLICATES)
        row[:] = np.searchsorted(_thresholds(), bits, side="right")
    return weights


@cache
def _thresholds() -> NDArray[np.uint64]:
    """Return 2^64 · P(x ≤ k) of Poisson(1) numbers x for k = 0, 1, …, as integers that are equal on every machine."""
    with localcontext(prec=60):
        e = Decimal(1).exp()
        shares = [sum((1 / (e * factorial(i)) for i in range(k + 1)), Decimal(0)) for k in range(_MOST_DRAWN)]
        return np.array([int(share * 2**64) for share in shares], np.uint64)


def _product(weights: Array, values: Array) -> Array:
    """Compute weightsᵀ · values with PyTorch. The threads of NumPy's product spin while idle, on the cores that the
    model computes on: with them, reading a corpus took 2.6 times as long (MiniLM, two cores).
    """
    product: Array = (torch.from_numpy(weights).mT @ torch.from_numpy(values)).numpy()
    return product


def number_shapes(n_heads: int, n_numbers: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of ``Sums`` of each head's numbers, of the draws in each replicate, and of the drawn sums."""
    means = n_heads, n_numbers
    drawn = {"drawn": (REPLICATES, n_numbers), "drawn_sums": (REPLICATES, *means)}
    return {"mean": means, "count": (1, n_numbers), "deviations": means} | drawn


def add_numbers(sums: Sums, values: Array, has: NDArray[np.bool_], weights: Array) -> None:
    """Add the numbers of sentences to sums.

    Args:
        sums: sums that have at least the arrays of ``number_shapes``.
        values: (sentences, n_heads, n_numbers); any finite value where a sentence lacks a number.
        has: (sentences, n_numbers), whether a sentence has a number.
        weights: (sentences, replicates), from ``poisson_weights``.
    """
    sums.add_values(values, has[:, None])
    known = np.where(has[:, None], values, 0.0).reshape(len(values), -1)
    sums["drawn"] += _product(weights, has.astype(np.float64))
    sums["drawn_sums"] += _product(weights, known).reshape(sums["drawn_sums"].shape)


def interval(sums: Sums, place: int, texts_apart: int = 1) -> Array:
    """Return the lower and upper end of the percentile interval at ``LEVEL``, (2, n_heads): Efron and Tibshirani 1993,
    "An introduction to the bootstrap", chapter 13.

    Replicates in which no sentence is drawn are left out. NaN where no replicate is left, and for fewer texts than
    ``LEAST_FOR_INTERVAL``.

    Args:
        sums: sums that have at least the arrays of ``number_shapes``.
        place: index of the number.
        texts_apart: as in ``poisson_weights``.
    """
    drawn = sums["drawn"][:, place]
    is_drawn = drawn > 0
    if sums["count"][0, place] < LEAST_FOR_INTERVAL * texts_apart or not is_drawn.any():
        return np.full((2, len(sums["mean"])), nan)
    means = sums["drawn_sums"][is_drawn, :, place] / drawn[is_drawn, None]
    return np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)


def head_numbers(layers: Sequence[Sums], place: int, texts_apart: int = 1) -> dict[str, Array]:
    """Return mean, spread, low and high of one number, (n_layers, n_heads), as fields of ``HeadNumbers``."""
    low, high = zip(*(interval(sums, place, texts_apart) for sums in layers), strict=True)
    return {
        "mean": stacked([sums.mean()[:, place] for sums in layers]),
        "spread": stacked([sums.spread[:, place] for sums in layers]),
        "low": stacked(low),
        "high": stacked(high),
    }
