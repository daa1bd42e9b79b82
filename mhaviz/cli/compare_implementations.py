"""mhaviz compare-implementations"""

from typing import TYPE_CHECKING

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


def compare_implementations(
    lengths: options.Lengths = "16,32,64,128,256,512,1024,2048",
    most_seconds: options.MostSeconds = 5.0,
    d_model: options.DModel = 512,
    heads: options.Heads = 8,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    dpi: options.Dpi = 150,
) -> None:
    """Compute the same attention in five ways, from a loop over queries and keys to a fused kernel.

    Same weights, same input, one sentence. Each way's time, peak memory and difference from a result in float64.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json)
    chosen = options.parse_lengths(lengths)

    from mhaviz.analyses import implementations
    from mhaviz.analyses.bench import Bench
    from mhaviz.analyses.timing import Laboratory
    from mhaviz.devices import resolve_device

    look, where = options.choose_look(dpi=dpi), resolve_device(device)
    bench = Bench(d_model, heads, seed, where)
    with progress(quiet) as told:
        comparison = implementations.compare_implementations(bench, Laboratory(where, most_seconds, told), chosen)

    def draw() -> "Sheet":
        from mhaviz.views.figure.implementations import implementations_figure

        return implementations_figure(comparison, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.implementations import ImplementationsView

        return ImplementationsView(comparison)

    delivery.deliver(comparison, draw, view)
