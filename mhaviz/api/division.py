"""Which part of a corpus a process reads, and in which files it keeps what it adds up."""

from dataclasses import dataclass
from pathlib import Path

from mhaviz.errors import ArgumentError, parameter
from mhaviz.files.part_names import SUFFIX, part_of_process
from mhaviz.processes import this_process
from mhaviz.records.corpus_part import Shard


@dataclass(frozen=True)
class Division:
    """Which part of a corpus is read, and where what has been added up is kept.

    Attributes:
        shard: (3, 64): the third of 64 parts; None: the whole.
        part: a .safetensors file that is written every few seconds, and at the end; None: nothing is kept.
        resume: go on from what is in ``part``, if there is such a file.
        distributed: share the corpus among the processes that ``torchrun`` has started: each reads its shard, and in
            the first process the result is of all, in the others of their shards. ``part`` is then of all, and each
            process keeps a part of its own beside it: part-1-of-8.safetensors, …
        part_at_end: False: ``part`` is for ``resume`` alone. Runs of a few seconds write none, and processes none of
            all; the caller may remove it once the result is saved.

    Raises:
        ArgumentError: there is no such shard; a part of another suffix; what does not go together.
    """

    shard: tuple[int, int] | None = None
    part: str | Path | None = None
    resume: bool = False
    distributed: bool = False
    part_at_end: bool = True

    def __post_init__(self) -> None:
        if self.shard is not None:
            if self.distributed:
                raise ArgumentError(
                    f"{parameter('shard')}: torchrun gives each process its shard; leave out {parameter('shard')}"
                )
            Shard(*self.shard)
        if self.part is not None and Path(self.part).suffix.lower() != SUFFIX:
            raise ArgumentError(f"{parameter('part')}: expected a name ending in {SUFFIX}, got {self.part}")
        if self.resume and self.part is None:
            raise ArgumentError(f"{parameter('resume')} goes on from a part; name a {SUFFIX} file that keeps it")

    @property
    def own_shard(self) -> Shard:
        """What this process reads."""
        if self.distributed:
            process = this_process()
            return Shard(process.rank + 1, process.count)
        return Shard(*self.shard) if self.shard else Shard()

    @property
    def own_part(self) -> Path | None:
        """Where this process keeps what it has added up."""
        if self.part is None:
            return None
        shard = self.own_shard if self._is_shared else Shard()
        return part_of_process(Path(self.part), shard.number, shard.count)

    @property
    def own_part_at_end(self) -> bool:
        """Whether ``own_part`` is written at the end in any case, and not only if the run has kept it before."""
        return self.part_at_end and not self._is_shared

    def require_nothing_kept(self) -> None:
        """Raise ArgumentError where a run left what would be written over, of a name that nobody has given."""
        path = self.own_part
        if path is not None and path.exists() and not self.resume and not self.own_part_at_end:
            raise ArgumentError(
                f"{path} keeps what was read of a corpus before; go on from it by {parameter('resume')}, or remove it"
            )

    @property
    def whole_part(self) -> Path | None:
        """What the first process writes of all."""
        return Path(self.part) if self.part is not None and self.part_at_end and self._is_shared else None

    @property
    def _is_shared(self) -> bool:
        return self.distributed and not self.own_shard.is_whole

    @property
    def needs_part(self) -> bool:
        """Whether what is added up is written or sent, or a part gone on from, however long the run takes."""
        return (self.part is not None and (self.part_at_end or self.resume)) or not self.own_shard.is_whole
