"""mhaviz trace-shapes"""

from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import Dpi, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import require_unread
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.sentences import ManyTexts, quotes_notice
from mhaviz.errors import ArgumentError, quoted
from mhaviz.units import parse_whole

_OF_SIZES = ("--d-model", "--n-heads", "--seed", "--mask", "--device")


def trace_shapes(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    dpi: Dpi = 150,
    follow: Annotated[
        str | None,
        typer.Option(metavar="B,P,F", help="Follow element (batch, position, feature) of Q through every reshape."),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Print the numbers of small tensors, for the first sentence.")
    ] = False,
    batch_size: Annotated[int | None, typer.Option(help="Trace this many sentences of --seq-length.")] = None,
    seq_length: Annotated[int | None, typer.Option(help="Trace a length without a sentence.")] = None,
    texts: ManyTexts,
) -> None:
    """Show the shape of every tensor on the way through the layer.

    \b
    mhaviz trace-shapes --follow 0,2,5
    mhaviz trace-shapes "one two three" --d-model 4 --n-heads 2 --values
    mhaviz trace-shapes --batch-size 32 --seq-length 100000 --n-heads 32

    Without a sentence: the worked example, three sentences with d_model 8 and 4 heads. Shapes alone are traced without
    computing anything, so any size will do. The bytes are those that a step adds: none for a view. A product and a sum
    count one operation each, a softmax five a weight. Of a translator it is the way through source-target attention
    that is traced, or another --kind.

    Output: a {record_files} file.
    """
    from mhaviz.records.given import Given

    is_of_sizes = batch_size is not None or seq_length is not None
    if is_of_sizes:
        require_unread((model, attention), _OF_SIZES, "--batch-size and --seq-length trace sizes alone")
    given, element = texts.given_to(model, delivery, has_example=True), _parse_element(follow)
    style, loaded = style_of(dpi=dpi), model.load(delivery.notice, given)
    if is_of_sizes:
        if given != Given() or values:
            raise ArgumentError("--batch-size and --seq-length trace sizes alone; leave out sentences and --values")
        if seq_length is None:
            raise ArgumentError("--batch-size needs a length; add --seq-length")
        trace = loaded.trace_sizes(1 if batch_size is None else batch_size, seq_length)
    else:
        trace = loaded.trace_shapes(given, values=values, **attention.chosen)

    from mhaviz.analyses.following import follow_element
    from mhaviz.views.data import document

    followed = follow_element(trace, element) if element else None
    whole = document(trace) | ({"follow": followed} if followed else {})
    delivery.deliver(trace, style, document=whole, notice=quotes_notice(texts.sentences), followed=followed)


def _parse_element(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(map(str.isdecimal, parts)):
        raise ArgumentError(
            f"--follow: expected three coordinates such as 0,2,5 (batch, position, feature), got {quoted(text)}"
        )
    return tuple(map(parse_whole, parts))
