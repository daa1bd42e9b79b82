"""mhaviz compare-projections"""

from typing import Annotated

import typer

from mhaviz.cli.command import asked
from mhaviz.cli.shared.appearance import Cmap, PictureOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import LayerOptions
from mhaviz.cli.shared.texts import OneSentence, read_sentences


def compare_projections(
    *,
    delivery: Delivery,
    picture: PictureOptions,
    cmap: Cmap = "ink",
    include_self: Annotated[
        bool,
        typer.Option("--include-self/--exclude-self", help="Count each query in its own sum (j = i), or leave it out."),
    ] = False,
    texts: OneSentence,
    random: LayerOptions,
) -> None:
    """Show how one head comes about: no projection, one, two, three; then several heads.

    \b
    mhaviz compare-projections -o projections.png
    mhaviz compare-projections "I deposit money" --include-self

    Without a sentence: "I am going to deposit my money at the bank". The four stages use the layer's whole matrices
    as one head. Scores are symmetric until queries and keys have a projection each; outputs are weighted averages of
    the inputs until values have one too. A word is most like itself, which would hide the rest: it is left out of its
    own sum. Split, the same matrices are heads, with --include-self those that mhaviz heatmap draws; how unlike two
    heads are is the mean Jensen–Shannon divergence of their rows, in bits, from 0 to 1.

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check()
    sentences = read_sentences(texts)

    from mhaviz.api import random_layer

    style = style_of(picture, cmap=cmap)
    with delivery.working("computing"):
        comparison = random_layer.compare_projections(*sentences, include_self=include_self, **asked(random))
    delivery.deliver(comparison, style)
