"""How the attention of two models differs over many sentences."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.difference import Difference, Limits
from mhaviz.results.head_numbers import HeadNumbers, HeadsOfKind, HeadTable
from mhaviz.results.result import Source


@dataclass(frozen=True)
class Divergence(HeadNumbers):
    """How far two models are apart in each head.

    The rows of weights that a query has in both models are compared as distributions, by their Jensen–Shannon
    divergence in bits (Lin 1991, "Divergence measures based on the Shannon entropy", section IV): 0 for equal rows, 1
    if no key has weight in both. Of each sentence the mean over its queries counts once, special tokens included;
    padding is neither query nor key. What a row with a sink lacks to 1 is one more key. Rows that are zeros in both
    models are equal.

    Attributes:
        queries: how many there were.
        largest: float64, (n_layers, n_heads): the divergence of the row that differs most.
        sentence, query: int64, the same shape: where that row is: the number of its sentence in the corpus, and its
            position, both from 0; of several such rows the first. −1 where no row differs.
        key: int64, the same shape: the position of the key whose weight differs most in that row.
        query_token, key_token: the tokens there; of long ones the first characters.
    """

    queries: int
    largest: NDArray[np.float64]
    sentence: NDArray[np.int64]
    query: NDArray[np.int64]
    key: NDArray[np.int64]
    query_token: NDArray[np.str_]
    key_token: NDArray[np.str_]

    of_heads = (*HeadNumbers.of_heads, "largest", "sentence", "query", "key", "query_token", "key_token")


@dataclass(frozen=True)
class KindDivergence(HeadsOfKind):
    """The heads of one kind of attention; see ``Divergence``."""

    divergence: Divergence


@dataclass(frozen=True)
class CorpusDifference(HeadTable):
    """How the attention of two models differs over many sentences.

    Attributes:
        source: where both come from.
        kinds: one for each kind of attention that the models have.
        too_long: how many sentences were left out, as one of the models cannot read so many tokens.
        limits: how much may differ.
        examples: all weights on some of the sentences; None: they are not kept.
        replicates: of the bootstrap over the sentences, of which the intervals are.
    """

    source: Source
    kinds: tuple[KindDivergence, ...]
    too_long: int = 0
    limits: Limits = field(default_factory=Limits)
    examples: Difference | None = None
    replicates: int = 0

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """The numbers of each head by their names, the largest mean first; with limits, whether it is "above" them."""
        most_mean, most_row = (math.inf if most is None else most for most in (self.limits.mean, self.limits.row))
        heads = sorted(self.rows(), key=lambda head: -head["mean"])
        for head in heads:
            del head["number"]
            if self.limits.are_given:
                head["above"] = head["mean"] > most_mean or head["largest"] > most_row
        return heads

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; with the ranking, and the unit of divergences."""
        limits = {"fail_above": self.limits.mean, "fail_above_row": self.limits.row}
        about = {"unit": "bits", "bound": 1, "limits": limits, "too_long": self.too_long}
        names = ("sentences", "queries", *Divergence.of_heads)
        kinds = [
            {"kind": kind.kind, "layers": kind.layers}
            | {name: np.asarray(getattr(kind.divergence, name)).tolist() for name in names}
            for kind in self.kinds
        ]
        return about | {"kinds": kinds, "ranking": self.ranking}

    def limited(self, fail_above: float | None = None, fail_above_row: float | None = None) -> "CorpusDifference":
        """The same with limits: the largest mean of a head, and the largest row, that are allowed, in bits; None: any.

        Raises:
            ArgumentError: a limit that is not from 0 to 1.
        """
        return replace(self, limits=Limits(fail_above, fail_above_row))
