"""Attention maps: weights of heads, with the tokens of their queries and keys."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, counted, is_accepted, parameter
from mhaviz.inputs.span_choice import By, SpanChoice
from mhaviz.inputs.spans import SpansOf, span_tokens, words
from mhaviz.inputs.tokens import Kind
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.results.axis import Axis, PiecesError
from mhaviz.results.means import (
    MeanOver,
    averages_inputs,
    averages_texts,
    mean_of,
    mean_remark,
    mean_text,
    require_averaged,
    title_prefix,
)
from mhaviz.results.quantity import MEANS, UNIFORM, WEIGHT, Cells, Quantity
from mhaviz.results.queries_and_keys import QueriesAndKeys
from mhaviz.results.result import Result, Source, require_pandas
from mhaviz.results.sinks import Sinks, sinks_of
from mhaviz.results.span_numbers import ApartKey, KeySpans, SpanSums, spans_of_sides
from mhaviz.results.spans import SpanSide
from mhaviz.results.summary import MapSummary

if TYPE_CHECKING:
    import pandas

    from mhaviz.results.answer import Answer
    from mhaviz.results.image import ImageAttention, QueryChoice
    from mhaviz.results.image_grids import Grid
    from mhaviz.results.lines import Lines

ROUNDING = 2**-8
"""Tolerance of the sum of a row of weights around 1: twice the largest relative error of bfloat16, the least precise
type of weights."""

LARGEST = 1e30
"""Largest number that is drawn: sums of millions of such numbers are still finite in float32."""


def head_name(layer: int | None, head: int) -> str:
    """Return "L3 H5"; the only layer of a model is L0."""
    return f"L{layer or 0} H{head}"


def text_name(is_recorded: bool) -> str:
    """Return what a sentence is called: an example where it is recorded."""
    return "example" if is_recorded else "sentence"


def heads_text(layer: int, heads: Sequence[int], n_heads: int) -> str:
    """Return "L3 H5, L3 H6, …" for a message on some of the heads of a layer; "all heads" if there are no others."""
    if len(heads) == n_heads > 1:
        return "all heads"
    return ", ".join(head_name(layer, head) for head in heads[:5]) + ", …" * (len(heads) > 5)


def row_entropies(weights: NDArray[Any]) -> NDArray[Any]:
    """Return H_i = −Σ_j a_ij ln a_ij, where a_i is row i divided by its sum; NaN for a row of zeros."""
    sums = weights.sum(axis=-1, keepdims=True)
    a = weights / np.where(sums > 0, sums, np.nan)
    entropies: NDArray[Any] = -np.sum(a * np.log(np.where(a > 0, a, 1.0)), axis=-1)
    return entropies


@dataclass(frozen=True)
class AttentionMap(Result):
    """Attention of the heads of one layer on one sentence or pair: all of it, a window of it, or pooled to cells.

    Attributes:
        weights: float32, (n_heads, rows, columns). Each row of weights of all tokens sums to 1, to 0 where the query
            sees no key, or to less than 1 with a ``sink``. Other numbers are described by ``quantity``.
        rows: the queries.
        columns: the keys.
        kind: "self"; "masked", where a mask lets no query see a later key; "cross", where the keys are another
            sentence; "other": see ``Kind``.
        layer: index of the layer, from 0; None: the mean over several.
        heads: indices of the heads in ``weights``, in order; by default 0, 1, 2, ….
        sentence: index of the sentence, from 0; None: there is only one.
        quantity: what the numbers are.
        summary: a summary of each head; None: not computed.
        reach: sliding window: a query sees no key that is more than this many positions away; None: no window.
        sink: whether the softmax has a term that belongs to no key, so that rows sum to less than 1 (gpt-oss).
        to_special: (n_heads,), mean share of a row that goes to special tokens, if these were removed; else None.
        module: name of the attention in a recorded program, such as "blocks.0.attn"; "": it has none.
        pass_number: index of the forward pass of a recorded program, from 0, if maps of several passes are kept; else
            None.
        windows: the maps of all windows of the image of which this is the first; empty: there are no others. They are
            not saved.
        queries_and_keys: the queries and keys of all tokens, from which any weight can be computed; None: not known, or
            not kept.
        sinks: keys that all queries of the text give weight; None: none, or not looked for. ``Attention.with_sinks``
            looks for them.
        chance: of sentences, turns and other spans that are no words, in the shape of ``weights``: the weights of
            uniform attention, as ``SpanNumbers`` defines them; else None.
        lookback: (n_heads, rows), lookback ratio of the queries of each such span (Chuang et al. 2024, arXiv
            2407.07071, section 2.1); NaN: it has none.
        mean_over: what it is the mean over; empty: it is no mean.
        apart: of maps with ``chance``, the columns that are no spans; None: those without any chance, as files of older
            versions have them.
    """

    weights: NDArray[np.float32]
    rows: Axis
    columns: Axis
    kind: Kind = "self"
    layer: int | None = 0
    heads: tuple[int, ...] = ()
    sentence: int | None = None
    quantity: Quantity = WEIGHT
    summary: MapSummary | None = None
    reach: int | None = None
    sink: bool = False
    to_special: NDArray[np.float32] | None = None
    module: str = ""
    pass_number: int | None = None
    queries_and_keys: QueriesAndKeys | None = None
    windows: "tuple[AttentionMap, ...]" = ()
    sinks: Sinks | None = None
    chance: NDArray[np.float32] | None = None
    lookback: NDArray[np.float32] | None = None
    mean_over: MeanOver = ()
    apart: tuple[ApartKey, ...] | None = None

    def __post_init__(self) -> None:
        if self.weights.ndim != 3:
            raise ArgumentError(
                f"weights: expected 3 axes, (n_heads, q_length, k_length), got {self.weights.ndim}: "
                f"{self.weights.shape}"
            )
        n_heads, *sizes = self.weights.shape
        sides = ("queries", "q_length", "rows", self.rows), ("keys", "k_length", "columns", self.columns)
        for (tokens, of_tokens, of_cells, axis), size in zip(sides, sizes, strict=True):
            if axis.cells is None and size != len(axis):
                raise ArgumentError(f"weights: expected axis {of_tokens} to be {len(axis)}, one per token, got {size}")
            if size != len(axis):
                raise ArgumentError(f"weights: expected axis {of_cells} to be {len(axis)}, as in cells, got {size}")
            length, special = len(axis.tokens), axis.tokens.special
            if axis.end - axis.start != length:
                raise ArgumentError(f"cells: expected {of_cells} of {length} tokens, got {axis.end - axis.start}")
            if any(not 0 <= i < length for i in special):
                raise ArgumentError(
                    f"special_{tokens}: expected positions from 0 to {length - 1}, got {min(special)} to {max(special)}"
                )
        if not self.heads:
            object.__setattr__(self, "heads", tuple(range(n_heads)))
        if len(self.heads) != n_heads:
            raise ArgumentError(f"weights: expected axis n_heads to be {len(self.heads)}, got {n_heads}")
        if self.to_special is not None and self.to_special.shape != (n_heads,):
            raise ArgumentError(
                f"to_special: expected a share for each of {n_heads} heads, got {self.to_special.shape}"
            )
        if (self.chance is None) != (self.lookback is None):
            raise ArgumentError("expected chance and lookback, or none of them")
        for name, numbers, shape in (
            ("chance", self.chance, self.weights.shape),
            ("lookback", self.lookback, self.weights.shape[:2]),
        ):
            if numbers is not None and numbers.shape != shape:
                raise ArgumentError(f"{name}: expected shape {shape}, as of the weights, got {numbers.shape}")

    def select(self, heads: tuple[int, ...]) -> "AttentionMap":
        """Return the map with only these heads, in this order.

        Raises:
            ArgumentError: the map has no such head.
        """
        rows = [self._row(head) for head in heads]
        summary = self.summary and replace(self.summary, heads=tuple(self.summary.heads[row] for row in rows))
        to_special = None if self.to_special is None else self.to_special[rows]
        kept = self.queries_and_keys and self.queries_and_keys.select(rows)
        return replace(
            self,
            weights=self.weights[rows],
            heads=heads,
            summary=summary,
            to_special=to_special,
            queries_and_keys=kept,
            windows=tuple(one.select(heads) for one in self.windows),
            chance=None if self.chance is None else self.chance[rows],
            lookback=None if self.lookback is None else self.lookback[rows],
        )

    def mean(self) -> "AttentionMap":
        """Return the mean over its heads; see ``Attention.mean``."""
        return mean_of((self,), ("heads",))[0]

    def times_uniform(self) -> "AttentionMap":
        """See ``Attention.times_uniform``."""
        if self.has_spans:
            raise ArgumentError(
                f"{self.name}: expected single tokens, got spans, such as words: sums of ratios to uniform attention "
                f"have no meaning; leave out {parameter('by')}"
            )
        if self.quantity.key != WEIGHT.key or not self.is_whole or self.to_special is not None or self.kind == "other":
            raise ArgumentError(
                f"{self.name}: expected weights of all tokens, in self-, masked or source-target attention, to know "
                f"how many keys a query sees; leave out {parameter('window')} and {parameter('pool')}, and give "
                f"{parameter('size')} {max(len(self.rows.tokens), len(self.columns.tokens))}"
            )
        hidden = np.zeros(self.weights.shape[1:], bool) if self.hidden is None else self.hidden
        has_none = self.weights == 0  # n_heads rows columns
        unknown = ~hidden & has_none & ~has_none.all(axis=2, keepdims=True)
        if unknown.any():
            place, query, key = np.argwhere(unknown)[0]
            raise ArgumentError(
                f"{self.name}: expected queries that weigh all keys, or all earlier ones, got no weight of query "
                f"{query} on key {key} in head {self.heads[place]}: whether a mask hides it or the weight is too small "
                f"for its type, and so how many keys are seen, is not known; leave the head out"
            )
        n_seen = (~hidden).sum(axis=1, keepdims=True)
        ratios = (self.weights * n_seen).astype(np.float32)
        return replace(
            self, weights=ratios, quantity=UNIFORM, summary=None, queries_and_keys=None, windows=(), sinks=None
        )

    def of_query(self, query: int | str) -> "AttentionMap":
        """See ``Attention.of_query``."""
        try:
            position = self.rows.position(query, keys=self.columns)
        except PiecesError as error:
            if is_accepted("by") and self._has_word(query):
                raise ArgumentError(f"{error}, or add {parameter('by')} word") from error
            raise
        row = self.rows.cell_of(position)
        edges = self.rows.edges[row : row + 2]
        if edges[1] - edges[0] > 1:
            raise ArgumentError(
                f"{parameter('query')}: query {position:,} shares a cell with others; give "
                f"{parameter('window') if is_accepted('window') else 'the window'} {position}:{position + 1},: where "
                f"the map is computed"
            )
        place = position - self.rows.start
        return replace(
            self,
            weights=self.weights[:, row : row + 1],
            rows=Axis(self.rows.tokens[place : place + 1], edges),
            columns=Axis(self.columns.tokens, self.columns.edges),
            summary=None,
            to_special=None,
            queries_and_keys=None,
            windows=(),
            chance=None if self.chance is None else self.chance[:, row : row + 1],
            lookback=None if self.lookback is None else self.lookback[:, row : row + 1],
        )

    def by(self, by: By) -> "AttentionMap":
        """See ``Attention.by``; sinks are those that the map knows."""
        choice = SpanChoice.of(by)
        self._require_spans_fit()
        spans_of = choice.of_text(self.sentence)
        return self.in_spans(spans_of) if choice.are_words else self._beside_chance(spans_of)

    def _knows(self, query: int | str) -> bool:
        """Return whether a word of several tokens, or a key, has the name of a query that the map lacks."""
        if not isinstance(query, str):
            return False
        try:
            self.rows.require_no_pieces(query)
        except PiecesError:
            return True
        return bool(self.columns.named(query))

    def _has_word(self, query: int | str) -> bool:
        """Return whether the map by word has this query, and so a map that is computed by word."""
        try:
            self._require_spans_fit()
            sides = [SpanSide.of(axis.tokens, words) for axis in (self.rows, self.columns)]
        except ArgumentError:
            return False
        return len(sides[0].axis.places(query)) == 1

    def _require_spans_fit(self) -> None:
        """Raise ArgumentError if the numbers of this map cannot be those of spans."""
        if self.has_spans:
            raise ArgumentError(f"{parameter('by')}: {self.name} is of spans already, such as words; leave this out")
        if not self.is_whole or self.to_special is not None:
            got = "cells of several" if self.is_pooled else "some of them"
            raise ArgumentError(
                f"{parameter('by')}: {self.name}: expected a map of all tokens, to sum their weights, got {got}; "
                f"give {parameter('by')} where the map is computed, or a larger {parameter('size')} there"
            )
        if self.quantity.is_ratio:
            raise ArgumentError(
                f"{parameter('by')}: {self.name}: sums of ratios to uniform attention have no meaning; leave this out"
            )

    def in_spans(self, spans_of: SpansOf) -> "AttentionMap":
        """Return a map of all tokens by span, as ``Attention.by``."""
        rows, columns = (SpanSide.of(axis.tokens, spans_of) for axis in (self.rows, self.columns))
        weights = np.stack([rows.means(columns.sums(one), axis=0) for one in self.weights.astype(np.float64)])
        return replace(
            self,
            weights=weights.astype(np.float32),
            rows=rows.axis,
            columns=columns.axis,
            summary=None,
            queries_and_keys=None,
            windows=(),
            sinks=None,
        )

    def _beside_chance(self, spans_of: SpansOf) -> "AttentionMap":
        """Return a map of all tokens by span, beside uniform attention, as ``Attention.by``.

        Raises:
            ArgumentError: as ``spans_of``; it is not known which keys a query sees.
        """
        if self.quantity.key not in (WEIGHT.key, MEANS[WEIGHT.key].key) or self.quantity.is_signed:
            raise ArgumentError(
                f"{parameter('by')}: {self.name}: expected weights, to show them beside those of uniform attention; "
                f"give {parameter('by')} word, or leave it out"
            )
        ahead = self._ahead if self.kind == "masked" else None
        queries, keys = spans_of_sides(self.rows.tokens, self.columns.tokens, spans_of, ahead)
        side = SpanSide.of_axis(Axis(span_tokens(queries, self.rows.tokens)), len(self.queries))
        of_keys = KeySpans.of(self.columns.tokens, keys, self.sinks)
        sums = SpanSums(side, of_keys, len(self.weights), ahead)
        seen = of_keys.side.sums(self._seen_surely.astype(np.int64))
        sums.add(0, np.stack([of_keys.side.sums(one.astype(np.float64)) for one in self.weights]), seen[None])
        found = sums.result()
        return replace(
            self,
            weights=found.mass.astype(np.float32),
            rows=side.axis,
            columns=of_keys.side.axis,
            summary=None,
            queries_and_keys=None,
            windows=(),
            sinks=of_keys.sinks,
            chance=found.chance.astype(np.float32),
            lookback=found.lookback.astype(np.float32),
            apart=of_keys.apart,
        )

    @property
    def _seen_surely(self) -> NDArray[np.bool_]:
        """``seen``. Raises ArgumentError if a key that no mask is known to hide has no weight in any head."""
        seen = self.seen
        unknown = seen & ~self._has_weight & self._has_weight.any(axis=1, keepdims=True)
        if unknown.any():
            query, key = np.argwhere(unknown)[0]
            raise ArgumentError(
                f"{parameter('by')}: {self.name}: expected weight on each key that a query sees, to compare it with "
                f"uniform attention, got none of query {query} on key {key}, which a mask may hide; give "
                f"{parameter('by')} where the map is computed"
            )
        return seen

    def to_attention(self) -> "Attention":
        """Return an ``Attention`` that holds only this map."""
        return Attention(Source(""), (self,))

    @property
    def name(self) -> str:
        """Name of the map among those of its attention: "layer 0, self", "sentence 2, layer 0, self, max"."""
        return self._named(f"{self._layer_prefix}{self.kind}", "sentence")

    @property
    def shown_name(self) -> str:
        """``name`` as it is displayed: the sentences of a recorded program are called examples, as of a batch."""
        return self._named(f"{self._layer_prefix}{self.kind}", self.text_name)

    def name_of(self, head: int) -> str:
        """Return the displayed name of one head, "example 2, self L0 H3"; that of the map where it is of all heads."""
        if self.quantity.of_all_heads:
            return self.shown_name
        return self._named(f"{self.kind} {head_name(self.layer, head)}", self.text_name)

    def short_name_of(self, head: int) -> str:
        """Return the name of one head among those of its text, "L0 H3"; "mean" of a mean over layers."""
        return "mean" if self.layer is None else head_name(self.layer, head)

    @property
    def text_name(self) -> str:
        """What its sentence is called: an example where it is recorded."""
        return text_name(self.is_recorded)

    @property
    def layer_text(self) -> str:
        """Name of its layer, "layer 3"; of a mean over layers their number, "6 layers"."""
        return f"layer {self.layer}" if self.layer is not None else counted(self._n_layers, "layer")

    @property
    def _n_layers(self) -> int:
        return dict(self.mean_over).get("layers") or 1

    @property
    def title_prefix(self) -> str:
        """Start of a title, before the kind of attention, "mean over heads of norms of "; "" for weights of heads."""
        return title_prefix(self.mean_over, self.quantity)

    @property
    def _layer_prefix(self) -> str:
        return "" if self.layer is None else f"{self.layer_text}, "  # a mean over layers is named by their number

    def _named(self, what: str, text: str) -> str:
        which = mean_text(self.mean_over, with_heads=False)
        which += ", " * bool(which)
        which += "" if self.pass_number is None else f"pass {self.pass_number}, "
        which += "" if self.sentence is None else f"{text} {self.sentence}, "
        quantity = "" if self.quantity.key == WEIGHT.key else f", {self.quantity.key}"
        return f"{which}{what}{quantity}{', max' * (self.quantity.reduction == 'max')}"

    @property
    def is_recorded(self) -> bool:
        """Whether the map was recorded from a running program, so that its sentences are examples of a batch."""
        return bool(self.module) or self.pass_number is not None

    @property
    def queries(self) -> tuple[str, ...]:
        """Texts of the tokens of the rows."""
        return self.rows.tokens.texts

    @property
    def keys(self) -> tuple[str, ...]:
        """Texts of the tokens of the columns."""
        return self.columns.tokens.texts

    @property
    def cells(self) -> Cells:
        """Axes and quantity of the map, without its numbers."""
        return Cells(self.rows, self.columns, self.quantity)

    @property
    def is_whole(self) -> bool:
        """Whether each query has a row and each key a column: the map is neither a window nor pooled."""
        return self.rows.cells is None and self.columns.cells is None

    @property
    def has_spans(self) -> bool:
        """Whether its queries and keys are spans of tokens, such as words."""
        return bool(self.rows.tokens.ranges or self.columns.tokens.ranges)

    @property
    def are_apart(self) -> NDArray[np.bool_]:
        """Whether a column of a map by span is of a sink or of the rest, which have no chance, (n_keys,)."""
        if self.chance is None:
            return np.zeros(len(self.keys), np.bool_)
        if self.apart is not None:
            return np.isin(np.arange(len(self.keys)), [one.column for one in self.apart])
        return np.asarray(np.isnan(self.chance).all(axis=(0, 1)))

    @property
    def is_pooled(self) -> bool:
        """Whether a cell covers more than one query or key."""
        return not self.cells.are_tokens

    @property
    def are_sums(self) -> bool:
        """Whether its numbers are sums over the keys of a cell, and so grow with the cells."""
        return self.is_pooled and self.quantity.reduction == "mass"

    @property
    def has_rest(self) -> bool:
        """Whether rows may sum to less than 1, as the rest goes to a sink, to special tokens or to keys not shown."""
        return not self.is_whole or self.sink or self.to_special is not None

    @property
    def row_sums(self) -> NDArray[np.float64]:
        """Sum of each row of each head, (n_heads, rows)."""
        return np.asarray(self.weights.sum(axis=-1, dtype=np.float64))

    @property
    def hidden(self) -> NDArray[np.bool_] | None:
        """Cells ``beyond`` what their queries may see, without any weight, (rows, columns); None: there is no mask."""
        return None if self.beyond is None else self.beyond & ~self._has_weight

    @property
    def weighed_beyond(self) -> NDArray[np.bool_] | None:
        """Cells ``beyond`` what their queries may see that have weight, (rows, columns); None: there is no mask.

        A mask hides no key where it hides all keys of a query by the same number, and a file may hold anything.
        """
        return None if self.beyond is None else self.beyond & self._has_weight

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Cells that their queries see, (rows, columns); where masks are not known, those with weight."""
        if self.kind == "other":
            return self._has_weight
        return np.broadcast_to(np.True_, self.weights.shape[1:]) if self.hidden is None else ~self.hidden

    @cached_property
    def _has_weight(self) -> NDArray[np.bool_]:
        """Whether the number of some head is not 0, (rows, columns); NaN is no number."""
        return np.asarray(((self.weights < 0) | (self.weights > 0)).any(axis=0))

    @cached_property
    def beyond(self) -> NDArray[np.bool_] | None:
        """Cells all of whose keys are later than all of their queries, or outside their window, (rows, columns).

        None: there is no mask. In a masked map the last query is aligned with the last key, as in a decoder with a
        cache; in a window of a map or a pooled map the last positions may be unknown. A rollout goes through several
        layers and beyond the sliding window of one, so that only later keys count.
        """
        reach = None if self.quantity.through_layers else self.reach
        if self.kind != "masked" and reach is None:
            return None
        (first_keys, last_keys), ahead = self.columns.bounds, self._ahead
        first_queries, last_queries = (side[:, None] + ahead for side in self.rows.bounds)
        beyond = np.zeros((len(first_queries), len(first_keys)), np.bool_)
        if self.kind == "masked":
            beyond |= first_keys > last_queries
        if reach is not None:
            beyond |= (first_keys - last_queries > reach) | (first_queries - last_keys > reach)
        return beyond

    @property
    def _ahead(self) -> int:
        """Position of the first query of a masked map among the keys, as far as it is known; else 0."""
        if self.kind == "masked" and self.queries_and_keys is not None:  # which are of all tokens
            kept = self.queries_and_keys
            return int(kept.key.codes.shape[1] - kept.query.codes.shape[1])
        if self.kind == "masked" and self.is_whole:
            return int(self.columns.bounds[1].max() - self.rows.bounds[1].max())
        return 0

    @property
    def begins(self) -> bool:
        """Whether the first column is of position 0 of the input. Where special tokens inside a text were left out, the
        columns are numbered anew, and the first of the text may follow one."""
        is_renumbered = self.to_special is not None and self.columns.cells is None
        return self.columns.start == 0 and not is_renumbered

    @property
    def aside(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Columns with the first key of a text, and those with special tokens, (columns,) each: heads give these
        whatever weight they do not need elsewhere. The first patch of an image is a key like any other."""
        of_first, of_special = np.zeros((2, len(self.columns)), np.bool_)
        tokens = self.columns.tokens
        of_first[0] = self.begins and not tokens.begins_image
        of_special[np.searchsorted(self.columns.edges, np.add(tokens.special, self.columns.start), "right") - 1] = True
        return of_first, of_special

    def columns_of_weights(self, further: Collection[str] = ()) -> dict[str, NDArray[Any]]:
        """Return each weight with its query, key and head, as columns of equal length: head by head, row by row.

        ``further``: names of ``Attention.further_columns``.
        """
        query, key, weights = self.rows.edges[:-1], self.columns.edges[:-1], self.weights
        query_names = np.array(self.queries, object)[query - query[0]]
        key_names = np.array(self.keys, object)[key - key[0]]
        n_heads, rows, columns = weights.shape
        of_program = {
            "module": np.full(weights.size, self.module, object),
            "pass": np.full(weights.size, None if "passes" in dict(self.mean_over) else self.pass_number or 0),
        }
        counts = (axis.tokens.counts or np.ones(len(axis), np.int64) for axis in (self.rows, self.columns))
        of_queries, of_keys = (
            np.add.reduceat(n, cells - cells[0]) for n, cells in zip(counts, (query, key), strict=True)
        )
        of_spans = {
            "mean_over": np.full(weights.size, mean_text(self.mean_over).removeprefix("mean over "), object),
            "query_tokens": np.tile(np.repeat(of_queries, columns), n_heads),
            "key_tokens": np.tile(of_keys, n_heads * rows),
            "chance": np.full(weights.size, np.nan, np.float32) if self.chance is None else self.chance.reshape(-1),
        }
        of_all = {
            "sentence": np.full(weights.size, None if averages_texts(self.mean_over) else self.sentence or 0),
            "layer": np.full(weights.size, self.layer),
            "kind": np.full(weights.size, self.kind, object),
            "head": np.repeat(self.heads, rows * columns),
            "query": np.tile(np.repeat(query_names, columns), n_heads),
            "key": np.tile(key_names, n_heads * rows),
            "query_position": np.tile(np.repeat(query, columns), n_heads),
            "key_position": np.tile(key, n_heads * rows),
            "quantity": np.full(weights.size, self.quantity.key, object),
            "reduction": np.full(weights.size, self.quantity.reduction, object),
            "weight": weights.reshape(-1),
        }
        first, last = ({name: x for name, x in of.items() if name in further} for of in (of_program, of_spans))
        number = of_all.popitem()
        return first | of_all | last | dict([number])

    def _row(self, head: int) -> int:
        if head not in self.heads:
            raise ArgumentError(f"expected a head from 0 to {max(self.heads)}, got {head}")
        return self.heads.index(head)


@dataclass(frozen=True)
class Attention(Result):
    """Attention maps of one source, in order."""

    source: Source
    maps: tuple[AttentionMap, ...]

    def __len__(self) -> int:
        return len(self.maps)

    def __getitem__(self, place: int) -> AttentionMap:
        """Return a map by its index. With one sentence, 0 is the first layer."""
        return self.maps[place]

    def __iter__(self) -> Iterator[AttentionMap]:
        return iter(self.maps)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        from mhaviz.results.saved_form import describe

        return {"maps": [describe(m) | {"weights": m.weights} for m in self.maps]}

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return all numbers in long form, one row each. The columns are sentence, layer, kind, head, query, key,
        query_position, key_position, quantity, reduction and the number itself, weight. A recording has the columns
        module and, with several passes, pass before them. Before the last, means have mean_over, what they are over,
        maps by word or other spans query_tokens and key_tokens, the numbers of their tokens, and those of other spans
        chance, the weight of uniform attention. What is averaged has no number.

        Positions in pooled maps are those of the first token of a cell; by word they count words. Raises MhavizError
        without pandas.
        """
        pandas = require_pandas()
        frames = [pandas.DataFrame(m.columns_of_weights(self.further_columns)) for m in self.maps]
        return pandas.concat(frames, ignore_index=True)

    @property
    def further_columns(self) -> tuple[str, ...]:
        """Columns that some tables have in addition: "module" and "pass" of a recorded program, as far as they are
        known; "mean_over" of means; "query_tokens" and "key_tokens" of maps by word or other spans, but of means over
        texts or passes, whose spans have other numbers of tokens; and "chance" of spans that are no words."""
        has_spans = any(m.has_spans and not averages_inputs(m.mean_over) for m in self.maps)
        has = {
            "module": any(m.module for m in self.maps),
            "pass": any(m.pass_number is not None for m in self.maps),
            "mean_over": any(m.mean_over for m in self.maps),
            "query_tokens": has_spans,
            "key_tokens": has_spans,
            "chance": any(m.chance is not None for m in self.maps),
        }
        return tuple(name for name, is_known in has.items() if is_known)

    def select(self, head: Numbers = None, layer: Numbers = None) -> "Attention":
        """Return the maps of some layers, with some heads. A map that lacks some of the heads keeps the others.

        Args:
            head, layer: one index or several; None: all.

        Raises:
            ArgumentError: there is no such layer, or none of its maps has such a head.
        """
        layers = sorted({m.layer for m in self.maps if m.layer is not None})
        if layer is not None and not layers:
            raise ArgumentError(f"{parameter('layer')}: the maps are means over layers; leave this out")
        chosen_layers = None if layer is None else require_numbers("layer", layer, layers, "the maps have")
        maps = tuple(m for m in self.maps if chosen_layers is None or m.layer in chosen_layers)
        if head is None:
            return replace(self, maps=maps)
        heads = require_numbers("head", head, sorted({number for m in maps for number in m.heads}), "the maps have")
        chosen = [(m, tuple(number for number in heads if number in m.heads)) for m in maps]
        return replace(self, maps=tuple(m if m.heads == those else m.select(those) for m, those in chosen if those))

    def mean(self, *over: str) -> "Attention":
        """Return the mean over heads, or over what is named, for all else that maps differ in.

        Sums are of float64. A rollout already combines all heads; its mean over heads is itself.

        Args:
            over: "heads", also where nothing is named; "layers", with "heads", as head 3 of one layer has nothing to do
                with head 3 of another: each head counts the same; "sentences", or of a recorded batch "examples";
                "passes" of a recorded program. Texts of different words must have as many tokens: labels that all share
                stay, others become positions. Texts by span, as ``by`` gives them, are matched by the names of their
                spans.

        Raises:
            ArgumentError: there is no such mean: a map is pooled by the largest weight, as the mean of maxima is not
                the maximum of means; layers have several heads, which are not averaged; there is one text, or one pass;
                texts have other numbers of tokens, or other spans; or maps have different masks, or other tokens in
                other layers.

        Examples:
            >>> attention = mhaviz.attend("random", ["the cat sat", "a dog ran"])
            >>> mean = attention.mean("heads", "sentences")
            >>> mean[0].weights.shape, mean[0].keys
            ((1, 3, 3), ('0', '1', '2'))
        """
        names = require_averaged(over or ("heads",))
        remarks = filter(None, [mean_remark(self.maps, names), self.source.remark])
        source = replace(self.source, remark="; ".join(remarks))
        return replace(self, maps=mean_of(self.maps, names), source=source)

    def times_uniform(self) -> "Attention":
        """Multiply each weight by the number of keys that its query sees: 1 is the weight of uniform attention.

        Raises:
            ArgumentError: the numbers are not weights, a map is pooled or a window, or it is not known which keys a
                query sees.
        """
        return replace(self, maps=tuple(m.times_uniform() for m in self.maps))

    def by(self, by: By) -> "Attention":
        """Return the maps by span: each weight is the sum over the tokens of a key, the mean over those of a query.

        A row of all keys still sums to 1. Norms are summed as well; positions count spans. Weights by span, but for
        words, have ``chance`` beside them, what uniform attention would give; keys in no span are a column "(rest)",
        and each of the ``sinks`` has a column.

        Args:
            by: "word": the pieces of a word are joined, as the tokenizer tells, or letters, apostrophes and hyphens
                between blanks; special tokens and punctuation stay as they are. "sentence" or "line"; "turn": a message
                of a chat, a text of a pair, a prompt or what the model has written after it. Or a list of spans such as
                {"name": "document 1", "tokens": [12, 80]}, or with "characters" or "text" in place of "tokens"; or such
                a list for each text.

        Raises:
            ArgumentError: a map is not of all tokens; tokens have no names, or most words no blanks between them; a
                text has no turns; a named span is empty, outside of the text, not in it or in it twice, cuts a token,
                or has one of another; sums of the numbers have no meaning, such as of ratios to uniform attention.
        """
        maps = self.maps if SpanChoice.of(by).are_words else self.with_sinks().maps
        return replace(self, maps=tuple(m.by(by) for m in maps))

    @cached_property
    def sinks(self) -> tuple[Sinks | None, ...]:
        """Sinks of each map: keys that take weight from all queries of its text alike, as ``results.sinks`` defines
        them; None: none."""
        return sinks_of(self.maps)

    def with_sinks(self) -> "Attention":
        """Return maps that know their sinks, found over all layers and heads that this attention has."""
        return self._with_sinks

    @cached_property
    def _with_sinks(self) -> "Attention":
        maps = tuple(replace(m, sinks=sinks) for m, sinks in zip(self.maps, self.sinks, strict=True))
        return replace(self, maps=maps)

    def of_query(self, query: int | str) -> "Attention":
        """Return the attention of one query to all keys, in the maps that have this query: one row for each head.

        Args:
            query: the text of a token, "the #3" or "the₃" as pictures write it, or its position, 3 or "#3". Digits are
                first looked up as a text.

        Raises:
            ArgumentError: no map has the query, it occurs several times, or its cell covers several queries.
        """
        maps = self.with_sinks().maps
        those = [m for m in maps if m.rows.places(query)]
        if not those:
            those = [next((m for m in maps if m._knows(query)), maps[0])]
        return replace(self, maps=tuple(m.of_query(query) for m in those))

    def answer(self, query: int | str) -> "Answer":
        """Return what a word looks at: of its mean weight over all heads, what each word gets, and the heads that look
        at some word from it, and not as much from others.

        Weights are by word, as of ``by``; of a text in which blanks do not tell words, such as Chinese, by token.
        Special tokens and ``sinks`` are set aside. A head is ranked if its strongest other word has more than 2 × the
        mean weight of what other words give the same word, and of what they give the word at the same distance, as far
        as at least three of them see it. Texts that have the word but cannot tell are left out, and named.

        Args:
            query: the text of a word, or what stands between blanks, such as "3.50" or an address, which is then one
                word; "the #3" as pictures write it; the text of a token in a word; or a token's position, 3 or "#3".
                Digits are first looked up as a text. Of maps by word, positions are of words, which stay as they are.

        Raises:
            ArgumentError: maps are not of all tokens of a text, or not of weights of single heads; no map has the word,
                or a text has it several times; the query sees fewer than four words in each text, or its weights are
                NaN.

        Examples:
            >>> attention = mhaviz.attend("random", "the cat sat on my mat")
            >>> look = attention.answer("cat").looks[0]
            >>> look.mean.shape, look.heads[0].weights.shape  # (n_keys,)
            ((6,), (6,))
        """
        from mhaviz.results.answer import answer

        return answer(self, query)

    def lines(self, query: int | str | None = None) -> "Lines":
        """Return the links between words: weights of at least 0.10, for which a picture has lines.

        Weights are by word, and words as in ``answer``. Special tokens and ``sinks`` are set aside. Without a query,
        these are the links from all words, of at most eight heads and 30 words; choose heads by ``select``. Heads whose
        links carry less than a fifth of their weight on words are left out, and heads with NaN; a text of which all
        heads are left out has none in ``Lines.texts``.

        Args:
            query: as in ``answer``: links of this word alone, at most three of a head, of ``Look.shown``.

        Raises:
            ArgumentError: as ``answer``; more than eight heads or 30 words, or fewer than four to look at; no text has
                heads that are not left out.

        Examples:
            >>> attention = mhaviz.attend("random", "the cat sat on my mat").select(head=0)
            >>> text = attention.lines().texts[0]
            >>> [link.weight >= 0.1 for link in text.heads[0].links][:2]
            [True, True]
        """
        from mhaviz.results.lines import lines

        return lines(self, query)

    def over_image(
        self,
        image: object = None,
        query: "QueryChoice" = None,
        *,
        key: "QueryChoice" = None,
        layer: Numbers = None,
        head: Numbers = None,
        grid: "Grid | None" = None,
        mean: str | Sequence[str] | None = None,
    ) -> "ImageAttention":
        """Return the attention of a query to the patches of images, or of patches to a key, to be drawn over these.

        Of what a head gives all patches, each patch has a share, also as a multiple of uniform attention: 1 is what it
        would have if all patches that the query sees had the same. Other keys, such as a class token, words and
        ``sinks``, are set aside, and what they take is stated. The fewest patches that hold half are outlined; where
        they are 0.4 of all or more, attention is even, and none is. A grid of patches is stretched over its part of the
        image, all of it unless the model divides it into tiles: if the model crops the image, pass the cropped one.

        Args:
            image: a path; a PIL image; a uint8 array (height, width) or (height, width, 1, 3 or 4 channels); a list of
                images, or an animated one, where patches are of several, such as the frames of a video. None: no image
                is drawn, only maps of its patches.
            query: a position, 69 or "#69"; a patch, (row, column), "row,column" or, of one of several views,
                "thumbnail 3,11"; or a word, of whose tokens it is the mean. None: the class token if there is one; in
                a decoder that reads an image among words, the mean over the queries after the last patch; else that
                over all queries. Of maps with several of these, those of a decoder are drawn. A patch that is in one of
                several windows selects the map of this window.
            key: the same, in place of a query: what each patch gives this key, where queries are patches, such as a
                word of the prompt of a diffusion model. Maps in which it is the place of a patch are left out if it is
                a word in others.
            layer, head: as in ``select``.
            grid: rows and columns of patches, and the position of the first of them, (14, 14, 1), where maps do not
                know their patches. Without the position, only tokens that are known to be special may be beside them.
            mean: as of the method ``mean``: "heads", "layers", "passes", "sentences" or "examples", or several. Where
                layers have other numbers of patches, each of a coarser grid divides its weight among those over it.

        Raises:
            ArgumentError: it is not known which tokens are patches, or the grid does not fit them; a map is pooled, a
                window, or of words; there is no such query, key, layer or head, or a query and a key; there is another
                number of images than the patches are of; the image has another type.
            MhavizError: the image cannot be read.
        """
        from mhaviz.results.image import over_image

        return over_image(self, image, query, key=key, layer=layer, head=head, grid=grid, mean=mean)
