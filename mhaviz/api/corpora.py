"""Runs a study over a corpus, which may be larger than memory: all of it, a shard, or what a killed run has left."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mhaviz._version import __version__
from mhaviz.analyses.study import Study, Sums
from mhaviz.api.parts import joined, kind_of, require_alike
from mhaviz.attention.model import CorpusModel, SiteCall
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter
from mhaviz.files.parts import SUFFIX, read_part, require_version, write_part
from mhaviz.models.corpus_batches import CorpusBatch, CorpusBatches, Sentence
from mhaviz.processes import connect, gathered, this_process
from mhaviz.records import Behind, CorpusPart, Shard, Source, Text

_SECONDS = 5.0  # between two saved states
_SHARE = 20  # so many times as long is computed as is saved

CountBatch = Callable[[CorpusBatch], None]


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


@dataclass(frozen=True)
class CorpusRun:
    """A study that is to run over a corpus.

    Attributes:
        name: of the study in ``STUDIES``.
        study: which has added up nothing.
        models: that run, each a ``CorpusModel``; of several, all take the same texts, with the same tokens.
        count: runs them on a batch, and adds what they do to the study.
        options: all that the numbers depend on beside models and text, as plain JSON values.
        source: what the result says of where its numbers come from.
        overlap: so many tokens the pieces share that a text is cut into that is too long; see ``CorpusModel.cut``.
    """

    name: str
    study: Sums
    models: Sequence[CorpusModel]
    count: CountBatch
    options: Mapping[str, Any]
    source: Source
    overlap: int | None = None

    def over(
        self,
        sentences: Iterable[Sentence],
        division: Division,
        on_notice: Callable[[str], None] = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    ) -> CorpusPart:
        """Read the corpus, or its shard.

        Returns:
            What has been added up. Of several processes that share the corpus: in the first, of all of it.

        Raises:
            MhavizError: texts that cannot be read; to resume, a part of something else, or a text that has changed.
        """
        shard, path = division.own_shard, division.own_part
        if division.distributed:
            connect()  # so that the end of one is seen by the others
        identities = tuple(model.identity for model in self.models) if division.needs_part else ()
        part = CorpusPart(self.name, __version__, identities, _plain(self.options), shard, Behind(), self.source, {})
        if division.resume and path is not None and path.exists():
            part = self._gone_on_from(path, part, on_notice)
        model = self.models[0]
        longest = self.max_length

        def cut(text: str) -> Sequence[Text]:
            return () if longest is None else same_pieces(self.models, text, longest, self.overlap)

        batches = CorpusBatches(sentences, model.lengths, longest, shard=shard, after=part.behind, cut=cut)
        saved, patience = time.monotonic(), _SECONDS
        for batch in batches:
            self.count(batch)
            on_progress(batch.done, batches.behind.taken)
            if path is not None and batch.ends_block and (start := time.monotonic()) - saved > patience:
                write_part(self._now(part, batches), path)
                saved = time.monotonic()
                patience = max(_SECONDS, _SHARE * (saved - start))
        part = self._now(part, batches)
        if path is not None:
            write_part(part, path)
        if not division.distributed or shard.is_whole:
            return part
        parts = gathered(part)
        if parts is None:
            return part
        part = joined([(f"process {number}", one) for number, one in enumerate(parts)])
        if division.part is not None:
            write_part(part, Path(division.part))
        return part

    @property
    def max_length(self) -> int | None:
        """The most tokens that every model can read; None: any number."""
        return min((one.max_length for one in self.models if one.max_length is not None), default=None)

    def _now(self, part: CorpusPart, batches: CorpusBatches) -> CorpusPart:
        return replace(part, behind=batches.behind, arrays=self.study.arrays())

    def _gone_on_from(self, path: Path, part: CorpusPart, on_notice: Callable[[str], None]) -> CorpusPart:
        """What is in the file, which the study takes over. Raises MhavizError if it is of anything else."""
        kept, name = read_part(path), str(path)
        require_version(kept, name)
        require_alike(kept, name, part, "what is asked for")
        if kept.shard != part.shard:
            raise MhavizError(f"{name} is shard {kept.shard}, and this is {part.shard}; name the file of this one")
        with as_one_line(f"cannot go on from {name}"):
            self.study.join(kind_of(self.name).load(kept.arrays))
        read = f"sentence {kept.behind.read:,}"
        on_notice(f"{name} is complete" if kept.behind.is_all else f"going on after {read}, where {name} has come to")
        return replace(part, behind=kept.behind)


def kept_parts(part: Path, count: int) -> list[Path]:
    """Where each of several processes keeps its own part, so that it can go on from it; none if there is one."""
    numbers = range(1, count + 1) if count > 1 else ()
    return [part.with_name(f"{part.stem}-{number}-of-{count}{SUFFIX}") for number in numbers]


def count_batch(model: CorpusModel, study: Study, batch: CorpusBatch) -> None:
    """Run the model on a batch, and add what its attentions are called with to the study."""

    def add(seen: SiteCall) -> None:
        start = seen.sentence or 0  # some models read one sentence after the other
        study.add(seen, batch.numbers[start : start + len(seen.queries)])

    model.run(model.encode_unnamed(batch.texts, batch.pieces), add, batched=True)


def source_of_part(part: CorpusPart) -> Source:
    """Where the numbers of a part come from, which shard they are of, if it is not all, and how many texts were cut."""
    source, shard, n_cut = part.source, part.shard, part.behind.cut
    footnote, details = source.footnote, dict(source.details)
    if not shard.is_whole:
        footnote, details["shard"] = f"{footnote}, shard {shard}", [shard.number, shard.count]
    if n_cut:
        footnote, details["cut"] = f"{footnote}, {n_cut:,} text{'s' * (n_cut != 1)} cut into pieces", n_cut
    return replace(source, footnote=footnote, details=details)


def sentences_of(texts: str | Iterable[str | Sentence]) -> Iterator[Sentence]:
    """One text, or several, as sentences of a corpus whose length nobody knows."""
    for text in [texts] if isinstance(texts, str) else texts:
        yield text if isinstance(text, Sentence) else Sentence(text, 0.0)


def same_pieces(models: Sequence[CorpusModel], text: str, most: int, overlap: int | None) -> Sequence[Text]:
    """The pieces of a text that is too long. Raises MhavizError unless all models make the same of it."""
    pieces, *others = (model.cut(text, most, overlap) for model in models)
    if any(list(other) != list(pieces) for other in others):
        raise MhavizError(
            f"expected the same tokens in both models, but they make others of {text!r:.40}; compare models of one "
            f"tokenizer"
        )
    return pieces


def cut_up(behind: Behind, most: int | None, overlap: int | None) -> list[str]:
    """What is said of sentences that were cut into pieces."""
    if not behind.cut:
        return []
    shared = "a quarter of that" if overlap is None else f"{overlap:,}"
    many = "sentence was" if behind.cut == 1 else "sentences were"
    return [
        f"{behind.cut:,} {many} cut into pieces of {most:,} tokens that overlap by {shared}, as up to "
        f"{behind.longest:,} tokens are more than the model reads at once; each query counts once"
    ]


def left_out(behind: Behind, most: int | None) -> list[str]:
    """What is said of sentences that are in no batch."""
    said = []
    if behind.too_long:
        why = f"expected at most {most:,} tokens, got up to {behind.longest:,}"
        said.append(f"{_sentences_were(behind.too_long)} left out: {why}")
    if behind.empty:
        said.append(f"{_sentences_were(behind.empty)} left out: the model's tokenizer finds no token")
    return said


def require_some(study: str, behind: Behind, most: int | None, is_whole: bool = True) -> None:
    """Raise an error if no sentence was read, unless others may have been in the other shards of the corpus."""
    if behind.taken or (behind.read and not is_whole):
        return
    if not behind.read:
        raise ArgumentError(f"{study}: expected at least one sentence, got none")
    raise MhavizError(f"expected a sentence that the model can read: {'; '.join(left_out(behind, most))}")


def _sentences_were(number: int) -> str:
    return f"{number:,} {'sentence was' if number == 1 else 'sentences were'}"


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """As they are read from a file again: with lists in place of tuples."""
    plain: dict[str, Any] = json.loads(json.dumps(options))
    return plain
