"""Options of commands that read a corpus: sharding over several machines, and resuming a run that was killed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.parsing import parsed, whole
from mhaviz.cli.shared.texts import stream_sentences
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.files.errors import STANDARD_INPUT
from mhaviz.processes import gathered, this_process
from mhaviz.results.corpus_part import SUFFIX, part_beside

if TYPE_CHECKING:
    from mhaviz.corpus.corpus import Corpus
    from mhaviz.views.style import Style

corpus_option = partial(typer.Option, rich_help_panel="Corpora on several machines")


def _shard(text: str) -> tuple[int, int]:
    """ "3/64" → (3, 64)."""
    number, count = map(whole, text.split("/"))
    return number, count


@dataclass(frozen=True, eq=False, repr=False)
class CorpusOptions:
    """Options for the shard of a corpus that is read, and for resuming."""

    shard: Annotated[
        Any,
        corpus_option(
            metavar="K/N",
            parser=parsed(_shard, "a part and the number of parts, such as 3/64"),
            help="Read only part K of N, as 1/4 to 4/4; save its sums with -o part.safetensors.",
        ),
    ] = None
    resume: Annotated[
        bool,
        corpus_option("--resume", help="Continue from NAME.part.safetensors, left beside -o by a killed run."),
    ] = False

    def corpus(
        self, delivery: Delivery, sentences: Sequence[str] | None, file: Path | None, has_texts: bool = True
    ) -> "Corpus":
        """Return the corpus with these options.

        Its sums are kept in the .safetensors file among the outputs, or else in a file beside the first output.

        Args:
            delivery: the outputs.
            sentences: sentences of the command line.
            file: file of further sentences.
            has_texts: whether there are texts; not for a probe that takes their place.

        Raises:
            ArgumentError: there are two .safetensors outputs, --resume without an output, or options that several
                processes cannot share.
        """
        if not this_process().is_alone:
            if "-" in (sentences or ()) or file == STANDARD_INPUT:
                raise ArgumentError(
                    "several processes cannot share standard input; add --file with a file of sentences"
                )
            if self.shard is not None:
                raise ArgumentError("--shard: torchrun gives each process its shard; leave out --shard")
        if self.resume and not delivery.paths:
            raise ArgumentError(
                f"--resume continues from sums that are kept beside the output; add -o, such as -o part{SUFFIX}"
            )
        part = part_among(delivery) or (part_beside(delivery.paths[0]) if delivery.paths else None)
        texts = stream_sentences(sentences, file) if has_texts else ()

        from mhaviz.corpus.corpus import Corpus

        is_scratch = part not in delivery.paths
        return Corpus(
            texts, self.shard if this_process().is_alone else "torchrun", part, self.resume, is_scratch=is_scratch
        )

    @contextmanager
    def keeping(self, corpus: "Corpus", delivery: Delivery) -> Iterator[None]:
        """Say where a run that stops inside this block has kept its sums; remove them if it ends well.

        Files that options name are not removed, nor files of other runs.

        Raises:
            StoppedError: Ctrl-C, after sums have been kept.
            ArgumentError: an earlier run has left sums, and --resume is not given.
        """
        corpus.require_nothing_kept()
        own, before = corpus.own_part, _file_at(corpus.own_part)
        kept = f"the sums so far are kept in {own}: continue with --resume"
        try:
            yield
        except KeyboardInterrupt:
            if _file_at(own) == (None if self.resume else before):
                raise
            raise StoppedError(f"interrupted; {kept}") from None
        except MhavizError:
            if _file_at(own) != before:
                delivery.tell(kept)
            raise
        if corpus.is_shared:
            gathered(None)  # waits until the first process has saved the result; no part may be removed before
        if own is not None and own not in delivery.paths:
            own.unlink(missing_ok=True)

    def deliver(self, result: Any, delivery: Delivery, style: "Style", **details: Any) -> None:
        """Run ``deliver_beside_part`` in the first of several processes. A shard without sentences has no result."""
        if not this_process().is_first:
            return
        if getattr(result, "kinds", True):
            deliver_beside_part(result, delivery, style, **details)
            return
        part, empty = part_among(delivery), "shard {}/{} has no sentence of this corpus".format(*self.shard)
        with delivery.besides([part] if part else []) as others:
            if others.paths:
                raise MhavizError(f"{empty}, so there is nothing to draw")
        delivery.tell(empty)


def part_among(delivery: Delivery) -> Path | None:
    """Return the .safetensors file among the outputs; None: there is none. Raises ArgumentError if there are two."""
    parts = [path for path in delivery.paths if path.suffix.lower() == SUFFIX]
    if len(parts) > 1:
        raise ArgumentError(f"expected one {SUFFIX} file among the outputs, got {len(parts)}; name one")
    return parts[0] if parts else None


def deliver_beside_part(result: Any, delivery: Delivery, style: "Style | None" = None, **details: Any) -> None:
    """Save and show a result whose .safetensors part is already written. Raises as ``Delivery.deliver``."""
    part = part_among(delivery)
    with delivery.besides([part] if part else []) as others:
        others.deliver(result, style, **details)


def _file_at(path: Path | None) -> int | None:
    """Return the time when a file was last written; None: there is no file."""
    return path.stat().st_mtime_ns if path is not None and path.exists() else None
