"""mhaviz masks"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import Cmap, PictureOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import ModelOptions, OneAttention, WeightOptions
from mhaviz.cli.shared.numbers import parse_numbers
from mhaviz.cli.shared.sentences import ManyTexts, quotes_notice
from mhaviz.errors import ArgumentError


def masks(
    *,
    model: ModelOptions,
    weights: WeightOptions,
    attention: OneAttention,
    delivery: Delivery,
    picture: PictureOptions,
    dropout: Annotated[
        float | None, typer.Option(metavar="P", help="Share of the weights to drop, from 0 to less than 1.")
    ] = None,
    head: Annotated[str, typer.Option(help="Heads to draw: 0,3-5 or all.")] = "0",
    cmap: Cmap = "ink",
    texts: ManyTexts,
) -> None:
    """Show what a mask hides: scores before it and after it, weights, and what dropout drops.

    \b
    mhaviz masks "the cat sat on the mat" -o masks.png
    mhaviz masks "the cat sat on the mat" "a dog barks" --mask none
    mhaviz masks "the cat sat on the mat" "a dog barks" --dropout 0.2 --seed 3

    Without a sentence: the worked example, with d_model 8 and 4 heads. Without --mask a layer with random or saved
    weights has a causal mask here; other models have their own. Several sentences are padded to the longest. --dropout
    drops what torch.nn.Dropout drops of the weights of all heads after torch.manual_seed of --seed, and
    divides the others by 1 − P. Of a translator it is the decoder's masked attention, or another --kind.

    Output: a {record_files} file.
    """
    delivery.check([Path(model.model), *weights.files, *texts.files])
    given, style = texts.given_to(model, weights, has_example=True), style_of(picture, cmap)
    if dropout is not None and not 0 <= dropout < 1:
        raise ArgumentError(f"--dropout: expected a share from 0 to less than 1, got {dropout:g}")
    options = weights.options if model.has_seed else weights.options | {"seed": None}
    loaded = model.load(delivery.notice, attention.generate, **options)
    with delivery.working("computing"):
        found = loaded.masks(
            given,
            dropout=dropout,
            seed=weights.seed,
            head=parse_numbers("head", head),
            **attention.chosen,
        )
    delivery.deliver(found, style, notice=quotes_notice(texts.sentences))
