"""Batches of sentences of similar length from a corpus of any size, so that little of a batch is padding.

The corpus is split into blocks of consecutive sentences. No batch crosses a block, and a shard has every nth block. The
batches, and every bit of a model's result for a sentence, are therefore the same for any number of shards.
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
"""Most tokens of a batch, padding included."""

MOST_OF_A_BLOCK = 256
"""Most sentences of a block, enough to fill batches with sentences of similar length."""

_LEAST_OF_A_BLOCK = 4  # fewest sentences of a block
_BLOCKS_OF_SMALL = 8  # number of blocks of a small corpus, so that a few shards of it are about equally large
_BATCH_COST = 64  # fixed cost of a batch, in tokens of a small model on a CPU


def with_block_size(sentences: Iterable[Sentence]) -> tuple[Iterator[Sentence], int]:
    """Return the sentences, and the number of sentences in a block.

    A block is an eighth of a small corpus, and has ``MOST_OF_A_BLOCK`` sentences of a large one. Only as many sentences
    are read ahead as are needed to tell these apart.
    """
    rest = iter(sentences)
    first = list(islice(rest, _BLOCKS_OF_SMALL * MOST_OF_A_BLOCK))
    return chain(first, rest), max(-(-len(first) // _BLOCKS_OF_SMALL), _LEAST_OF_A_BLOCK)


@dataclass(frozen=True)
class CorpusBatch:
    """Sentences for one forward pass.

    Attributes:
        texts: sentences, the longest first.
        numbers: number of each sentence in the corpus, from 0.
        done: share of the corpus that has been read after this batch, from 0 to 1.
        ends_block: whether this is the last batch of its block.
        pieces: for each sentence, the tokens to read in its place, such as a piece of a long sentence; None, or an
            empty tuple: the sentence itself.
    """

    texts: tuple[str, ...]
    numbers: tuple[int, ...]
    done: float
    ends_block: bool
    pieces: tuple[Text | None, ...] = ()


class CorpusBatches:
    """The batches of a corpus: a block of sentences is read at a time, sorted by length, and split into batches.

    Args:
        sentences: sentences of the corpus.
        length_of: returns the number of tokens of each text.
        max_length: most tokens of a sentence; None: any number.
        most_tokens: most tokens of a batch of several sentences, padding included.
        shard: shard to batch; sentences of other shards are read and skipped. None: the whole corpus.
        after: earlier progress, at the end of a block or of the corpus, after which to continue; None: begin.
        block: number of sentences in a block.
        cut: returns the pieces of a sentence that is too long. The sentence is left out if it returns none, or is None.

    Raises:
        MhavizError: during iteration, if the sentences before ``after`` are not those that were read then.
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
        """Progress so far. After the last batch of a block, a later run can continue from it."""
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
        """Yield the sentences with their numbers, and update their count and digest."""
        for number, sentence in enumerate(self._sentences):
            text = sentence.text.encode("utf-8", "surrogatepass")
            self._text.update(b"%d:" % len(text))  # so that "a", "bc" differs from "ab", "c"
            self._text.update(text)
            self._read += 1
            yield number, sentence

    def _skip(self, sentences: Iterator[tuple[int, Sentence]]) -> None:
        """Skip the sentences before ``after``. Raises MhavizError if they are not those that were read then."""
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
        """Read the sentences of a block; of another shard's block, return only the last. Empty: the corpus is read."""
        block = islice(sentences, self._block)
        return list(block) if self._shard.has(number) else list(deque(block, maxlen=1))

    def _batches(self, block: Sequence[tuple[int, Sentence]], before: float) -> Iterator[CorpusBatch]:
        """Yield the batches of a block, the longest sentences first, so that one too large for the memory fails soon.

        ``before``: share of the corpus that was read before the block.
        """
        unread = iter(self._length_of([sentence.text for _, sentence in block if sentence.tokens is None]))
        lengths = [len(one.tokens.source) if one.tokens else next(unread) for _, one in block]
        fitting = [row for length, one in zip(lengths, block, strict=True) for row in self._rows(length, *one)]
        fitting.sort(key=lambda row: -row.length)  # pieces of a sentence stay together, as they have one length
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
        """Yield a sentence, or its pieces, as rows of batches. Sentences that are left out are counted."""
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
    """A sentence, or a piece of one, in a batch; ``length``: number of tokens."""

    length: int
    number: int
    text: str
    piece: Text | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is a whole sentence, or the first piece of one."""
        return self.piece is None or self.piece.piece is None or self.piece.piece.offset == 0


def _cuts(lengths: Sequence[int], most_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each batch. A new one begins where further padding would cost more than a batch.

    ``lengths``: numbers of tokens, the largest first.
    """
    start = padding = 0
    for i, length in enumerate(lengths):
        padding += lengths[start] - length
        if i > start and (padding > _BATCH_COST or lengths[start] * (i + 1 - start) > most_tokens):
            yield start, i
            start, padding = i, 0
    if lengths:
        yield start, len(lengths)


def cut(
    tokens: Tokens, most: int, around: tuple[int, int], overlap: int | None = None, is_masked: bool = False
) -> list[Text]:
    """Cut a text into pieces, each with the special tokens that the tokenizer adds at the beginning and end.

    Every token counts as a query in exactly one piece, also the special tokens at the ends. In an overlap it is the
    piece in which the token has more context: the first piece if ``is_masked``, else the first piece for the first half
    of the overlap, and the second for the rest. The last piece is as long as the others, so it overlaps more.

    Args:
        tokens: tokens of the whole text, with special ones.
        most: most tokens of a piece.
        around: number of the special tokens at the beginning and at the end that each piece has; see ``added_around``.
        overlap: number of tokens that two pieces share; None: a quarter of ``most``, or less where a piece would have
            no token of its own.
        is_masked: whether a query sees only earlier keys.

    Raises:
        ArgumentError: an overlap that leaves a piece no token of its own.
    """
    before, after = around
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


def added_around(tokens: Tokens) -> tuple[int, int]:
    """Return the number of special tokens at the beginning and at the end of a text."""
    inside = tokens.of_text
    return (inside[0], len(tokens) - 1 - inside[-1]) if inside else (len(tokens), 0)
