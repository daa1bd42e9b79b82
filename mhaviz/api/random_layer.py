"""``mhaviz.compare_projections``, ``compare_implementations`` and ``complexity``, for a layer with random weights."""

from collections.abc import Sequence

import torch

from mhaviz.analyses import implementations, projections
from mhaviz.analyses.benchmark import Bench, OnProgress
from mhaviz.analyses.complexity import measure_complexity
from mhaviz.devices import free_memory, resolve_device
from mhaviz.models.single_layer import RandomLayer
from mhaviz.results.complexity import Complexity
from mhaviz.results.implementations import ImplementationComparison
from mhaviz.results.projections import ProjectionComparison


def compare_projections(
    sentence: str = "I am going to deposit my money at the bank",
    *,
    include_self: bool = False,
    d_model: int = 512,
    n_heads: int = 8,
    seed: int = 0,
    keep_case: bool = False,
) -> ProjectionComparison:
    """Build up multi-head attention in stages: no projection, then one, two and three, then several heads.

    Args:
        sentence: a sentence of at least two words.
        include_self: count each query in its own sum (j = i), whose weight would hide the others.
        d_model, n_heads, seed: sizes and seed of the random weights.
        keep_case: keep the capitals of words, which are in lower case else.

    Raises:
        ArgumentError: the sentence has fewer than two words, or a size is invalid.
        MhavizError: the matrices do not fit into memory.

    Examples:
        >>> found = mhaviz.compare_projections("I deposit money")
        >>> [stage.scores.shape for stage in found.stages]  # each (seq_length, seq_length)
        [(3, 3), (3, 3), (3, 3), (3, 3)]
    """
    layer = RandomLayer(d_model, n_heads, seed=seed, device_name="cpu", keep_case=keep_case)
    return projections.compare_projections(layer.projection_inputs(sentence), include_self)


def compare_implementations(
    lengths: Sequence[int] = (16, 32, 64, 128, 256, 512, 1024, 2048),
    *,
    d_model: int = 512,
    n_heads: int = 8,
    seed: int = 0,
    device: str = "auto",
    on_progress: OnProgress = lambda done, what: None,
) -> ImplementationComparison:
    """Measure five implementations of the same attention, from a loop over queries and keys to a fused kernel.

    Each is measured in time, peak memory, and the difference of its output from a result in float64, and skipped at
    lengths at which one run would take longer than 5 seconds.

    Args:
        lengths: lengths of the inputs, in tokens.
        d_model, n_heads, seed: sizes and seed of the random weights.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        on_progress: called with the share of the work that is done, from 0 to 1, and the name of the next step.

    Raises:
        ArgumentError: lengths or sizes are invalid.
        MhavizError: the layer does not fit into memory, or the device does not exist.

    Examples:
        >>> found = mhaviz.compare_implementations([4, 8], d_model=16, n_heads=2)
        >>> found.implementations[-1].name
        'fused kernel'
    """
    bench = Bench(d_model, n_heads, seed, resolve_device(device))
    return implementations.compare_implementations(bench, lengths, on_progress)


def complexity(
    lengths: Sequence[int] = (64, 128, 256, 512, 1024, 2048, 4096),
    *,
    d_model: int = 512,
    n_heads: int = 8,
    seed: int = 0,
    device: str = "auto",
    on_progress: OnProgress = lambda done, what: None,
) -> Complexity:
    """Compute the cost of attention, N²·d_model + N·d_model²: operations and bytes of each step, and measured times.

    Arguments and errors as in ``compare_implementations``.

    Examples:
        >>> found = mhaviz.complexity([16, 32], d_model=16, n_heads=2)
        >>> found.lengths
        (16, 32)
    """
    bench = Bench(d_model, n_heads, seed, resolve_device(device))
    free = {str(place): free_memory(place) for place in (torch.device("cpu"), bench.device)}
    return measure_complexity(bench, free, lengths, on_progress)
