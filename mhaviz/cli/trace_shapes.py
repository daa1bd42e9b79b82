"""mhaviz trace-shapes"""

from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.layers import choose_layer
from mhaviz.cli.sentences import quotes_notice, read_sentences, require_some, require_words
from mhaviz.errors import ArgumentError, quoted
from mhaviz.units import parse_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.records import ShapeTrace
    from mhaviz.views.figure.sheet import Sheet


def trace_shapes(
    context: typer.Context,
    sentences: options.Sentences = None,
    file: options.File = None,
    target: options.Target = None,
    batch_size: Annotated[int | None, typer.Option(help="Trace this many sentences of --seq-length.")] = None,
    seq_length: Annotated[int | None, typer.Option(help="Trace a length without a sentence.")] = None,
    values: Annotated[bool, typer.Option("--values", help="Print the numbers of small tensors.")] = False,
    follow: Annotated[
        str | None,
        typer.Option(metavar="B,P,F", help="Follow element (batch, position, feature) of Q through every reshape."),
    ] = None,
    checkpoint: options.Checkpoint = None,
    kind: options.KindOption = None,
    model: options.Model = None,
    revision: options.Revision = None,
    dtype: options.Dtype = "auto",
    layer: options.OneLayer = None,
    generate: options.Generate = 0,
    weights: options.WeightsFile = None,
    prefix: options.Prefix = None,
    input: options.InputFile = None,
    input_name: options.InputName = None,
    d_model: Annotated[
        int | None,
        typer.Option("--d-model", help="Features of each token.  \\[default: 512; worked example: 8]"),
    ] = None,
    heads: Annotated[
        int | None, typer.Option("--heads", help="Heads; they must divide d_model.  \\[default: 8; worked example: 4]")
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    mask: options.MaskOption = options.Mask.none,
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    dpi: options.Dpi = 150,
) -> None:
    """Show the shape of every tensor on the way through the layer.

    Without a sentence: the worked example, three sentences with d_model 8 and 4 heads. Shapes alone are traced without
    computing anything, so any size will do. The bytes are those that a step adds: none for a view. A product and a sum
    count one operation each, a softmax five a weight. Of a trained model it is the way through source-target attention
    that is traced, or another --kind.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json, inputs=options.files_read(context))
    texts = read_sentences(sentences, file, any_text=model is not None)
    require_words("--target", target)
    element = _parse_element(follow)
    bare_sizes = batch_size is not None or seq_length is not None
    if bare_sizes and (texts or target or values or checkpoint or model or weights):
        raise ArgumentError(
            "--batch-size and --seq-length trace sizes alone; leave out sentences, --target, --values, --checkpoint, "
            "--model and --weights"
        )
    if bare_sizes and seq_length is None:
        raise ArgumentError("--batch-size needs a length; add --seq-length")
    if target and not texts and input is None:
        raise ArgumentError("--target goes with one sentence, got none; give the source sentence")
    if checkpoint or model or (weights and input is None):
        require_some(texts)
    worked_example = not texts and not bare_sizes

    from mhaviz.models.random_layer import WORKED_EXAMPLE, RandomLayer

    usual_d_model, usual_heads = (8, 4) if worked_example else (512, 8)
    look = options.choose_look(dpi=dpi)
    source = choose_layer(
        context,
        delivery,
        usual_d_model if d_model is None else d_model,
        usual_heads if heads is None else heads,
    )
    trace: ShapeTrace
    if seq_length is not None and isinstance(source, RandomLayer):
        trace = source.trace_sizes(1 if batch_size is None else batch_size, seq_length)
    else:
        inputs = source.encode(texts if input is not None else texts or WORKED_EXAMPLE, target)
        trace = source.trace(inputs, values)

    from mhaviz.analyses.following import follow_element
    from mhaviz.views.data import document

    followed = follow_element(trace, element) if element else None
    whole = document(trace) | ({"follow": document(followed)} if followed else {})

    def draw() -> "Sheet":
        from mhaviz.views.figure.flow import flow_figure

        return flow_figure(trace, look, followed)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.trace import TraceView

        return TraceView(trace, followed)

    delivery.deliver(trace, draw, view, whole, quotes_notice(sentences))


def _parse_element(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(map(str.isdecimal, parts)):
        raise ArgumentError(
            f"--follow: expected three coordinates such as 0,2,5 (batch, position, feature), got {quoted(text)}"
        )
    return tuple(map(parse_whole, parts))
