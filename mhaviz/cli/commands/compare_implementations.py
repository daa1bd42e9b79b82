"""mhaviz compare-implementations"""

from typing import Annotated, Any

from mhaviz.cli.command import asked
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.layers import BenchOptions, LayerOptions, lengths_option


def compare_implementations(
    sizes: LayerOptions,
    bench: BenchOptions,
    delivery: Delivery,
    lengths: Annotated[Any, lengths_option("16,32,64,128,256,512,1024,2048")] = None,
) -> None:
    """Compute the same attention in five ways, from a loop over queries and keys to a fused kernel.

    \b
    mhaviz compare-implementations -o implementations.png
    mhaviz compare-implementations --lengths 16,64,256 --most-seconds 1

    Same weights, same input, one sentence. Each way's time, peak memory and difference from a result in float64.

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check()

    from mhaviz.api import random_layer

    chosen = {"lengths": lengths} if lengths else {}
    with progress(delivery.quiet) as on_progress:
        comparison = random_layer.compare_implementations(
            **asked(sizes), **vars(bench), **chosen, on_progress=on_progress
        )
    delivery.deliver(comparison)
