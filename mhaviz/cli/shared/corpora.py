"""Options of commands that read a corpus: resuming a run that was killed. ``torchrun`` shares it among processes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.texts import stream_sentences
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.files.errors import STANDARD_INPUT
from mhaviz.processes import gathered, this_process
from mhaviz.results.corpus_part import part_beside

if TYPE_CHECKING:
    from mhaviz.corpus.corpus import Corpus


@dataclass(frozen=True, eq=False, repr=False)
class CorpusOptions:
    """Option for resuming."""

    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from NAME.part.safetensors, left beside -o by a killed run."),
    ] = False

    def corpus(
        self, delivery: Delivery, sentences: Sequence[str] | None, file: Path | None, has_texts: bool = True
    ) -> "Corpus":
        """Return the corpus, whose sums are kept in a file beside the first output.

        Args:
            delivery: the outputs.
            sentences: sentences of the command line.
            file: file of further sentences.
            has_texts: whether there are texts; not for a probe that takes their place.

        Raises:
            ArgumentError: --resume without an output, or standard input, which several processes cannot share.
        """
        if not this_process().is_alone and ("-" in (sentences or ()) or file == STANDARD_INPUT):
            raise ArgumentError("several processes cannot share standard input; add --file with a file of sentences")
        if self.resume and not delivery.paths:
            raise ArgumentError("--resume continues from sums that are kept beside the output; add -o")
        part = part_beside(delivery.paths[0]) if delivery.paths else None
        texts = stream_sentences(sentences, file) if has_texts else ()

        from mhaviz.corpus.corpus import Corpus

        return Corpus(texts, part, self.resume, torchrun=True)


def require_one_process(reads: str) -> None:
    """Raise ArgumentError if torchrun has started more processes; ``reads``: "ablate reads all sentences"."""
    if not this_process().is_alone:
        raise ArgumentError(f"{reads} in one process; start it without torchrun")


@contextmanager
def keeping(corpus: "Corpus", delivery: Delivery) -> Iterator[None]:
    """Say where a run that stops inside this block has kept its sums; remove them if it ends well.

    Raises:
        StoppedError: Ctrl-C, after sums have been kept.
        ArgumentError: an earlier run has left sums, and --resume is not given.
    """
    corpus.require_nothing_kept()
    part, before = corpus.own_part, _written_at(corpus.own_part)
    kept = f"the sums so far are kept in {part}: continue with --resume"
    try:
        yield
    except KeyboardInterrupt:
        if _written_at(part) is None:
            raise
        raise StoppedError(f"interrupted; {kept}") from None
    except MhavizError:
        if _written_at(part) != before:
            delivery.tell(kept)
        raise
    if corpus.is_shared:
        gathered(None)  # waits until the first process has saved the result; no part may be removed before
    if part is not None:
        part.unlink(missing_ok=True)


def _written_at(path: Path | None) -> int | None:
    """Return the time when a file was last written; None: there is no file."""
    return path.stat().st_mtime_ns if path is not None and path.exists() else None
