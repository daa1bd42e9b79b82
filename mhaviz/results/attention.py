"""Attention weights with the tokens that they stand between."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import Kind
from mhaviz.numbering import Numbers, listed_numbers, require_numbers
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import MEANS, UNIFORM, WEIGHT, Cells, Quantity
from mhaviz.results.queries_and_keys import QueriesAndKeys
from mhaviz.results.result import Result, Source, require_pandas
from mhaviz.results.summary import MapSummary

if TYPE_CHECKING:
    import pandas

    from mhaviz.results.image import ImageAttention, QueryChoice

ROUNDING = 2**-8
"""How far the sum of a row of weights may be from 1: twice the largest relative error of bfloat16, the coarsest type
that weights come in."""

LARGEST = 1e30
"""What is drawn is at most this: sums of millions of such numbers are still finite in float32."""


@dataclass(frozen=True)
class AttentionMap(Result):
    """The numbers of one layer on one sentence, or on one pair of sentences: all of them, a part, or pooled to cells.

    Attributes:
        weights: float32, (n_heads, rows, columns): the numbers. Of weights of all tokens each row sums to 1, or to 0
            where a query sees no key, or to less than 1 with a ``sink``; other numbers are what ``quantity`` says.
        rows: the queries.
        columns: the keys.
        kind: "self"; "masked", when a query sees no later key; "cross", when the keys are another sentence; "other":
            see ``Kind``.
        layer: counted from 0.
        heads: the numbers of the heads in ``weights``, in order.
        sentence: which of several sentences, counted from 0; None if there is one.
        quantity: what the numbers are.
        summary: of each head, if it was asked for.
        reach: a query sees no key that is more positions away than this (a sliding window); None: all.
        sink: whether the softmax has a place that is no key, so that a row sums to less than 1 (gpt-oss).
        to_special: (n_heads,): the mean share of a row that goes to special tokens, where these have been cropped away;
            else None.
        module: what the program that was recorded calls the attention, "blocks.0.attn"; nothing where it has no name.
        pass_number: of which forward pass of a program, counted from 0, where maps of several are kept; else None.
        queries_and_keys: what the weights are computed from, of all tokens, for those who want more of them than is
            drawn; None: it is not known, or nobody has asked for it.
    """

    weights: NDArray[np.float32]
    rows: Axis
    columns: Axis
    kind: Kind = "self"
    layer: int = 0
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
                raise ArgumentError(f"weights: expected axis {of_tokens} to be {len(axis)}, one a token, got {size}")
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

    def select(self, heads: tuple[int, ...]) -> "AttentionMap":
        """The same map with only these heads, in this order.

        Raises:
            ArgumentError: the map has no such head.
        """
        rows = [self._row(head) for head in heads]
        summary = self.summary and replace(self.summary, heads=tuple(self.summary.heads[row] for row in rows))
        to_special = None if self.to_special is None else self.to_special[rows]
        kept = self.queries_and_keys and self.queries_and_keys.select(rows)
        return replace(
            self, weights=self.weights[rows], heads=heads, summary=summary, to_special=to_special, queries_and_keys=kept
        )

    def mean(self) -> "AttentionMap":
        """See ``Attention.mean``."""
        if self.quantity.of_all_heads:
            return self
        if self.quantity.reduction == "max" and self.is_pooled:
            raise ArgumentError(
                f"{self.name}: the mean of the largest weights of heads is not the largest mean; pool by mass"
            )
        mean = self.weights.mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32)
        shares = None if self.to_special is None else self.to_special.mean(keepdims=True)
        return replace(
            self,
            weights=mean,
            heads=(0,),
            quantity=replace(MEANS[self.quantity.key], reduction=self.quantity.reduction),
            summary=None,
            to_special=shares,
            queries_and_keys=None,
        )

    def times_uniform(self) -> "AttentionMap":
        """See ``Attention.times_uniform``."""
        if self.quantity.key != WEIGHT.key or not self.is_whole or self.to_special is not None or self.kind == "other":
            raise ArgumentError(
                f"{self.name}: how many keys a query sees is known of weights of all tokens, in self-, masked or "
                f"source-target attention; leave out {parameter('window')} and {parameter('pool')}, and give "
                f"{parameter('size')} {max(len(self.rows.tokens), len(self.columns.tokens))}"
            )
        hidden = self.hidden
        n_seen = np.array([[len(self.columns)]]) if hidden is None else (~hidden).sum(axis=1, keepdims=True)
        ratios = (self.weights * n_seen).astype(np.float32)
        return replace(self, weights=ratios, quantity=UNIFORM, summary=None, queries_and_keys=None)

    def of_query(self, query: int | str) -> "AttentionMap":
        """See ``Attention.of_query``."""
        position = self.rows.position(query)
        row = self.rows.cell_of(position)
        edges = self.rows.edges[row : row + 2]
        if edges[1] - edges[0] > 1:
            raise ArgumentError(
                f"{parameter('query')}: query {position:,} shares a cell with others; give "
                f"{parameter('window')} {position}:{position + 1},: where the map is computed"
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
        )

    def to_attention(self) -> "Attention":
        """It alone, as which it is shown."""
        return Attention(Source(""), (self,))

    @property
    def name(self) -> str:
        """What tells it from the other maps of its attention: "layer 0, self", "sentence 2, layer 0, self, max"."""
        sentence = "" if self.pass_number is None else f"pass {self.pass_number}, "
        sentence += "" if self.sentence is None else f"sentence {self.sentence}, "
        quantity = "" if self.quantity.key == WEIGHT.key else f", {self.quantity.key}"
        largest = ", max" if self.quantity.reduction == "max" else ""
        return f"{sentence}layer {self.layer}, {self.kind}{quantity}{largest}"

    @property
    def shown_name(self) -> str:
        """``name`` for people: what is seen at once by a program that ran are examples of a batch."""
        return self.name.replace("sentence ", "example ") if self.is_recorded else self.name

    @property
    def is_recorded(self) -> bool:
        """Whether it is of a program that ran: its texts are examples of a batch."""
        return bool(self.module) or self.pass_number is not None

    @property
    def queries(self) -> tuple[str, ...]:
        """The tokens of the rows."""
        return self.rows.tokens.texts

    @property
    def keys(self) -> tuple[str, ...]:
        """The tokens of the columns."""
        return self.columns.tokens.texts

    @property
    def cells(self) -> Cells:
        """What its cells stand for."""
        return Cells(self.rows, self.columns, self.quantity)

    @property
    def is_whole(self) -> bool:
        """Whether it is of all queries and all keys, a row and a column each: neither a part nor pooled."""
        return self.rows.cells is None and self.columns.cells is None

    @property
    def is_pooled(self) -> bool:
        """Whether a cell stands for more than one query or key."""
        return not self.cells.are_tokens

    @property
    def has_rest(self) -> bool:
        """Whether rows may sum to less than 1: the rest goes to a sink, special tokens or other parts."""
        return not self.is_whole or self.sink or self.to_special is not None

    @property
    def row_sums(self) -> NDArray[np.float64]:
        """What each row of each head sums to, (n_heads, rows)."""
        return np.asarray(self.weights.sum(axis=-1, dtype=np.float64))

    @property
    def hidden(self) -> NDArray[np.bool_] | None:
        """Where a mask hides all keys of a cell from all its queries, (rows, columns); None if there is no mask.

        Queries and keys are lined up at their ends in a masked map, as in a decoder with a cache. Of a part of a map or
        of cells of many tokens, the ends are not known where there are more keys than queries: what has weight is not
        hidden. What comes through several layers reaches farther than the window of one: there only later keys are
        hidden.
        """
        reach = None if self.quantity.through_layers else self.reach
        if self.kind != "masked" and reach is None:
            return None
        query_edges, key_edges = self.rows.edges, self.columns.edges
        if self.kind == "masked" and self.queries_and_keys is not None:  # which are of all tokens
            kept = self.queries_and_keys
            query_edges = query_edges + kept.key.codes.shape[1] - kept.query.codes.shape[1]
        elif self.kind == "masked" and self.is_whole:
            query_edges = query_edges + len(self.keys) - len(self.queries)
        first_queries, last_queries = query_edges[:-1, None], query_edges[1:, None] - 1
        first_keys, last_keys = key_edges[:-1], key_edges[1:] - 1
        hidden = np.zeros((len(first_queries), len(first_keys)), np.bool_)
        if self.kind == "masked":
            hidden |= first_keys > last_queries
        if reach is not None:
            hidden |= (first_keys - last_queries > reach) | (first_queries - last_keys > reach)
        if self.queries_and_keys is None and not self.is_whole and query_edges[-1] < key_edges[-1]:
            hidden &= ~self.weights.any(axis=0)
        return hidden

    def columns_of_weights(self, recorded: Collection[str] = ()) -> dict[str, NDArray[Any]]:
        """Every weight with what it stands between, as columns of equal length: head by head, row by row.

        ``recorded``: columns of a program that ran, "module" and "pass", that stand before the others.
        """
        query, key, weights = self.rows.edges[:-1], self.columns.edges[:-1], self.weights
        query_names = np.array(self.queries, object)[query - query[0]]
        key_names = np.array(self.keys, object)[key - key[0]]
        n_heads, rows, columns = weights.shape
        of_program = {
            "module": np.full(weights.size, self.module, object),
            "pass": np.full(weights.size, self.pass_number or 0),
        }
        return {name: of_program[name] for name in recorded} | {
            "sentence": np.full(weights.size, 0 if self.sentence is None else self.sentence),
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

    def _row(self, head: int) -> int:
        if head not in self.heads:
            raise ArgumentError(f"expected a head from 0 to {max(self.heads)}, got {head}")
        return self.heads.index(head)


@dataclass(frozen=True)
class Attention(Result):
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

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        from mhaviz.results.saved_form import describe

        return {"maps": [describe(m) | {"weights": m.weights} for m in self.maps]}

    def to_dataframe(self) -> "pandas.DataFrame":
        """All numbers in long form, a row each: sentence, layer, kind, head, query, key, their positions, the quantity
        and how it was pooled, and the number itself, "weight"; of a recording the module stands before them, and the
        pass, if there are several.

        Of pooled maps positions are those where cells begin. Raises MhavizError if pandas is not installed.
        """
        pandas = require_pandas()
        frames = [pandas.DataFrame(m.columns_of_weights(self.recorded_columns)) for m in self.maps]
        return pandas.concat(frames, ignore_index=True)

    @property
    def recorded_columns(self) -> tuple[str, ...]:
        """What tables say of a program that ran, beside what they say of all maps: "module", "pass", or nothing."""
        has = {
            "module": any(m.module for m in self.maps),
            "pass": any(m.pass_number is not None for m in self.maps),
        }
        return tuple(name for name, is_known in has.items() if is_known)

    def select(self, head: Numbers = None, layer: Numbers = None) -> "Attention":
        """The maps of these layers, with these heads alone, where one map may have fewer of them than another.

        Raises:
            ArgumentError: there is no such layer, or no such head in any of its maps.
        """
        layers = require_numbers("layer", layer, sorted({m.layer for m in self.maps}), "the maps have")
        maps = tuple(m for m in self.maps if m.layer in layers)
        if head is None:
            return replace(self, maps=maps)
        heads = require_numbers("head", head, sorted({number for m in maps for number in m.heads}), "the maps have")
        chosen = [(m, tuple(number for number in heads if number in m.heads)) for m in maps]
        return replace(self, maps=tuple(m if m.heads == those else m.select(those) for m, those in chosen if those))

    def mean(self) -> "Attention":
        """The mean over the heads of each map, one matrix a layer; a rollout, which is of all heads, stays.

        Raises:
            ArgumentError: cells of the largest weights, whose mean is not the largest of the means.
        """
        maps = tuple(m.mean() for m in self.maps)
        heads = {m.heads for m in self.maps if not m.quantity.of_all_heads}
        remark = "; ".join(f"mean of {listed_numbers('head', numbers)}" for numbers in sorted(heads))
        source = replace(self.source, remark="; ".join(filter(None, [remark, self.source.remark])))
        return replace(self, maps=maps, source=source)

    def times_uniform(self) -> "Attention":
        """Each weight times the number of keys that its query sees: 1 where it gives all of them the same.

        Raises:
            ArgumentError: other numbers than weights; pooled maps, or parts; what a query sees is not known.
        """
        return replace(self, maps=tuple(m.times_uniform() for m in self.maps))

    def of_query(self, query: int | str) -> "Attention":
        """What one query gives to all keys, of the maps that have it: a row a head.

        Args:
            query: a token's text, or its position, 3 or "#3"; a text of digits is the token, if there is one.

        Raises:
            ArgumentError: no map has it, it occurs several times, or it shares a cell with others.
        """
        those = [m for m in self.maps if m.rows.places(query)] or self.maps[:1]
        return replace(self, maps=tuple(m.of_query(query) for m in those))

    def over_image(
        self,
        image: object,
        query: "QueryChoice" = None,
        *,
        layer: int | None = None,
        head: int | Sequence[int] | None = None,
        grid: tuple[int, int] | None = None,
    ) -> "ImageAttention":
        """What a query gives to the patches of an image, laid over this image.

        Nobody knows how the model's own preparation has cut the image: it is stretched to the grid of patches. Where
        the model crops, give the image as it was cropped.

        Args:
            image: a path; an image of PIL; a uint8 array (height, width), or with 1, 3 or 4 channels after them.
            query: a position among all tokens, a patch as (row, column) or "row,column", or a token's text. None: the
                first token that is no patch, such as a class token. Without one, and where the queries are a text, the
                mean over all queries.
            layer, head: as in ``select``.
            grid: rows and columns of patches, where the maps do not know them: tokens before the last rows × columns
                are then no patches.

        Raises:
            ArgumentError: no grid, or one that does not fit the number of tokens; maps that are pooled, parts, or of a
                text; a query, layer or head that is not there; an image of another kind.
            MhavizError: the image cannot be read.
        """
        from mhaviz.results.image import over_image

        return over_image(self, image, query, layer=layer, head=head, grid=grid)
