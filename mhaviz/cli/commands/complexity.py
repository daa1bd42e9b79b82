"""mhaviz complexity"""

from mhaviz.cli.command import asked
from mhaviz.cli.shared.appearance import PictureOptions, style_of
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import LayerOptions, Lengths, PlainDevice


def complexity(
    sizes: LayerOptions,
    delivery: Delivery,
    looks: PictureOptions,
    lengths: Lengths = "64,128,256,512,1024,2048,4096",
    device: PlainDevice = "auto",
) -> None:
    """Count the cost of attention, N²·d_model + N·d_model², and measure it.

    \b
    mhaviz complexity -o complexity.png
    mhaviz complexity --lengths 64,256,1024 --d-model 768 --n-heads 12

    The result has the operations, bytes and measured time of each step, the length beyond which attention takes more
    operations than the projections, the lengths at which it takes more time, as far as several passes agree, and the
    longest input whose weights fit into memory.

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check()
    style = style_of(looks, delivery)

    from mhaviz.api import random_layer

    with progress(delivery.quiet, "measuring") as on_progress:
        measured = random_layer.complexity(lengths, **asked(sizes), device=device, on_progress=on_progress)
    delivery.deliver(measured, style)
