"""What is added up over sentences of the numbers of the heads of one layer, in parts that are joined."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.analyses.bootstrap import Bootstrap, Replicates
from mhaviz.analyses.histograms import Histograms
from mhaviz.analyses.moments import Moments
from mhaviz.records.head_statistics import EDGES, STATISTICS, Average

_N = len(STATISTICS)
_BETWEEN = [np.array(EDGES[name][1:]) for name in STATISTICS]


@dataclass
class HeadSums:
    """What is added up of the heads of one layer.

    Attributes:
        moments: mean (n_heads, n_statistics), count (1, n_statistics).
        queries: int64, (n_statistics,): how many queries count, in all sentences.
        chance: moments of the same shape, of heads that give all keys that a query sees the same weight.
        replicates: of a bootstrap.
        histograms: of the numbers of single sentences.
    """

    moments: Moments
    queries: NDArray[np.int64]
    chance: Moments
    replicates: Replicates
    histograms: Histograms

    @classmethod
    def none(cls, n_heads: int, replicates: int) -> "HeadSums":
        """Those of no sentence."""
        moments, chance = (Moments.none((n_heads, _N), (1, _N)) for _ in range(2))
        of_bootstrap = Replicates.none(replicates, n_heads, _N)
        return cls(moments, np.zeros(_N, np.int64), chance, of_bootstrap, Histograms.none(_BETWEEN, n_heads))

    @property
    def n_heads(self) -> int:
        """How many heads the layer has."""
        return len(self.moments.mean)

    def add(
        self,
        values: NDArray[np.float64],
        chance: NDArray[np.float64],
        queries: NDArray[np.int64],
        drawn: NDArray[np.float64],
    ) -> None:
        """Join with a batch.

        Args:
            values: (batch_size, n_heads, n_statistics), means over the queries of a sentence.
            chance: the same of heads that look everywhere alike; (batch_size, 1, n_statistics) if they are the same.
            queries: (batch_size, n_statistics), how many those are; 0: the sentence does not have the number.
            drawn: (batch_size, replicates), how often each sentence is drawn.
        """
        has = queries > 0
        self.moments.add(values, has[:, None])
        self.chance.add(np.broadcast_to(chance, values.shape), has[:, None])
        self.replicates.add(values, has, drawn)
        self.histograms.add(values, has)
        self.queries += queries.sum(axis=0)

    def join(self, other: "HeadSums") -> None:
        """Join with those of other sentences. Raises ValueError of another number of heads or of replicates."""
        self.moments.join(other.moments)
        self.chance.join(other.chance)
        self.replicates.join(other.replicates)
        self.histograms.join(other.histograms)
        self.queries += other.queries

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """By name."""
        return {
            **self.moments.arrays(prefix),
            f"{prefix}queries": self.queries,
            **self.chance.arrays(f"{prefix}chance."),
            f"{prefix}drawn": self.replicates.drawn,
            f"{prefix}drawn_sums": self.replicates.sums,
            f"{prefix}bins": self.histograms.counts,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str, replicates: int) -> "HeadSums":
        """The reverse. Raises ValueError for arrays that cannot be those."""
        moments, chance = Moments.of_arrays(arrays, prefix), Moments.of_arrays(arrays, f"{prefix}chance.")
        for one in (moments, chance):
            if one.mean.ndim != 2 or one.mean.shape[1] != _N or one.count.shape != (1, _N):
                raise ValueError(f"{prefix}mean: expected (n_heads, {_N}) numbers, got shape {one.mean.shape}")
        drawn_sums = arrays.get(f"{prefix}drawn_sums")  # looked at first: a file may say any number of replicates
        if drawn_sums is None or drawn_sums.shape != (replicates, *moments.mean.shape):
            raise ValueError(f"{prefix}drawn_sums: expected {replicates} replicates of {moments.mean.shape} numbers")
        found = cls.none(len(moments.mean), replicates)
        if chance.mean.shape != moments.mean.shape:
            raise ValueError(f"{prefix}chance.mean: expected shape {moments.mean.shape}, got {chance.mean.shape}")
        found.moments, found.chance = moments, chance
        for name, target in (
            ("queries", found.queries),
            ("drawn", found.replicates.drawn),
            ("drawn_sums", found.replicates.sums),
            ("bins", found.histograms.counts),
        ):
            _copy(arrays, f"{prefix}{name}", target)
        return found

    def average(self, place: int, bootstrap: Bootstrap) -> dict[str, NDArray[Any]]:
        """The arrays of the ``Average`` of one number, (n_heads,) each, and of ``counts`` (n_heads, n_bins)."""
        low, high = self.replicates.interval(place, self.moments.count[0, place], bootstrap)
        return {
            "mean": self.moments.known_mean[:, place],
            "spread": self.moments.spread[:, place],
            "low": low,
            "high": high,
            "chance": self.chance.known_mean[:, place],
            "counts": self.histograms.counts[:, place],
        }


def _copy(arrays: Mapping[str, NDArray[Any]], name: str, target: NDArray[Any]) -> None:
    """Fill an array of zeros. Raises ValueError for numbers that cannot be such counts or sums."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"there is no {name}")
    if array.dtype != target.dtype or array.shape != target.shape:
        raise ValueError(f"{name}: expected {target.dtype} of shape {target.shape}, got {array.dtype} of {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"{name}: expected numbers from 0 on")
    target[...] = array


def averages(layers: list[HeadSums], place: int, bootstrap: Bootstrap) -> Average:
    """One number of all layers; a layer with fewer heads than another has NaN in their place."""
    n_heads = max(sums.n_heads for sums in layers)
    of_layers = [sums.average(place, bootstrap) for sums in layers]
    stacked: dict[str, NDArray[Any]] = {}
    for name, first in of_layers[0].items():
        nothing = nan if first.dtype == np.float64 else 0
        stacked[name] = np.full((len(layers), n_heads, *first.shape[1:]), nothing, first.dtype)
        for row, arrays in enumerate(of_layers):
            stacked[name][row, : len(arrays[name])] = arrays[name]
    return Average(sentences=int(layers[0].moments.count[0, place]), queries=int(layers[0].queries[place]), **stacked)
