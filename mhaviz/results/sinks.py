"""Sinks: keys that take weight from all queries alike, whatever these look for (Xiao et al. 2023, arXiv 2309.17453)."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.quantity import MEANS, WEIGHT

if TYPE_CHECKING:
    from mhaviz.results.attention import AttentionMap

_FACTOR = 3.0  # least c of a sink / largest c of keys that cannot be sinks
_LEAST_WEIGHT = 0.05  # least mean weight of a sink
_LEAST_QUERIES = 4  # least queries that see a sink
_LEAST_TOKENS = 6  # least tokens of a text with sinks
_AT_ONCE = 2**16  # weights that are copied together


@dataclass(frozen=True)
class Sink:
    """A key that all queries give weight.

    Attributes:
        key: its position among the columns.
        token: its text.
        share: its share of all weight, over all layers and heads.
        times_uniform: mean of its weight × number of keys that the query sees, over the queries that see it.
    """

    key: int
    token: str
    share: float
    times_uniform: float


@dataclass(frozen=True)
class Sinks:
    """The sinks of a text.

    Attributes:
        sinks: at least one, in the order of the text.
        next_token, next_times_uniform: of the other keys, the one with the largest ``times_uniform``.
    """

    sinks: tuple[Sink, ...]
    next_token: str
    next_times_uniform: float

    @property
    def keys(self) -> tuple[int, ...]:
        """Positions of the sinks."""
        return tuple(sink.key for sink in self.sinks)

    def among(self, first: int, last: int) -> "Sinks | None":
        """Return the sinks among the keys from ``first`` to ``last``, which is kept, counted from ``first``; None: none
        is."""
        kept = tuple(replace(one, key=one.key - first) for one in self.sinks if first <= one.key <= last)
        return replace(self, sinks=kept) if kept else None


def sinks_of(maps: Sequence["AttentionMap"]) -> "tuple[Sinks | None, ...]":
    """Return the sinks of each map, found once per text over all its layers, heads and passes; None: there are none.

    With c_j = mean over layers, heads and the queries i that see key j of a_ij · n_i, where query i sees n_i keys, key
    j is a sink if

    - it is special, or the first, or has neither letter nor digit,
    - c_j is at least 3 × the largest c of keys that are none of these,
    - its mean weight is at least 0.05, and at least 4 queries see it.

    A text of fewer than 6 tokens, or 4 queries, has none. Nor have maps of other numbers than weights, and parts of
    maps; a single query has those that were found before it was chosen.
    """
    texts = defaultdict[Hashable, list["AttentionMap"]](list)
    for m in filter(_can_have, maps):
        texts[_text(m)].append(m)
    found = {text: _found(alike) for text, alike in texts.items()}
    kept = (m.sinks if _is_of_weights(m) else None for m in maps)
    return tuple(found[_text(m)] if _can_have(m) else before for m, before in zip(maps, kept, strict=True))


@dataclass(frozen=True)
class PooledSink:
    """A column of pooled maps with a key that all queries give weight, among others.

    Attributes:
        column: its position among the columns.
        token: text of the key.
        share: share of the column of all weight, over all layers and heads.
    """

    column: int
    token: str
    share: float


def pooled_sinks(maps: Sequence["AttentionMap"]) -> tuple[tuple[PooledSink, ...], ...]:
    """Return the columns of each map that is pooled by mass with a sink, found once per text, in the order of the text.

    Such a column has the first key or a special one, 0.05 of all weight, and at least 3 × the share of each column with
    neither. How many keys each query sees is no longer known, nor what the other keys of the column get.
    """
    texts = defaultdict[Hashable, list["AttentionMap"]](list)
    those = [_is_of_weights(m) and m.are_sums and m.columns.is_pooled for m in maps]
    keys = [(_text(m), len(m.rows), len(m.columns)) if is_one else None for m, is_one in zip(maps, those, strict=True)]
    for m, key in zip(maps, keys, strict=True):
        texts[key].append(m)
    found = {key: tuple(_pooled_sinks(alike)) for key, alike in texts.items() if key is not None}
    return tuple(() if key is None else found[key] for key in keys)


def _pooled_sinks(maps: Sequence["AttentionMap"]) -> Iterator[PooledSink]:
    """Yield the columns with a sink of maps of one text in the same cells."""
    first, sums = maps[0], np.zeros(len(maps[0].columns))
    queries = np.diff(first.rows.edges)
    for head in (head for m in maps for head in m.weights):
        sums += queries @ np.nan_to_num(head)
    shares = sums / (sum(len(m.weights) for m in maps) * queries.sum())
    can_be = np.logical_or(*first.aside)
    if can_be.all():
        return
    least = max(_LEAST_WEIGHT, _FACTOR * shares[~can_be].max())
    for column in np.flatnonzero(can_be & (shares >= least)).tolist():
        start, end = first.columns.edges[column : column + 2] - first.columns.start
        token = next((key for key in first.columns.tokens.special if start <= key < end), start)
        yield PooledSink(column, first.keys[token], float(shares[column]))


def is_short(m: "AttentionMap") -> bool:
    """Return whether a map of all tokens has so few that it is not known which of its keys are sinks."""
    return are_few(len(m.queries), len(m.keys))


def are_few(n_queries: int, n_keys: int) -> bool:
    """Return whether a text has so few queries and keys that it is not known which of the keys are sinks."""
    return n_keys < _LEAST_TOKENS or n_queries < _LEAST_QUERIES


def sinks_at(columns: Iterable[int]) -> Sinks:
    """Return sinks of which nothing but their columns is known."""
    return Sinks(tuple(Sink(column, "", np.nan, np.nan) for column in columns), "", np.nan)


def like_sinks(m: "AttentionMap", sinks: Iterable[Sinks]) -> NDArray[np.bool_]:
    """Return which keys of a map of all tokens are what sinks of other texts are: the first of a text, or tokens that
    are special or have neither letter nor digit, by their text."""
    of_first, _ = m.aside
    those = [sink for of_text in sinks for sink in of_text.sinks]
    named = {sink.token for sink in those}
    has_first = any(sink.key == 0 for sink in those)
    are_named = np.array([text in named for text in m.keys], np.bool_)
    return np.asarray((of_first & has_first) | (_can_be(m) & are_named))


def _can_be(m: "AttentionMap") -> NDArray[np.bool_]:
    """Return which keys of a map of all tokens can be sinks."""
    return can_be_sinks(m.columns.tokens, m.aside)


def can_be_sinks(keys: Tokens, aside: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return which keys can be sinks; ``aside``: which is the first of its text, and which are special."""
    of_first, of_special = aside
    return np.asarray(of_first | of_special | np.array([not any(map(str.isalnum, text)) for text in keys.texts]))


def _can_have(m: "AttentionMap") -> bool:
    """Return whether it is known of each key how much weight each query gives it, and of each query what it sees."""
    return _is_of_weights(m) and m.is_whole and m.chance is None and not is_short(m)


def _is_of_weights(m: "AttentionMap") -> bool:
    """Return whether a map has the weights of queries on all keys, or means of them over heads."""
    are_weights = m.quantity.key in (WEIGHT.key, MEANS[WEIGHT.key].key) and not m.quantity.is_signed
    return are_weights and m.quantity.row == "query" and m.to_special is None


def _text(m: "AttentionMap") -> Hashable:
    return m.sentence, m.kind, m.rows.tokens.texts, m.columns.tokens.texts


def _found(maps: Sequence["AttentionMap"]) -> Sinks | None:
    """Return the sinks of maps of one text."""
    first = maps[0]
    sums = KeySums(len(first.keys))
    for m in maps:
        together = max(_AT_ONCE // len(m.keys), 1)
        starts = range(0, len(m.queries), together)
        seen = m.seen
        sums.add(len(m.weights), ((m.weights[:, i : i + together], seen[i : i + together]) for i in starts))
    return sums.sinks(first.columns.tokens, _can_be(first))


class KeySums:
    """Sums over the queries and heads of maps of one text, for each of its keys.

    Args:
        n_keys: number of keys.
    """

    def __init__(self, n_keys: int) -> None:
        self._ratios, self._weights, self._seen_by, self._queries = np.zeros((4, n_keys))
        self._rows = 0

    def add(self, n_heads: int, blocks: Iterable[tuple[NDArray[np.floating], NDArray[np.bool_]]]) -> None:
        """Add a map.

        Args:
            n_heads: number of its heads.
            blocks: some queries at a time: weights, (n_heads, queries, n_keys), 0 where a key is not seen, and which
                keys they see, (queries, n_keys).
        """
        (ratios, totals, readers), n_queries = np.zeros((3, len(self._queries))), 0
        for weights, seen in blocks:
            of_heads = np.nan_to_num(weights).sum(axis=0, dtype=np.float64)
            ratios += seen.sum(axis=1) @ of_heads
            totals += of_heads.sum(axis=0)
            readers += seen.sum(axis=0)
            n_queries += len(seen)
        self.add_sums(n_heads, n_queries, ratios, totals, readers)

    def add_sums(
        self,
        n_heads: int,
        n_queries: int,
        ratios: NDArray[np.float64],
        weights: NDArray[np.float64],
        readers: NDArray[np.float64],
    ) -> None:
        """Add a map by its sums for each key, (n_keys,).

        Args:
            n_heads, n_queries: number of its heads and queries.
            ratios: sum over heads and queries of weight × number of keys that the query sees.
            weights: sum over heads and queries of the weights.
            readers: number of queries that see the key.
        """
        self._ratios += ratios
        self._weights += weights
        self._seen_by += n_heads * readers
        self._queries = np.maximum(self._queries, readers)
        self._rows += n_heads * n_queries

    def of_text(self, n_queries: int, keys: Tokens) -> Sinks | None:
        """Return the sinks of a text, of which all keys are given; None: there are none, or it is too short to tell."""
        if are_few(n_queries, len(keys)):
            return None
        of_first, of_special = np.zeros((2, len(keys)), np.bool_)
        of_first[0] = not keys.begins_image
        of_special[list(keys.special)] = True
        return self.sinks(keys, can_be_sinks(keys, (of_first, of_special)))

    def sinks(self, keys: Tokens, can_be: NDArray[np.bool_]) -> Sinks | None:
        """Return the sinks among the keys, as ``sinks_of`` defines them; ``can_be``: those that can be sinks."""
        readers = np.maximum(self._seen_by, 1)
        times_uniform, weights, seen = self._ratios / readers, self._weights / readers, self._queries >= _LEAST_QUERIES
        if not can_be.any() or not (seen & ~can_be).any():
            return None
        least = _FACTOR * times_uniform[seen & ~can_be].max()
        are_sinks = can_be & seen & (times_uniform >= least) & (weights >= _LEAST_WEIGHT)
        if not are_sinks.any():
            return None
        following = int(np.argmax(np.where(seen & ~are_sinks, times_uniform, -1.0)))
        shares = self._weights / self._rows
        sinks = (
            Sink(j, keys.texts[j], float(shares[j]), float(times_uniform[j]))
            for j in np.flatnonzero(are_sinks).tolist()
        )
        return Sinks(tuple(sinks), keys.texts[following], float(times_uniform[following]))
