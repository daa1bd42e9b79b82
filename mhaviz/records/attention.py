"""Attention weights with the tokens that they stand between."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.records.cells import Cells
from mhaviz.records.shown import Shown
from mhaviz.records.source import Source
from mhaviz.records.summary import MapSummary
from mhaviz.records.tokens import Kind

if TYPE_CHECKING:
    import pandas

ROUNDING = 2**-8
"""How far the sum of a row of weights may be from 1: twice the largest relative error of bfloat16, the coarsest type
that weights come in."""

LARGEST = 1e30
"""What is drawn is at most this: sums of millions of such numbers are still finite in float32."""


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one layer on one sentence, or on one pair of sentences: all of them, a part, or pooled to cells.

    Attributes:
        queries: the tokens of the rows.
        keys: the tokens of the columns.
        weights: float32, (n_heads, rows, columns): of all tokens, so that each row sums to 1, or to 0 where a query
            sees no key, or to less than 1 with a ``sink``; or of ``cells``.
        kind: "self"; "masked", when a query sees no later key; "cross", when the keys are another sentence.
        layer: counted from 0.
        heads: the numbers of the heads in ``weights``, in order.
        sentence: which of several sentences, counted from 0; None if there is one.
        cells: where the rows and columns begin, if it is a part or pooled; None: a row a query, a column a key.
        summary: of each head, if it was asked for.
        special_queries, special_keys: which of ``queries`` and ``keys`` are not of the text, as [CLS] is not; counted
            from 0, in order.
        reach: a query sees no key that is more positions away than this (a sliding window); None: all.
        sink: whether the softmax has a place that is no key, so that a row sums to less than 1 (gpt-oss).
        rollout: whether these are no weights of heads, but what they come to through this layer and all before it
            (Abnar and Zuidema 2020, arXiv 2005.00928, section 3); n_heads is 1.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: NDArray[np.float32]
    kind: Kind = "self"
    layer: int = 0
    heads: tuple[int, ...] = ()
    sentence: int | None = None
    cells: Cells | None = None
    summary: MapSummary | None = None
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    reach: int | None = None
    sink: bool = False
    rollout: bool = False

    def __post_init__(self) -> None:
        if self.weights.ndim != 3:
            raise ArgumentError(
                f"weights: expected 3 axes, (n_heads, q_length, k_length), got {self.weights.ndim}: "
                f"{self.weights.shape}"
            )
        n_heads, rows, columns = self.weights.shape
        for axis, size, names in (("q_length", rows, self.queries), ("k_length", columns, self.keys)):
            if self.cells is None and size != len(names):
                raise ArgumentError(f"weights: expected axis {axis} to be {len(names)}, one a token, got {size}")
        if self.cells is not None:
            sides = (
                ("rows", rows, self.queries, self.cells.query_edges),
                ("columns", columns, self.keys, self.cells.key_edges),
            )
            for axis, size, names, edges in sides:
                if size != len(edges) - 1:
                    raise ArgumentError(
                        f"weights: expected axis {axis} to be {len(edges) - 1}, as in cells, got {size}"
                    )
                if edges[-1] - edges[0] != len(names):
                    raise ArgumentError(f"cells: expected {axis} of {len(names)} tokens, got {edges[-1] - edges[0]}")
        if not self.heads:
            object.__setattr__(self, "heads", tuple(range(n_heads)))
        if len(self.heads) != n_heads:
            raise ArgumentError(f"weights: expected axis n_heads to be {len(self.heads)}, got {n_heads}")
        for side, names, special in (
            ("queries", self.queries, self.special_queries),
            ("keys", self.keys, self.special_keys),
        ):
            if any(not 0 <= i < len(names) for i in special):
                raise ArgumentError(
                    f"special_{side}: expected positions from 0 to {len(names) - 1}, got {min(special)} to "
                    f"{max(special)}"
                )

    def select(self, heads: tuple[int, ...]) -> "AttentionMap":
        """The same map with only these heads, in this order.

        Raises:
            ArgumentError: the map has no such head.
        """
        rows = [self._row(head) for head in heads]
        summary = self.summary and replace(self.summary, heads=tuple(self.summary.heads[row] for row in rows))
        return replace(self, weights=self.weights[rows], heads=heads, summary=summary)

    @property
    def name(self) -> str:
        """What tells it from the other maps of its attention: "layer 0, self", "sentence 2, layer 0, self, max"."""
        sentence = "" if self.sentence is None else f"sentence {self.sentence}, "
        rollout, largest = ", rollout" * self.rollout, ", max" * (self.edges.reduction == "max")
        return f"{sentence}layer {self.layer}, {self.kind}{rollout}{largest}"

    @property
    def is_pooled(self) -> bool:
        """Whether a cell may stand for more than one query or key."""
        return self.cells is not None and not self.cells.are_tokens

    @property
    def edges(self) -> Cells:
        """``cells``, or a cell for every token."""
        return self.cells or Cells.of_tokens(len(self.queries), len(self.keys))

    @property
    def row_sums(self) -> NDArray[np.float64]:
        """What each row of each head sums to, (n_heads, rows)."""
        return np.asarray(self.weights.sum(axis=-1, dtype=np.float64))

    @property
    def hidden(self) -> NDArray[np.bool_] | None:
        """Where a mask hides all keys of a cell from all its queries, (rows, columns); None if there is no mask.

        Queries and keys are lined up at their ends in a masked map, as in a decoder with a cache. What comes through
        several layers reaches farther than the window of one: of a rollout only later keys are hidden.
        """
        reach = None if self.rollout else self.reach
        if self.kind != "masked" and reach is None:
            return None
        query_edges, key_edges = self.edges.query_edges, self.edges.key_edges
        if self.kind == "masked" and self.cells is None:
            query_edges = query_edges + len(self.keys) - len(self.queries)
        first_queries, last_queries = query_edges[:-1, None], query_edges[1:, None] - 1
        first_keys, last_keys = key_edges[:-1], key_edges[1:] - 1
        hidden = np.zeros((len(first_queries), len(first_keys)), np.bool_)
        if self.kind == "masked":
            hidden |= first_keys > last_queries
        if reach is not None:
            hidden |= (first_keys - last_queries > reach) | (first_queries - last_keys > reach)
        return hidden

    def columns_of_weights(self) -> dict[str, NDArray[Any]]:
        """Every weight with what it stands between, as columns of equal length: head by head, row by row."""
        n_heads, rows, columns = self.weights.shape
        query, key = self.edges.query_edges[:-1], self.edges.key_edges[:-1]
        query_names = np.array(self.queries, object)[query - query[0]]
        key_names = np.array(self.keys, object)[key - key[0]]
        return {
            "sentence": np.full(self.weights.size, 0 if self.sentence is None else self.sentence),
            "layer": np.full(self.weights.size, self.layer),
            "kind": np.full(self.weights.size, self.kind, object),
            "head": np.repeat(self.heads, rows * columns),
            "query": np.tile(np.repeat(query_names, columns), n_heads),
            "key": np.tile(key_names, n_heads * rows),
            "query_position": np.tile(np.repeat(query, columns), n_heads),
            "key_position": np.tile(key, n_heads * rows),
            "weight": self.weights.reshape(-1),
        }

    def _row(self, head: int) -> int:
        if head not in self.heads:
            raise ArgumentError(f"expected a head from 0 to {max(self.heads)}, got {head}")
        return self.heads.index(head)


@dataclass(frozen=True)
class Attention(Shown):
    """What a source gives to be looked at: maps, in order, and where they come from."""

    source: Source
    maps: tuple[AttentionMap, ...]

    def __len__(self) -> int:
        return len(self.maps)

    def __getitem__(self, place: int) -> AttentionMap:
        """The map of that place: of one sentence, the first layer's is 0."""
        return self.maps[place]

    def __iter__(self) -> Iterator[AttentionMap]:
        return iter(self.maps)

    def to_dataframe(self) -> "pandas.DataFrame":
        """All weights in long form, a row each: sentence, layer, kind, head, query, key, their positions, weight.

        Of pooled maps positions are those where cells begin. Raises MhavizError if pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MhavizError("a data frame needs pandas; install it with pip install pandas") from error
        return pandas.concat([pandas.DataFrame(m.columns_of_weights()) for m in self.maps], ignore_index=True)

    def select(self, heads: tuple[int, ...]) -> "Attention":
        """The same maps with only these heads, where one may have fewer than another.

        Raises:
            ArgumentError: there is no such head in any of them.
        """
        for head in heads:
            if all(head not in m.heads for m in self.maps):
                raise ArgumentError(f"expected a head from 0 to {max(max(m.heads) for m in self.maps)}, got {head}")
        chosen = [(m, tuple(head for head in heads if head in m.heads)) for m in self.maps]
        maps = tuple(m if m.heads == those else m.select(those) for m, those in chosen if those)
        return replace(self, maps=maps)
