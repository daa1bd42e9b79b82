"""Which axes of a product of queries and keys are of heads, which of the batch, and which tokens the others are of.

The factors of the features that are summed over are heads, wherever they stand, and all else before the queries is
batch: examples, windows, points in time. It does not matter where the batch is in a model's input, nor what sizes are
equal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from torch import Tensor

from mhaviz.errors import MhavizError
from mhaviz.observe.axes import (
    Axis,
    Cut,
    Layout,
    Origin,
    Part,
    Piece,
    are_made,
    are_tokens,
    cuts_along,
    has_features,
    has_rows,
    origins_of,
    part_along,
    patches_along,
    reads_along,
    through_along,
)
from mhaviz.observe.inputs import Read
from mhaviz.observe.patches import Patches


def _parts_along(query: Axis, key: Axis) -> tuple[Part | None, Part | None]:
    """The tokens along queries and keys, which may be those of the queries with others joined to them, or mixtures."""
    own, part = part_along(query), part_along(key)
    if len(key) != 1 or math.prod(n for _, n in query) < 2:
        return own, part
    ((origin, n),), of = key, query[0][0]
    for piece in origin.joined:
        if piece.n == n and cuts_along(piece.of) == cuts_along(query) and (own is None or own.is_first):
            sequence = of.replace(size=math.prod(n for _, n in query), cuts=())
            return own or Part(sequence, 0, 1, sequence.size), Part(sequence, -piece.at, 1, n)
    if len(query) > 1:
        return own, part
    if origin == of:
        is_known = part is not None or key == query
    else:
        is_mixed = origin.maker is not None and of.maker is None
        is_known = not is_mixed and all(of not in origins_of(piece.of, all_of=True) for piece in origin.joined)
    return own, part if is_known else Part(origin, -1, 0, n)


def _of_examples(axis: Axis) -> set[tuple[Origin, Cut]]:
    """Which examples of a batch tokens are of, where some were taken, or put in another order. One of what the program
    has stacked, or reshaped to three, may be the queries, the keys or the values, as of ``qkv.unbind()``."""
    examples = [origin.example for origin, _ in axis if origin.example is not None]
    return {(of, cut) for of, cut in examples if cut.n != 1 or (of.given and (cut.size != 3 or of.size == 3))}


def _made_of(axis: Axis) -> dict[Origin, frozenset[Origin]]:
    """What was joined to tokens along an axis, with what was added to each."""
    found: dict[Origin, frozenset[Origin]] = {}
    for origin, n in axis:
        for piece in origin.joined or (Piece(((origin, n),), 0, n),):
            found |= {one: one.added | found.get(one, frozenset()) for one, _ in piece.of}
    return found


def _are_of_one(query: Axis, key: Axis) -> bool:
    """Whether no other tokens are known to be among queries or keys: of other examples, joined from another input, or
    added to those of one side alone, where either may be the tokens and the other their positions."""
    own, others = _made_of(query), _made_of(key)
    apart = own.keys() ^ others.keys()
    is_one = _of_examples(query) == _of_examples(key) and not any(one.is_known and not one.is_fixed for one in apart)
    return is_one and all(own[one] == others[one] for one in own.keys() & others.keys())


def _are_same(query: Axis, key: Axis, is_made: bool, are_pairs: bool) -> bool | None:
    """Whether queries and keys are known tokens of the same sequence; None: not known.

    ``is_made``: whether their features are of layers that were seen: what made others, they may have in common.
    ``are_pairs``: see ``Summed``.
    """
    (own, part), reads = _parts_along(query, key), (reads_along(query), reads_along(key))
    in_order = own is not None and part is not None and own.step and part.step and own.of == part.of
    if in_order or (query and cuts_along(query) == cuts_along(key)):
        texts = [{text for text, _ in several} for several in reads]
        is_one = not are_pairs and _are_of_one(query, key)
        return True if is_one and (not all(texts) or texts[0] == texts[1]) else None
    sources, others = ({one for origin, _ in axis for one in origin.sources} for axis in (query, key))
    is_known = sources and others and all(one.is_known for one in sources | others)
    return False if is_made and is_known and sources.isdisjoint(others) else None


@dataclass(frozen=True)
class Order:
    """Which axes before the queries, and which part of that of the queries, are of heads; all else is batch.

    Attributes:
        before: of each axis before the queries, the lengths of its factors, and whether they are of heads.
        query: those of the axis of the queries; none: it holds no heads.
        called: "channel" where queries and keys are the features of a head, "head" where they are heads of one token,
            "row" where they are parts of features, and whether these are heads is not known; "": tokens.
        windows: how many of each example the batch is known to hold; 1: none, or it is not known.
        patches: those of an image that queries and keys are of; None: they are not, or it is not known.
        parts: the tokens that queries and keys are; None: not known.
        heads: the first of them, and of how many they are a part; None: all, or not known.
        reads: the numbers of the look-ups that queries and keys come from; none: it is not known. See ``ReadIds``.
        are_same: whether queries and keys are known tokens of the same sequence; None: not known.
        made: the features that layers have made, of which queries and keys have all or some.
        sequence: what the axis of the queries comes from; nothing: not known.
        through: the numbers of the attentions whose outputs queries and keys are made of, as far as is known.
        example: of an axis of examples, what queries and keys are both cut from it; None: nothing, or not known.
        scores: the number of the product that they are, and which of its factors the keys are in; None: not known.
        are_pairs: whether queries of all examples meet keys of all; see ``Summed``.
        is_taken: whether batch and heads are taken to stand as PyTorch has them, as nothing tells.
        steps: how far apart heads stand among the features, by each factor before the queries that is of heads, where
            these stand in another order; none: they are in theirs, or it is not known.
        is_split: whether all heads are known to be factors of the features that queries or keys have.
        is_numbered: whether heads are known to be in the order of the features.
        may_be_batch: whether queries may be the examples of a batch as well as the tokens of a sequence, and whether
            keys may be.
    """

    before: tuple[tuple[tuple[int, bool], ...], ...]
    query: tuple[tuple[int, bool], ...] = ()
    called: str = ""
    windows: int = 1
    patches: tuple[Patches | None, Patches | None] = None, None
    parts: tuple[Part | None, Part | None] = None, None
    heads: tuple[int, int] | None = None
    reads: tuple[frozenset[Read], frozenset[Read]] = frozenset(), frozenset()
    are_same: bool | None = None
    made: frozenset[Origin] = frozenset()
    sequence: frozenset[Origin] = frozenset()
    through: frozenset[int] = frozenset()
    example: tuple[Origin, Cut] | None = None
    scores: tuple[int, frozenset[int]] | None = None
    are_pairs: bool = False
    is_taken: bool = False
    steps: tuple[int, ...] = ()
    is_split: bool = True
    is_numbered: bool = True
    may_be_batch: tuple[bool, bool] = False, False

    @property
    def is_plain(self) -> bool:
        """Whether the axes are batch_size, n_heads, q_length already."""
        batch, *heads = self.before or ((),)
        in_place = len(heads) == 1 and all(is_head or size == 1 for size, is_head in heads[0])
        in_place = in_place and not any(is_head and size > 1 for size, is_head in batch)
        return in_place and not self.query and not self.steps

    @property
    def n_sharing(self) -> int:
        """How many heads share each head of the keys, as they are in the axis of the queries."""
        return math.prod(size for size, is_head in self.query if is_head)

    def is_turned(self, other: "Order") -> bool:
        """Whether both are softmaxes of the same scores, and the keys of one are queries of the other."""
        if self.scores is None or other.scores is None:
            return False
        return self.scores[0] == other.scores[0] and self.scores[1].isdisjoint(other.scores[1])

    def of_tokens(self, query: Axis, key: Axis, features: Sequence[Axis], is_made: bool) -> "Order":
        """The same of the tokens along these axes, which have these features; of none, nothing is known.

        ``is_made``: whether layers that were seen have made the features of both.
        """
        if len(self.query) == len(query):
            query = tuple(factor for factor, (_, is_head) in zip(query, self.query, strict=True) if not is_head)
        return replace(
            self,
            patches=(patches_along(query), patches_along(key)),
            parts=_parts_along(query, key),
            reads=(reads_along(query), reads_along(key)),
            are_same=_are_same(query, key, is_made, self.are_pairs),
            made=frozenset(origin for origin in origins_of(*features) if origin.maker is not None),
            sequence=frozenset(origins_of(query, all_of=True)),
            through=through_along(*features),
        )

    def of_rows(self, query: Axis, key: Axis) -> "Order":
        """The same, with whether these axes may be of the batch: they stand first in what the program is given, and no
        numbers of tokens were looked up for them."""
        sides = (_is_first(axis) and not reads_along(axis) for axis in (query, key))
        return replace(self, may_be_batch=(next(sides), next(sides)))

    def with_rows_behind(self, n_tokens: int, k_length: int) -> "Order":
        """The same of more keys, the last of which are no tokens, as those that PyTorch's layer adds."""
        own, part = self.parts
        if k_length <= n_tokens:
            return self
        part = part or Part(Origin(n_tokens), 0, 1, n_tokens)
        sequence = part.of.replace(size=part.start + n_tokens, cuts=())
        return replace(self, parts=(own, Part(sequence, part.start, part.step, k_length)))

    def arrange(self, x: Tensor) -> Tensor:
        """x (…, q_length, columns) → (batch_size, n_heads, q_length, columns)."""
        return self._arranged(x, self.query or ((x.shape[-2], False),))

    def arrange_keys(self, x: Tensor) -> Tensor:
        """x (…, k_length, columns) → (batch_size, n_heads, k_length, columns), of the heads that have keys."""
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
"""Of what is in the axes of mhaviz as it is."""


def place_of_queries(layout: Layout, alone: Sequence[int], last: int, key: int) -> int:
    """Which axis of a product is of its queries, where the keys lack several, such as heads that share their keys.

    Args:
        layout: of the product.
        alone: the axes that the keys lack, in their order.
        last: the one that is of the queries where nothing tells that it is of heads; −1: none.
        key: the axis of the keys.

    Raises:
        MhavizError: several may be of the queries.
    """
    is_head = {place: all(o.maker is not None for o in origins_of(layout.axes[place])) for place in alone}
    own = [origin for place in alone if not is_head[place] for origin in origins_of(layout.axes[place])]
    is_made = layout.scores is not None and are_made(*layout.scores.summed)
    is_one = is_made and last not in is_head and all(one.is_known for one in own)  # one query, or one head
    if not own or not (is_head.get(last) or is_one):
        return last
    several = [place for place in alone if not is_head[place]]
    of_key, found = origins_of(layout.axes[key]), [place for place in several if not _is_first(layout.axes[place])]
    found = [place for place in several if origins_of(layout.axes[place]) & of_key] or found
    if len(found) != 1:
        sizes = " and ".join(str(layout.shape[place]) for place in several)
        raise MhavizError(f"whether its axis of {sizes} that the keys lack is of queries or of the batch is not known")
    return found[0]


def _is_first(axis: Axis) -> bool:
    own = origins_of(axis) or origins_of(axis, all_of=True)
    return bool(own) and all(origin.given is not None and not origin.given[0] for origin in own)


def order_of(layout: Layout | None, places: Sequence[int], alone: Sequence[int] = ()) -> Order | None:
    """The order of a product of queries and keys; None: it is not known.

    Args:
        layout: of the product.
        places: of its axes before the queries, of the queries, −1 if there are none, and of the keys.
        alone: those that the keys lack: what is not of tokens there is of heads.

    Raises:
        MhavizError: it is not known which tokens the keys are.
    """
    if layout is None:
        return None
    *before, query, key = axes_at(layout, places)
    sizes = [layout.shape[place] for place in places[:-2]]
    if layout.scores is None:  # of no product: features may have given a score for each head
        made = {origin for origin in origins_of(*before) if origin.maker is not None}
        is_known = made and not any(origin.is_lost for origin in origins_of(*before))
        return Order(tuple(map(_named, before, sizes, repeat(made)))) if is_known else None
    heads = _heads(before, query, key, layout.scores.summed)
    if not heads and any(origin.is_slice for origin in origins_of(*before, all_of=True)):
        raise MhavizError("runs for some examples and heads at a time, and which they are is not known; not shown")
    if heads is None:
        return None
    shared = [layout.axes[place] for place in alone if place not in places[-2:]]
    heads |= {origin for origin in origins_of(*shared) if origin.maker is not None}
    own, called = origins_of(*layout.scores.summed), ""
    of_query = heads & origins_of(query) & own
    if has_rows((query, key)) and all(one.maker is not None and n < one.size for one, n in query):  # of one query
        heads, of_query = heads | origins_of(query), origins_of(query)
    if of_query == origins_of(query) and origins_of(key) & own:  # heads that read each other
        if of_query and origins_of(key) <= own:
            called = "head" if len(origins_of(*before, all_of=True)) > 1 else "row"
        heads, of_query = heads - of_query, set()
    channels = has_features(origins_of(query) - own) and all(map(are_tokens, layout.scores.summed))
    order = Order(
        tuple(map(_named, before, sizes, repeat(heads))),
        _named(query, 1, heads) if of_query else (),
        "channel" if channels else called,
        _windows(before, heads, query, key),
        example=_example(query, key),
        are_pairs=layout.scores.are_pairs,
        is_taken=not channels and not own & origins_of(*before, query) and all(one.maker is None for one in own),
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
    return _numbered(replace(order, heads=_heads_of(layout.scores.summed, n_heads), is_split=is_split), factors)


def _numbered(order: Order, heads: Axis) -> Order:
    """The same with heads in the order of the features that they were split off, if that is known."""
    steps = [origin.step for origin, n in heads if n > 1]
    is_known = len(origins_of(heads)) < 2 and len(steps) == len({*steps} - {0})
    if len(steps) < 2 or (is_known and steps == sorted(steps, reverse=True)):
        return order
    if not is_known or order.query or order.heads:
        return replace(order, is_numbered=False)
    return replace(order, steps=tuple(origin.step for origin, _ in heads))


def axes_at(layout: Layout | None, places: Sequence[int]) -> list[Axis]:
    """Those at these places; at −1, or of a layout that is not known, there is nothing."""
    return [() if layout is None or place < 0 else layout.axes[place] for place in places]


def _example(query: Axis, key: Axis) -> tuple[Origin, Cut] | None:
    """What queries and keys are both cut from another axis, which is neither's own."""
    several = {origin.example for origin, _ in (*query, *key)}
    (example,) = several if len(several) == 1 else (None,)
    return None if example is None or example[0] in origins_of(query, key, all_of=True) else example


OWN_KEYS = (
    "each of its queries meets keys of its own, as of a window around it, and which tokens these are is not known; not "
    "shown"
)


def _heads_of(summed: Sequence[Axis], n_heads: int) -> tuple[int, int] | None:
    """The first head of so many, and of how many they are, by the features of queries and of keys; None: not known."""
    origins = [axis[0] for axis in summed if len(axis) == 1]
    beside = {o.beside for o, _ in origins if o.beside is not None and o.beside.n == n_heads and o.beside.step == 1}
    if beside:
        most = max(cut.size for cut in beside)
        several = [cut for cut in beside if cut.size == most]
        return (several[0].start, most) if len(several) == 1 else None
    cuts = {o.cuts[-1] if o.cuts and o.cuts[-1].n == n else None for o, n in origins}
    (cut,) = cuts if len(cuts) == 1 else (None,)
    if cut is None or n_heads != 1 or cut.step != 1 or cut.start % cut.n or cut.size % cut.n:
        return None
    return cut.start // cut.n, cut.size // cut.n


def _windows(before: Sequence[Axis], heads: set[Origin], query: Axis, key: Axis) -> int:
    """How many windows of one input the batch is known to hold, of queries or of keys; 1: none, or it is not known."""
    batch, of_query = [factor for axis in before for factor in axis if factor[0] not in heads], origins_of(query, key)
    if any(one.maker is not None or (one.given and not one.given[0]) for one in of_query):  # heads, or of the batch
        return 1
    if not any(origin in of_query for origin, _ in batch):  # axes of their own: nothing else may be on any
        is_known = all(n <= one.size and one.given and not one.is_lost for one, n in (*batch, *query))
        if not is_known:
            return 1
        there = {origin: origin.given[0] for origin, _ in batch if origin.given}
        of_query = {origin for origin, place in there.items() if place and 0 in there.values()}
    return math.prod(n for origin, n in batch if origin in of_query)


def _named(axis: Axis, size: int, heads: set[Origin]) -> tuple[tuple[int, bool], ...]:
    return tuple((n, origin in heads) for origin, n in axis) or ((size, False),)


def _length(axis: Axis) -> int:
    return math.prod(n for _, n in axis)


def _heads(before: Sequence[Axis], query: Axis, key: Axis, summed: Sequence[Axis]) -> set[Origin] | None:
    """Where heads come from; None: that is not known."""
    own, others, of_query = (
        origins_of(*summed) or origins_of(*summed, all_of=True),
        origins_of(*before),
        origins_of(query),
    )
    heads = {origin for origin in others | of_query if origin in own}
    if not heads:  # a layer may have been shared by heads that were split before
        parents = {parent for origin in own for parent in origin.parents}
        heads = (parents & others) - of_query
    if heads:
        has_no_query = bool(of_query) and origins_of(query, all_of=True) <= heads
        if has_no_query and any(origin.is_lost for origin in origins_of(key)) and _length(query) == _length(key):
            raise MhavizError(
                f"whether {_length(query)} rows and columns are heads, or one query of so many heads, is not known"
            )
        return heads
    is_lost = any(origin.is_lost for origin in others)
    if any(origin.maker is not None for origin in own):
        return None if is_lost else set()  # one head
    if has_features(of_query):  # channels that read channels
        return None if is_lost else {origin for origin in others & of_query if has_features({origin})}
    # A tensor of four axes that a program is given, or unpacks, has the batch first, as PyTorch has it, and heads.
    given = {o: o.given[0] - o.given[1] if o.given and o.given[1] > 3 else 0 for o in others - of_query}
    heads = {origin for origin, place in given.items() if place != -4}
    is_first = any(o.given and o.given[0] - o.given[1] == -4 for o in of_query)
    fits = {*given.values()} <= {-4, -3, -2} and len(heads) < 2 and len(before) < 3 and not is_first
    return heads if others and fits else None
