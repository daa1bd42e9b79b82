"""A corpus of any size as batches of sentences that are about equally long, so that little of a batch is padding."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

_CHUNK = 4096  # sentences that are sorted at a time
_CHUNK_CHARACTERS = 2**22
_MOST_TOKENS = 2048


@dataclass(frozen=True)
class Sentence:
    """A sentence of a corpus. ``done``: the share of the corpus that has been read with it, from 0 to 1."""

    text: str
    done: float


@dataclass(frozen=True)
class CorpusBatch:
    """Sentences for one forward pass.

    Attributes:
        texts: the sentences, the longest first.
        done: the share of the corpus that is behind with them, from 0 to 1.
    """

    texts: tuple[str, ...]
    done: float


class CorpusBatches:
    """Reads some thousand sentences at a time, sorts them by length, and cuts them into batches.

    Args:
        sentences: those of the corpus, one after the other.
        length_of: the tokens of each of several texts.
        max_length: the most tokens of a sentence; longer ones are left out. None: any number.
        most_tokens: the most tokens of a batch, padding included, unless it is a single sentence.
        chunk: sentences that are sorted at a time.

    Attributes:
        taken, too_long, empty: how many sentences so far are in batches, were too long, or had no token at all.
        longest: the tokens of the longest that was too long.
    """

    def __init__(
        self,
        sentences: Iterable[Sentence],
        length_of: Callable[[Sequence[str]], Sequence[int]],
        max_length: int | None = None,
        most_tokens: int = _MOST_TOKENS,
        chunk: int = _CHUNK,
    ) -> None:
        self._sentences, self._length_of, self._max_length = sentences, length_of, max_length
        self._most_tokens, self._chunk = most_tokens, chunk
        self.taken = self.too_long = self.empty = self.longest = 0

    def __iter__(self) -> Iterator[CorpusBatch]:
        behind = 0.0
        for chunk in self._chunks():
            ahead = chunk[-1].done
            texts = [sentence.text for sentence in chunk]
            lengths = self._length_of(texts)
            fitting = sorted(filter(self._fits, zip(lengths, texts, strict=True)), key=lambda pair: -pair[0])
            all_tokens, tokens = sum(length for length, _ in fitting), 0
            for batch in self._cut(fitting):
                self.taken += len(batch)
                tokens += sum(length for length, _ in batch)
                yield CorpusBatch(tuple(text for _, text in batch), behind + (ahead - behind) * tokens / all_tokens)
            behind = ahead

    def _chunks(self) -> Iterator[list[Sentence]]:
        """So many sentences that they fit into memory, however long each is."""
        sentences = iter(self._sentences)
        for first in sentences:
            chunk, characters = [first], len(first.text)
            while len(chunk) < self._chunk and characters < _CHUNK_CHARACTERS:
                following = next(sentences, None)
                if following is None:
                    break
                chunk.append(following)
                characters += len(following.text)
            yield chunk

    def _fits(self, pair: tuple[int, str]) -> bool:
        length, _ = pair
        if length < 1:
            self.empty += 1
            return False
        if self._max_length is not None and length > self._max_length:
            self.too_long, self.longest = self.too_long + 1, max(self.longest, length)
            return False
        return True

    def _cut(self, pairs: Sequence[tuple[int, str]]) -> Iterator[Sequence[tuple[int, str]]]:
        """Of (tokens, text), the longest first: what does not fit into memory should say so at once."""
        start = 0
        while start < len(pairs):
            end = start + max(self._most_tokens // pairs[start][0], 1)
            yield pairs[start:end]
            start = end
