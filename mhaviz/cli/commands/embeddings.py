"""mhaviz embeddings"""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mhaviz.cli.command import require_unread
from mhaviz.cli.shared.appearance import PictureOptions, look_option, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import DModel, ModelOptions, Seed
from mhaviz.cli.shared.texts import Instead, OneSentence, given_to
from mhaviz.errors import ArgumentError
from mhaviz.inputs.given import Given


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingOptions(ModelOptions):
    """A model, or the sizes of random embeddings."""

    d_model: DModel = None
    seed: Seed = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``mhaviz.load``: one head, as any number of features can be split into that."""
        has_heads = "n_heads" in self.takes
        return {"d_model": self.d_model, "seed": self.seed, "n_heads": 1 if has_heads else None}


def embeddings(
    *,
    model: EmbeddingOptions,
    delivery: Delivery,
    picture: PictureOptions,
    cmap: Annotated[str, look_option(help="A matplotlib colormap, 0 in its middle.")] = "RdBu_r",
    length: Annotated[
        int | None,
        typer.Option(metavar="N", help="Without a sentence: the sinusoids of so many positions. \\[default: 100]"),
    ] = None,
    texts: OneSentence,
    target: Annotated[
        str | None, typer.Option(help="Of a translator: what its decoder reads of this, in place of SENTENCE.")
    ] = None,
    instead: Instead,
) -> None:
    """Show what the first layer reads of a sentence: embeddings, positions, and X, which is made of them.

    \b
    mhaviz embeddings "the cat sat on the mat because the mat was warm"
    mhaviz embeddings --model path/to/bert "The animal didn't cross the street." -o embeddings.png
    mhaviz embeddings --length 200 --d-model 128 -o positions.png

    E has a row of a table for each token's id, times √d_model, PE the sines and cosines of each position; X = E + PE.
    Below, the cosine of every two rows: of E it says how alike tokens are, of PE positions, of X both. What the first
    layer of a transformers model reads is found out by running it, and so is whether that is the sum. Without a
    sentence: the sinusoids alone. See --help-all for --pair, --chat and --ids.

    Output: a {RESULT_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, instead, has_example=True)
    style = style_of(picture, cmap=cmap)
    if given == Given():
        require_unread((model,), ("--d-model",), "without a sentence it is the sinusoids that are shown, of no model")

        from mhaviz.api.studies import sinusoids

        asked = {"length": length, "d_model": model.d_model}
        delivery.deliver(sinusoids(**{name: size for name, size in asked.items() if size is not None}), style)
        return
    if length is not None:
        raise ArgumentError("--length is for positions without a sentence; leave out one of them")
    delivery.deliver(model.load(delivery, given).embeddings(given), style)
