"""mhaviz complexity"""

from typing import TYPE_CHECKING

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


def complexity(
    lengths: options.Lengths = "64,128,256,512,1024,2048,4096",
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
    """Count what attention costs, N²·d_model + N·d_model², and measure it.

    Operations and bytes step by step, with measured times; where attention overtakes the projections; and the longest
    input whose weights fit into memory.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json)
    chosen = options.parse_lengths(lengths)

    import torch

    from mhaviz.analyses.bench import Bench
    from mhaviz.analyses.complexity import measure_complexity
    from mhaviz.analyses.timing import Laboratory
    from mhaviz.devices import free_memory, resolve_device

    look, where = options.choose_look(dpi=dpi), resolve_device(device)
    free = {str(place): free_memory(place) for place in (torch.device("cpu"), where)}
    bench = Bench(d_model, heads, seed, where)
    with progress(quiet) as told:
        measured = measure_complexity(bench, Laboratory(where, most_seconds, told), free, chosen)

    def draw() -> "Sheet":
        from mhaviz.views.figure.complexity import complexity_figure

        return complexity_figure(measured, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.complexity import ComplexityView

        return ComplexityView(measured)

    delivery.deliver(measured, draw, view)
