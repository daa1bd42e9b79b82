"""A corpus, which may be larger than memory, read by one process or several, or from where an earlier run stopped."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from mhaviz._version import __version__
from mhaviz.analyses.corpus_difference import require_same_tokens
from mhaviz.analyses.sums import Study
from mhaviz.attention.model import CorpusModel
from mhaviz.corpus.batches import CorpusBatches, added_around, cut, with_block_size
from mhaviz.corpus.joining import join_others, require_same_study, source_of
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter
from mhaviz.files.parts import read_part, write_part
from mhaviz.inputs.probes import Probe, RandomRepeats
from mhaviz.inputs.tokens import Sentence, Text, Tokens
from mhaviz.models.load import Notice
from mhaviz.processes import Process, connect, gathered, this_process
from mhaviz.results.corpus_part import SUFFIX, CorpusPart, Progress, Shard, part_of_process
from mhaviz.results.result import Source

_SECONDS = 5.0  # least time between two saved parts
_SHARE = 20  # least ratio of the time between saving to the time of saving


@dataclass(frozen=True)
class Corpus:
    """Texts, with the processes that read them, and the file in which sums are kept.

    Attributes:
        texts: a sentence, or several.
        part: a .safetensors file to which sums are written every few seconds, so that a run that is killed can be
            resumed; None: none. Short runs write none. The caller may remove it once the result is saved.
        resume: whether to continue from ``part``, if the file exists.
        torchrun: whether the processes that ``torchrun`` started share the texts: the result is of all in the first
            process, and of its own shard in each other. Each has its own part: part-1-of-8.safetensors, ….
        overlap: number of tokens that two pieces share. Texts that are too long for the model are cut into pieces; each
            query counts in the piece where it has more context, and the text counts as one sentence. None: a quarter of
            the most tokens that the model reads.

    Raises:
        ArgumentError: ``part`` has another suffix; ``resume`` without ``part``.

    Examples:
        >>> corpus = mhaviz.Corpus(["The cat sat on the mat.", "A dog barks."], part="part.safetensors", resume=True)
        >>> mhaviz.head_statistics("minilm", corpus).kinds[0].sentences
        2
    """

    texts: str | Iterable[str | Sentence] = ()
    part: str | Path | None = None
    resume: bool = False
    torchrun: bool = False
    overlap: int | None = None

    def __post_init__(self) -> None:
        if self.part is not None and Path(self.part).suffix.lower() != SUFFIX:
            raise ArgumentError(f"`part`: expected a name ending in {SUFFIX}, got {self.part}")
        if self.resume and self.part is None:
            raise ArgumentError(f"`resume` continues from a part; name a {SUFFIX} file that keeps it")

    @classmethod
    def of(cls, texts: "Texts") -> "Corpus":
        """Return texts as a corpus; a corpus is returned unchanged."""
        return texts if isinstance(texts, Corpus) else cls(texts)

    @property
    def sentences(self) -> Iterator[Sentence]:
        """The texts as sentences. For plain texts ``done`` is 0, as the length of the corpus is not known."""
        for text in [self.texts] if isinstance(self.texts, str) else self.texts:
            yield text if isinstance(text, Sentence) else Sentence(text, 0.0)

    @property
    def own_shard(self) -> Shard:
        """Shard of this process."""
        process = this_process() if self.torchrun else Process()
        return Shard(process.rank + 1, process.count)

    @property
    def is_shared(self) -> bool:
        """Whether other processes read other shards."""
        return not self.own_shard.is_whole

    @property
    def own_part(self) -> Path | None:
        """File of this process's sums; None: none."""
        if self.part is None:
            return None
        return part_of_process(Path(self.part), self.own_shard) if self.is_shared else Path(self.part)

    def require_nothing_kept(self) -> None:
        """Raise ArgumentError if an earlier run left a part that this run would overwrite."""
        path = self.own_part
        if path is not None and path.exists() and not self.resume:
            raise ArgumentError(
                f"{path} keeps sums of an earlier run; continue from it with {parameter('resume')}, or remove it"
            )

    def probed(self, model: CorpusModel, probe: Probe | None) -> "tuple[Corpus, tuple[int, ...], int]":
        """Return the corpus of a probe's texts, the ids of its needle, and the number of texts that are one, apart.

        Without a probe, return this corpus, no ids, and 1.

        Raises:
            ArgumentError: texts in addition to random repeats; a probe that does not fit the model.
        """
        if probe is None:
            return self, (), 1
        if isinstance(probe, RandomRepeats) and self.texts != ():
            raise ArgumentError("probe: random repeats take the place of texts; leave out one of them")
        from mhaviz.models.transformers.probe_texts import probing

        made = probing(model, probe, self.sentences)
        return replace(self, texts=made.sentences), made.needle, made.texts_apart

    def read(
        self,
        study: Study,
        models: Sequence[CorpusModel],
        source: Source,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    ) -> Any:
        """Run a study over the corpus, or the shard of this process, and return its result.

        The part is written from time to time, and, if it was, at the end, so that a failure to show or save the result
        loses nothing. If it cannot be written, there is a notice and no error.

        Args:
            study: a study without sums.
            models: models to run; several must have the same tokens for each text.
            source: source of the result.
            on_notice: called with notices, such as of texts that were left out.
            on_progress: called with the share of the corpus that is done, from 0 to 1, and the number of its texts.

        Raises:
            ArgumentError: the corpus is empty.
            MhavizError: texts that cannot be read, or that other processes do not share; on ``resume``, a part of
                another study, or texts that have changed.
        """
        if self.is_shared:
            connect()  # so that each process notices if another ends
        self.require_nothing_kept()
        first, path, shard = models[0], self.own_part, self.own_shard
        identities = cache(lambda: tuple(model.identity for model in models))  # fingerprints are slow
        options = {
            "kind": first.kind,
            "layers": None if first.layers is None else sorted(first.layers),
            "overlap": self.overlap,
            "languages": first.language_codes,
            **study.options,
        }
        plain = msgspec.to_builtins(options)  # as read from a file: with lists instead of tuples

        def part_at(progress: Progress) -> CorpusPart:
            return CorpusPart(study.name, __version__, identities(), plain, shard, progress, study.arrays())

        after = Progress()
        if self.resume and path is not None:
            after = _resumed(path, part_at(after), study, on_notice)
        longest = min((one.max_length for one in models if one.max_length is not None), default=None)
        is_masked = all(site.kind != "self" for site in first.all_sites)

        def cut_up(text: str) -> Sequence[Text]:
            if longest is None:
                return ()
            tokens = _same_tokens(models, text)
            plain = first.read_unnamed(["a"])[0] or tokens  # a text may begin or end with special tokens of its own
            return cut(tokens, longest, added_around(plain), self.overlap, is_masked)

        sentences, block = with_block_size(self.sentences)
        block = after.block or block  # as the corpus may have grown since the part was written
        batches = CorpusBatches(sentences, first.lengths, longest, shard=shard, after=after, block=block, cut=cut_up)
        keeps, saved, patience = False, time.monotonic(), _SECONDS
        for batch in batches:
            study.read(models, batch.texts, batch.pieces, batch.numbers)
            on_progress(batch.done, batches.progress.taken)
            if path is not None and batch.ends_block and (start := time.monotonic()) - saved > patience:
                keeps = _is_written(part_at(batches.progress), path, on_notice)
                path = path if keeps else None
                saved = time.monotonic()
                patience = max(_SECONDS, _SHARE * (saved - start))
        progress = batches.progress
        if path is not None and keeps:
            _is_written(part_at(progress), path, on_notice)
        if self.is_shared and (parts := gathered(part_at(progress))) is not None:
            progress, shard = join_others(study, parts), Shard()
        tell_left_out(progress, longest, on_notice, self.overlap, shard.is_whole)
        return study.result(source_of(source, shard, progress), progress.too_long)


Texts = str | Iterable[str | Sentence] | Corpus
"""A sentence, several sentences, or a corpus."""


def _is_written(part: CorpusPart, path: Path, on_notice: Notice) -> bool:
    """Write a part, and return whether that succeeded; if not, there is a notice."""
    try:
        write_part(part, path)
    except MhavizError as error:
        on_notice(f"this run cannot be resumed: {error}")
        return False
    return True


def _resumed(path: Path, part: CorpusPart, study: Study, on_notice: Notice) -> Progress:
    """Load the sums of an earlier run into the study, and return its progress; none if the file does not exist.

    Args:
        path: file of the earlier run.
        part: part of this run, before anything is read.
        study: the study.
        on_notice: called with a line that says where this run begins.

    Raises:
        MhavizError: the file is no part of the same study, models, options and shard.
    """
    if not path.exists():
        on_notice(f"{path} does not exist: reading from the first sentence")
        return part.progress
    kept, name = read_part(path), str(path)
    require_same_study(kept, name, part, "what is asked for")
    if kept.shard != part.shard:
        raise MhavizError(f"{name} is shard {kept.shard}, and this is {part.shard}; name the file of this one")
    with as_one_line(f"cannot go on from {name}"):
        study.join(kept.arrays)
    read = f"sentence {kept.progress.read:,}"
    on_notice(f"{name} is complete" if kept.progress.is_all else f"going on after {read}, where {name} has come to")
    return kept.progress


def _same_tokens(models: Sequence[CorpusModel], text: str) -> Tokens:
    """Return the tokens of a text. Raises MhavizError unless all models have the same."""
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
    """Notify the user how many sentences were left out or cut, and why.

    Args:
        progress: progress at the end.
        most: most tokens that the model reads at once; None: any number.
        on_notice: called with each notice, one line.
        overlap: number of tokens that pieces share; see ``cut``.
        is_whole: whether the whole corpus was read, and not a shard.

    Raises:
        ArgumentError: the corpus has no sentence.
        MhavizError: the model could read no sentence of the whole corpus.
    """

    def were(number: int) -> str:
        return f"{number:,} {'sentence was' if number == 1 else 'sentences were'}"

    notices = []
    if progress.too_long:
        why = f"expected at most {most:,} tokens, got up to {progress.longest:,}"
        notices.append(f"{were(progress.too_long)} left out: {why}")
    if progress.empty:
        notices.append(f"{were(progress.empty)} left out: the model's tokenizer finds no token of a text")
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
