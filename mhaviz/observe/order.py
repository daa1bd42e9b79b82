"""The roles of the axes of scores: heads, batch, queries and keys, and which tokens the queries and keys are.

The factors of the features that are summed over are heads, wherever they stand. All else before the queries is batch:
examples, windows, points in time. Neither the place of the batch in a model's input nor equal sizes matter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from torch import Tensor

from mhaviz.errors import MhavizError
from mhaviz.observe.axes import (
    Axis,
    Cut,
    Layout,
    Origin,
    are_made,
    are_tokens,
    has_features,
    has_rows,
    origins_of,
)
from mhaviz.observe.compared import Compared


@dataclass(frozen=True)
class Order:
    """Which axes before the queries, and which part of the axis of the queries, are of heads; all else is batch.

    Attributes:
        before: for each axis before the queries, the length of each factor, and whether it is of heads.
        query: factors of the axis of the queries, likewise; empty: it holds no heads.
        called: what queries and keys are: "channel" for the features of a head, "head" for the heads of one token,
            "row" for parts of features that may be heads, "" for tokens.
        windows: how many windows of each example the batch is known to hold; 1: none, or not known.
        tokens: the tokens that queries and keys are.
        heads: which of a layer's heads these are; a step of 0: in an unknown order, of some or all; None: all are
            there, or not known.
        scores: the number of the product of queries and keys, and which of its factors the keys are in; None: not
            known.
        is_assumed: whether batch and heads are assumed to stand as PyTorch has them, as nothing tells.
        steps: distance of heads among the features, for each factor of heads before the queries, where these stand in
            another order than the features; empty: they do not, or not known.
        is_split: whether all heads are known to be factors of the features that queries or keys have.
        is_numbered: whether heads are known to be in the order of the features.
    """

    before: tuple[tuple[tuple[int, bool], ...], ...]
    query: tuple[tuple[int, bool], ...] = ()
    called: str = ""
    windows: int = 1
    tokens: Compared = Compared()  # noqa: RUF009
    heads: Cut | None = None
    scores: tuple[int, frozenset[int]] | None = None
    is_assumed: bool = False
    steps: tuple[int, ...] = ()
    is_split: bool = True
    is_numbered: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether the axes are batch_size, n_heads, q_length already."""
        batch, *heads = self.before or ((),)
        in_place = len(heads) == 1 and all(is_head or size == 1 for size, is_head in heads[0])
        in_place = in_place and not any(is_head and size > 1 for size, is_head in batch)
        return in_place and not self.query and not self.steps

    @property
    def are_heads_unordered(self) -> bool:
        """Whether the heads were chosen by indices, and may be any of the layer's."""
        return self.heads is not None and not self.heads.step

    @property
    def n_sharing(self) -> int:
        """Number of heads along the axis of the queries that share each head of the keys."""
        return math.prod(size for size, is_head in self.query if is_head)

    def is_turned(self, other: "Order") -> bool:
        """Return whether both are softmaxes of the same scores, where the keys of one are queries of the other."""
        if self.scores is None or other.scores is None:
            return False
        return self.scores[0] == other.scores[0] and self.scores[1].isdisjoint(other.scores[1])

    def of_tokens(self, features: Sequence[Axis], **how: Any) -> "Order":
        """Return the order of tokens with these features; ``how``: see ``Compared``."""
        return replace(self, tokens=Compared(tuple(features), are_pairs=self.tokens.are_pairs, **how))

    def arrange(self, x: Tensor) -> Tensor:
        """Return x, (…, q_length, columns), as (batch_size, n_heads, q_length, columns)."""
        return self._arranged(x, self.query or ((x.shape[-2], False),))

    def arrange_keys(self, x: Tensor) -> Tensor:
        """Return x, (…, k_length, columns), as (batch_size, n_heads, k_length, columns), with the heads of the keys."""
        return self._arranged(x, ((x.shape[-2], False),))

    def _arranged(self, x: Tensor, rows: tuple[tuple[int, bool], ...]) -> Tensor:
        factors = [factor for axis in self.before for factor in axis]
        n_before, columns = len(factors), x.shape[-1]
        batch = [place for place, (_, is_head) in enumerate(factors) if not is_head]
        heads = [place for place, (_, is_head) in enumerate((*factors, *rows)) if is_head]
        if self.steps:
            heads = [place for _, place in sorted(zip(self.steps, heads, strict=True), reverse=True)]
        left = [n_before + place for place, (_, is_head) in enumerate(rows) if not is_head]
        sizes = [size for size, _ in (*factors, *rows)]
        batch_size, n_heads, length = (math.prod(sizes[place] for place in part) for part in (batch, heads, left))
        x = x.reshape(*sizes, columns).permute(*batch, *heads, *left, -1)
        return x.reshape(batch_size, n_heads, length, columns)


NO_ORDER = Order(())
"""Order of tensors whose axes are those of mhaviz already."""


def place_of_queries(layout: Layout, alone: Sequence[int], last: int, key: int) -> int:
    """Return the axis of the queries in a product whose keys lack several axes, as where heads share their keys.

    Args:
        layout: of the product.
        alone: the axes that the keys lack, in their order.
        last: the axis of the queries unless it is known to be of heads; −1: none.
        key: the axis of the keys.

    Raises:
        MhavizError: several axes may be that of the queries.
    """
    is_head = {place: all(o.maker is not None for o in origins_of(layout.axes[place])) for place in alone}
    own = [origin for place in alone if not is_head[place] for origin in origins_of(layout.axes[place])]
    is_made = layout.scores is not None and are_made(*layout.scores.summed)
    is_one = is_made and last not in is_head and all(one.is_input for one in own)  # one query, or one head
    if not own or not (is_head.get(last) or is_one):
        return last
    several = [place for place in alone if not is_head[place]]
    of_key, found = origins_of(layout.axes[key]), [place for place in several if not _is_first(layout.axes[place])]
    found = [place for place in several if origins_of(layout.axes[place]) & of_key] or found
    if len(found) != 1:
        sizes = " and ".join(str(layout.shape[place]) for place in several)
        raise MhavizError(f"it is not known whether its axis of {sizes} that the keys lack is queries or batch")
    return found[0]


def order_of(layout: Layout | None, places: Sequence[int], alone: Sequence[int] = ()) -> Order | None:
    """Return the order of a product of queries and keys; None: not known.

    Args:
        layout: of the product; None: not known.
        places: the axes before the queries, that of the queries, −1 if there is none, and that of the keys.
        alone: the axes that the keys lack, which are of heads unless they are of tokens.

    Raises:
        MhavizError: it is not known which examples, or which tokens, are attended to.
    """
    if layout is None:
        return None
    *before, query, key = axes_at(layout, places)
    sizes = [layout.shape[place] for place in places[:-2]]
    if layout.scores is None:  # no product: features may have given a score for each head
        made = {origin for origin in origins_of(*before) if origin.maker is not None}
        is_known = made and not any(origin.is_lost for origin in origins_of(*before))
        return Order(tuple(map(_factors_of, before, sizes, repeat(made)))) if is_known else None
    heads = _heads(before, query, key, layout.scores.summed)
    if not heads and any(origin.is_slice for origin in origins_of(*before, all_of=True)):
        raise MhavizError(f"{SOME_EXAMPLES}; not shown")
    if heads is None:
        return None
    shared = [layout.axes[place] for place in alone if place not in places[-2:]]
    heads |= {origin for origin in origins_of(*shared) if origin.maker is not None}
    own, called = origins_of(*layout.scores.summed), ""
    of_query = heads & origins_of(query) & own
    if has_rows((query, key)) and all(one.maker is not None and n < one.size for one, n in query):  # a single query
        heads, of_query = heads | origins_of(query), origins_of(query)
    if of_query == origins_of(query) and origins_of(key) & own:  # heads attend to each other
        if of_query and origins_of(key) <= own:
            called = "head" if len(origins_of(*before, all_of=True)) > 1 else "row"
        heads, of_query = heads - of_query, set()
    channels = has_features(origins_of(query) - own) and all(map(are_tokens, layout.scores.summed))
    order = Order(
        tuple(map(_factors_of, before, sizes, repeat(heads))),
        _factors_of(query, 1, heads) if of_query else (),
        "channel" if channels else called,
        _windows(before, heads, query, key),
        tokens=Compared(are_pairs=layout.scores.are_pairs),
        is_assumed=not channels and not own & origins_of(*before, query) and all(one.maker is None for one in own),
    )
    n_heads = math.prod(n for axis in (*order.before, order.query) for n, is_head in axis if is_head)
    of_tokens = (origin for axis in before for origin, n in axis if n > 1 and origin not in heads)
    has_queries = places[-2] >= 0 and layout.shape[places[-2]] > 1
    is_lost = not has_queries and any(o.is_lost for o, _ in key) and any(o.given and o.given[0] for o in of_tokens)
    if is_lost:
        raise MhavizError(OWN_KEYS)
    factors = tuple(factor for axis in (*before, query) for factor in axis if factor[0] in heads)
    features = origins_of(*layout.scores.summed, all_of=True)
    is_split = origins_of(factors) <= features.union(*(origin.parents for origin in features))
    numbers = _heads_of(layout.scores.summed, n_heads)
    if numbers is None and any(not cut.step for origin, _ in factors for cut in origin.cuts):
        numbers = Cut(0, 0, n_heads, n_heads)
    return _numbered(replace(order, heads=numbers, is_split=is_split), factors)


def _numbered(order: Order, heads: Axis) -> Order:
    """Return the order with heads in the order of the features that they were split off, if that is known."""
    steps = [origin.step for origin, n in heads if n > 1]
    is_known = len(origins_of(heads)) < 2 and len(steps) == len({*steps} - {0})
    if len(steps) < 2 or (is_known and steps == sorted(steps, reverse=True)):
        return order
    if not is_known or order.query or order.heads:
        return replace(order, is_numbered=False)
    return replace(order, steps=tuple(origin.step for origin, _ in heads))


def axes_at(layout: Layout | None, places: Sequence[int]) -> list[Axis]:
    """Return the axes at these places; empty at −1, or if the layout is not known."""
    return [() if layout is None or place < 0 else layout.axes[place] for place in places]


SOME_EXAMPLES = "runs for some examples at a time, as in a loop over the batch, and these are not joined"

OWN_KEYS = (
    "each of its queries has other keys, and it is not known whether these are windows of one text or texts of a "
    "batch; not shown"
)


def _heads_of(summed: Sequence[Axis], n_heads: int) -> Cut | None:
    """Return which of a layer's heads ``n_heads`` heads are; None: all, or not known.

    Heads that share a key are not told by it. A single head may be cut from the features: a block of these, or every
    n-th of them.

    Args:
        summed: the axes of the features of queries and of keys.
        n_heads: number of heads.
    """
    origins = [axis[0] for axis in summed if len(axis) == 1]
    beside = {o.beside for o, _ in origins if o.beside is not None and o.beside.n == n_heads}
    if beside:
        most = max(cut.size for cut in beside)
        of_layer = {cut for cut in beside if cut.size == most}
        return of_layer.pop() if len(of_layer) == 1 else None
    cuts = {o.cuts[-1] if o.cuts and o.cuts[-1].n == n else None for o, n in origins}
    (cut,) = cuts if len(cuts) == 1 else (None,)
    if cut is None or n_heads != 1 or cut.size % cut.n:
        return None
    if cut.step == 1:
        return None if cut.start % cut.n else Cut(cut.start // cut.n, 1, 1, cut.size // cut.n)
    return Cut(cut.start, 1, 1, cut.step) if cut.step * cut.n == cut.size and cut.start < cut.step else None


def _windows(before: Sequence[Axis], heads: set[Origin], query: Axis, key: Axis) -> int:
    """Return how many windows of one input the batch is known to hold, of queries or of keys; 1: none, or not known."""
    batch, of_query = [factor for axis in before for factor in axis if factor[0] not in heads], origins_of(query, key)
    if any(one.maker is not None or (one.given and not one.given[0]) for one in of_query):  # heads, or of the batch
        return 1
    if not any(origin in of_query for origin, _ in batch):  # axes of their own: they may hold nothing else
        is_known = all(n <= one.size and one.given and not one.is_lost for one, n in (*batch, *query))
        if not is_known:
            return 1
        there = {origin: origin.given[0] for origin, _ in batch if origin.given}
        of_query = {origin for origin, place in there.items() if place and 0 in there.values()}
    return math.prod(n for origin, n in batch if origin in of_query)


def _factors_of(axis: Axis, size: int, heads: set[Origin]) -> tuple[tuple[int, bool], ...]:
    return tuple((n, origin in heads) for origin, n in axis) or ((size, False),)


def _length(axis: Axis) -> int:
    return math.prod(n for _, n in axis)


def _heads(before: Sequence[Axis], query: Axis, key: Axis, summed: Sequence[Axis]) -> set[Origin] | None:
    """Return the origins of heads; None: not known."""
    own, others, of_query = (
        origins_of(*summed) or origins_of(*summed, all_of=True),
        origins_of(*before),
        origins_of(query),
    )
    heads = {origin for origin in others | of_query if origin in own}
    if not own:  # each head has one feature, which no axis tells
        heads = {origin for origin in others if origin.maker is not None}
    if not heads:  # a layer may be shared by heads that were split before
        parents = {parent for origin in own for parent in origin.parents}
        heads = (parents & others) - of_query
    if heads:
        has_no_query = bool(of_query) and origins_of(query, all_of=True) <= heads
        if has_no_query and any(origin.is_lost for origin in origins_of(key)) and _length(query) == _length(key):
            raise MhavizError(
                f"it is not known whether {_length(query)} rows and columns are heads, or one query of as many heads"
            )
        return heads
    is_lost = any(origin.is_lost for origin in others)
    if any(origin.maker is not None for origin in own):
        return None if is_lost else set()  # one head
    if has_features(of_query):  # channels attend to channels
        return None if is_lost else {origin for origin in others & of_query if has_features({origin})}
    # A tensor of four axes that a program is given, or unpacks, has the batch first, as in PyTorch, and heads after it.
    given = {o: o.given[0] - o.given[1] if o.given and o.given[1] > 3 else 0 for o in others - of_query}
    heads = {origin for origin, place in given.items() if place != -4}
    is_first = any(o.given and o.given[0] - o.given[1] == -4 for o in of_query)
    fits = {*given.values()} <= {-4, -3, -2} and len(heads) < 2 and len(before) < 3 and not is_first
    return heads if others and fits else None


def _is_first(axis: Axis) -> bool:
    """Return whether an axis is the first of a tensor that was not seen to be computed."""
    own = origins_of(axis) or origins_of(axis, all_of=True)
    return bool(own) and all(origin.given is not None and not origin.given[0] for origin in own)
