"""How the attention of two models differs over many sentences."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.difference import Limits
from mhaviz.results.result import Brief, Result
from mhaviz.results.source import Source


@dataclass(frozen=True)
class KindDivergence(Brief):
    """How far two models are apart in each head of one kind of attention.

    The rows of weights that a query has in both models are compared as distributions, by their Jensen–Shannon
    divergence in bits (Lin 1991, "Divergence measures based on the Shannon entropy", section IV): 0 for equal rows, 1
    if no key has weight in both. Of each sentence the mean over its queries counts once, special tokens included;
    padding is neither query nor key. What a row with a sink lacks to 1 is one more key. Rows that are zeros in both
    models are equal.

    Attributes:
        kind: of attention.
        layers: their numbers, in the order of the rows of every array.
        sentences, queries: how many there were.
        mean: float64, (n_layers, n_heads): the mean over the sentences; NaN where a layer has fewer heads than another.
        spread: the same shape: the standard deviation between the sentences, √(Σ (x − mean)² / (sentences − 1)); NaN
            for fewer than two.
        largest: the same shape: the divergence of the row that differs most.
        sentence, query: int64, the same shape: where that row is: the number of its sentence in the corpus, and its
            position, both from 0; of several such rows the first. −1 where no row differs.
    """

    kind: Kind
    layers: tuple[int, ...]
    sentences: int
    queries: int
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    largest: NDArray[np.float64]
    sentence: NDArray[np.int64]
    query: NDArray[np.int64]


@dataclass(frozen=True)
class HeadDivergence:
    """One head of a ``KindDivergence``; ``spread`` is NaN for fewer than two sentences."""

    kind: Kind
    layer: int
    head: int
    mean: float
    spread: float
    largest: float
    sentence: int
    query: int


@dataclass(frozen=True)
class CorpusDifference(Result):
    """How the attention of two models differs over many sentences.

    Attributes:
        source: where both come from.
        kinds: one for each kind of attention that the models have.
        too_long: how many sentences were left out, as one of the models cannot read so many tokens.
        limits: how much may differ.
    """

    source: Source
    kinds: tuple[KindDivergence, ...]
    too_long: int = 0
    limits: Limits = field(default_factory=Limits)

    @property
    def heads(self) -> Iterator[HeadDivergence]:
        """All of them, in the order of the model."""
        for kind in self.kinds:
            for row, column in np.argwhere(~np.isnan(kind.mean)):
                at = int(row), int(column)
                yield HeadDivergence(
                    kind.kind,
                    kind.layers[at[0]],
                    at[1],
                    float(kind.mean[at]),
                    float(kind.spread[at]),
                    float(kind.largest[at]),
                    int(kind.sentence[at]),
                    int(kind.query[at]),
                )

    @property
    def ranking(self) -> tuple[HeadDivergence, ...]:
        """All of them, the largest mean first."""
        return tuple(sorted(self.heads, key=lambda head: -head.mean))

    @property
    def above(self) -> tuple[HeadDivergence, ...]:
        """Those that differ more than the limits allow, the largest mean first."""
        most_mean, most_row = (math.inf if most is None else most for most in (self.limits.mean, self.limits.row))
        return tuple(head for head in self.ranking if head.mean > most_mean or head.largest > most_row)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; with the ranking, and the unit of divergences."""
        above = {(head.kind, head.layer, head.head) for head in self.above}
        ranking = [
            vars(head) | ({"above": (head.kind, head.layer, head.head) in above} if self.limits.are_given else {})
            for head in self.ranking
        ]
        limits = {"fail_above": self.limits.mean, "fail_above_row": self.limits.row}
        about = {"unit": "bits", "bound": 1, "limits": limits, "too_long": self.too_long}
        return about | {"kinds": self.kinds, "ranking": ranking}

    def limited(self, fail_above: float | None = None, fail_above_row: float | None = None) -> "CorpusDifference":
        """The same with limits: the largest mean of a head, and the largest row, that are allowed, in bits; None: any.

        Raises:
            ArgumentError: a limit that is not from 0 to 1.
        """
        return replace(self, limits=Limits(fail_above, fail_above_row))
