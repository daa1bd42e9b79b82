"""A corpus of any size as batches of sentences that are about equally long, so that little of a batch is padding.

The corpus is cut into blocks of consecutive sentences, and no batch crosses a block. A shard has every nth block. So
the batches, and every bit of what a model computes for a sentence, are the same however many shards there are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, count, islice

from mhaviz.errors import ArgumentError, MhavizError, counted, parameter
from mhaviz.inputs.tokens import Piece, Sentence, Text, Tokens
from mhaviz.results.corpus_part import Progress, Shard

MOST_TOKENS = 2048
"""Of a batch, padding included."""

MOST_OF_A_BLOCK = 256
"""Sentences: enough for batches that are full of sentences that are about equally long."""

_LEAST_OF_A_BLOCK = 4
_EVEN = 8  # so many parts of a small corpus have about as many sentences
_OF_A_BATCH = 64  # tokens that take as long as a batch takes beside its tokens, of a small model on a CPU


def with_block_size(sentences: Iterable[Sentence]) -> tuple[Iterator[Sentence], int]:
    """The same sentences, and how many of them are a block: an eighth of a small corpus, so that a few parts of it are
    even, and ``MOST_OF_A_BLOCK`` of a large one, of which so many are read as tell that it is one.
    """
    rest = iter(sentences)
    first = list(islice(rest, _EVEN * MOST_OF_A_BLOCK))
    return chain(first, rest), max(-(-len(first) // _EVEN), _LEAST_OF_A_BLOCK)


@dataclass(frozen=True)
class CorpusBatch:
    """Sentences for one forward pass.

    Attributes:
        texts: the sentences, the longest first.
        numbers: of these sentences in the corpus, from 0.
        done: the share of the corpus that has been read with them, from 0 to 1.
        ends_block: whether nothing of its block is left.
        pieces: for each sentence what is read in its place, such as a piece of it, as it is too long; None: itself.
    """

    texts: tuple[str, ...]
    numbers: tuple[int, ...]
    done: float
    ends_block: bool
    pieces: tuple[Text | None, ...] = ()


class CorpusBatches:
    """Reads a block of sentences at a time, sorts them by length, and cuts them into batches.

    Args:
        sentences: those of the corpus, one after the other.
        length_of: the tokens of each of several texts.
        max_length: the most tokens of a sentence; None: any number.
        most_tokens: the most tokens of a batch, padding included, unless it is a single sentence.
        shard: which part of the corpus; the other sentences are read, and not more.
        after: go on from here, the end of a block or of the corpus.
        block: sentences of a block.
        cut: makes pieces of a sentence that is too long; None, or where it makes none: the sentence is left out.

    Raises:
        MhavizError: while it is read: what is before ``after`` is not the text that was read then.
    """

    def __init__(
        self,
        sentences: Iterable[Sentence],
        length_of: Callable[[Sequence[str]], Sequence[int]],
        max_length: int | None = None,
        most_tokens: int = MOST_TOKENS,
        shard: Shard | None = None,
        after: Progress | None = None,
        block: int = MOST_OF_A_BLOCK,
        cut: Callable[[str], Sequence[Text]] | None = None,
    ) -> None:
        self._sentences, self._length_of, self._max_length = sentences, length_of, max_length
        self._most_tokens, self._shard, self._block = most_tokens, shard or Shard(), block
        self._after, self._cut = after or Progress(), cut
        self._counts, self._read, self._text = replace(self._after, is_all=False), 0, sha256()

    @property
    def progress(self) -> Progress:
        """What has been read so far; after the last batch of a block, what can be gone on from."""
        return replace(self._counts, read=self._read, digest=self._text.hexdigest(), block=self._block)

    def __iter__(self) -> Iterator[CorpusBatch]:
        sentences = self._hashed()
        self._skip(sentences)
        before = 0.0
        for number in count(-(-self._after.read // self._block)):
            block = self._read_block(sentences, number)
            if not block:
                break
            if self._shard.has(number):
                yield from self._batches(block, before)
            before = block[-1][1].done
        self._counts = replace(self._counts, is_all=True)

    def _hashed(self) -> Iterator[tuple[int, Sentence]]:
        """The sentences with their numbers; they are counted, and the digest is made of them."""
        for number, sentence in enumerate(self._sentences):
            text = sentence.text.encode("utf-8", "surrogatepass")
            self._text.update(b"%d:" % len(text))  # "a", "bc" is another text than "ab", "c"
            self._text.update(text)
            self._read += 1
            yield number, sentence

    def _skip(self, sentences: Iterator[tuple[int, Sentence]]) -> None:
        """Go to where ``after`` is. Raises MhavizError if that is not in this text."""
        after = self._after
        for _ in islice(sentences, after.read):
            pass
        is_same = self._read == after.read and self._text.hexdigest() == after.digest
        if not is_same or (after.is_all and next(sentences, None)):
            got = f"{self._read:,} sentences" if self._read != after.read else "others"
            all_of_it = "all " if after.is_all else "the first "
            raise MhavizError(
                f"{parameter('resume')}: expected {all_of_it}{after.read:,} sentences of the text as they were when "
                f"it was read before, got {got}; take that text, or begin again without {parameter('resume')}"
            )

    def _read_block(self, sentences: Iterator[tuple[int, Sentence]], number: int) -> list[tuple[int, Sentence]]:
        """The sentences of a block; of another shard's the last alone; none: there is no such block."""
        block = islice(sentences, self._block)
        return list(block) if self._shard.has(number) else list(deque(block, maxlen=1))

    def _batches(self, block: Sequence[tuple[int, Sentence]], before: float) -> Iterator[CorpusBatch]:
        """Of a block, the longest first: what does not fit into memory should say so at once.

        ``before``: the share of the corpus that has been read before it.
        """
        unread = iter(self._length_of([sentence.text for _, sentence in block if sentence.tokens is None]))
        lengths = [len(one.tokens.source) if one.tokens else next(unread) for _, one in block]
        fitting = [row for length, one in zip(lengths, block, strict=True) for row in self._rows(length, *one)]
        fitting.sort(key=lambda row: -row.length)  # the pieces of a sentence, all of a length, stay together
        all_tokens, tokens = sum(row.length for row in fitting), 0
        for start, end in _cuts([row.length for row in fitting], self._most_tokens):
            part = fitting[start:end]
            tokens += sum(row.length for row in part)
            share = before + (block[-1][1].done - before) * tokens / all_tokens
            taken = sum(row.is_first for row in part)
            self._counts = replace(self._counts, taken=self._counts.taken + taken)
            texts, numbers = tuple(row.text for row in part), tuple(row.number for row in part)
            pieces = tuple(row.piece for row in part)
            yield CorpusBatch(texts, numbers, share, end == len(fitting), pieces if any(pieces) else ())

    def _rows(self, length: int, number: int, sentence: Sentence) -> Iterator["_Row"]:
        """A sentence, or its pieces, as rows of batches; one that is in no batch is counted."""
        counts = self._counts
        if length < 1:
            self._counts = replace(counts, empty=counts.empty + 1)
        elif self._max_length is None or length <= self._max_length:
            yield _Row(length, number, sentence.text, sentence.tokens)
        elif pieces := () if self._cut is None or sentence.tokens else self._cut(sentence.text):
            self._counts = replace(counts, cut=counts.cut + 1, longest=max(counts.longest, length))
            for piece in pieces:
                yield _Row(len(piece.source), number, sentence.text, piece)
        else:
            self._counts = replace(counts, too_long=counts.too_long + 1, longest=max(counts.longest, length))


@dataclass(frozen=True)
class _Row:
    """A sentence, or a piece of it, in a batch; ``length``: in tokens."""

    length: int
    number: int
    text: str
    piece: Text | None = None

    @property
    def is_first(self) -> bool:
        """Whether it is no later piece of a sentence."""
        return self.piece is None or self.piece.piece is None or self.piece.piece.offset == 0


def _cuts(lengths: Sequence[int], most_tokens: int) -> Iterator[tuple[int, int]]:
    """Where the batches begin and end: with a sentence whose padding would take longer than another batch.

    ``lengths``: in tokens, the longest first.
    """
    start = padding = 0
    for i, length in enumerate(lengths):
        padding += lengths[start] - length
        if i > start and (padding > _OF_A_BATCH or lengths[start] * (i + 1 - start) > most_tokens):
            yield start, i
            start, padding = i, 0
    if lengths:
        yield start, len(lengths)


def cut(tokens: Tokens, most: int, overlap: int | None = None, is_masked: bool = False) -> list[Text]:
    """The pieces of a text, each between the special tokens that begin and end the whole.

    Every token of the text counts as a query in one piece, and special tokens at its ends once. Where two pieces
    overlap, that is the piece in which the token has more context: the first where only earlier tokens are seen, else
    the nearer one. The last piece is as long as the others, so that it overlaps more.

    Args:
        tokens: of the whole text, special ones included.
        most: the most tokens of a piece.
        overlap: the tokens that two pieces share; None: a quarter of ``most``, or as many as leave a piece one of its
            own.
        is_masked: whether a query sees earlier keys alone.

    Raises:
        ArgumentError: an overlap that leaves a piece no token of its own.
    """
    special = set(tokens.special)
    before = next((i for i in range(len(tokens)) if i not in special), len(tokens))
    after = next((i for i in range(len(tokens)) if len(tokens) - 1 - i not in special), 0)
    length, room = len(tokens) - before - after, most - before - after
    if length <= room:
        return [Text(tokens)]
    if overlap is None:
        overlap = max(min(most // 4, room - 1), 0)
    if not 0 <= overlap < room:
        raise ArgumentError(
            f"`overlap`: expected from 0 to {room - 1:,} tokens, as a piece has {room:,}, got {counted(overlap)}"
        )
    starts = [*range(0, length - room, room - overlap), length - room]
    shared = zip(starts[1:], (start + room for start in starts), strict=False)
    ends = [end if is_masked else (start + end + 1) // 2 for start, end in shared]
    pieces = []
    for start, first, last in zip(starts, [0, *ends], [*ends, None], strict=True):
        source = tokens[:before] + tokens[before + start : before + start + room] + tokens[len(tokens) - after :]
        begin = 0 if start == 0 else before + first - start
        end = len(source) if last is None else before + last - start
        pieces.append(Text(source, piece=Piece(begin, end, start, len(starts))))
    return pieces
