"""Difference between the attention of two models over many sentences."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.difference import Difference
from mhaviz.results.head_numbers import HeadNumbers, HeadsOfKind, HeadTable
from mhaviz.results.result import Source


@dataclass(frozen=True)
class Divergence(HeadNumbers):
    """Divergence of each head between two models.

    The two rows of weights of a query are compared as distributions, by their Jensen–Shannon divergence in bits (Lin
    1991, "Divergence measures based on the Shannon entropy", section IV): 0 for equal rows, 1 if no key has weight in
    both. It is averaged over the queries of a sentence, special tokens included, and then over the sentences. Padding
    is neither query nor key. The missing weight of a row with a sink counts as one more key. Rows that are zeros in
    both models are equal.

    Attributes:
        queries: number of queries in all sentences.
        largest: float64, (n_layers, n_heads), divergence of the row that differs most.
        sentence, query: int64, (n_layers, n_heads), index of that row's sentence in the corpus and position of its
            query, both from 0; the first of several such rows. −1: no row differs.
        key: int64, (n_layers, n_heads), position of the key whose weight differs most in that row.
        query_token, key_token: texts of that query and key, (n_layers, n_heads), shortened where they are long.
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
    """Divergence of the heads of one kind of attention."""

    divergence: Divergence


@dataclass(frozen=True)
class CorpusDifference(HeadTable):
    """Difference between the attention of two models over many sentences.

    Attributes:
        source: origin of both.
        kinds: one for each kind of attention that the models have.
        too_long: number of sentences left out because they have more tokens than one of the models can read.
        fail_above: largest divergence of a head that is allowed, in bits, averaged over the sentences; None: no limit.
        examples: changes of all weights on some of the sentences; None: not kept.
    """

    source: Source
    kinds: tuple[KindDivergence, ...]
    too_long: int = 0
    fail_above: float | None = None
    examples: Difference | None = None

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """Numbers of each head by name, the largest mean first. With a limit, "above" says whether it is exceeded."""
        heads = sorted(self.rows(), key=lambda head: -head["mean"])
        for head in heads:
            del head["number"]
            if self.fail_above is not None:
                head["above"] = head["mean"] > self.fail_above
        return heads

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; includes the ranking and the unit of divergences."""
        about = {"unit": "bits", "bound": 1, "fail_above": self.fail_above, "too_long": self.too_long}
        names = ("sentences", "queries", *Divergence.of_heads)
        kinds = [
            {"kind": kind.kind, "layers": kind.layers}
            | {name: np.asarray(getattr(kind.divergence, name)).tolist() for name in names}
            for kind in self.kinds
        ]
        return about | {"kinds": kinds, "ranking": self.ranking}
