"""mhaviz compare-scaling"""

from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.layers import choose_layer
from mhaviz.cli.saved_weights import require_one_input
from mhaviz.cli.sentences import read_sentences, require_one, require_some, require_words
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


def compare_scaling(
    context: typer.Context,
    sentence: options.OneSentence = None,
    file: options.File = None,
    target: options.Target = None,
    head: Annotated[str, typer.Option(help="Heads to compare: 0,3-5 or all.")] = "0",
    sweep: Annotated[bool, typer.Option("--sweep", help="Measure at every d_key from 2 to 1024 instead.")] = False,
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
    d_model: options.DModel = 512,
    heads: options.Heads = 8,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    mask: options.MaskOption = options.Mask.none,
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    cmap: options.Cmap = "bone",
    dpi: options.Dpi = 150,
) -> None:
    """Show why scores are divided by √d_key: scores and softmax, unscaled beside scaled.

    Without a sentence: the first of the worked example. Of a trained model it is source-target attention that is
    compared, or another --kind. Unscaled scores spread as √d_key, so that the softmax saturates as d_key grows, and
    its Jacobian, through which gradients pass, vanishes.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json, inputs=options.files_read(context))
    texts = read_sentences(sentence, file, any_text=model is not None)
    require_one("compare-scaling", texts)
    require_words("--target", target)
    if target and not texts and input is None:
        raise ArgumentError("--target goes with one sentence, got none; give the source sentence")
    if sweep:
        _check_sweep(context)
    elif checkpoint or model or (weights and input is None):
        require_some(texts)

    from mhaviz.analyses import scaling
    from mhaviz.layer.tokens import tokenize
    from mhaviz.models.random_layer import WORKED_EXAMPLE

    look = options.choose_look(cmap, dpi)
    text = texts[0] if texts else WORKED_EXAMPLE[0]
    if sweep:
        swept = scaling.sweep_scaling(tokenize(text), seed)

        def draw_sweep() -> "Sheet":
            from mhaviz.views.figure.scaling import sweep_figure

            return sweep_figure(swept, look)

        def view_sweep() -> "RenderableType":
            from mhaviz.views.terminal.scaling import SweepView

            return SweepView(swept)

        delivery.deliver(swept, draw_sweep, view_sweep)
        return

    source = choose_layer(context, delivery)
    chosen = options.parse_heads(head, source.n_heads)
    inputs = source.encode([text] if input is None else texts, target)
    require_one_input("compare-scaling", inputs)
    with delivery.working("computing"):
        comparison = scaling.compare_scaling(source, inputs, chosen)

    def draw() -> "Sheet":
        from mhaviz.views.figure.scaling import scaling_figure

        return scaling_figure(comparison, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.scaling import ScalingView

        return ScalingView(comparison, cmap)

    delivery.deliver(comparison, draw, view)


_UNHEEDED = (
    *("target", "head", "checkpoint", "kind", "model", "revision", "dtype", "layer", "generate"),
    *("weights", "prefix", "input", "input_name", "d_model", "heads", "device", "mask"),
)


def _check_sweep(context: typer.Context) -> None:
    """Raise ArgumentError for options that a sweep would not heed: it goes through d_key with one head of its own."""
    unheeded = options.given(context, _UNHEEDED)
    if unheeded:
        raise ArgumentError(
            f"--sweep goes through d_key with one head, on the CPU and unmasked; leave out {', '.join(unheeded)}"
        )
