"""Corpora of a translator: pairs of sentences, some of them held out, and batches of pairs."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from mhaviz.errors import MhavizError, counted
from mhaviz.files.texts import read_text
from mhaviz.inputs.tokens import END, START
from mhaviz.layer.tokens import Vocabulary, tokenize

MOST_WORDS = 200
"""Longest sentence. A longer one would make its whole batch slow and large."""

HELD_OUT_SHARE, MOST_HELD_OUT = 0.1, 500
"""Share of the sentences of a corpus that is held out, and the largest number of them."""


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation.

    Attributes:
        source, target: their words.
        alignment: (position in source, position in target) of words that translate each other; None: not known.
        ended: False for a translation that was cut off.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...] | None = None
    ended: bool = True

    @property
    def read(self) -> tuple[str, ...]:
        """Words that the decoder reads: the start mark and the target, without the last word that it produces."""
        return (START, *self.target) if self.ended else (START, *self.target[:-1])

    @property
    def produced(self) -> tuple[str, ...]:
        """Words that the decoder has to predict after each word that it reads: the target and the end mark."""
        return (*self.target, END) if self.ended else self.target


@dataclass(frozen=True)
class Corpus:
    """Sentences for training and held-out sentences. The two parts share no source sentence."""

    name: str
    training: tuple[Pair, ...]
    held_out: tuple[Pair, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, those for training first."""
        return self.training + self.held_out

    @property
    def fingerprint(self) -> str:
        """Hash that is the same for the same sentences in the same two parts."""
        parts = [[(pair.source, pair.target) for pair in part] for part in (self.training, self.held_out)]
        return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def read_pairs(path: Path, seed: int = 0, keep_case: bool = False) -> Corpus:
    """Read lines of ``source⇥target``, with an optional third column of ``i-j`` links between their words.

    The links count the words that are separated by spaces, from 0, source first, as alignment tools write them.
    ``keep_case``: leave capitals as they are; else words are in lower case.

    Raises:
        MhavizError: the file cannot be read, or no sentence can be held out; or a line has another number of columns, a
            side without words, or a link that cannot be read or leads nowhere. The message names the line.
    """
    pairs: dict[tuple[tuple[str, ...], tuple[str, ...]], Pair] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip() or "\t" in line:
            pair = _parse_pair(line.rstrip("\r"), f"{path}, line {number}", keep_case)
            pairs.setdefault((pair.source, pair.target), pair)
    return _hold_out(path, tuple(pairs.values()), seed)


def _parse_pair(line: str, where: str, keep_case: bool) -> Pair:
    columns = line.split("\t")
    if len(columns) not in (2, 3):
        raise MhavizError(
            f"{where}: expected source and target with a tab between them, and perhaps a third column of i-j links, "
            f"got {counted(len(columns), 'column')}"
        )
    sides = [[tokenize(part, keep_case) for part in column.split()] for column in columns[:2]]
    source, target = (tuple(word for words in side for word in words) for side in sides)
    for name, words in (("source", source), ("target", target)):
        if not words:
            raise MhavizError(f"{where}: expected a {name} with at least one word, got none")
        if len(words) > MOST_WORDS:
            raise MhavizError(
                f"{where}: expected a {name} of at most {MOST_WORDS} words, got {len(words)}; split it into sentences"
            )
    alignment = _parse_alignment(columns[2], sides, where) if len(columns) == 3 else None
    return Pair(source, target, alignment)


def _parse_alignment(text: str, sides: Sequence[Sequence[Sequence[str]]], where: str) -> tuple[tuple[int, int], ...]:
    """Return the links of a line between its words. A part between spaces may have several words, or none if
    punctuation."""
    words: list[list[range]] = []
    for side in sides:
        starts = [0]
        for part in side:
            starts.append(starts[-1] + len(part))
        words.append([range(start, end) for start, end in pairwise(starts)])
    links: dict[tuple[int, int], None] = {}
    for link in text.split():
        match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", link, re.ASCII)
        if not match:
            raise MhavizError(f"{where}: expected links such as 0-0 1-2, got {link[:40]!r}")
        ends = int(match[1]), int(match[2])
        for name, end, side in zip(("source", "target"), ends, sides, strict=True):
            if end >= len(side):
                raise MhavizError(
                    f"{where}: the link {link} leads to word {end} of the {name}, which has words 0 to {len(side) - 1}"
                )
        links.update({(i, j): None for i in words[0][ends[0]] for j in words[1][ends[1]]})
    return tuple(links)


def _hold_out(path: Path, pairs: Sequence[Pair], seed: int) -> Corpus:
    """Hold out some sentences, with all their translations."""
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.source, []).append(pair)
    if len(groups) < 2:
        got = "one" if groups else "none"
        raise MhavizError(
            f"{path}: expected pairs of at least 2 different sentences, so that one can be held out, got {got}; "
            f"add more"
        )
    order = list(groups)
    Random(seed).shuffle(order)
    n_held_out = min(max(int(len(order) * HELD_OUT_SHARE), 1), MOST_HELD_OUT)

    def of(sentences: Iterable[tuple[str, ...]]) -> tuple[Pair, ...]:
        return tuple(pair for sentence in sentences for pair in groups[sentence])

    return Corpus(path.name, of(order[n_held_out:]), of(order[:n_held_out]))


class PairBatch:
    """A batch of pairs, padded to the longest.

    Attributes:
        source_ids: (batch_size, source_length).
        source_mask: hides their padding, (batch_size, 1, 1, source_length); None: there is none.
        read_ids: words that the decoder reads, (batch_size, target_length + 1).
        expected_ids: the next word after each of these, in the same shape.
    """

    def __init__(
        self, pairs: Sequence[Pair], source_words: Vocabulary, target_words: Vocabulary, device: torch.device
    ) -> None:
        self.source_ids = padded_ids([pair.source for pair in pairs], source_words, device)
        padded = len({len(pair.source) for pair in pairs}) > 1
        self.source_mask = visible_words(self.source_ids) if padded else None
        self.read_ids = padded_ids([pair.read for pair in pairs], target_words, device)
        self.expected_ids = padded_ids([pair.produced for pair in pairs], target_words, device)


def padded_ids(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, device: torch.device) -> Tensor:
    """Return the numbers of the sentences' words, (batch_size, length of the longest)."""
    longest = max(map(len, sentences))
    return torch.tensor([vocabulary.ids(words, longest) for words in sentences], dtype=torch.long, device=device)


def visible_words(ids: Tensor) -> Tensor:
    """Return the mask that hides padding, (batch_size, 1, 1, length)."""
    return (ids != Vocabulary.PADDING)[:, None, None, :]
