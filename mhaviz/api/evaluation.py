"""``mhaviz.evaluate``, and reading the corpus that a training or an evaluation names."""

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
    """Compute how many held-out sentences a trained model translates correctly, and how well its attention aligns them.

    Args:
        checkpoint: "translation", the bundled translator, or a file saved by ``mhaviz train``.
        corpus: "translation", the bundled corpus, or a file of pairs; None: "translation", if the checkpoint was
            trained on it. Only the held-out part is evaluated if the checkpoint was trained on this corpus, else all.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        on_notice: called with one line if the checkpoint may have been trained on some of the sentences.

    Raises:
        ArgumentError: the corpus must be named, or has words that the checkpoint does not know.
        MhavizError: a file cannot be read.

    Examples:
        >>> mhaviz.evaluate("translation").score
        1.0
    """
    trained, chosen_device = load_checkpoint(str(checkpoint)), resolve_device(device)
    if corpus is None and trained.corpus != NAME:
        raise ArgumentError(
            f"the checkpoint was trained on {trained.corpus}; name it: mhaviz evaluate {checkpoint} {trained.corpus}"
        )
    read = read_corpus(str(corpus or TRANSLATION), trained.plan.seed, trained.plan.keep_case)
    held_out = read.fingerprint == trained.fingerprint
    if not held_out and on_notice is not None:
        on_notice(
            f"this is not exactly the corpus that the checkpoint was trained on ({visible(trained.corpus)}): all of it "
            f"is evaluated, and may hold sentences of the training"
        )
    pairs = read.held_out if held_out else read.pairs
    found = evaluation.evaluate(trained, pairs, held_out, chosen_device)
    gold = [(pair, pair.alignment) for pair in pairs if pair.alignment is not None]
    if not any(alignment for _, alignment in gold):
        return found
    maps = source_target_maps(TrainedModel(trained, str(chosen_device)), [pair for pair, _ in gold])
    return replace(found, alignment=alignment_errors(maps, [alignment for _, alignment in gold]))


def read_corpus(name: str, seed: int, keep_case: bool = False) -> Corpus:
    """Read the corpus of this name, whose held-out part is drawn by the seed; ``keep_case``: as in ``read_pairs``.

    Raises:
        MhavizError: the file cannot be read; see ``mhaviz.training.corpus``.
    """
    return translation_corpus(seed) if is_built_in(name) else read_pairs(Path(name), seed, keep_case)


def is_built_in(name: str) -> bool:
    """Return whether the corpus of this name is that of the built-in grammar."""
    return name == TRANSLATION and not Path(name).is_file()
