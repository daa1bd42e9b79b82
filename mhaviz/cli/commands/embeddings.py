"""mhaviz embeddings"""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import TokenOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import DModel, KeepCase, ModelOptions, Seed
from mhaviz.cli.shared.texts import Instead, OneSentence, given_to


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingOptions(ModelOptions):
    """Options for a model, or for the sizes of random embeddings."""

    d_model: DModel = None
    seed: Seed = None
    keep_case: KeepCase = False

    @property
    def options(self) -> dict[str, Any]:
        """Further arguments of ``mhaviz.load``. A random layer has one head, which any number of features allows."""
        has_heads = "n_heads" in self.takes
        sizes = {"d_model": self.d_model, "seed": self.seed, "n_heads": 1 if has_heads else None}
        return sizes | {"keep_case": self.keep_case or None}


def embeddings(
    *,
    model: EmbeddingOptions,
    delivery: Delivery,
    looks: TokenOptions,
    texts: OneSentence,
    target: Annotated[str | None, typer.Option(help="Show what a translator's decoder reads of this sentence.")] = None,
    instead: Instead,
) -> None:
    """Show what the first layer reads, X, beside the embeddings and positions of a sentence.

    \b
    mhaviz embeddings "the cat sat on the mat because the mat was warm"
    mhaviz embeddings --model path/to/bert "The animal didn't cross the street." -o embeddings.png

    E has the embedding of each token, times √d_model; PE the sines and cosines of its position; X = E + PE. Below them
    are the cosines of every two rows: of E, they compare tokens; of PE, positions; of X, both. Of a transformers model
    E, PE and X are shown, but not how it computes X. See --help-all for --pair, --chat and --ids.

    Output: a {RESULT_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, instead)
    style = style_of(looks, delivery)
    delivery.deliver(model.load(delivery, given).embeddings(given), style)
