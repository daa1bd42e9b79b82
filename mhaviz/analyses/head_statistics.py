"""Statistics of what each head of a model looks at, averaged over any number of sentences in constant memory.

All numbers but the entropy are sums of weights on certain keys, such as the one before the query. Which keys those are
does not depend on the head or the layer: it is found once for a batch, and each layer is one matrix product more.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from mhaviz.analyses.moments import Moments
from mhaviz.analyses.study import Study
from mhaviz.attention.call import entropy
from mhaviz.attention.model import SiteCall, is_token
from mhaviz.records import STATISTICS, Average, HeadAverages, HeadStatistics, Kind, Source, Tokens

_BLOCK = 2**24  # weights whose logarithms are in memory at a time

_OF_ALL_QUERIES = ("entropy", "distance")
"""What every query has; the others need a key of their own, such as a previous token."""


class HeadStudy(Study):
    """Running averages of the statistics of all heads, to which batches of weights are added.

    In float64 if the model computes in float64, else in float32; sums over sentences are of float64.

    ``kind``: count the attentions of this kind alone; None: all.
    """

    def __init__(self, kind: Kind | None = None) -> None:
        self._kind = kind
        self._sums: dict[tuple[Kind, int], _Sums] = {}
        self._counted: _Counted | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those that there was something of, in the order of a model."""
        there = {kind for kind, _ in self._sums}
        return tuple(kind for kind in _KINDS if kind in there)

    def add(self, seen: SiteCall, numbers: Sequence[int]) -> None:
        """Count the sentences of an attention's call, on the device where it is computed; see ``Study.add``."""
        kind, layer = seen.site.kind, seen.site.layer
        if self._kind not in (None, kind):
            return
        counted = self._counted
        if counted is None or not counted.is_of(seen):  # the layers of a forward pass share their sides
            counted = self._counted = _Counted.of(seen)
        weights = seen.call.weights().nan_to_num(nan=0.0)  # of padding; they may be the program's own
        sums = weights.flatten(2) @ counted.factors.to(weights.dtype).mT  # batch_size n_heads n_statistics - 1
        totals = torch.cat([_entropies(weights, counted.visible)[..., None], sums], dim=-1)
        layer_sums = self._sums.setdefault((kind, layer), _Sums.none(weights.shape[1]))
        layer_sums.add(totals.cpu().double().numpy(), counted.queries)

    def join(self, other: Self) -> None:
        """See ``Study.join``."""
        for (kind, layer), sums in other._sums.items():
            n_heads = len(sums.moments.mean)
            self._sums.setdefault((kind, layer), _Sums.none(n_heads)).join(sums)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See ``Study.arrays``: "self.0.mean", "self.0.queries", …"""
        named = (sums.arrays(f"{kind}.{layer}.") for (kind, layer), sums in self._sums.items())
        return {name: array for arrays in named for name, array in arrays.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """See ``Study.of_arrays``."""
        study = cls()
        for name in arrays:
            kind, _, rest = name.partition(".")
            layer, _, _ = rest.partition(".")
            if kind not in _KINDS or not re.fullmatch(r"[0-9]{1,6}", layer):
                raise ValueError(f"expected names such as self.0.mean, got {name!r:.40}")
            if (kind, int(layer)) not in study._sums:
                study._sums[kind, int(layer)] = _Sums.of_arrays(arrays, f"{kind}.{layer}.")
        return study

    def result(self, source: Source, too_long: int = 0) -> HeadStatistics:
        """The averages over all sentences so far; ``too_long``: how many could not be read."""
        return HeadStatistics(source, tuple(map(self._averages, self.kinds)), too_long)

    def _averages(self, kind: Kind) -> HeadAverages:
        layers = tuple(sorted(layer for other, layer in self._sums if other == kind))
        sums = [self._sums[kind, layer] for layer in layers]
        averages = {name: _average(sums, place) for place, name in enumerate(STATISTICS)}
        whole = averages["entropy"]
        return HeadAverages(kind, layers, whole.sentences, whole.queries, **averages)


_KINDS: tuple[Kind, ...] = ("self", "masked", "cross")


@dataclass(frozen=True)
class _Counted:
    """Which weights of a batch, and which queries, each statistic counts: the same for all heads of all layers.

    Attributes:
        sides, kind: what it is of.
        visible: bool, (batch_size, q_length, k_length); False for padding.
        factors: float32, (batch_size, n_statistics - 1, q_length · k_length): each number but the entropy is the sum
            over queries and keys of weight times factor.
        queries: int64, (batch_size, n_statistics): how many queries it is the sum over.
    """

    sides: tuple[tuple[Tokens, ...], tuple[Tokens, ...]]
    kind: Kind
    visible: Tensor
    factors: Tensor
    queries: NDArray[np.int64]

    def is_of(self, seen: SiteCall) -> bool:
        """Whether it is of this very batch."""
        queries, keys = self.sides
        return seen.queries is queries and seen.keys is keys and seen.site.kind == self.kind

    @classmethod
    def of(cls, seen: SiteCall) -> "_Counted":
        """Find what counts."""
        is_query, is_key = (is_token(side, seen.call.device) for side in (seen.queries, seen.keys))
        visible = is_query[:, :, None] & is_key[:, None]  # batch_size q_length k_length
        factors = _factors(seen.keys, is_key, visible, seen.site.kind)
        there = {name: factor.any(dim=-1) for name, factor in factors.items()}  # batch_size q_length
        there |= {name: is_query for name in _OF_ALL_QUERIES if name in factors or name == "entropy"}
        nothing, nobody = torch.zeros_like(visible), torch.zeros_like(is_query)
        summed = [factors.get(name, nothing).float() for name in STATISTICS[1:]]
        queries = torch.stack([there.get(name, nobody).sum(dim=-1) for name in STATISTICS], dim=-1)
        summed_up = torch.stack(summed, dim=1).flatten(2)
        return cls((seen.queries, seen.keys), seen.site.kind, visible, summed_up, queries.cpu().numpy())


def _factors(keys: tuple[Tokens, ...], is_key: Tensor, visible: Tensor, kind: Kind) -> dict[str, Tensor]:
    """What each weight counts for, (batch_size, q_length, k_length), for the numbers that have a meaning.

    ``is_key``: bool, (batch_size, k_length); False for padding.
    """
    is_first = is_key & (is_key.cumsum(dim=-1) == 1)
    is_text = is_key.clone()
    for row, tokens in zip(is_text, keys, strict=True):
        row[list(tokens.special)] = False
    factors = {"first": visible & is_first[:, None], "separators": visible & ~is_text[:, None]}
    if kind == "cross":
        return factors

    positions = torch.arange(is_key.shape[1], device=is_key.device)
    offsets = positions - positions[:, None]  # q_length k_length
    factors |= {
        "distance": visible * offsets.abs(),
        "itself": visible & (offsets == 0),
        "previous": visible & (offsets == -1),
        "next": visible & (offsets == 1),
    }
    if kind == "masked":
        del factors["next"]
    if all(len(tokens.ids) == len(tokens) for tokens in keys):  # else nothing tells which tokens are the same
        ids = pad_sequence([torch.tensor(tokens.ids) for tokens in keys], batch_first=True).to(is_key.device)
        is_same = (ids[:, :, None] == ids[:, None]) & is_text[:, :, None] & is_text[:, None]
        copies = is_same & (offsets < 0)
        factors |= {"copies": copies, "induction": pad(copies[..., :-1], (1, 0))}  # the key after each copy
    return factors


def _entropies(weights: Tensor, visible: Tensor) -> Tensor:
    """Over the keys of all queries, (batch_size, n_heads)."""
    parts = []
    for a in torch.split(weights, max(_BLOCK // visible.numel(), 1), dim=1):
        seen = a if bool(visible.all()) else a.masked_fill(~visible[:, None], 0.0)
        parts.append(entropy(seen, (-2, -1)))
    return torch.cat(parts, dim=1)


@dataclass
class _Sums:
    """What is added up of the heads of one layer.

    Attributes:
        moments: mean (n_heads, n_statistics), count (1, n_statistics).
        queries: int64, (n_statistics,): how many queries count, in all sentences.
    """

    moments: Moments
    queries: NDArray[np.int64]

    @classmethod
    def none(cls, n_heads: int) -> "_Sums":
        """Those of no sentence."""
        moments = Moments.none((n_heads, len(STATISTICS)), (1, len(STATISTICS)))
        return cls(moments, np.zeros(len(STATISTICS), np.int64))

    def add(self, totals: NDArray[np.float64], queries: NDArray[np.int64]) -> None:
        """Join with a batch.

        Args:
            totals: (batch_size, n_heads, n_statistics), sums over the queries.
            queries: (batch_size, n_statistics), how many those are.
        """
        self.moments.add(totals / np.maximum(queries, 1)[:, None], (queries > 0)[:, None])
        self.queries += queries.sum(axis=0)

    def join(self, other: "_Sums") -> None:
        """Join with those of other sentences. Raises ValueError of another number of heads."""
        self.moments.join(other.moments)
        self.queries += other.queries

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """By name."""
        return {**self.moments.arrays(prefix), f"{prefix}queries": self.queries}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> "_Sums":
        """The reverse. Raises ValueError for arrays that cannot be those."""
        moments, queries = Moments.of_arrays(arrays, prefix), arrays.get(f"{prefix}queries")
        n = len(STATISTICS)
        if moments.mean.ndim != 2 or moments.mean.shape[1] != n or moments.count.shape != (1, n):
            raise ValueError(f"{prefix}mean: expected (n_heads, {n}) numbers, got shape {moments.mean.shape}")
        if queries is None or queries.shape != (n,) or queries.dtype != np.int64 or (queries < 0).any():
            raise ValueError(f"{prefix}queries: expected {n} whole numbers from 0 on")
        return cls(moments, queries.copy())


def _average(layers: list[_Sums], place: int) -> Average:
    """One number of all layers."""
    n_heads = max(len(sums.moments.mean) for sums in layers)
    mean, spread = (np.full((len(layers), n_heads), nan) for _ in range(2))
    for row, sums in enumerate(layers):
        there = len(sums.moments.mean)
        mean[row, :there] = sums.moments.known_mean[:, place]
        spread[row, :there] = sums.moments.spread[:, place]
    return Average(mean, spread, int(layers[0].moments.count[0, place]), int(layers[0].queries[place]))
