"""mhaviz compare-projections"""

from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.sentences import read_sentences, require_one

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet

SAMPLE = "I am going to deposit my money at the bank"


def compare_projections(
    context: typer.Context,
    sentence: options.OneSentence = None,
    file: options.File = None,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave each query out of its own sum (j ≠ i).")
    ] = False,
    d_model: options.DModel = 512,
    heads: options.Heads = 8,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    cmap: options.Cmap = "bone",
    vmax: options.Vmax = "1",
    dpi: options.Dpi = 150,
) -> None:
    """Show how one head comes about: no projection, one, two, three; then several heads.

    Without a sentence: "I am going to deposit my money at the bank". The four stages use the layer's whole matrices
    as one head. Scores are symmetric until queries and keys have a projection each; outputs are weighted averages of
    the inputs until values have one too. Split, the same matrices are the heads that mhaviz heatmap draws.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json, inputs=options.files_read(context))
    texts = read_sentences(sentence, file)
    require_one("compare-projections", texts)

    from mhaviz.analyses import projections
    from mhaviz.models.random_layer import RandomLayer

    look = options.choose_look(cmap, dpi, vmax=options.parse_vmax(vmax))
    layer = RandomLayer(d_model, heads, seed, device)
    with delivery.working("computing"):
        inputs = layer.projection_inputs(texts[0] if texts else SAMPLE)
        comparison = projections.compare_projections(inputs, exclude_self)

    def draw() -> "Sheet":
        from mhaviz.views.figure.projections import projections_figure

        return projections_figure(comparison, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.projections import ProjectionsView

        return ProjectionsView(comparison, look)

    delivery.deliver(comparison, draw, view)
