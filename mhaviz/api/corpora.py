"""Runs a study over a corpus, which may be larger than memory: all of it, a shard, or what a killed run has left."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mhaviz._version import __version__
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.sums import Study
from mhaviz.api.division import Division
from mhaviz.api.parts import joined, require_alike, study_of
from mhaviz.attention.model import CorpusModel, SiteCall
from mhaviz.errors import MhavizError, as_one_line
from mhaviz.files.parts import read_part, require_version, write_part
from mhaviz.models.corpus_batches import CorpusBatch, CorpusBatches, Sentence, with_block_size
from mhaviz.processes import connect, gathered
from mhaviz.records.corpus_part import Behind, CorpusPart
from mhaviz.records.source import Source
from mhaviz.records.tokens import Text

_SECONDS = 5.0  # between two saved states
_SHARE = 20  # so many times as long is computed as is saved

CountBatch = Callable[[CorpusBatch], None]


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
    study: Study
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
        division.require_nothing_kept()
        part = CorpusPart(self.name, __version__, (), _plain(self.options), shard, Behind(), self.source, {})
        if division.needs_part:
            part = self._identified(part)
        if division.resume and path is not None:
            part = self._gone_on_from(path, part, on_notice)
        model = self.models[0]
        longest = self.max_length

        def cut(text: str) -> Sequence[Text]:
            return () if longest is None else same_pieces(self.models, text, longest, self.overlap)

        sentences, block = with_block_size(sentences)
        block = part.behind.block or block  # what comes after what has been read may change, and be longer
        batches = CorpusBatches(sentences, model.lengths, longest, shard=shard, after=part.behind, block=block, cut=cut)
        part = self._read(batches, part, division, on_notice, on_progress)
        parts = gathered(part) if division.distributed and not shard.is_whole else None
        if parts is None:
            return part
        part = joined([(f"process {number}", one) for number, one in enumerate(parts)])
        if division.whole_part is not None:
            write_part(part, division.whole_part)
        return part

    @property
    def max_length(self) -> int | None:
        """The most tokens that every model can read; None: any number."""
        return min((one.max_length for one in self.models if one.max_length is not None), default=None)

    def _read(
        self,
        batches: CorpusBatches,
        part: CorpusPart,
        division: Division,
        on_notice: Callable[[str], None],
        on_progress: Callable[[float, int], None],
    ) -> CorpusPart:
        """Count all batches. What has been added up is written now and then, and at the end.

        Where the file is there to go on from alone, it is written at the end if it has been before: the result can
        then be shown and saved again, should that fail. That such a file cannot be written is told, and no more.
        """

        def save(part: CorpusPart, path: Path) -> bool:
            """Whether it could be written."""
            try:
                write_part(part, path)
            except MhavizError as error:
                if division.own_part_at_end:
                    raise
                on_notice(f"there will be nothing to go on from: {error}")
                return False
            return True

        path = division.own_part
        at_end = division.own_part_at_end
        saved, patience = time.monotonic(), _SECONDS
        for batch in batches:
            self.count(batch)
            on_progress(batch.done, batches.behind.taken)
            if path is not None and batch.ends_block and (start := time.monotonic()) - saved > patience:
                part = self._now(self._identified(part), batches)
                at_end = save(part, path)
                path = path if at_end else None
                saved = time.monotonic()
                patience = max(_SECONDS, _SHARE * (saved - start))
        part = self._now(part, batches)
        if path is not None and at_end:
            save(part, path)
        return part

    def _now(self, part: CorpusPart, batches: CorpusBatches) -> CorpusPart:
        return replace(part, behind=batches.behind, arrays=self.study.arrays())

    def _identified(self, part: CorpusPart) -> CorpusPart:
        """With the fingerprints of the models, which are computed only when a part is written or sent."""
        return part if part.models else replace(part, models=tuple(model.identity for model in self.models))

    def _gone_on_from(self, path: Path, part: CorpusPart, on_notice: Callable[[str], None]) -> CorpusPart:
        """What is in the file, if there is one, which the study takes over. Raises MhavizError for anything else."""
        if not path.exists():
            on_notice(f"{path} is not there: reading from the first sentence")
            return part
        kept, name = read_part(path), str(path)
        require_version(kept, name)
        require_alike(kept, name, part, "what is asked for")
        if kept.shard != part.shard:
            raise MhavizError(f"{name} is shard {kept.shard}, and this is {part.shard}; name the file of this one")
        with as_one_line(f"cannot go on from {name}"):
            self.study.join(study_of(kept))
        read = f"sentence {kept.behind.read:,}"
        on_notice(f"{name} is complete" if kept.behind.is_all else f"going on after {read}, where {name} has come to")
        return replace(part, behind=kept.behind)


def count_batch(model: CorpusModel, study: HeadStudy, batch: CorpusBatch) -> None:
    """Run the model on a batch, and add what its attentions are called with to the study."""

    def add(seen: SiteCall) -> None:
        start = seen.sentence or 0  # some models read one sentence after the other
        study.add(seen, batch.numbers[start : start + len(seen.queries)])

    model.run(model.encode_unnamed(batch.texts, batch.pieces), add, batched=True)


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


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """As they are read from a file again: with lists in place of tuples."""
    plain: dict[str, Any] = json.loads(json.dumps(options))
    return plain
