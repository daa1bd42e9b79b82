"""mhaviz train --evaluate, and reading the corpus that train and --evaluate name."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.errors import ArgumentError
from mhaviz.files.texts import require_readable
from mhaviz.training import TRANSLATION
from mhaviz.views.labels import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mhaviz.training.checkpoint import Checkpoint
    from mhaviz.training.corpus import Corpus, Pair
    from mhaviz.views.style import Style


def read_corpus(name: str, seed: int) -> "Corpus":
    """The corpus of that name, its held-out part chosen by the seed.

    Raises:
        MhavizError: the file cannot be read; see ``mhaviz.training.corpus``.
    """
    from mhaviz.training.corpus import read_pairs
    from mhaviz.training.grammar import translation_corpus

    return translation_corpus(seed) if _is_built_in(name) else read_pairs(Path(name), seed)


def require_corpus(name: str) -> None:
    """Raise MhavizError if there is no such corpus; what is in its file is not looked at."""
    if not _is_built_in(name):
        require_readable(Path(name))


def _is_built_in(name: str) -> bool:
    return name == TRANSLATION and not Path(name).is_file()


def evaluate_checkpoint(name: str, corpus: str | None, device: str, delivery: Delivery, style: "Style") -> None:
    """Say how much a checkpoint gets right of what it has not been trained on, and deliver that.

    Raises:
        ArgumentError: the corpus must be named, or has words that the checkpoint does not know.
        MhavizError: a file that cannot be read.
    """
    from mhaviz.analyses.alignment import alignment_errors
    from mhaviz.devices import resolve_device
    from mhaviz.models.trained_model import TrainedModel, source_target_maps
    from mhaviz.training.evaluation import evaluate
    from mhaviz.training.loading import load_checkpoint

    checkpoint = load_checkpoint(name)
    chosen_device = resolve_device(device)
    pairs, notice = _sentences(checkpoint, name, corpus)
    evaluation = evaluate(checkpoint, pairs, held_out=notice is None, device=chosen_device)
    gold = [(pair, pair.alignment) for pair in pairs if pair.alignment is not None]
    if any(alignment for _, alignment in gold):
        maps = source_target_maps(TrainedModel(checkpoint, str(chosen_device)), [pair for pair, _ in gold])
        evaluation = replace(evaluation, alignment=alignment_errors(maps, [alignment for _, alignment in gold]))

    delivery.deliver(evaluation, style, notice=notice)


def _sentences(checkpoint: "Checkpoint", name: str, corpus: str | None) -> "tuple[Sequence[Pair], str | None]":
    """What is held out of the checkpoint's own corpus, or all of another; and what to tell of it."""
    from mhaviz.training.grammar import NAME

    if corpus is None and checkpoint.corpus != NAME:
        raise ArgumentError(
            f"this checkpoint has learnt from {checkpoint.corpus}; name it: mhaviz train {checkpoint.corpus} "
            f"--evaluate {name}"
        )
    read = read_corpus(corpus or TRANSLATION, checkpoint.plan.seed)
    if read.fingerprint == checkpoint.fingerprint:
        return read.held_out, None
    notice = (
        f"these are not just the sentences that the checkpoint has learnt from ({visible(checkpoint.corpus)}): all of "
        f"them are evaluated, also those that it may have been trained on"
    )
    return read.pairs, notice
