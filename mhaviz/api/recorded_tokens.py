"""Names of the tokens of a recorded program."""

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import compress, dropwhile, islice, pairwise
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.api.recorded_patches import ImageNumbers, grids_of, names_of
from mhaviz.errors import MhavizError, parameter
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens
from mhaviz.observe.compared import Compared
from mhaviz.observe.inputs import ReadIds, SeenInputs
from mhaviz.observe.places import UNKNOWN, Places, is_looked_up
from mhaviz.observe.regions import SeenTokens, Source
from mhaviz.observe.token_regions import Sides, TokenRegions
from mhaviz.results.image_grids import MOST_SPECIAL

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerBase

    from mhaviz.models.transformers.read import Cut


class TokenNames:
    """Names tokens by the user's names, the program's tokenizer, the patches of an image, or positions.

    Args:
        inputs: token ids that the program's models have read.
        given: the user's names, for inputs of this length; None: no names.
        grid: (rows, columns) of an image's patches, or these and the position of the first; None: those of the program.
        miss: called with a message if tokens cannot be named.

    Attributes:
        remark: the reason to believe that the names are right, where they are a guess; else "".
    """

    def __init__(
        self,
        inputs: SeenInputs,
        given: Sequence[str] | None,
        grid: tuple[int, ...] | None,
        miss: Callable[[str], None],
    ) -> None:
        self._inputs, self._given, self._grid, self._miss = inputs, given, grid, miss
        self._given_fits, self._lengths, self.remark = False, set[int](), ""
        self._forward, self._images = -1, ImageNumbers()
        self._sides: dict[tuple[Any, ...], _Sides] = {}
        self._cuts: dict[tuple[int, ...], Cut | None] = {}  # by token ids; None: not known

    def sides(
        self,
        forward: int,
        shape: tuple[int, int, int, int],
        examples: Sequence[int],
        first: int,
        is_cross: bool,
        rows: tuple[str, str] = ("", ""),
        tokens: Compared = Compared(),  # noqa: B008
        patches: Sides = (None, None),
    ) -> "_Sides":
        """Return the tokens of the queries and of the keys of some examples.

        Layers of the same forward pass get the same objects.

        Args:
            forward: number of the forward pass.
            shape: shape of the weights, (batch_size, n_heads, q_length, k_length).
            examples: their places in the batch.
            first: position of the first query, in a step of a decoder that writes.
            is_cross: whether the keys come from another input.
            rows: names of queries and keys: "" for tokens; "fixed", "channel" or "head" for others; "row" if it is not
                known what they are.
            tokens: for queries and keys, the token ids that they come from.
            patches: for queries and keys, the regions of images that they are.
        """
        (batch_size, _, *lengths), reads = shape, tokens.reads
        if forward != self._forward:
            self._forward = forward
            self._sides.clear()
        read = None if rows[0] else self._read(reads[0], lengths[0])
        read_of_keys, first_key = self._read(reads[1], lengths[1]), 0
        if first and not is_cross:  # an older cache may have lost its first keys
            read_of_keys, first_key = None, first + lengths[0] - lengths[1]
        texts = read, read_of_keys
        of_images = [None if side is None else side.of_images for side in patches]
        seen = (
            *(one and self._key_of(one, examples, forward) for one in of_images),
            *(one and numbers for one, numbers in zip(texts, reads, strict=True)),
        )
        of = tuple(example_of(places, example) for places in tokens.places for example in examples)
        key = *lengths, tuple(examples), of, batch_size, first, is_cross, rows, *seen
        if key not in self._sides:
            queries, keys = (
                tuple(
                    self._of(length, example, example_of(places, example), start, one, there, forward, called)
                    for example in examples
                )
                for length, start, one, called, there, places in zip(
                    lengths, (first, first_key), texts, rows, of_images, tokens.places, strict=True
                )
            )
            self._sides[key] = queries, keys
        return self._sides[key]

    def at_places(
        self,
        sides: tuple[Tokens, ...],
        which: int,
        places: tuple[Places | None, Places | None],
        entries: Sequence[int],
        k_length: int,
        after: int = UNKNOWN,
        called: str = "",
    ) -> tuple[Tokens, ...]:
        """Name tokens of some entries of the batch by their places in what the program has read, if these are known.

        Rows of which it is not known which tokens they are, or that are of other examples or sequences than the
        queries, are called rows, and parameters by their names. Tokens that stand in their order from the first on keep
        their names, and so do special ones in whose place the program has put others.

        Args:
            sides: the queries, or the keys.
            which: 0 for queries, 1 for keys.
            places: of queries and keys.
            entries: the entries.
            k_length: number of keys that are drawn, the first of those whose places are told.
            after: position that the queries of a step have to be after; otherwise it is not known where they are.
            called: what the queries are called, such as "fixed"; "": they are tokens.
        """
        own, queries = places[which], places[0]
        if own is None:
            return sides
        made = []
        for tokens, entry in zip(sides, entries, strict=True):
            of = own.entry_of(entry)
            examples = {} if queries is None else queries.examples(queries.entry_of(entry))
            fits = len(tokens) == own.source.shape[1] and not tokens.images
            is_shown = own.is_of(of, examples) & own.is_in(of, None if queries is None else queries.main_sequence)
            unknown = set() if places[1] is None else places[1].follows_unknown(places[1].entry_of(entry), k_length)
            if queries is not None and UNKNOWN != queries.reach[0] <= after:
                unknown = unknown | queries.all_sequences
            made.append(self._at_places(tokens, own, of, is_shown, unknown, called) if fits else tokens)
        return tuple(made)

    def _at_places(
        self,
        tokens: Tokens,
        places: Places,
        entry: int,
        is_shown: NDArray[np.bool_],
        unknown: set[Source],
        called: str,
    ) -> Tokens:
        is_named = places.is_named[entry] & places.is_of_text[entry] & is_shown
        position = np.where(is_named, places.position[entry], UNKNOWN)
        is_read = any(map(is_looked_up, places.sources))
        has_words = len(np.unique(places.source[entry])) == 1 if tokens.ids else not is_read
        is_whole = len(position) >= places.length and unknown.isdisjoint(places.sequences) and has_words
        if is_whole and bool((position == np.arange(len(position))).all()):
            return tokens
        # Steps of a decoder are named with what stands before them, and by the user's names as a whole.
        is_run = position[0] != UNKNOWN and bool((position == position[0] + np.arange(len(position))).all())
        may_join = is_run and self._given is None and unknown.isdisjoint(places.sequences)
        if may_join and (ids := self._ids_at(places, entry)):
            return Tokens(tuple(map(str, position.tolist())), ids=ids)
        is_in_place = bool(((position == np.arange(len(position))) | (position == UNKNOWN)).all())
        labels, words_of = [], cache(self._words_of)
        for row, place in enumerate(position.tolist()):
            otherwise = f"row {row}"
            if place != UNKNOWN:
                is_placed = places.sequences[places.source[entry, row]] not in unknown
                labels.append(self._label(places, entry, row, words_of, str(place) if is_placed else otherwise))
            elif is_in_place and row in tokens.special:
                labels.append(tokens.texts[row] if tokens.texts[row] != str(row) else self.name(tokens).texts[row])
            elif (number := places.named[entry, row]) != UNKNOWN:
                name = places.names[number]
                labels.append(f"{called} {name.rpartition(' ')[2]}" if called else name)
            else:
                labels.append(otherwise)
        return Tokens(tuple(labels))

    def _ids_at(self, places: Places, entry: int) -> tuple[int, ...]:
        """Return the ids of tokens that were all looked up; empty: they were not, or they are not known."""
        found, read_of = [], cache(self._read_of)
        for number, (example, place) in zip(places.source[entry].tolist(), places.index[entry].tolist(), strict=True):
            if (read := read_of(places.sources[number])) is None:
                return ()
            found.append(int(read.ids[example, place]))
        return tuple(found)

    def _label(
        self,
        places: Places,
        entry: int,
        row: int,
        words_of: Callable[[SeenTokens, int], tuple[str, ...]],
        otherwise: str,
    ) -> str:
        """Return the word of a token that was looked up, or else its place."""
        source = places.sources[places.source[entry, row]]
        place = int(places.place[entry, row])
        if self._given is not None and len(self._given) == self._named_at_once(places, source):
            self._given_fits = True
            return self._given[place]
        if not isinstance(source, SeenTokens):
            return otherwise
        example, place = places.index[entry, row].tolist()
        words = words_of(source, example)
        return words[place] if words and words[place] != str(place) else otherwise

    def _named_at_once(self, places: Places, source: Source) -> int:
        """Return the length of a source whose tokens the user's names may be; 0: others go on from it, or of the same
        length stand beside it."""
        if len(places.sources) == 1:
            return places.length
        is_alone = sum(other.sizes[-1] == source.sizes[-1] for other in places.sources) == 1
        return source.sizes[-1] if is_alone and len({*places.sequences}) == len(places.sources) else 0

    def _read_of(self, source: Source) -> ReadIds | None:
        """Return the token ids that were looked up at a source; None: none were, or they are not known."""
        is_text = isinstance(source, SeenTokens) and bool(source.reads)
        return self._read(frozenset(source.reads), source.sizes[-1]) if is_text else None  # type: ignore[union-attr]

    def _words_of(self, source: SeenTokens, example: int) -> tuple[str, ...]:
        """Return the names of the tokens of an example that were looked up at a source; empty: none were, or of none
        it is known which ids they have."""
        if (read := self._read_of(source)) is None:
            return ()
        ids = tuple(read.ids[example].tolist())
        return self.name(Tokens(tuple(map(str, range(len(ids)))), ids=ids)).texts

    def name(self, tokens: Tokens) -> Tokens:
        """Name tokens by the user's names, if there are as many, or by the tokenizer, if their ids are known."""
        if {text.partition(" ")[0] for text in tokens.texts} <= {"fixed", "channel", "head", "row"}:
            return tokens
        self._lengths.add(len(tokens))
        if self._given is not None and len(tokens) == len(self._given) and _are_positions(tokens.texts):
            self._given_fits = True
            return replace(tokens, texts=tuple(self._given))
        if not tokens.ids or tokens.grid is not None:
            return tokens
        if self._tokenizer is None or max(tokens.ids) >= max(len(self._tokenizer), self._tokenizer.vocab_size):
            return tokens
        from mhaviz.models.transformers.read import name_tokens

        try:
            named = name_tokens(self._tokenizer, tokens.ids, cut=self._cuts.get(tokens.ids))
            texts = zip(tokens.texts, named.texts, strict=True)
            if len(self._tokenizer) < _SMALL:
                self.remark = (
                    f"tokens have the names of the only tokenizer that there is, as their table has its "
                    f"{len(self._tokenizer):,} rows"
                )
            are_patches = {place for one in tokens.images for place in one.tokens}
            labels = tuple(old if place in are_patches else new for place, (old, new) in enumerate(texts))
            return replace(named, texts=labels, images=tokens.images)
        except MhavizError as error:
            self._miss(str(error))
            return tokens

    def finish(self) -> None:
        """Report the user's names if they fitted no attention."""
        if self._given is not None and not self._given_fits:
            there = " or ".join(map(str, sorted(self._lengths)[:_LISTED])) or "none"
            self._miss(
                f"tokens: expected as many names as an attention has tokens in a known order, {there}, got "
                f"{len(self._given):,}; they are not used"
            )

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase | None":
        return tokenizer_of_program()

    def _of(
        self,
        length: int,
        example: int,
        of_text: int,
        first: int,
        read: ReadIds | None,
        seen: TokenRegions | None,
        forward: int,
        called: str,
    ) -> Tokens:
        images = () if seen is None else grids_of(seen, example, self._images, forward)
        images = self._as_given(images, length, is_text=read is not None or bool(first))
        if called and (not images or called != "row"):
            return rows_of(called, first, length)
        tokens = self._of_text(length, of_text, first, read)
        if not images:
            return tokens
        labels = {place: label for one in images for place, label in one.labels().items()}
        texts = tuple(labels.get(place, text) for place, text in enumerate(tokens.texts))
        if read is not None or first:
            return replace(tokens, texts=texts, images=images)
        names = {} if seen is None else names_of(seen, example)
        others = [place for place in range(length) if place not in labels]
        if len(others) > MOST_SPECIAL and not all(place in names for place in others):  # words, which are not known
            return replace(tokens, texts=texts, images=images)
        labels |= {place: names.get(place, f"{called or 'token'} {place}") for place in others}
        texts = tuple(labels.get(place, text) for place, text in enumerate(texts))
        return replace(tokens, texts=texts, special=tuple(others), images=images)

    def _key_of(self, side: TokenRegions, examples: Sequence[int], forward: int) -> object:
        """Return what tells the tokens of examples apart from others."""
        numbers = side.numbers[[min(one, len(side.numbers) - 1) for one in examples]].long()
        rows = side.regions.rows[numbers.clamp(min=0)] if len(side.regions.rows) else numbers
        images = tuple(self._images.of(side.regions.images, forward))
        return numbers.cpu().numpy().tobytes(), rows.cpu().numpy().tobytes(), images, side.regions.names

    def _as_given(self, images: tuple[PatchGrid, ...], length: int, is_text: bool) -> tuple[PatchGrid, ...]:
        """Return views of images with the rows and columns that the user has given, where it is known which tokens they
        are of."""
        if self._grid is None:
            return images
        rows, columns, *first = self._grid
        if first and images:
            shapes = " and ".join(dict.fromkeys(f"{one.rows} × {one.columns}" for one in images))
            self._miss(f"{parameter('grid')}: the program's own patches are known, {shapes}; it is not used for them")
        elif first:
            fits = first[0] + rows * columns <= length
            return (PatchGrid.run(rows, columns, first[0]),) if fits else images
        if len(images) == 1 and len(images[0].tokens) == rows * columns == len(images[0].places):
            return (replace(images[0], rows=rows, columns=columns),)
        return (PatchGrid.run(rows, columns),) if not images and not is_text and rows * columns == length else images

    def _of_text(self, length: int, example: int, first: int, read: ReadIds | None) -> Tokens:
        positions = Tokens(tuple(str(first + place) for place in range(length)))
        if read is None or example >= len(read.ids):
            return positions
        ids = tuple(read.ids[example].tolist())
        if self._tokenizer is not None and ids not in self._cuts and len(self._cuts) < _MOST_SEARCHED:
            self._cuts[ids] = None
            self._cuts.update(cuts_of_program(ids))
        return replace(positions, ids=ids, special=self._special(ids))

    def _read(self, numbers: frozenset[int], length: int) -> ReadIds | None:
        """Return the token ids among the numbers that were read for so many tokens, not their positions or types.

        None: there are none, or several that differ, or some numbers that were read are no longer known.
        """
        there = [read for read in self._inputs.ids if read.number in numbers]
        if not there:
            return None
        texts = [read for read in there if read.ids.shape[1] == length and self._may_be_text(read)]
        is_one = len(there) == len(numbers) and all(torch.equal(texts[0].ids, read.ids) for read in texts)
        if not texts or not is_one or not _are_of_text(texts[0].ids[0].tolist()):
            return None
        return texts[-1]

    def _may_be_text(self, read: ReadIds) -> bool:
        """Return whether these numbers may be ids of the tokenizer: neither positions nor token types.

        The table in which they were looked up must have as many rows as the tokenizer has tokens, up to 5% more, or
        the next multiple of 64.
        """
        if self._tokenizer is None:
            return read.ids.shape[1] > 1 and _are_of_text(read.ids[0].tolist())
        ids, least = read.ids, self._tokenizer.vocab_size
        n_tokens = max(len(self._tokenizer), least)
        if not least <= read.vocabulary <= n_tokens * 1.05 and read.vocabulary != n_tokens + -n_tokens % 64:
            return False
        places = torch.arange(ids.shape[1], device=ids.device)
        return len(places) == 1 or not any(bool((ids == one).all()) for one in (places, ids[:, :1]))

    def _special(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        if self._tokenizer is None:
            return ()
        from mhaviz.models.transformers.read import special_of

        return special_of(self._tokenizer, ids)


def example_of(places: Places | None, entry: int) -> int:
    """Return the example of what the program has read that an entry of the batch is of."""
    return entry if places is None else places.example_of(places.entry_of(entry))


_SMALL, _LISTED = 1000, 4
"""Rows below which a table may be as large as a tokenizer by chance; most lengths that a message lists."""

_MOST_SEARCHED, _MOST_ENCODED = 32, 4096
"""Most texts of a recording whose cuts are searched for, and most results of tokenizers that are looked at."""


def tokenizer_of_program() -> "PreTrainedTokenizerBase | None":
    """Return the only transformers tokenizer in memory, as programs do not pass theirs on. None: none, or several."""
    home = sys.modules.get("transformers.tokenization_utils_base")
    if home is None:
        return None
    kinds = _with_subclasses(home.PreTrainedTokenizerBase)
    counts = {id(kind): sys.getrefcount(kind) for kind in kinds}  # an object refers to its class
    known = [one() for one in _found.get("tokenizers", ())]
    if _found.get("counts") != counts or None in known:
        known = [one for one in gc.get_referrers(*kinds) if type(one) in kinds]  # 40 ms beside transformers
        _found.update(counts=counts, tokenizers=[ref(one) for one in known])
    alike = all(type(one) is type(known[0]) and one.get_vocab() == known[0].get_vocab() for one in known[1:])
    return known[-1] if known and alike else None


def cuts_of_program(ids: tuple[int, ...]) -> "dict[tuple[int, ...], Cut]":
    """Return how a tokenizer of transformers has cut a text into these ids, and into those of them that are no padding.

    Its results in memory tell; they are gone, and the cuts empty, if the program keeps only the ids. They are empty,
    too, if it has cut texts that differ into these ids: "the dog's house" and "the dog 's house" have the same.
    """
    home = sys.modules.get("transformers.tokenization_utils_base")
    if home is None:
        return {}
    results = (one for one in gc.get_referrers(home.BatchEncoding) if type(one) is home.BatchEncoding)
    encodings = list(islice((encoding for one in results for encoding in one.encodings or ()), _MOST_ENCODED))
    found = next((one for one in encodings if len(one) == len(ids) and tuple(one.ids) == ids), None)
    if found is None:
        return {}
    text, cut = _text(found), _cut(found, found.attention_mask)
    alike = (one for one in encodings if len(one) >= len(text) and _text(one) == text)
    if any(_cut(one, one.attention_mask) != cut for one in alike):
        return {}
    return {ids: _cut(found, [1] * len(ids)), text: cut}


def _text(encoding: "Encoding") -> tuple[int, ...]:
    """Return the ids of an encoding that are no padding."""
    return tuple(compress(encoding.ids, encoding.attention_mask))


def _cut(encoding: "Encoding", kept: Sequence[int]) -> "Cut":
    """Return how an encoding has cut its text into the tokens where ``kept`` is 1."""
    from mhaviz.models.transformers.read import Cut

    return Cut([*compress(encoding.offsets, kept)], [*compress(encoding.word_ids, kept)])


_found: dict[str, Any] = {}
"""Result of the last search: while the reference counts of their classes stay the same, so do the tokenizers."""


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))


def _are_of_text(ids: list[int]) -> bool:
    """Return whether numbers may be token ids: they are neither consecutive, as positions are, nor all the same."""
    return len(ids) == 1 or (len(set(ids)) > 1 and not all(b - a == 1 for a, b in pairwise(ids)))


def _are_positions(texts: Sequence[str]) -> bool:
    """Return whether tokens are called by positions, in their order, perhaps behind parameters, and so have no other
    names yet."""
    tokens = [*dropwhile(lambda text: not text.isdecimal() and not text.startswith("row "), texts)]
    return bool(tokens) and all(map(str.isdecimal, tokens)) and all(int(a) < int(b) for a, b in pairwise(tokens))


def rows_of(called: str, first: int, length: int) -> Tokens:
    """Return names for rows that are no tokens of a text, or whose tokens are not known: "row 0", "row 1", …."""
    return Tokens(tuple(f"{called} {first + place}" for place in range(length)))


_Sides = tuple[tuple[Tokens, ...], tuple[Tokens, ...]]
