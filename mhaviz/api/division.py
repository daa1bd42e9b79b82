"""Which part of a corpus a process reads, and in which files it keeps what it adds up."""

from dataclasses import dataclass
from pathlib import Path

from mhaviz.errors import ArgumentError, parameter
from mhaviz.files.parts import SUFFIX
from mhaviz.processes import this_process
from mhaviz.records import Shard


@dataclass(frozen=True)
class Division:
    """Which part of a corpus is read, and where what has been added up is kept.

    Attributes:
        shard: (3, 64): the third of 64 parts; None: the whole.
        part: a .safetensors file that is written every few seconds, and at the end; None: nothing is kept.
        resume: go on from what is in ``part``, if there is such a file.
        distributed: share the corpus among the processes that ``torchrun`` has started: each reads its shard, and in
            the first process the result is of all, in the others of their shards. ``part`` is then of all, and with
            ``resume`` each process keeps a part of its own beside it.

    Raises:
        ArgumentError: there is no such shard; a part of another suffix; what does not go together.
    """

    shard: tuple[int, int] | None = None
    part: str | Path | None = None
    resume: bool = False
    distributed: bool = False

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
        path, shard = Path(self.part), self.own_shard
        if not self.distributed or shard.is_whole:
            return path
        return kept_parts(path, shard.count)[shard.number - 1] if self.resume else None

    @property
    def needs_part(self) -> bool:
        """Whether what is added up is written or sent."""
        return self.part is not None or not self.own_shard.is_whole


def kept_parts(part: Path, count: int) -> list[Path]:
    """Where each of several processes keeps its own part, so that it can go on from it; none if there is one."""
    numbers = range(1, count + 1) if count > 1 else ()
    return [part.with_name(f"{part.stem}-{number}-of-{count}{SUFFIX}") for number in numbers]
