"""Which tokens the queries and the keys of an attention are, row by row and example by example."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.observe.regions import AXES, INPUT, MADE, NONE, SOURCE, WITHIN, SeenImage, SeenTokens, Source
from mhaviz.observe.token_regions import Sides, TokenRegions

Numbers = NDArray[np.int64]

UNKNOWN, _ANY = -1, -2
"""Place of a row of which it is not known which token it is, or which is none. Any example of a source."""


class Part(NamedTuple):
    """Tokens of a sequence: every ``step``-th from ``start`` on, ``n`` in all.

    Attributes:
        of: the sequence.
        at: their places, where these are no range; negative ones are no tokens of it. Empty: they are a range.
        length: number of tokens in the sequence.
    """

    of: Source
    start: int
    step: int
    n: int
    at: tuple[int, ...]
    length: int

    @property
    def is_first(self) -> bool:
        """Whether the sequence begins with these tokens."""
        return (self.start, self.step) == (0, 1) and not self.at

    @property
    def is_reordered(self) -> bool:
        """Whether they were seen to be put in another order, or among others."""
        at = [place for place in self.at if place >= 0]
        return any(b <= a for a, b in pairwise(at))

    @property
    def places(self) -> "range | tuple[int, ...]":
        """Places of the tokens in the sequence."""
        return self.at or range(self.start, self.start + self.step * self.n, self.step)

    @property
    def end(self) -> int:
        """Place after the last of the tokens."""
        return max(self.at) + 1 if self.at else self.start + self.n


class Sequences:
    """The sources that programs have put behind others, as in a cache, and where each begins in the sequence.

    A source that was never put behind others is a sequence by itself.

    Attributes:
        n_joined: how often a source was joined to others.
    """

    def __init__(self) -> None:
        self._first: WeakKeyDictionary[Source, tuple[Source, int]] = WeakKeyDictionary()
        self._axes: WeakKeyDictionary[Source, bool] = WeakKeyDictionary()
        self.n_joined = 0

    def note_axis(self, source: Source, along_first: bool) -> None:
        """Note whether the tokens of a source stand along its first axis, which the first attention to tell it does."""
        self._axes.setdefault(source, along_first)

    def knows_axis(self, source: Source) -> bool:
        """Return whether it is known along which axis of a source its tokens stand."""
        return source in self._axes

    def is_along_first(self, source: Source) -> bool:
        """Return whether tokens are known to stand along the first axis of a source."""
        return self._axes.get(source, False)

    def begins(self, source: Source) -> tuple[Source, int]:
        """Return the first source of the sequence that a source belongs to, and the place there of its first token."""
        return self._first.get(source, (source, 0))

    def may_join(self, *sources: Source) -> bool:
        """Return whether this is a single source, which may yet be put behind others."""
        source = sources[0] if len(sources) == 1 else None
        return isinstance(source, SeenTokens) and source.rank == INPUT and source not in self._first

    def note_same(self, source: Source, other: Source) -> None:
        """Note that a source holds the same tokens as another."""
        self._set(source, *self.begins(other))

    def join(self, source: Source, place: int, before: Sequence[tuple[Source, int]], gap: int = 0) -> None:
        """Note that a token of a source stands behind others, ``before``, of sources that were read earlier.

        Inputs that are read at once are no continuations of each other.

        Args:
            source, place: of the token.
            before: sources and places of those before it, of which it follows the last of their sequence.
            gap: number of rows between them that are no tokens.
        """
        earlier = {other for other, _ in before}
        if not self.may_join(source) or source in earlier or not all(_is_before(other, source) for other in earlier):
            return
        firsts = {self.begins(other)[0] for other in earlier}
        if len(firsts) == 1:
            last = max(self.begins(other)[1] + at for other, at in before)
            self._set(source, firsts.pop(), last + 1 + gap - place)

    def _set(self, source: Source, first: Source, place: int) -> None:
        self._first[source] = first, place
        self.n_joined += 1


def _is_before(other: Source, source: Source) -> bool:
    """Return whether attentions have run between the reading of two texts."""
    are_texts = isinstance(other, SeenTokens) and isinstance(source, SeenTokens)
    return are_texts and other.rank == INPUT and other.epoch < source.epoch  # type: ignore[union-attr]


Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def _kept(method: Callable[["Places", *Ts], T]) -> Callable[["Places", *Ts], T]:
    """Keep what a method returns for the same arguments: all layers of a stack ask the same."""

    @wraps(method)
    def result(self: "Places", *args: *Ts) -> T:
        known: dict[tuple[*Ts], T] = self.__dict__.setdefault(f"_{method.__name__}", {})
        if args not in known:
            known[args] = method(self, *args)
        return known[args]

    return result


@dataclass(frozen=True, eq=False)
class Places:
    """Which tokens stand along one side of an attention, (batch_size, length) each.

    Attributes:
        sources: what the tokens come from.
        source: number of the source of each row; UNKNOWN: it is no token, or not known which.
        example: which example of its source it is of.
        place: its place in that example.
        index: (batch_size, length, 2), example and place of the row in its source, whose last axis is that of tokens,
            whatever stands along one side.
        begins: where each source begins in its sequence; see ``Sequences``.
        sequences: the first source of the sequence that each source belongs to.
        length: number of tokens in the sequence of the first row.
        named: (batch_size, length) numbers of the rows that are parameters in ``names``; UNKNOWN: none.
        names: names of parameters that stand among tokens.
        along_first: whether tokens stand along the first axis of a source, which may be that of examples.
    """

    sources: tuple[Source, ...]
    source: Numbers
    example: Numbers
    place: Numbers
    index: Numbers
    begins: tuple[int, ...]
    sequences: tuple[Source, ...]
    length: int
    named: Numbers
    names: tuple[str, ...]
    along_first: bool

    @cached_property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether each row is a known token."""
        return np.asarray(self.source != UNKNOWN)

    @cached_property
    def is_named(self) -> NDArray[np.bool_]:
        """Whether the place of each row in what the program has read is known."""
        in_order = [not isinstance(source, SeenTokens) or source.are_in_order for source in self.sources]
        return np.asarray(self.is_known & _by_source(self.source, in_order, False))

    @cached_property
    def is_of_text(self) -> NDArray[np.bool_]:
        """Whether each row is of a source other than an image, in which places are no positions."""
        return np.asarray(_by_source(self.source, (isinstance(one, SeenTokens) for one in self.sources), False))

    @cached_property
    def are_placed(self) -> bool:
        """Whether all rows are known tokens of a sequence in which the program has put them behind others."""
        return self.are_whole and any(
            first is not source for first, source in zip(self.sequences, self.sources, strict=True)
        )

    @cached_property
    def are_whole(self) -> bool:
        """Whether all rows are known tokens."""
        return bool(self.is_known.all())

    @cached_property
    def are_distinct(self) -> bool:
        """Whether all rows of each entry of the batch are known tokens, and none is twice the same."""
        entries = zip(self.source, self.example, self.place, strict=True)
        return bool(self.is_named.all()) and all(
            len({*zip(*(x.tolist() for x in of), strict=True)}) == len(of[0]) for of in entries
        )

    @cached_property
    def position(self) -> Numbers:
        """Place of each row in its sequence; UNKNOWN: not known."""
        return np.where(self.is_known, self.place + _by_source(self.source, self.begins, 0), UNKNOWN)

    def entry_of(self, place: int) -> int:
        """Return the entry for a place in the batch of the attention: a single entry stands for all."""
        return min(place, len(self.source) - 1)

    @_kept
    def sequence(self, entry: int) -> Source | None:
        """Return the sequence that all known rows of an entry of the batch are of; None: of more than one, or none."""
        numbers = np.unique(self.source[entry][self.is_known[entry]])
        found = {self.sequences[number] for number in numbers}
        examples = np.unique(self.example[entry][self.is_known[entry]])
        return found.pop() if len(found) == 1 == len(examples) else None

    @cached_property
    def _known_numbers(self) -> list[int]:
        """Numbers of the sources of all known rows."""
        numbers: list[int] = np.unique(self.source[self.is_known]).tolist()
        return numbers

    @cached_property
    def _known_sources(self) -> set[Source]:
        """The sources of all known rows."""
        return {self.sources[number] for number in self._known_numbers}

    @cached_property
    def all_sequences(self) -> frozenset[Source]:
        """The sequences of all known rows."""
        return frozenset(self.sequences[number] for number in self._known_numbers)

    @cached_property
    def some_examples(self) -> tuple[Source, frozenset[int]] | None:
        """Of which examples of their source the rows are; None: of all, or of more than one source."""
        source = next(iter(self._known_sources), None)
        if len(self._known_sources) != 1 or not isinstance(source, SeenTokens) or source.n_axes < 2:
            return None
        examples = frozenset(np.unique(self.example[self.is_known]).tolist())
        return None if len(examples) == source.sizes[3 - source.n_axes] else (source, examples)

    @cached_property
    def reads(self) -> frozenset[int]:
        """The numbers of the look-ups of a text that the rows are, in its order; empty: they are none.

        The program may have put others in the place of some.
        """
        every = (self.sources[number] for number in self.source[self.is_known].tolist())
        counts = Counter(source for source in every if isinstance(source, SeenTokens) and source.reads)
        text = max(counts, key=counts.__getitem__, default=None)
        if text is None:
            return frozenset()
        is_text = _by_source(self.source, (source is text for source in self.sources), False)
        in_place = ((self.place == np.arange(self.place.shape[1])) | ~is_text).all()
        is_one = all(len(np.unique(row[of])) == 1 for row, of in zip(self.example, is_text, strict=True))
        return frozenset(text.reads) if in_place and is_one and self.place.shape[1] == text.sizes[-1] else frozenset()

    @cached_property
    def part(self) -> Part | None:
        """The tokens, if they are of one sequence, and the same in all entries of the batch; None: they are not."""
        sequences = {self.sequence(entry) for entry in range(len(self.source))}
        position = np.where(self.named != UNKNOWN, UNKNOWN - 1 - self.named, self.position)
        first = next(iter(sequences))
        if len(sequences) > 1 or first is None or (position != position[:1]).any():
            return None
        at = tuple(position[0].tolist())
        steps = {b - a for a, b in pairwise(at)} or {1}
        step = steps.pop() if len(steps) == 1 else 0
        length = max(self.length, max(at) + 1)
        is_range = step > 0 and at[0] >= 0
        return Part(first, at[0], step if is_range else 1, len(at), () if is_range else at, length)

    @_kept
    def sources_of(self, entry: int) -> set[Source]:
        """Return the sources of the known rows of an entry of the batch."""
        return {self.sources[number] for number in np.unique(self.source[entry][self.is_known[entry]])}

    @_kept
    def pieces_of(self, entry: int) -> set[tuple[Source, int]]:
        """Return the pieces of sequences that the known rows of an entry of the batch are of, by where these begin."""
        numbers = np.unique(self.source[entry][self.is_known[entry]]).tolist()
        return {(self.sequences[number], self.begins[number]) for number in numbers}

    def is_of(self, entry: int, examples: dict[Source, int]) -> NDArray[np.bool_]:
        """Return which rows of an entry of the batch are of these examples of their sources, or of others alone."""
        wanted = (examples.get(source, _ANY) for source in self.sources)
        expected = _by_source(self.source[entry], wanted, _ANY)
        return np.asarray((expected == _ANY) | (expected == self.example[entry]))

    @cached_property
    def may_be_batch(self) -> bool:
        """Whether some rows stand along the first axis of what was given, and so may be the examples of a batch."""
        is_matrix = any(
            isinstance(one, SeenTokens) and one.n_axes == 1 and not one.reads for one in self._known_sources
        )
        return self.along_first or is_matrix

    @cached_property
    def main_sequence(self) -> Source | None:
        """The sequence of most rows; None: all rows are unknown."""
        counts = Counter(self.sequences[number] for number in self.source[self.is_named].tolist())
        return max(counts, key=counts.__getitem__, default=None)

    @_kept
    def is_in(self, entry: int, wanted: Source | None) -> NDArray[np.bool_]:
        """Return which rows of an entry of the batch are of one sequence: the wanted one, or if none is, any."""
        numbers = self.source[entry]
        here = [*dict.fromkeys(self.sequences[number] for number in numbers.tolist() if number != UNKNOWN)]
        if len(here) < 2:
            return np.ones(len(numbers), dtype=np.bool_)
        of = wanted if wanted in here else here[0]
        return np.array([number != UNKNOWN and self.sequences[number] is of for number in numbers.tolist()])

    @_kept
    def follows_unknown(self, entry: int, n: int) -> set[Source]:
        """Return the sequences of which it is not known where they begin in the whole text, of the first ``n`` rows.

        They stand behind rows of which it is not known which tokens they are, such as those of a cache that was copied
        unseen. Or the program has put them among tokens that it has read before, and it is not known how they follow.
        """
        source, are_named = self.source[entry, :n], self.is_named[entry, :n]
        are_unknown = (source != UNKNOWN) & ~are_named
        first = int(are_unknown.argmax()) if are_unknown.any() else n
        found = {self.sequences[number] for number in np.unique(source[first:][are_named[first:]])}
        there = np.unique(source[are_named]).tolist()
        for number in there if len({self.sequences[number] for number in there}) > 1 else ():
            others = (other for other in there if self.sequences[other] is not self.sequences[number])
            if any(_is_before(self.sources[other], self.sources[number]) for other in others):
                found.add(self.sequences[number])
        return found

    @_kept
    def examples(self, entry: int) -> dict[Source, int]:
        """Return of which example of each source most rows of an entry of the batch are; UNKNOWN: of none."""
        counts: dict[Source, Counter[int]] = {}
        for number, example in zip(self.source[entry].tolist(), self.example[entry].tolist(), strict=True):
            if number != UNKNOWN:
                counts.setdefault(self.sources[number], Counter())[example] += 1
        found: dict[Source, int] = {}
        for source, of_source in counts.items():
            (first, n), *others = of_source.most_common(2)
            found[source] = UNKNOWN if others and others[0][1] == n else first
        return found

    def tokens_of(self, entry: int, start: int, end: int) -> list[tuple[Source, int, int] | None]:
        """Return the sequence, the example and the position of some rows of an entry of the batch; None: not known."""
        columns = (x[entry, start:end].tolist() for x in (self.source, self.example, self.position, self.is_named))
        return [
            (self.sequences[source], example, position) if is_named else None
            for source, example, position, is_named in zip(*columns, strict=True)
        ]

    def were_read_behind(self, queries: "Places", is_seen: NDArray[np.bool_]) -> bool:
        """Return whether some of these keys were read before the queries, and are behind them in the same sequence.

        ``is_seen``: (batch_size or 1, k_length), which of the first keys count.
        """
        asked = [queries.sources[number] for number in queries._known_numbers]
        is_before = [
            sequence in queries.all_sequences and any(_is_before(source, other) for other in asked)
            for source, sequence in zip(self.sources, self.sequences, strict=True)
        ]
        is_behind = self.is_named & (self.position > queries.reach[1]) & _by_source(self.source, is_before, False)
        return bool((is_behind[:, : is_seen.shape[1]] & is_seen).any())

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The first and the last position of rows whose place is known; UNKNOWN: of none."""
        known = self.position[self.is_named & self.is_of_text]
        return (int(known.min()), int(known.max())) if known.size else (UNKNOWN, UNKNOWN)

    @_kept
    def is_same_as(self, key: "Places") -> bool | None:
        """See ``compare``."""
        n = max(len(self.source), len(key.source))
        found = {_compared(self, key, self.entry_of(i), key.entry_of(i)) for i in range(n)}
        return found.pop() if len(found) == 1 else None

    @_kept
    def example_of(self, entry: int) -> int:
        """Return the example that the first known row of an entry of the batch is of, of a text if it is of any."""
        is_text = _by_source(self.source[entry], map(is_looked_up, self.sources), False)
        return int(self.example[entry][(is_text if is_text.any() else self.is_known[entry]).argmax()])


def is_looked_up(source: Source) -> bool:
    """Return whether the tokens of a source are ids that were looked up."""
    return isinstance(source, SeenTokens) and bool(source.reads)


def _by_source(source: Numbers, of_each: Iterable[Any], of_none: Any) -> NDArray[Any]:
    """Return what is so of the source of each row.

    Args:
        source: numbers of the sources; UNKNOWN: none.
        of_each: what is so of each source.
        of_none: what is so of rows that have none.
    """
    return np.array([*of_each, of_none])[source]  # UNKNOWN is the number of the last


class SeenPlaces:
    """Which tokens queries and keys are; those of the layers of a stack are read once."""

    def __init__(self, sequences: Sequences) -> None:
        self._sequences = sequences
        self._last: tuple[Sides, int, tuple[Places | None, Places | None]] = (None, None), 0, (None, None)

    def of(self, sides: Sides) -> tuple[Places | None, Places | None]:
        """Return which tokens the queries and keys are; None: of a side nothing is known."""
        before, n_joined, places = self._last
        if n_joined != self._sequences.n_joined or not all(map(_are_alike, sides, before)):
            places = read_places(sides, self._sequences)
            self._last = sides, self._sequences.n_joined, places
        return places


def _are_alike(side: TokenRegions | None, other: TokenRegions | None) -> bool:
    if side is None or other is None:
        return side is other
    own, others = side.regions, other.regions
    is_same = own.rows is others.rows and own.names == others.names and own.sources == others.sources
    return is_same and side.numbers.shape == other.numbers.shape and torch.equal(side.numbers, other.numbers)


def read_places(sides: Sides, sequences: Sequences) -> tuple[Places | None, Places | None]:
    """Return which tokens the queries and keys are; None: of a side nothing is known."""
    found = [None if side is None else _coordinates(side) for side in sides]
    if found[0] is not None and found[1] is not None and found[0].is_pool_of(found[1]):
        found[0] = replace(found[0], source=np.full_like(found[0].source, UNKNOWN))
    along_first = _along_first([side for side in found if side is not None], sequences)
    orders = [None if side is None else side.in_order(along_first) for side in found]
    if found[0] is not None and found[1] is not None and orders[1] is not None:
        _join_read(found[0], found[1], orders[1], sequences)
    joined = {} if found[0] is None or orders[0] is None else _joined(found[0], orders[0], sequences)
    query, key = (
        None if side is None or order is None else side.places(order, sequences, joined)
        for side, order in zip(found, orders, strict=True)
    )
    return query, key


def _along_first(sides: Sequence["_Coordinates"], sequences: Sequences) -> set[Source]:
    """Return the sources whose tokens stand along the first axis.

    Steps of a decoder tell it by the batch, or not at all; then it is as in the first attention that has told it.
    """
    tell = [side.along_first(sequences) for side in sides]
    found = {source: all(side.get(source, True) for side in tell) for side in tell for source in side}
    for source, is_first in found.items():
        sequences.note_axis(source, is_first)
    every = {source for side in sides for source in side.sources}
    return {source for source in every if found.get(source, sequences.is_along_first(source))}


def _join_read(query: "_Coordinates", key: "_Coordinates", order: "_InOrder", sequences: Sequences) -> None:
    """Note that the tokens of the queries follow all others among the keys, as where a cache holds these.

    Where the queries are all of the keys, such as those of a document and a question that were joined, none follow.
    """
    numbers, places = key.source[0], order.place[0]
    sources = [*dict.fromkeys(key.sources[number] for number in numbers.tolist() if number != UNKNOWN)]
    asked = {query.sources[number] for number in np.unique(query.source[0]).tolist() if number != UNKNOWN}
    if len(sources) < 2 or asked != {sources[-1]} or not sequences.may_join(sources[-1]):
        return
    new = np.flatnonzero(numbers == key.sources.index(sources[-1]))
    before = np.flatnonzero(numbers != UNKNOWN)
    before = before[before < new[0]]
    if (np.diff(new) == 1).all() and len(before):
        tokens = [(key.sources[numbers[row]], int(places[row])) for row in before]
        sequences.join(sources[-1], int(places[new[0]]), tokens, int(new[0] - before[-1]) - 1)


def _joined(side: "_Coordinates", order: "_InOrder", sequences: Sequences) -> dict[Source, tuple[Source, int]]:
    """Return where sources begin in the sequence that the program has joined of several, and the first of them; empty:
    it is one sequence, or others stand between its tokens."""
    numbers, places = side.source[0].tolist(), order.place[0].tolist()
    ends: dict[Source, int] = {}
    begins: dict[Source, tuple[Source, int]] = {}
    for row, (number, place) in enumerate(zip(numbers, places, strict=True)):
        if number == UNKNOWN:
            continue
        first, at = sequences.begins(side.sources[number])
        is_next = first is next(reversed(ends), None) if first in ends else place + at == 0
        if not is_next or place + at != ends.get(first, 0):
            return {}
        if first not in ends:
            begins[first] = next(iter(ends), first), row
        ends[first] = place + at + 1
    return begins if len(begins) > 1 else {}


@dataclass(frozen=True, eq=False)
class _InOrder:
    """Places of tokens along one side of an attention.

    Attributes:
        place, example, index, length, along_first: see ``Places``.
        is_token: (batch_size, length), whether a row is a single token.
    """

    place: Numbers
    example: Numbers
    index: Numbers
    is_token: NDArray[np.bool_]
    length: int
    along_first: bool


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Where regions begin, and how long they are, along the axes of their sources.

    Attributes:
        sources: the sources.
        source: (batch_size, length); UNKNOWN: none.
        starts, sizes: (batch_size, length, 3).
        named, names: see ``Places``.
    """

    sources: tuple[Source, ...]
    source: Numbers
    starts: Numbers
    sizes: Numbers
    named: Numbers
    names: tuple[str, ...]

    @cached_property
    def _lengths(self) -> Numbers:
        """Lengths of the axes of each row's source, (batch_size, length, 3)."""
        return _by_source(self.source, (source.sizes for source in self.sources), (1, 1, 1))

    @cached_property
    def _first(self) -> Numbers:
        """The first axis of each row's source, 0 to 2."""
        n_axes = (source.n_axes if isinstance(source, SeenTokens) else 3 for source in self.sources)
        return 3 - _by_source(self.source, n_axes, 3)

    def is_pool_of(self, key: "_Coordinates") -> bool:
        """Return whether this is a single query that covers more of an image than any of the keys, as their mean does.

        It is none of the patches.
        """
        number = int(self.source[0, 0]) if self.source.shape == (len(self.source), 1) else UNKNOWN
        if number == UNKNOWN or not isinstance(image := self.sources[number], SeenImage) or image not in key.sources:
            return False
        areas = self.sizes.prod(axis=-1), key.sizes.prod(axis=-1)[key.source == key.sources.index(image)]
        return bool(areas[1].size) and int(areas[0][0, 0]) > int(areas[1].max())

    def along_first(self, sequences: Sequences) -> dict[Source, bool]:
        """Return, for sources of which more than one token stands in an entry of the batch, whether tokens stand along
        its first axis. Otherwise that is the axis of the examples.

        Of sources with one token in each entry, it is only asked where the axis is not known by now.
        """
        first = np.take_along_axis(self.starts, self._first[..., None], axis=-1)[..., 0]
        rest = _flat(self.starts, self._lengths, np.arange(3) > self._first[..., None])
        every = _flat(self.starts, self._lengths, np.arange(3) >= self._first[..., None])
        found: dict[Source, bool] = {}
        counts = [np.bincount(of[of >= 0], minlength=len(self.sources)) for of in self.source]
        most = np.max(counts, axis=0).tolist()
        for number, (source, n_rows) in enumerate(zip(self.sources, most, strict=True)):
            is_single = isinstance(source, SeenTokens) and source.sizes == (1, 1, 1)
            if not n_rows or is_single or (n_rows == 1 and sequences.knows_axis(source)):
                continue
            entries = [of == number for of in self.source]
            if isinstance(source, SeenTokens) and n_rows == 1 < len(entries) and source.n_axes > 1:
                found[source] = _are_examples_last(first, every, entries)
            if not isinstance(source, SeenTokens) or n_rows < 2 - (source.n_axes == 1):
                continue
            are_alone = all((np.ptp(row[of]) if of.any() else 0) == 0 for row, of in zip(rest, entries, strict=True))
            are_all = all((np.diff(row[of]) == 1).all() for row, of in zip(every, entries, strict=True))
            varies = any(of.any() and np.ptp(row[of]) > 0 for row, of in zip(first, entries, strict=True))
            varies |= source.n_axes == 1 and len(entries) != source.sizes[2]  # which are no examples
            found[source] = varies and (are_alone or are_all)
        return found

    def places(self, order: _InOrder, sequences: Sequences, joined: dict[Source, tuple[Source, int]]) -> Places:
        """Return the places of single tokens."""
        begins = []
        for source in self.sources:
            first, at = sequences.begins(source)
            whole, offset = joined.get(first, (first, 0))
            begins.append((whole, at + offset))
        return Places(
            self.sources,
            np.where(order.is_token, self.source, UNKNOWN),
            order.example,
            order.place,
            order.index,
            tuple(place for _, place in begins),
            tuple(first for first, _ in begins),
            order.length,
            self.named,
            self.names,
            order.along_first,
        )

    def in_order(self, along_first: set[Source]) -> "_InOrder":
        """Return the places of tokens in the order in which these stand; ``along_first``: sources along whose first
        axis they stand."""
        axes, lengths = np.arange(3), self._lengths
        is_first, is_after = axes == self._first[..., None], axes > self._first[..., None]
        is_text = _by_source(self.source, (isinstance(source, SeenTokens) for source in self.sources), False)
        is_all = (self.sizes == lengths) & (axes == 1) & (self._first == 0)[..., None] & is_text[..., None]
        starts = np.where(is_all, 0, self.starts)  # heads, which layers have joined
        is_token = (self.source >= 0) & ((self.sizes == 1) | is_all | ~is_text[..., None]).all(axis=-1)
        turned = _by_source(self.source, (source in along_first for source in self.sources), False)
        is_split = np.array([len(np.unique(entry)) > 1 for entry in starts[..., 1]])[:, None]  # rows and columns
        is_after = is_after & ((axes == 2) | is_split[..., None])
        rest = _flat(starts, lengths, is_after)
        first = np.where(is_first, starts, 0).sum(axis=-1)
        varies = np.array([len(np.unique(entry)) > 1 for entry in np.where(turned, rest, 0)])[:, None]
        index = np.where(self._first == 2, 0, first), np.where(self._first == 2, first, rest)
        return _InOrder(
            np.where(turned & varies, _flat(starts, lengths, is_after | is_first), np.where(turned, first, rest)),
            np.where(turned & varies, 0, np.where(turned, rest, first)),
            np.stack(index, axis=-1),
            is_token,
            self._length(turned, bool(varies[0, 0]), bool(is_split.any())),
            bool((turned & ~varies & (self._first < 2)).any()),
        )

    def _length(self, turned: NDArray[np.bool_], varies: bool, is_split: bool) -> int:
        """Return the number of tokens in the source of the first row."""
        lengths, first = self._lengths[0, 0], int(self._first[0, 0])
        if turned[0, 0]:
            return int(lengths[first:].prod() if varies else lengths[first])
        if first == 2:
            return 1
        return int(lengths[1] * lengths[2] if is_split and not first else lengths[2])


def _are_examples_last(first: Numbers, every: Numbers, entries: Sequence[NDArray[np.bool_]]) -> bool:
    """Return whether the only token of each entry is of another example, where tokens stand along the first axis.

    ``first``, ``every``: (batch_size, length), places along the first axis, and along all; ``entries``: which rows are
    of the source.
    """
    found = [
        (int(one[of][0]), int(place[of][0])) for one, place, of in zip(first, every, entries, strict=True) if of.any()
    ]
    return len(found) > 1 and len({at for at, _ in found}) == 1 and len({place for _, place in found}) == len(found)


def _flat(starts: Numbers, lengths: Numbers, axes: NDArray[np.bool_]) -> Numbers:
    """Return the number of a region along some axes, the last of which runs fastest."""
    place = np.zeros(starts.shape[:-1], np.int64)
    for axis in range(3):
        place = np.where(axes[..., axis], place * lengths[..., axis] + starts[..., axis], place)
    return place


def _coordinates(side: TokenRegions) -> _Coordinates:
    numbers = side.numbers.cpu().numpy().astype(np.int64)
    rows = side.regions.rows.cpu().numpy()
    rows = rows[np.maximum(numbers, 0)] if len(rows) else np.zeros((*numbers.shape, 7), np.float32)
    starts = np.stack([rows[..., axis] for axis in AXES], axis=-1)
    ends = np.stack([rows[..., axis + 1] for axis in AXES], axis=-1)
    source = np.where(numbers > NONE, rows[..., SOURCE].astype(np.int64), UNKNOWN)
    return _Coordinates(
        side.regions.sources,
        source,
        np.round(starts).astype(np.int64),
        np.round(ends - starts).astype(np.int64),
        np.where(numbers < NONE, NONE - 1 - numbers, UNKNOWN),
        side.regions.names,
    )


def compare(query: Places | None, key: Places | None) -> bool | None:
    """Return whether queries and keys are tokens of the same sequence, example by example; None: not known."""
    return None if query is None or key is None else query.is_same_as(key)


def _compared(query: Places, key: Places, own: int, other: int) -> bool | None:
    sequences = query.sequence(own), key.sequence(other)
    if None not in sequences and sequences[0] is sequences[1]:
        is_whole = query.pieces_of(own) == key.pieces_of(other)  # otherwise others were joined to the tokens of one
        return True if is_whole and query.example_of(own) == key.example_of(other) else None
    roots = [_roots(side, entry) for side, entry in ((query, own), (key, other))]
    roots = [side and frozenset(_first_read(source) for source in side) for side in roots]
    if roots[0] is None or roots[1] is None or not roots[0] or not roots[1]:
        return None
    return False if roots[0].isdisjoint(roots[1]) else None


def _first_read(source: Source) -> Source:
    """Return the source of the first look-up of the same ids."""
    return source.again or source if isinstance(source, SeenTokens) else source


def inputs_of(sides: Sequence[Places | None]) -> "frozenset[Source] | None":
    """Return all inputs of the program that some sides of attentions may come from; None: not known."""
    found = frozenset[Source]()
    for side in sides:
        for entry in range(0 if side is None else len(side.source)):
            roots = None if side is None else _roots(side, entry)
            if roots is None:
                return None
            found |= roots
    return None if None in sides else found


def _roots(side: Places, entry: int) -> "frozenset[Source] | None":
    """Return all inputs of the program that rows may come from; None: not known."""
    found = frozenset[Source]()
    for source in side.sources_of(entry):
        if isinstance(source, SeenImage):
            found |= {source}
            continue
        for term in source.terms:
            if term.rank == MADE or term.made_of:
                if term.made_of is None:
                    return None
                found |= term.made_of
            elif term.rank == WITHIN:
                return None
            else:
                found |= {term}
    return found
