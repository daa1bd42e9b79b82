"""mhaviz trace-shapes"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import PictureOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.parsing import parsed, wholes
from mhaviz.cli.shared.texts import Several, Target, given_to, quotes_notice


def _element(text: str) -> tuple[int, ...]:
    batch, position, feature = wholes(text)
    return batch, position, feature


def trace_shapes(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    looks: PictureOptions,
    follow: Annotated[
        Any,
        typer.Option(
            metavar="B,P,F",
            parser=parsed(_element, "three coordinates such as 0,2,5 (batch, position, feature)"),
            help="Follow the element (batch, position, feature) of Q through every reshape.",
        ),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Print the numbers of small tensors, for the first sentence.")
    ] = False,
    texts: Several,
    target: Target = None,
) -> None:
    """Show the shape of every tensor of the layer, from the input to the output.

    \b
    mhaviz trace-shapes --follow 0,2,5
    mhaviz trace-shapes "one two three" --d-model 4 --n-heads 2 --values

    Without a sentence, the worked example is read: three sentences, with d_model 8 and 4 heads. Bytes are those that a
    step adds, none for a view. A product and a sum count one operation each, a softmax five for each weight. A
    translator's source-target attention is traced, unless --kind names another.

    Output: a {RESULT_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, has_example=True)
    style, loaded = style_of(looks, delivery), model.load(delivery, given)
    trace = loaded.trace_shapes(given, values=values, **vars(attention))
    if follow:
        trace = trace.follow(follow)
    delivery.deliver(trace, style, notice=quotes_notice(texts.sentences))
