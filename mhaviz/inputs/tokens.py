"""The tokens of a text, and which of them are the queries and the keys of an attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mhaviz.errors import ArgumentError, shortened

Kind = Literal["self", "masked", "cross", "other"]
"""Of attention: "self"; "masked", where a query sees no later key; "cross", where the keys are another sentence's;
"other", where it is not known whether they are, or where they are other tokens of the queries' own."""

OF_ONE_TEXT: frozenset[Kind] = frozenset({"self", "masked"})
"""Kinds whose queries and keys are the same tokens."""

PAIR = ("first", "second")
"""What the two segments of a pair of texts are called."""

_LISTED = 6  # segments that a line names
_LONGEST_POSITION, _LEAST_RUN = 12, 3  # characters; tokens of a part that are surely not a text of numbers

KIND_NAMES: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "source-target attention",
    "other": "attention",
}
"""What titles and messages call each."""


@dataclass(frozen=True)
class Tokens:
    """The tokens along one side of an attention.

    Attributes:
        texts: what each is called: "The", " token", "izer"; empty texts where nobody will read them.
        special: the positions of those that are not of the text, as [CLS] is not; counted from 0, in order.
        ids: their numbers in the model's vocabulary; empty where it has none, or those of some are not known.
        grid: rows and columns of the patches of an image that all but the special tokens are, in reading order; None:
            they are no patches, or not those of a whole image.

    Raises:
        ArgumentError: a grid of another number of patches than there are tokens that are not special.
    """

    texts: tuple[str, ...]
    special: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.grid is None:
            return
        rows, columns = self.grid
        n_patches = len(self.of_text)
        if min(rows, columns) < 1 or rows * columns != n_patches:
            raise ArgumentError(f"grid: expected rows × columns of {n_patches} patches, got {rows} × {columns}")

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, part: slice) -> "Tokens":
        """Those of a part, which is no whole image; special tokens are counted from its start."""
        start, end, _ = part.indices(len(self))
        if (start, end) == (0, len(self)):
            return self
        special = tuple(i - start for i in self.special if start <= i < end)
        return Tokens(self.texts[start:end], special, self.ids[start:end])

    def __add__(self, after: "Tokens") -> "Tokens":
        texts, ids = self.texts + after.texts, self.ids + after.ids
        special = (*self.special, *(i + len(self) for i in after.special))
        return Tokens(texts, special, ids if len(ids) == len(texts) else ())

    @property
    def are_positions(self) -> bool:
        """Whether they are called by nothing but their positions, in an input that they are all of, or a part."""
        first = self.texts[0] if self.texts else ""
        if not (first.isdecimal() and first.isascii() and len(first) < _LONGEST_POSITION):
            return False
        start = int(first)
        if start and len(self) < _LEAST_RUN:  # a year, or two
            return False
        return all(text == str(position) for position, text in enumerate(self.texts, start))

    @property
    def patches(self) -> tuple[int, ...]:
        """The positions of those that are patches of an image, in reading order; none where they have no ``grid``."""
        return () if self.grid is None else self.of_text

    @property
    def of_text(self) -> tuple[int, ...]:
        """The positions of those that are of the text."""
        special = set(self.special)
        return tuple(i for i in range(len(self)) if i not in special)

    def with_ids(self, ids: Mapping[int, int]) -> "Tokens":
        """The same with other numbers in the vocabulary at some positions; what they are called stays."""
        return replace(self, ids=tuple(ids.get(place, number) for place, number in enumerate(self.ids)))

    def at(self, positions: tuple[int, ...]) -> "Tokens":
        """Those at these positions, none of which counts as special any more, nor as a patch."""
        return Tokens(tuple(self.texts[i] for i in positions), (), tuple(self.ids[i] for i in positions if self.ids))


def patch_tokens(rows: int, columns: int, n_before: int = 0, n_after: int = 0) -> Tokens:
    """The tokens of an image of rows × columns patches, with so many others before and after them.

    A patch is called by its row and column, counted from 0: "0,0", "0,1", …; another token, such as a class token or a
    register, by its place in the sequence: "token 0". What it is, the sequence does not say.

    Raises:
        ArgumentError: less than one row or column, or fewer than 0 other tokens.
    """
    if min(rows, columns) < 1 or min(n_before, n_after) < 0:
        raise ArgumentError(f"expected at least 1 × 1 patches and 0 tokens before them, got {rows} × {columns}")
    end = n_before + rows * columns
    others = (*range(n_before), *range(end, end + n_after))
    names = [f"token {place}" for place in others]
    patches = patch_names(rows, columns)
    return Tokens((*names[:n_before], *patches, *names[n_before:]), others, grid=(rows, columns))


def patch_names(rows: int, columns: int) -> tuple[str, ...]:
    """ "0,0", "0,1", …: what the patches of an image are called, in reading order."""
    return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))


def is_run(positions: Sequence[int]) -> bool:
    """Whether these positions, in order, have no gap."""
    return positions[-1] - positions[0] + 1 == len(positions)


@dataclass(frozen=True)
class Segment:
    """Tokens of a text that belong together, such as those of the second of a pair, or of a message of a chat.

    Attributes:
        name: "first", "second", or whose message it is: "user".
        start, end: the first token and the one after the last.
    """

    name: str
    start: int
    end: int


def segments_text(segments: Sequence[Segment]) -> str:
    """For people: "tokens 1 to 3 are of the first text, 5 to 8 of the second", or "tokens 0 to 4 user, …"."""
    names = [segment.name for segment in segments]
    runs = [
        f"{segment.start} to {segment.end - 1}" if segment.end - segment.start > 1 else str(segment.start)
        for segment in segments[:_LISTED]
    ]
    if names == [*PAIR]:
        return f"tokens {runs[0]} are of the first text, {runs[1]} of the second"
    more = f", … {len(segments) - _LISTED} more" if len(segments) > _LISTED else ""
    return f"tokens {', '.join(f'{run} {shortened(name)}' for run, name in zip(runs, names, strict=False))}{more}"


@dataclass(frozen=True)
class Piece:
    """Which part of a text this is, that was too long for a model.

    Attributes:
        start, end: the queries that count, as each token of the text counts in one piece alone.
        offset: token i of the piece is token ``offset`` + i of the whole text.
        count: how many pieces the text has.
    """

    start: int
    end: int
    offset: int
    count: int


@dataclass(frozen=True)
class Text:
    """What a model reads for one sentence.

    Attributes:
        source: the sentence.
        target: what a decoder beside an encoder reads; of a single layer, the sentence that the queries are of.
        produced: what the decoder makes of ``target``: the same, a token later. Rows of cross attention are called
            after it.
        prompt: how many tokens were given, where a decoder has gone on writing; else 0.
        types: of each token of the source, the number of its type, by which a model tells the second of two texts from
            the first; none: the model is not told.
        segments: the parts that the source was put together of, in order; none: it is one text.
        piece: which part of a longer text the source is; None: it is the whole.
    """

    source: Tokens
    target: Tokens | None = None
    produced: Tokens | None = None
    prompt: int = 0
    types: tuple[int, ...] = ()
    segments: tuple[Segment, ...] = ()
    piece: Piece | None = None

    def sides(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """The queries and the keys of an attention of this kind."""
        if self.target is None or kind == "self":
            return self.source, self.source
        return (self.target, self.target) if kind == "masked" else (self.produced or self.target, self.source)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a corpus.

    Attributes:
        text: the sentence.
        done: the share of the corpus that has been read with it, from 0 to 1.
        tokens: what is read in its place, and is not cut; None: what the model's tokenizer makes of it.
    """

    text: str
    done: float
    tokens: Text | None = None
