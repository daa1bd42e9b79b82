"""mhaviz complexity"""

from mhaviz.cli.command import asked
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.layers import BenchOptions, LayerOptions, Lengths


def complexity(
    sizes: LayerOptions,
    bench: BenchOptions,
    delivery: Delivery,
    lengths: Lengths = "64,128,256,512,1024,2048,4096",
) -> None:
    """Count what attention costs, N²·d_model + N·d_model², and measure it.

    \b
    mhaviz complexity -o complexity.png
    mhaviz complexity --lengths 64,256,1024 --d-model 768 --n-heads 12

    Operations and bytes step by step, with measured times; where attention overtakes the projections; and the longest
    input whose weights fit into memory.

    Output: a {RECORD_SUFFIXES} file.
    """
    delivery.check()

    import torch

    from mhaviz.analyses.bench import Bench
    from mhaviz.analyses.complexity import measure_complexity
    from mhaviz.devices import free_memory, resolve_device

    layer = Bench(device=resolve_device(bench.device), **asked(sizes))
    free = {str(place): free_memory(place) for place in (torch.device("cpu"), layer.device)}
    with progress(delivery.quiet) as on_progress:
        measured = measure_complexity(layer, free, lengths, bench.most_seconds, on_progress)
    delivery.deliver(measured)
