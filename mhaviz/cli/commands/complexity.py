"""mhaviz complexity"""

from typing import Annotated, Any

from mhaviz.cli.command import asked
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.layers import BenchOptions, LayerOptions, lengths_option


def complexity(
    sizes: LayerOptions,
    bench: BenchOptions,
    delivery: Delivery,
    lengths: Annotated[Any, lengths_option("64,128,256,512,1024,2048,4096")] = None,
) -> None:
    """Count what attention costs, N²·d_model + N·d_model², and measure it.

    \b
    mhaviz complexity -o complexity.png
    mhaviz complexity --lengths 64,256,1024 --d-model 768 --n-heads 12

    Operations and bytes step by step, with measured times; where attention overtakes the projections; and the longest
    input whose weights fit into memory.

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check()

    from mhaviz.api import random_layer

    chosen = {"lengths": lengths} if lengths else {}
    with progress(delivery.quiet) as on_progress:
        measured = random_layer.complexity(**asked(sizes), **vars(bench), **chosen, on_progress=on_progress)
    delivery.deliver(measured)
