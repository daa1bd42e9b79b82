"""What a trained model gets right of a corpus, and reading the corpus that a training or an evaluation names."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mhaviz.devices import resolve_device
from mhaviz.errors import ArgumentError
from mhaviz.models.trained_model import TrainedModel, source_target_maps
from mhaviz.pages.labels import visible
from mhaviz.results.training import Evaluation
from mhaviz.training import TRANSLATION, evaluation
from mhaviz.training.corpus import Corpus, read_pairs
from mhaviz.training.evaluation import alignment_errors
from mhaviz.training.grammar import NAME, translation_corpus
from mhaviz.training.loading import load_checkpoint


def evaluate(
    checkpoint: str | Path,
    corpus: str | Path | None = None,
    *,
    device: str = "auto",
    on_notice: Callable[[str], None] | None = None,
) -> Evaluation:
    """How many held-out sentences a trained model translates right, and how well its attention aligns them.

    Args:
        checkpoint: "translation", which is bundled, or a file of ``mhaviz train``.
        corpus: "translation" or a file of pairs; None: what the built-in translator has learnt from. Of the corpus that
            the checkpoint has learnt from the held-out part is evaluated, of any other all.
        device: "auto", "cpu", "cuda" and the like.
        on_notice: is told, in a line, that sentences may be among those it was trained on.

    Raises:
        ArgumentError: the corpus must be named, or has words that the checkpoint does not know.
        MhavizError: a file that cannot be read.

    Examples:
        >>> mhaviz.evaluate("translation").score
        1.0
    """
    trained, chosen_device = load_checkpoint(str(checkpoint)), resolve_device(device)
    if corpus is None and trained.corpus != NAME:
        raise ArgumentError(
            f"this checkpoint has learnt from {trained.corpus}; name it: mhaviz evaluate {checkpoint} {trained.corpus}"
        )
    read = read_corpus(str(corpus or TRANSLATION), trained.plan.seed)
    held_out = read.fingerprint == trained.fingerprint
    if not held_out and on_notice is not None:
        on_notice(
            f"these are not just the sentences that the checkpoint has learnt from ({visible(trained.corpus)}): all of "
            f"them are evaluated, also those that it may have been trained on"
        )
    pairs = read.held_out if held_out else read.pairs
    found = evaluation.evaluate(trained, pairs, held_out, chosen_device)
    gold = [(pair, pair.alignment) for pair in pairs if pair.alignment is not None]
    if not any(alignment for _, alignment in gold):
        return found
    maps = source_target_maps(TrainedModel(trained, str(chosen_device)), [pair for pair, _ in gold])
    return replace(found, alignment=alignment_errors(maps, [alignment for _, alignment in gold]))


def read_corpus(name: str, seed: int) -> Corpus:
    """The corpus of that name, its held-out part chosen by the seed.

    Raises:
        MhavizError: the file cannot be read; see ``mhaviz.training.corpus``.
    """
    is_built_in = name == TRANSLATION and not Path(name).is_file()
    return translation_corpus(seed) if is_built_in else read_pairs(Path(name), seed)
