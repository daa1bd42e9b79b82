"""Which tokens the queries and the keys of an attention are, and whether both are of one sequence."""

import math
from dataclasses import dataclass
from functools import cached_property

from mhaviz.observe.axes import (
    Axis,
    Cut,
    Origin,
    Part,
    Piece,
    are_made,
    cuts_along,
    origins_of,
    part_along,
    reads_along,
    through_along,
)
from mhaviz.observe.inputs import Read
from mhaviz.observe.places import Places, compare


@dataclass(frozen=True)
class Compared:
    """What an attention compares.

    Attributes:
        query, key: the axes along which queries and keys stand; empty: not known.
        features: the axes of their features.
        has_layers: whether it makes its queries and keys of these features by layers of its own.
        is_by_hand: whether the program computes its weights itself.
        are_pairs: whether queries of all examples meet keys of all; see ``Summed``.
        n_behind: number of further keys at the end that are no tokens, such as those that PyTorch's layer adds.
        places: the tokens that queries and keys are; None: of a side nothing is known.
    """

    query: Axis = ()
    key: Axis = ()
    features: tuple[Axis, ...] = ()
    has_layers: bool = False
    is_by_hand: bool = False
    are_pairs: bool = False
    n_behind: int = 0
    places: tuple[Places | None, Places | None] = (None, None)

    @cached_property
    def reads(self) -> tuple[frozenset[Read], frozenset[Read]]:
        """The numbers of the look-ups that queries and keys come from; empty: not known. See ``ReadIds``."""
        return reads_along(self.query), reads_along(self.key)

    @cached_property
    def parts(self) -> tuple[Part | None, Part | None]:
        """The tokens that queries and keys are; None: not known."""
        own, part = self._parts
        if (known := self.known_parts) is not None:
            return known
        if not self.n_behind:
            return own, part
        n = math.prod(n for _, n in self.key)
        part = part or Part(Origin(n), 0, 1, n)
        sequence = part.of.replace(size=part.start + n, cuts=())
        return own, Part(sequence, part.start, part.step, n + self.n_behind)

    @cached_property
    def known_parts(self) -> tuple[Part | None, Part | None] | None:
        """The tokens that queries and keys are, as they were seen to be moved; None: they were not."""
        query, key = self.places
        return None if query is None or key is None else (query.part, key.part)

    @cached_property
    def _parts(self) -> tuple[Part | None, Part | None]:
        """The tokens that queries and keys are, without further keys at the end; None: not known.

        The keys may be the queries with others joined to them, or mixtures.
        """
        query, key = self.query, self.key
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

    @cached_property
    def are_same(self) -> bool | None:
        """Whether queries and keys are known tokens of the same sequence; None: not known."""
        is_made = self.has_layers or are_made(*self.features)  # otherwise they may have in common what made others
        if None not in self.places:
            are_same = compare(*self.places)
            return None if are_same is False and not is_made else are_same
        (own, part), reads = self._parts, self.reads
        in_order = own is not None and part is not None and own.step and part.step and own.of == part.of
        if in_order or (self.query and cuts_along(self.query) == cuts_along(self.key)):
            texts = [{text for text, _ in several} for several in reads]
            is_one = not self.are_pairs and _are_of_one_sequence(self.query, self.key)
            return True if is_one and (not all(texts) or texts[0] == texts[1]) else None
        sources, others = ({one for origin, _ in axis for one in origin.sources} for axis in (self.query, self.key))
        is_known = sources and others and all(one.is_known for one in sources | others)
        return False if is_made and is_known and sources.isdisjoint(others) else None

    @cached_property
    def inputs(self) -> frozenset[Origin]:
        """The inputs that queries and keys come from; empty: not known."""
        sources = {source for axis in (self.query, self.key) for origin, _ in axis for source in origin.sources}
        is_known = self.query and self.key and all(source.is_known for source in sources)
        return frozenset(sources) if is_known else frozenset()

    def is_apart_from(self, other: "Compared") -> bool:
        """Return whether both are known to have no token in common: they come from other inputs, or from ids that were
        looked up anew."""
        if not (self.inputs and other.inputs):
            return False
        texts, others = ({text for reads in of.reads for text, _ in reads} for of in (self, other))
        are_read = all((*self.reads, *other.reads))
        return self.inputs.isdisjoint(other.inputs) or (are_read and texts.isdisjoint(others))

    @cached_property
    def made(self) -> frozenset[Origin]:
        """Features, made by layers of the program, that queries and keys have all or some of."""
        made = (origin for origin in origins_of(*self.features) if origin.maker is not None)
        return frozenset() if self.has_layers else frozenset(made)

    @cached_property
    def sequence(self) -> frozenset[Origin]:
        """Origins of the axis of the queries; empty: not known."""
        return frozenset(origins_of(self.query, all_of=True))

    @cached_property
    def through(self) -> frozenset[int]:
        """The numbers of the attentions whose outputs queries and keys are made of, as far as is known."""
        return through_along(*self.features)

    @cached_property
    def may_be_batch(self) -> tuple[bool, bool]:
        """Whether queries may be the examples of a batch as well as the tokens of a sequence, and whether keys may be.

        They may if they stand first in what the program is given, and were not looked up as token ids.
        """
        own, key = (
            (is_first(axis) and not reads_along(axis)) or (places is not None and places.may_be_batch)
            for axis, places in zip((self.query, self.key), self.places, strict=True)
        )
        return self.is_by_hand and own, self.is_by_hand and key


def is_first(axis: Axis) -> bool:
    """Return whether an axis is the first of a tensor that was not seen to be computed."""
    own = origins_of(axis) or origins_of(axis, all_of=True)
    return bool(own) and all(origin.given is not None and not origin.given[0] for origin in own)


def _examples_of(axis: Axis) -> set[tuple[Origin, Cut]]:
    """Return which examples of a batch tokens are of, where some were taken, or put in another order.

    One of three that the program has stacked, or reshaped, may be the queries, the keys or the values, as of
    ``qkv.unbind()``, and is left out.
    """
    examples = [origin.example for origin, _ in axis if origin.example is not None]
    return {(of, cut) for of, cut in examples if cut.n != 1 or (of.given and (cut.size != 3 or of.size == 3))}


def _joined_to(axis: Axis) -> dict[Origin, frozenset[Origin]]:
    """Return what was joined to tokens along an axis, each with what was added to it."""
    found: dict[Origin, frozenset[Origin]] = {}
    for origin, n in axis:
        for piece in origin.joined or (Piece(((origin, n),)),):
            found |= {one: one.added | found.get(one, frozenset()) for one, _ in piece.of}
    return found


def _are_of_one_sequence(query: Axis, key: Axis) -> bool:
    """Return whether no other tokens are known to be among queries or keys.

    Other tokens come from other examples, are joined from another input, or are added on one side alone, where either
    may be the tokens and the other their positions.
    """
    own, others = _joined_to(query), _joined_to(key)
    apart = own.keys() ^ others.keys()
    is_one = _examples_of(query) == _examples_of(key) and not any(one.is_known and not one.is_fixed for one in apart)
    return is_one and all(own[one] == others[one] for one in own.keys() & others.keys())
