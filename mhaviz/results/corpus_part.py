"""A part of a study over a corpus: what has been added up of some of its sentences, and what it belongs to."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.results.result import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIX = ".safetensors"
"""Of the files of parts."""

_LONGEST = 200  # bytes: file systems allow 255, and the number of a process may be added


@dataclass(frozen=True)
class Shard:
    """Which part of a corpus: the blocks ``number`` − 1, ``number`` − 1 + ``count``, …; ``number`` is 1 to ``count``.

    Raises:
        ArgumentError: there is no such shard.
    """

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ArgumentError(
                f"{parameter('shard')}: expected a shard from 1 to the number of shards, such as 1/4 to 4/4, got "
                f"{counted(self.number)}/{counted(self.count)}"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole corpus."""
        return self.count == 1

    def has(self, block: int) -> bool:
        """Whether the block of this number, from 0, belongs to it."""
        return block % self.count == self.number - 1


@dataclass(frozen=True)
class Progress:
    """What has been read of a corpus, by one shard.

    Attributes:
        read: sentences of the corpus, also those of other shards.
        digest: SHA-256 of all of them, in hexadecimal digits.
        taken, too_long, empty: of this shard, how many are in batches, were too long, or had no token at all.
        longest: the tokens of the longest that was too long, or was cut.
        cut: of those that were taken, how many were too long, and were cut into pieces.
        is_all: whether the corpus ends here.
        block: how many sentences, one after the other, belong to one shard; 0: nothing has been read.
    """

    read: int = 0
    digest: str = sha256().hexdigest()
    taken: int = 0
    too_long: int = 0
    empty: int = 0
    longest: int = 0
    cut: int = 0
    is_all: bool = False
    block: int = 0

    def joined(self, other: "Progress") -> "Progress":
        """With that of another shard of the same text."""
        return replace(
            self,
            taken=self.taken + other.taken,
            too_long=self.too_long + other.too_long,
            empty=self.empty + other.empty,
            longest=max(self.longest, other.longest),
            cut=self.cut + other.cut,
        )


@dataclass(frozen=True)
class ModelIdentity:
    """Which model: its name, as the user has given it, and a digest of its parameters, the same on every machine."""

    name: str
    fingerprint: str


@dataclass(frozen=True)
class CorpusPart:
    """What a study has added up of one shard of a corpus.

    Attributes:
        study: its name: "heads".
        version: of mhaviz.
        models: those that have run.
        options: all that the numbers depend on beside models and text, as plain JSON values.
        shard: which sentences.
        progress: how far it has come.
        source: what the result says of where its numbers come from.
        arrays: what has been added up; see ``mhaviz.analyses.sums``.
    """

    study: str
    version: str
    models: tuple[ModelIdentity, ...]
    options: Mapping[str, Any]
    shard: Shard
    progress: Progress
    source: Source
    arrays: "Mapping[str, NDArray[Any]]" = field(repr=False)


def part_beside(output: Path) -> Path:
    """heads.png → heads.part.safetensors. A long name is cut."""
    stem = output.stem
    while len(os.fsencode(stem)) > _LONGEST:
        stem = stem[:-1]
    return output.with_name(f"{stem}.part{SUFFIX}")


def part_of_process(part: Path, shard: Shard) -> Path:
    """Of one of several processes: part.safetensors → part-1-of-8.safetensors."""
    return part.with_name(f"{part.stem}-{shard.number}-of-{shard.count}{SUFFIX}")
