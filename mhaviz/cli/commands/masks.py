"""mhaviz masks"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import WeightOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.parsing import several
from mhaviz.cli.shared.texts import Several, Target, given_to, quotes_notice


def masks(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    looks: WeightOptions,
    dropout: Annotated[
        float | None, typer.Option(metavar="P", help="Probability that a weight is dropped, below 1.")
    ] = None,
    head: Annotated[Any, typer.Option(metavar="N,N-N|all", parser=several("heads"), help="Heads to draw.")] = 0,
    texts: Several,
    target: Target = None,
) -> None:
    """Show what a mask hides: scores before and after it, weights, and the weights after dropout.

    \b
    mhaviz masks "the cat sat on the mat" -o masks.png
    mhaviz masks "the cat sat on the mat" "a dog barks" --mask none
    mhaviz masks "the cat sat on the mat" "a dog barks" --dropout 0.2 --seed 3

    Without a sentence, the worked example is read, with d_model 8 and 4 heads. Several sentences are padded to the
    longest. A layer with random or saved weights has a causal mask here, unless --mask names another; other models have
    their own. --dropout drops the weights that torch.nn.Dropout drops after torch.manual_seed with --seed, and divides
    the others by 1 − P. A translator's masked attention is shown, unless --kind names another.

    Output: a {RESULT_SUFFIXES} file.
    """
    given, style = given_to(model, delivery, texts, target, has_example=True), style_of(looks, delivery)
    has_seed = dropout is None or "seed" in model.takes
    others: dict[str, Any] = {} if has_seed else {"seed": None}  # which is then the seed of dropout only
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
