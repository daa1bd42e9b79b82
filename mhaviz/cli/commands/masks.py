"""mhaviz masks"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import Cmap, Dpi, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.sentences import ManyTexts, quotes_notice
from mhaviz.numbering import parse_numbers


def masks(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    dpi: Dpi = 150,
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
    given, style = texts.given_to(model, delivery, has_example=True), style_of(dpi=dpi, cmap=cmap)
    others: dict[str, Any] = {} if model.has_seed else {"seed": None}  # which is then of dropout alone
    loaded = model.load(delivery.notice, given, **others)
    with delivery.working("computing"):
        found = loaded.masks(
            given,
            dropout=dropout,
            seed=model.seed,
            head=parse_numbers("head", head),
            **attention.chosen,
        )
    delivery.deliver(found, style, notice=quotes_notice(texts.sentences))
