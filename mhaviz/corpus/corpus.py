"""A corpus, which may be larger than memory: all of it, a shard, or what a killed run has left."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from mhaviz._version import __version__
from mhaviz.analyses.bootstrap import Bootstrap
from mhaviz.analyses.corpus_difference import require_same_tokens
from mhaviz.analyses.sums import Study
from mhaviz.attention.model import CorpusModel
from mhaviz.corpus.batches import CorpusBatches, cut, with_block_size
from mhaviz.corpus.merging import joined, require_same_study, source_of, study_of
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter, quoted
from mhaviz.files.parts import read_part, write_part
from mhaviz.inputs.probes import Probe, RandomRepeats
from mhaviz.inputs.tokens import Sentence, Text, Tokens
from mhaviz.models.load import Notice
from mhaviz.processes import connect, gathered, this_process
from mhaviz.results.corpus_part import SUFFIX, CorpusPart, Progress, Shard, part_of_process
from mhaviz.results.result import Source

_SECONDS = 5.0  # between two saved states
_SHARE = 20  # so many times as long is computed as is saved


@dataclass(frozen=True)
class Corpus:
    """Texts, which part of them is read, and where what has been added up is kept.

    Attributes:
        texts: a sentence, or several, one after the other.
        shard: (3, 64): the third of 64 parts; "torchrun": share the corpus among the processes that ``torchrun`` has
            started: each reads its shard, and in the first process the result is of all, in the others of their shards;
            None: all of it.
        part: a .safetensors file that is written every few seconds, and at the end; None: nothing is kept. With
            "torchrun" it is of all, and each process keeps a part of its own beside it: part-1-of-8.safetensors, ….
        resume: go on from what is in ``part``, if there is such a file.
        overlap: texts that are too long for the model are cut into pieces that share so many tokens; each query counts
            in the piece where it has more context, and a text as one sentence. None: a quarter of the most tokens that
            the model reads.
        is_scratch: ``part`` is for ``resume`` alone. Runs of a few seconds write none, and processes none of all; the
            caller may remove it once the result is saved.

    Raises:
        ArgumentError: there is no such shard; a part of another suffix, or none to go on from.

    Examples:
        >>> corpus = mhaviz.Corpus(["The cat sat on the mat.", "A dog barks."] * 4, shard=(1, 2))
        >>> mhaviz.head_statistics("minilm", corpus).kinds[0].sentences
        4
    """

    texts: str | Iterable[str | Sentence] = ()
    shard: tuple[int, int] | Literal["torchrun"] | None = None
    part: str | Path | None = None
    resume: bool = False
    overlap: int | None = None
    is_scratch: bool = False

    def __post_init__(self) -> None:
        _ = self.own_shard
        if self.part is not None and Path(self.part).suffix.lower() != SUFFIX:
            raise ArgumentError(f"{parameter('part')}: expected a name ending in {SUFFIX}, got {self.part}")
        if self.resume and self.part is None:
            raise ArgumentError(f"{parameter('resume')} goes on from a part; name a {SUFFIX} file that keeps it")

    @classmethod
    def of(cls, texts: "Texts") -> "Corpus":
        """Texts as a corpus; a corpus as it is."""
        return texts if isinstance(texts, Corpus) else cls(texts)

    @property
    def sentences(self) -> Iterator[Sentence]:
        """The texts as sentences of a corpus whose length nobody knows."""
        for text in [self.texts] if isinstance(self.texts, str) else self.texts:
            yield text if isinstance(text, Sentence) else Sentence(text, 0.0)

    @property
    def own_shard(self) -> Shard:
        """What this process reads."""
        if self.shard == "torchrun":
            process = this_process()
            return Shard(process.rank + 1, process.count)
        if self.shard is None:
            return Shard()
        if isinstance(self.shard, str) or len(self.shard) != 2:
            raise ArgumentError(f"shard: expected two numbers, such as (3, 64), or torchrun, got {quoted(self.shard)}")
        return Shard(*self.shard)

    @property
    def is_shared(self) -> bool:
        """Whether other processes read the other shards."""
        return self.shard == "torchrun" and not self.own_shard.is_whole

    @property
    def own_part(self) -> Path | None:
        """Where this process keeps what it has added up."""
        if self.part is None:
            return None
        return part_of_process(Path(self.part), self.own_shard) if self.is_shared else Path(self.part)

    @property
    def keeps_at_end(self) -> bool:
        """Whether ``own_part`` is written at the end in any case, and not only if the run has kept it before."""
        return not (self.is_scratch or self.is_shared)

    def require_nothing_kept(self) -> None:
        """Raise ArgumentError where a run left what would be written over, of a name that nobody has given."""
        path = self.own_part
        if path is not None and path.exists() and not self.resume and not self.keeps_at_end:
            raise ArgumentError(
                f"{path} keeps what was read of a corpus before; go on from it by {parameter('resume')}, or remove it"
            )

    def probed(
        self, model: CorpusModel, probe: Probe | None, bootstrap: Bootstrap
    ) -> "tuple[Corpus, Bootstrap, tuple[int, ...]]":
        """The texts of a probe, in place of these or made of them, how they are drawn, and the ids of its needle.

        Raises:
            ArgumentError: there are texts beside those that a probe makes; a probe that says nothing of the model.
        """
        if probe is None:
            return self, bootstrap, ()
        if isinstance(probe, RandomRepeats) and self.texts != ():
            raise ArgumentError("probe: random repeats take the place of texts; leave out one of them")
        from mhaviz.models.transformers.probe_texts import probing

        made = probing(model, probe, self.sentences)
        return replace(self, texts=made.sentences), replace(bootstrap, texts_apart=made.texts_apart), made.needle

    def read(
        self,
        study: Study,
        models: Sequence[CorpusModel],
        source: Source,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    ) -> Any:
        """The result of a study over the corpus, or over its shard.

        What has been added up is written now and then, and at the end. Where the file is there to go on from alone, it
        is written at the end if it has been before: the result can then be shown and saved again, should that fail.
        That such a file cannot be written is told, and no more.

        Args:
            study: which has added up nothing.
            models: that run; of several, all take the same texts, with the same tokens.
            source: what the result says of where its numbers come from.
            on_notice: is told of texts that were left out.
            on_progress: is called with how much is done, from 0 to 1, and how many texts that are.

        Raises:
            ArgumentError: there is no text.
            MhavizError: texts that cannot be read; to resume, a part of something else, or a text that has changed.
        """
        if self.is_shared:
            connect()  # so that the end of one is seen by the others
        self.require_nothing_kept()
        first, path, shard = models[0], self.own_part, self.own_shard
        identities = cache(lambda: tuple(model.identity for model in models))  # a fingerprint takes a while
        options = {
            "kind": first.kind,
            "layers": None if first.layers is None else sorted(first.layers),
            "overlap": self.overlap,
            "languages": first.language_codes,
            **({"zeroed": sorted(map(list, first.zeroed))} if first.zeroed else {}),
            **study.options,
        }
        plain = msgspec.to_builtins(options)  # as they are read from a file again: with lists in place of tuples

        def part_at(progress: Progress) -> CorpusPart:
            return CorpusPart(study.name, __version__, identities(), plain, shard, progress, source, study.arrays())

        after = Progress()
        if self.resume and path is not None:
            after = _gone_on_from(path, part_at(after), study, on_notice)
        longest = min((one.max_length for one in models if one.max_length is not None), default=None)
        is_masked = all(site.kind != "self" for site in first.all_sites)

        def cut_up(text: str) -> Sequence[Text]:
            return () if longest is None else cut(_same_tokens(models, text), longest, self.overlap, is_masked)

        sentences, block = with_block_size(self.sentences)
        block = after.block or block  # what comes after what has been read may change, and be longer
        batches = CorpusBatches(sentences, first.lengths, longest, shard=shard, after=after, block=block, cut=cut_up)
        keeps, saved, patience = self.keeps_at_end, time.monotonic(), _SECONDS
        for batch in batches:
            study.read(models, batch.texts, batch.pieces, batch.numbers)
            on_progress(batch.done, batches.progress.taken)
            if path is not None and batch.ends_block and (start := time.monotonic()) - saved > patience:
                keeps = self._save(part_at(batches.progress), path, on_notice)
                path = path if keeps else None
                saved = time.monotonic()
                patience = max(_SECONDS, _SHARE * (saved - start))
        progress = batches.progress
        if path is not None and keeps:
            self._save(part_at(progress), path, on_notice)
        if self.is_shared and (parts := gathered(part_at(progress))) is not None:
            whole = joined([(f"process {number}", one) for number, one in enumerate(parts)])
            if self.part is not None and not self.is_scratch:
                write_part(whole, Path(self.part))
            study, progress, shard = study_of(whole), whole.progress, whole.shard
        tell_left_out(progress, longest, on_notice, self.overlap, shard.is_whole)
        return study.result(source_of(source, shard, progress), progress.too_long)

    def _save(self, part: CorpusPart, path: Path, on_notice: Notice) -> bool:
        """Write what has been added up; whether it could be."""
        try:
            write_part(part, path)
        except MhavizError as error:
            if self.keeps_at_end:
                raise
            on_notice(f"there will be nothing to go on from: {error}")
            return False
        return True


Texts = str | Iterable[str | Sentence] | Corpus
"""A sentence, or several, one after the other; or a corpus, with which part of it is read."""


def _gone_on_from(path: Path, part: CorpusPart, study: Study, on_notice: Notice) -> Progress:
    """How far the part in the file has come, if there is one, which the study takes over. Raises MhavizError for
    anything else.

    ``part``: what is asked for, of which nothing has been read.
    """
    if not path.exists():
        on_notice(f"{path} is not there: reading from the first sentence")
        return part.progress
    kept, name = read_part(path), str(path)
    require_same_study(kept, name, part, "what is asked for")
    if kept.shard != part.shard:
        raise MhavizError(f"{name} is shard {kept.shard}, and this is {part.shard}; name the file of this one")
    with as_one_line(f"cannot go on from {name}"):
        study.join(study_of(kept))
    read = f"sentence {kept.progress.read:,}"
    on_notice(f"{name} is complete" if kept.progress.is_all else f"going on after {read}, where {name} has come to")
    return kept.progress


def _same_tokens(models: Sequence[CorpusModel], text: str) -> Tokens:
    """The tokens of a text that is too long. Raises MhavizError unless all models make the same of it."""
    tokens, *others = (model.read_unnamed([text])[0] for model in models)
    for other in others:
        require_same_tokens(tokens, other, f"{text!r:.40}")
    return tokens


def tell_left_out(
    progress: Progress,
    most: int | None,
    on_notice: Notice,
    overlap: int | None = None,
    is_whole: bool = True,
) -> None:
    """Say which sentences were left out or cut.

    Args:
        progress: what has been read.
        most: the most tokens that the model reads at once; None: any number.
        on_notice: is told, a line each.
        overlap: what pieces share; see ``cut``.
        is_whole: whether that is all of the corpus.

    Raises:
        ArgumentError: there is no sentence in the corpus.
        MhavizError: none could be read, and none can have been in another shard.
    """

    def were(number: int) -> str:
        return f"{number:,} {'sentence was' if number == 1 else 'sentences were'}"

    notices = []
    if progress.too_long:
        why = f"expected at most {most:,} tokens, got up to {progress.longest:,}"
        notices.append(f"{were(progress.too_long)} left out: {why}")
    if progress.empty:
        notices.append(f"{were(progress.empty)} left out: the model's tokenizer finds no token")
    if not progress.read:
        raise ArgumentError("expected at least one sentence, got none")
    if not progress.taken and is_whole:
        raise MhavizError(f"expected a sentence that the model can read: {'; '.join(notices)}")
    if progress.cut:
        shared = "a quarter of that" if overlap is None else f"{overlap:,}"
        notices.append(
            f"{were(progress.cut)} cut into pieces of {most:,} tokens that overlap by {shared}, as up to "
            f"{progress.longest:,} tokens are more than the model reads at once; each query counts once"
        )
    for notice in notices:
        on_notice(notice)
