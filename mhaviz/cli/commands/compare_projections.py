"""mhaviz compare-projections"""

from typing import Annotated

import typer

from mhaviz.cli.command import asked
from mhaviz.cli.shared.appearance import WeightOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import KeepCase, LayerOptions
from mhaviz.cli.shared.texts import OneSentence, read_sentences


def compare_projections(
    *,
    delivery: Delivery,
    looks: WeightOptions,
    include_self: Annotated[
        bool,
        typer.Option("--include-self/--exclude-self", help="Count each query in its own sum (j = i), or leave it out."),
    ] = False,
    texts: OneSentence,
    random: LayerOptions,
    keep_case: KeepCase = False,
) -> None:
    """Build up multi-head attention: no projection, then one, two, three, then several heads.

    \b
    mhaviz compare-projections -o projections.png
    mhaviz compare-projections "I deposit money" --include-self

    Four stages use the layer's whole matrices as one head. Scores are symmetric until queries and keys have a
    projection each; outputs are weighted averages of the inputs until values have one, too. Each word is left out of
    its own sum, as it is most similar to itself, and its weight would hide the others. Then the matrices are split into
    heads; with --include-self, these are the heads of mhaviz heatmap. Heads are compared by the mean Jensen–Shannon
    divergence of their rows, from 0 to 1 bit, which is chance here, as the weights are random. The default sentence is
    "I am going to deposit my money at the bank".

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check()
    sentences = read_sentences(texts)

    from mhaviz.api import random_layer

    style = style_of(looks, delivery)
    with delivery.working("computing"):
        comparison = random_layer.compare_projections(
            *sentences, include_self=include_self, keep_case=keep_case, **asked(random)
        )
    delivery.deliver(comparison, style)
