"""Which tokens the queries and the keys of an attention are, and whether both are of one sequence."""

from dataclasses import dataclass
from functools import cached_property

from mhaviz.observe.axes import Axis, Origin, are_made, origins_of, through_along
from mhaviz.observe.places import Part, Places, compare, inputs_of
from mhaviz.observe.regions import Source


@dataclass(frozen=True)
class Compared:
    """What an attention compares.

    Attributes:
        features: the axes of their features.
        has_layers: whether it makes its queries and keys of these features by layers of its own.
        is_by_hand: whether the program computes its weights itself.
        are_pairs: whether queries of all examples meet keys of all; see ``Summed``.
        places: the tokens that queries and keys are; None: of a side nothing is known.
    """

    features: tuple[Axis, ...] = ()
    has_layers: bool = False
    is_by_hand: bool = False
    are_pairs: bool = False
    places: tuple[Places | None, Places | None] = (None, None)

    @cached_property
    def reads(self) -> tuple[frozenset[int], frozenset[int]]:
        """The numbers of the look-ups that queries and keys come from; empty: not known. See ``ReadIds``."""
        query, key = (frozenset[int]() if side is None else side.reads for side in self.places)
        return query, key

    @cached_property
    def parts(self) -> tuple[Part | None, Part | None]:
        """The tokens that queries and keys are, the same in all examples; None: they are not, or not known."""
        query, key = (None if side is None else side.part for side in self.places)
        return query, key

    @cached_property
    def are_same(self) -> bool | None:
        """Whether queries and keys are known tokens of the same sequence; None: not known."""
        is_made = self.has_layers or are_made(*self.features)  # otherwise they may have in common what made others
        are_same = compare(*self.places)
        if are_same is False or self.are_apart:
            return False if is_made else None
        return are_same

    @property
    def are_apart(self) -> bool:
        """Whether each side is made of outputs of attentions that the other is not made of, as a decoder's queries are
        and its memory."""
        if len(self.features) != 2:
            return False
        query, key = (through_along(axis) for axis in self.features)
        return not (query <= key or key <= query)

    @property
    def examples(self) -> tuple[Source, frozenset[int]] | None:
        """Which examples of their source the queries are; None: all, or not known."""
        return None if self.places[0] is None else self.places[0].some_examples

    def are_other_examples(self, other: "Compared") -> bool:
        """Return whether both are known to be of some examples of a batch, and not of the same."""
        some, others = self.examples, other.examples
        return some is not None and others is not None and some[0] is others[0] and some[1] != others[1]

    def is_apart_from(self, other: "Compared") -> bool:
        """Return whether both are known to have no token in common: they come from other inputs, or from ids that were
        looked up anew."""
        inputs, others = (inputs_of(of.places) for of in (self, other))
        return bool(inputs and others and inputs.isdisjoint(others))

    @cached_property
    def made(self) -> frozenset[Origin]:
        """Features, made by layers of the program, that queries and keys have all or some of."""
        made = (origin for origin in origins_of(*self.features) if origin.maker is not None)
        return frozenset() if self.has_layers else frozenset(made)

    @cached_property
    def sequences(self) -> frozenset[Source]:
        """The sequences of which the queries are tokens; empty: not known."""
        return frozenset() if self.places[0] is None else self.places[0].all_sequences

    @cached_property
    def through(self) -> frozenset[int]:
        """The numbers of the attentions whose outputs queries and keys are made of, as far as is known."""
        return through_along(*self.features)

    @cached_property
    def may_be_batch(self) -> tuple[bool, bool]:
        """Whether queries may be the examples of a batch as well as the tokens of a sequence, and whether keys may be.

        They may if they stand first in what the program is given, and were not looked up as token ids.
        """
        own, key = (places is not None and places.may_be_batch for places in self.places)
        return self.is_by_hand and own, self.is_by_hand and key
