"""mhaviz compare-implementations"""

from mhaviz.cli.command import asked
from mhaviz.cli.shared.appearance import PictureOptions, style_of
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import LayerOptions, Lengths, PlainDevice


def compare_implementations(
    sizes: LayerOptions,
    delivery: Delivery,
    looks: PictureOptions,
    lengths: Lengths = "16,32,64,128,256,512,1024,2048",
    device: PlainDevice = "auto",
) -> None:
    """Compute the same attention in five ways, from a loop over queries and keys to a fused kernel.

    \b
    mhaviz compare-implementations -o implementations.png
    mhaviz compare-implementations --lengths 16,64,256

    All have the same weights and read the same sentence. Each is measured in time, peak memory, and difference from a
    result in float64. Several passes go over all lengths, and each skips what would take longer than 5
    seconds.

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check()
    style = style_of(looks, delivery)

    from mhaviz.api import random_layer

    with progress(delivery.quiet, "measuring") as on_progress:
        comparison = random_layer.compare_implementations(
            lengths, **asked(sizes), device=device, on_progress=on_progress
        )
    delivery.deliver(comparison, style)
