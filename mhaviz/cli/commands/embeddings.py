"""mhaviz embeddings"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import AnyKind, DpiOption, ModelOptions, look_option, require_unread
from mhaviz.cli.shared.sentences import OneText
from mhaviz.errors import ArgumentError
from mhaviz.models.load import RANDOM
from mhaviz.records.given import Given


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingModel(ModelOptions):
    """The options of a model as far as they are about its embeddings: no layer, no head, no mask."""

    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="random; translation, which is bundled; a file of mhaviz train; a folder or a hub id of transformers.",
        ),
    ] = RANDOM
    layer: str | None = field(default=None, init=False)
    kind: AnyKind | None = field(default=None, init=False)
    generate: int = field(default=0, init=False)
    n_heads: int | None = field(default=None, init=False)
    mask: None = field(default=None, init=False)
    prefix: str | None = field(default=None, init=False)
    input: Path | None = field(default=None, init=False)
    input_name: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.is_random:  # or d_model would have to suit heads that nobody looks at
            object.__setattr__(self, "n_heads", 1)


@dataclass(frozen=True, eq=False, repr=False)
class TextOrTarget(OneText):
    """A sentence, or what a decoder reads beside it."""

    target: Annotated[
        str | None, typer.Option(help="Of a translator: what its decoder reads of this, in place of SENTENCE.")
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class FeatureOptions(DpiOption):
    """How features look."""

    cmap: Annotated[str, look_option(help="A matplotlib colormap, 0 in its middle.")] = "RdBu_r"


def embeddings(
    *,
    model: EmbeddingModel,
    delivery: Delivery,
    looks: FeatureOptions,
    length: Annotated[
        int | None,
        typer.Option(metavar="N", help="Without a sentence: the sinusoids of so many positions. \\[default: 100]"),
    ] = None,
    texts: TextOrTarget,
) -> None:
    """Show what the first layer reads of a sentence: embeddings, positions, and X, which is made of them.

    \b
    mhaviz embeddings "the cat sat on the mat because the mat was warm"
    mhaviz embeddings --model path/to/bert "The animal didn't cross the street." -o embeddings.png
    mhaviz embeddings --length 200 --d-model 128 -o positions.png

    E has a row of a table for each token's id, times √d_model, PE the sines and cosines of each position; X = E + PE.
    Below, the cosine of every two rows: of E it says how alike tokens are, of PE positions, of X both. What the first
    layer of a transformers model reads is found out by running it, and so is whether that is the sum. Without a
    sentence: the sinusoids alone.

    Output: a {record_files} file.
    """
    delivery.check([*model.files, *texts.files])
    style, given = looks.style, texts.given_to(model, has_example=True)
    if given == Given():
        require_unread(model, ("--d-model", "--n-heads"), "sinusoids are of no model, nor of a sentence")

        from mhaviz.api.studies import sinusoids

        asked = {"length": length, "d_model": model.d_model}
        delivery.deliver(sinusoids(**{name: size for name, size in asked.items() if size is not None}), style)
        return
    if length is not None:
        raise ArgumentError("--length is for positions without a sentence; leave out one of them")
    loaded = model.load(delivery.notice)
    delivery.deliver(loaded.embeddings(given), style)
