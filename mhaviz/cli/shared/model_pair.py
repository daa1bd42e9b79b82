"""mhaviz diff of two models: what they read, how they are loaded, and whether they differ more than is allowed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mhaviz.cli.shared.change_limits import require_models_alike
from mhaviz.cli.shared.console import corpus_progress
from mhaviz.cli.shared.corpora import CorpusOptions
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import Dtype, PlainDevice, model_option, split_model
from mhaviz.cli.shared.texts import Languages
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel
    from mhaviz.records.difference import Limits
    from mhaviz.records.tokens import Kind
    from mhaviz.views.style import Style


@dataclass(frozen=True, eq=False, repr=False)
class PairOptions:
    """The corpus that two models read, and how they are loaded."""

    file: Annotated[
        Path | None,
        model_option(help="A UTF-8 file of sentences on which two models are compared; - is standard input."),
    ] = None
    device: PlainDevice = "auto"
    dtype: Dtype = None
    languages: Languages = None

    def load(self, names: Sequence[Path], delivery: Delivery) -> "list[LoadedModel]":
        """Both models. Raises as ``mhaviz.load`` does."""
        from mhaviz.api.loaded import load

        models: list[LoadedModel] = []
        device = this_process().device(self.device)
        for name, asked in map(split_model, map(str, names)):
            loaded = load(name, device=device, on_notice=delivery.tell, dtype=self.dtype, **asked)
            delivery.tell(*(line for line in loaded.notices if not any(line in one.notices for one in models)))
            models.append(loaded)
        return models


def diff_of_models(
    names: tuple[Path, Path],
    pair: PairOptions,
    corpus: CorpusOptions,
    delivery: Delivery,
    style: "Style",
    layer: int | None,
    kind: "Kind | None",
    limits: "Limits",
) -> None:
    """Compare two models over a corpus, or over a part of it.

    Raises:
        ChangedError: they differ by more than the limits allow.
        ArgumentError, MhavizError: as ``mhaviz.diff_models``.
    """
    texts = corpus.corpus(delivery, None, pair.file)

    from mhaviz.api.corpus_difference import diff_models

    with corpus.keeping(texts, delivery):
        before, after = pair.load(names, delivery)
        with corpus_progress(delivery.quiet) as on_progress:
            difference = diff_models(
                before,
                after,
                texts,
                layer=layer,
                kind=kind,
                fail_above=limits.mean,
                fail_above_row=limits.row,
                **(pair.languages or {}),
                on_notice=delivery.tell,
                on_progress=on_progress,
            )
        corpus.deliver(difference, delivery, style)
    if this_process().is_first:  # it alone has the whole
        require_models_alike(difference)
