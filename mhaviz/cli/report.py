"""mhaviz report"""

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


_MOST_TOKENS = 4096
"""A page of A4 shows nothing of more, and every weight of all heads is computed for it at once."""


def report(
    context: typer.Context,
    sentence: options.OneSentence = None,
    file: options.File = None,
    target: options.Target = None,
    head: Annotated[str, typer.Option(help="The head whose scaling is compared.")] = "0",
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
    vmax: options.Vmax = "1",
    dpi: options.Dpi = 150,
    columns: options.Columns = None,
) -> None:
    """Put tokens, heads, shapes and scaling on one page.

    The page is A4. Of a trained model it is about source-target attention, or another --kind.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json, inputs=options.files_read(context))
    texts = read_sentences(sentence, file, any_text=model is not None)
    if input is None:
        require_some(texts)
    require_one("report", texts)
    require_words("--target", target)

    from mhaviz.analyses.scaling import compare_scaling
    from mhaviz.analyses.weights import attention_weights
    from mhaviz.records import Report

    look = options.choose_look(cmap, dpi, columns, options.parse_vmax(vmax))
    source = choose_layer(context, delivery)
    chosen = options.parse_heads(head, source.n_heads)
    if len(chosen) != 1:
        raise ArgumentError(f"--head: report compares the scaling of one head, got {len(chosen)}; name one of them")
    inputs = source.encode(texts, target)
    require_one_input("report", inputs)
    if inputs.longest > _MOST_TOKENS:
        raise ArgumentError(
            f"report: expected at most {_MOST_TOKENS:,} tokens, got {inputs.longest:,}; draw longer texts with mhaviz "
            f"heatmap"
        )
    with delivery.working("computing"):
        comparison = compare_scaling(source, inputs, chosen)
        page = Report(attention_weights(source, inputs), source.trace(inputs), comparison)

    def draw() -> "Sheet":
        from mhaviz.views.figure.report import report_figure

        return report_figure(page, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.report import ReportView

        return ReportView(page, look)

    delivery.deliver(page, draw, view)
