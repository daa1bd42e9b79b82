"""Tokens of a text, and the queries and keys of an attention among them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mhaviz.errors import ArgumentError, shortened
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.patches import PATCH_NAME, PatchGrid, images_among, require_patches

START, END = MARKS = "<start>", "<end>"
"""Marks of the beginning and the end of a sentence that a model of words generates. No word contains < or >."""

Kind = Literal["self", "masked", "cross", "other"]
"""Kind of attention: "self"; "masked", in which later keys are hidden from each query; "cross", in which the keys are
of another sentence; "other", in which this is not known, or the keys are other tokens of the same sentence."""

OF_ONE_TEXT: frozenset[Kind] = frozenset({"self", "masked"})
"""Kinds whose queries and keys are the same tokens."""

PROMPT, ANSWER = "prompt", "answer"
"""Names of the turns of a text that a model has continued."""

PAIR = ("first", "second")
"""Names of the two segments of a pair of texts."""

_PIECE = re.compile(r"(\s?)([^\x00-\x7f]+) ([1-9])/([1-9])", re.DOTALL)
"""Label of a token that is some of the bytes of a character: "😀 1/3"."""

_UNKNOWN = re.compile(r"(.*\S)( [\[<]\w+[\]>])", re.DOTALL)
"""Label of a piece that the vocabulary lacks: "😀 [UNK]"."""

BLANK = "␣"
"""What a blank is written as where nobody would see it."""

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
"""Digits of the position that a label has where its text occurs more than once."""

_LISTED = 6  # most segments that a line names
_LONGEST_POSITION, _LEAST_RUN = 12, 3  # most characters of a position; fewest tokens of a part named by positions

KIND_NAMES: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "source-target attention",
    "other": "attention",
}
"""Names of the kinds in titles and messages."""


Ranges = tuple[tuple[int, int], ...]
"""Positions of tokens, as (start, end) of each run of them, in order; the end is not included."""


@dataclass(frozen=True)
class Segment:
    """Tokens of a text that belong together, such as the second text of a pair, or a message of a chat.

    Attributes:
        name: "first", "second", or the role of a message, such as "user".
        start, end: position of the first token, and of the one after the last.
    """

    name: str
    start: int
    end: int

    def moved(self, by: int) -> "Segment":
        """Return the segment further back in a longer text."""
        return replace(self, start=self.start + by, end=self.end + by)

    def within(self, start: int, end: int) -> "Segment | None":
        """Return what tokens from ``start`` to ``end`` have of it, counted from there; None: nothing."""
        first, last = max(self.start, start), min(self.end, end)
        return Segment(self.name, first - start, last - start) if first < last else None


@dataclass(frozen=True)
class Tokens:
    """The tokens along one side of an attention, or spans of them, such as words, in the place of tokens.

    Attributes:
        texts: label of each token: "The", " token", "izer"; empty where labels are not needed.
        special: positions of special tokens, which are no words, such as [CLS] or the markers of a chat, from 0, in
            order.
        ids: ids in the model's vocabulary; empty: there is no vocabulary, or some ids are not known.
        images: views of images whose patches are among the tokens; empty: there are none, or they are not known.
        continued: positions of tokens that continue the word of the token before them, where the tokenizer tells, and
            labels alone do not; see ``words``.
        ranges: of spans, the tokens of each, as positions among all tokens of the side; none of a span that another
            text has; empty: these are tokens.
        turns: messages of a chat without what its template adds, texts of a pair, or a prompt and what a model has
            written after it; empty: it is one text. A message that the template has changed has no tokens.
        passage: the text, with the places of the tokens; None: not known.

    Raises:
        ArgumentError: ``images`` has a patch that is no token, or one token in two patches.
    """

    texts: tuple[str, ...]
    special: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    images: tuple[PatchGrid, ...] = ()
    continued: tuple[int, ...] = ()
    ranges: tuple[Ranges, ...] = ()
    turns: tuple[Segment, ...] = ()
    passage: Passage | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.images:
            require_patches(self.images, len(self.texts))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, part: slice) -> "Tokens":
        """Return a part of the tokens. Positions of special tokens are counted from its start."""
        start, end, _ = part.indices(len(self))
        if (start, end) == (0, len(self)):
            return self
        special, continued = (
            tuple(i - start for i in positions if start <= i < end) for positions in (self.special, self.continued)
        )
        return replace(
            self,
            texts=self.texts[start:end],
            special=special,
            ids=self.ids[start:end],
            images=images_among(self.images, range(start, end)),
            continued=continued,
            ranges=self.ranges[start:end],
            turns=tuple(cut for turn in self.turns if (cut := turn.within(start, end))),
            passage=self.passage and self.passage[start:end],
        )

    def __add__(self, after: "Tokens") -> "Tokens":
        texts, ids = self.texts + after.texts, self.ids + after.ids
        special, continued = (
            (*first, *(i + len(self) for i in second))
            for first, second in ((self.special, after.special), (self.continued, after.continued))
        )
        return Tokens(
            texts,
            special,
            ids if len(ids) == len(texts) else (),
            images=(*self.images, *(image.moved(len(self)) for image in after.images)),
            continued=continued,
            turns=self.turns + tuple(turn.moved(len(self)) for turn in after.turns),
            passage=self.written + after.written,
        )

    @property
    def written(self) -> Passage:
        """The passage, or if it is not known, the text that the labels make."""
        return Passage.joined(self.texts, self.special) if self.passage is None else self.passage

    @property
    def are_positions(self) -> bool:
        """Whether the labels are the tokens' positions, in the whole input or in a part of it."""
        first = self.texts[0] if self.texts else ""
        if not (first.isdecimal() and first.isascii() and len(first) < _LONGEST_POSITION):
            return False
        start = int(first)
        if start and len(self) < _LEAST_RUN:  # may be one year, or two
            return False
        return all(text == str(position) for position, text in enumerate(self.texts, start))

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of the patches of an image, which the tokens that are not special are, in reading order;
        None: they are no patches, or not those of one whole image."""
        if len(self.images) != 1 or self.images[0].places != self.of_text:
            return None
        return self.images[0].shape

    @property
    def patches(self) -> tuple[int, ...]:
        """Positions of the patches of an image, in reading order; empty without a ``grid``."""
        return () if self.grid is None else self.of_text

    @property
    def begins_image(self) -> bool:
        """Whether the first token is a patch of an image, as its label says: a part of the tokens has no ``grid``."""
        return bool(PATCH_NAME.fullmatch(self.texts[0]))

    @property
    def of_text(self) -> tuple[int, ...]:
        """Positions of the tokens that are not special."""
        special = set(self.special)
        return tuple(i for i in range(len(self)) if i not in special)

    def with_ids(self, ids: Mapping[int, int]) -> "Tokens":
        """Return the tokens with other ids at some positions, and the same labels."""
        return replace(self, ids=tuple(ids.get(place, number) for place, number in enumerate(self.ids)))

    def at(self, positions: tuple[int, ...]) -> "Tokens":
        """Return the tokens at these positions. They no longer count as special, or as parts of words."""
        ids, ranges = self.ids, self.ranges
        return Tokens(
            tuple(self.texts[i] for i in positions),
            (),
            tuple(ids[i] for i in positions if ids),
            images_among(self.images, positions),
            ranges=tuple(ranges[i] for i in positions if ranges),
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of tokens in each span, which labels say; empty: these are tokens."""
        return tuple(sum(end - start for start, end in of_span) for of_span in self.ranges)


def whole_character(texts: Sequence[str], i: int) -> str | None:
    """Return the i-th label; of the pieces of a character, "😀 1/3" to "😀 3/3", the character for the first, None for
    the others."""
    if (piece := _PIECE.fullmatch(texts[i])) is None:
        return texts[i]
    _, character, number, pieces = piece.groups()
    first = i + 1 - int(number)
    if first < 0 or (begins := _PIECE.fullmatch(texts[first])) is None:
        return texts[i]
    blank = begins[1]
    whole = [f"{character} {k}/{pieces}" for k in range(1, int(pieces) + 1)]
    labels = texts[first : first + len(whole)]
    if len(labels) < len(whole) or any(a not in (b, blank + b) for a, b in zip(labels, whole, strict=True)):
        return texts[i]
    return blank + character if first == i else None


def as_typed(label: str) -> tuple[str, str]:
    """Return a label as its piece stands between the blanks of the text, and the mark of a piece that the vocabulary
    lacks: "😀" and " [UNK]"; "": there is none."""
    label = label.strip()
    unknown = _UNKNOWN.fullmatch(label)
    return (unknown[1], unknown[2]) if unknown else (label, "")


def patch_tokens(rows: int, columns: int, n_before: int = 0, n_after: int = 0) -> Tokens:
    """Return the tokens of an image of rows × columns patches, with other tokens before and after them.

    The label of a patch is its row and column, from 0: "0,0", "0,1", …. The label of another token, such as a class
    token or a register, is its position: "token 0".

    Raises:
        ArgumentError: less than one row or column, or fewer than 0 other tokens.
    """
    if min(rows, columns) < 1 or min(n_before, n_after) < 0:
        raise ArgumentError(f"expected at least 1 × 1 patches and 0 tokens before them, got {rows} × {columns}")
    end = n_before + rows * columns
    others = (*range(n_before), *range(end, end + n_after))
    names = [f"token {place}" for place in others]
    patches = patch_names(rows, columns)
    image = PatchGrid.run(rows, columns, n_before)
    return Tokens((*names[:n_before], *patches, *names[n_before:]), others, images=(image,))


def patch_names(rows: int, columns: int) -> tuple[str, ...]:
    """Return the labels of the patches of an image, in reading order: "0,0", "0,1", …."""
    return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))


def is_run(positions: Sequence[int]) -> bool:
    """Return whether these positions, in order, have no gap."""
    return positions[-1] - positions[0] + 1 == len(positions)


def segments_text(segments: Sequence[Segment], of: str = "tokens") -> str:
    """Return segments in words: "tokens 1 to 3 are of the first text, 5 to 8 of the second", "tokens 0 to 4 user".

    ``of``: what they are of.
    """
    names = [segment.name for segment in segments]
    runs = [
        f"{segment.start} to {segment.end - 1}" if segment.end - segment.start > 1 else str(segment.start)
        for segment in segments[:_LISTED]
    ]
    if names == [*PAIR]:
        return f"{of} {runs[0]} are of the first text, {runs[1]} of the second"
    more = f", … {len(segments) - _LISTED} more" if len(segments) > _LISTED else ""
    return f"{of} {', '.join(f'{run} {shortened(name)}' for run, name in zip(runs, names, strict=False))}{more}"


def runs_of(positions: Sequence[int]) -> Ranges:
    """Return increasing positions as runs without gaps."""
    starts = [p for i, p in enumerate(positions) if not i or positions[i - 1] < p - 1]
    ends = [p + 1 for i, p in enumerate(positions, 1) if i == len(positions) or positions[i] > p + 1]
    return tuple(zip(starts, ends, strict=True))


@dataclass(frozen=True)
class Piece:
    """A piece of a text that is too long for a model.

    Attributes:
        start, end: range of the queries that count, as each token of the text counts in one piece only.
        offset: token i of the piece is token ``offset`` + i of the whole text.
        count: number of pieces of the text.
    """

    start: int
    end: int
    offset: int
    count: int


@dataclass(frozen=True)
class Text:
    """The tokens that a model reads for one sentence.

    Attributes:
        source: tokens of the sentence.
        target: tokens that the decoder of an encoder with a decoder reads; for a single layer, those of the queries.
        produced: tokens that the decoder predicts, which are ``target`` shifted by one. They label the rows of cross
            attention.
        prompt: number of given tokens, where a decoder has generated more; else 0.
        types: type of each token of the source, by which a model distinguishes the second of two texts from the first;
            empty: no types.
        segments: segments of the source, in order; empty: it is one text.
        piece: the piece of a longer text that the source is; None: all of the text.
    """

    source: Tokens
    target: Tokens | None = None
    produced: Tokens | None = None
    prompt: int = 0
    types: tuple[int, ...] = ()
    segments: tuple[Segment, ...] = ()
    piece: Piece | None = None

    def sides(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return the queries and the keys of an attention of this kind."""
        if self.target is None or kind == "self":
            return self.source, self.source
        return (self.target, self.target) if kind == "masked" else (self.produced or self.target, self.source)

    def without(self, ranges: Ranges) -> "Text":
        """Return the text without some tokens of its source, and without its segments, as they are not counted anew."""
        gone = {i for start, end in ranges for i in range(start, end)}
        kept = [i for i in range(len(self.source)) if i not in gone]
        source = Tokens(())
        for start, end in runs_of(kept):
            source += self.source[start:end]
        types = tuple(self.types[i] for i in kept if self.types)
        return replace(self, source=source, prompt=sum(i < self.prompt for i in kept), types=types, segments=())


@dataclass(frozen=True)
class Sentence:
    """A sentence of a corpus.

    Attributes:
        text: text of the sentence.
        done: share of the corpus that has been read after it, from 0 to 1.
        tokens: tokens to read in its place, which are not cut; None: the model's tokenizer reads ``text``.
    """

    text: str
    done: float
    tokens: Text | None = None
