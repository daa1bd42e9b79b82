"""Part of a study over a corpus: the sums of some of its sentences, and the models and options that they belong to.

A run keeps its part to be resumed, and sends it to the first of several processes.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.errors import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIX = ".safetensors"
"""Suffix of the files of parts."""

_LONGEST = 200  # bytes of a file's name: file systems allow 255, and the number of a process may be added


@dataclass(frozen=True)
class Shard:
    """Shard of a corpus, read by one of several processes: its blocks ``number`` − 1, ``number`` − 1 + ``count``, ….

    Raises:
        ValueError: ``number`` is not from 1 to ``count``, as in a broken file.
    """

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(f"expected a shard from 1/{counted(self.count)}, got {counted(self.number)}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def is_whole(self) -> bool:
        """Whether the shard is the whole corpus."""
        return self.count == 1

    def has(self, block: int) -> bool:
        """Return whether the block with this index, from 0, belongs to the shard."""
        return block % self.count == self.number - 1


@dataclass(frozen=True)
class Progress:
    """Progress of one shard in a corpus.

    Attributes:
        read: number of sentences read so far, those of other shards included.
        digest: SHA-256 of all sentences read, in hexadecimal digits.
        taken, too_long, empty: number of sentences of this shard that were used, were too long, or had no token.
        longest: number of tokens of the longest sentence that was too long or was cut.
        cut: number of sentences that were used, but were too long and were cut into pieces.
        is_all: whether the corpus has been read to its end.
        block: number of consecutive sentences that belong to one shard; 0: nothing has been read.
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
        """Add the counts of another shard of the same text."""
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
    """Identity of a model: its name as given by the user, and a digest of its parameters, equal on every machine."""

    name: str
    fingerprint: str


@dataclass(frozen=True)
class CorpusPart:
    """Sums of a study over one shard of a corpus.

    Attributes:
        study: name of the study, such as "heads".
        version: version of mhaviz.
        models: the models that were run.
        options: everything else that the numbers depend on, except the text, as plain JSON values.
        shard: the sentences that were read.
        progress: progress of the shard.
        arrays: the sums; see ``mhaviz.analyses.sums``.
    """

    study: str
    version: str
    models: tuple[ModelIdentity, ...]
    options: Mapping[str, Any]
    shard: Shard
    progress: Progress
    arrays: "Mapping[str, NDArray[Any]]" = field(repr=False)


def part_beside(output: Path) -> Path:
    """Return the path of the part beside an output: heads.png → heads.part.safetensors. A long name is cut."""
    stem = output.stem
    while len(os.fsencode(stem)) > _LONGEST:
        stem = stem[:-1]
    return output.with_name(f"{stem}.part{SUFFIX}")


def part_of_process(part: Path, shard: Shard) -> Path:
    """Return the path of the part of one of several processes: part.safetensors → part-1-of-8.safetensors."""
    return part.with_name(f"{part.stem}-{shard.number}-of-{shard.count}{SUFFIX}")
