"""mhaviz masks"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import Cmap, PictureOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.parsing import several
from mhaviz.cli.shared.texts import Several, Target, given_to, quotes_notice


def masks(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    picture: PictureOptions,
    dropout: Annotated[
        float | None, typer.Option(metavar="P", help="Share of the weights to drop, from 0 to less than 1.")
    ] = None,
    head: Annotated[Any, typer.Option(metavar="N,N-N|all", parser=several("heads"), help="Heads to draw.")] = 0,
    cmap: Cmap = "ink",
    texts: Several,
    target: Target = None,
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

    Output: a {RESULT_SUFFIXES} file.
    """
    given, style = given_to(model, delivery, texts, target, has_example=True), style_of(picture, cmap=cmap)
    has_seed = dropout is None or "seed" in model.takes
    others: dict[str, Any] = {} if has_seed else {"seed": None}  # which is then of dropout alone
    loaded = model.load(delivery, given, **others)
    with delivery.working("computing"):
        found = loaded.masks(
            given,
            dropout=dropout,
            seed=model.seed,
            head=head,
            **vars(attention),
        )
    delivery.deliver(found, style, notice=quotes_notice(texts.sentences))
