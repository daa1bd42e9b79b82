"""mhaviz compare-scaling"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import WeightOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.parsing import several
from mhaviz.cli.shared.texts import OneSentence, Target, given_to


def compare_scaling(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    looks: WeightOptions,
    head: Annotated[Any, typer.Option(metavar="N,N-N|all", parser=several("heads"), help="Heads to compare.")] = 0,
    texts: OneSentence,
    target: Target = None,
) -> None:
    """Show why scores are divided by √d_key: scores and softmax, unscaled beside scaled.

    \b
    mhaviz compare-scaling "I wonder what will come next!" -o scaling.png
    mhaviz compare-scaling --model path/to/bert "The animal didn't cross the street." --layer 3

    The standard deviation of unscaled scores grows as √d_key. So the softmax saturates as d_key grows, and its
    Jacobian, through which gradients pass, vanishes. The weights of --model go with their scale: the picture shows what
    they would do without it, not why it is needed. Without a sentence, the first one of the worked example is read.
    A translator's source-target attention is compared, unless --kind names another.

    Output: a {RESULT_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, has_example=True)
    style, loaded = style_of(looks, delivery), model.load(delivery, given)
    with delivery.working("computing"):
        comparison = loaded.compare_scaling(given, head=head, **vars(attention))
    delivery.deliver(comparison, style)
