"""Verifies weights: multiplied by the values, they must give the outputs that the model itself has computed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.call import BLOCK
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Kind

TOLERANCE = 1e-4
"""Of the largest number of an output: float32 differs by less, whatever the order in which it is summed."""

ROUNDINGS = 16
"""So many of the roundings of a coarser type a model's own output may be off."""


@dataclass(frozen=True)
class Deviation:
    """Of one attention: its output by the weights that are drawn, A V, beside its output in the model itself.

    Attributes:
        kind, layer, sentence: as in ``AttentionMap``.
        head: the one with the largest difference.
        difference: the largest absolute difference of two numbers of the output.
        size: the largest absolute number of the model's output.
    """

    kind: Kind
    layer: int
    sentence: int | None
    head: int
    difference: float
    size: float


def require_verified(deviations: Sequence[Deviation], dtype: torch.dtype) -> Deviation:
    """The largest deviation, beside the size of its output, of a model that computes with this type.

    Raises:
        MhavizError: it is more than rounding explains.
    """
    worst = max(deviations, key=lambda deviation: deviation.difference / (deviation.size or 1.0))
    if worst.difference > max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps) * worst.size:
        raise MhavizError(
            f"not verified: the weights do not give the model's own outputs, which reach {worst.size:.2g}, but others, "
            f"by up to {worst.difference:.1e} (layer {worst.layer}, {worst.kind}, head {worst.head})"
        )
    return worst


def verify(model: Model, inputs: Inputs, heads: Sequence[int] | None = None) -> tuple[Deviation, ...]:
    """Recompute H = A V of every attention from its weights, a block of queries at a time, and compare.

    The model runs once more; the weights are computed as those that are drawn. That a model computes with other queries
    and keys than it would without us cannot be seen from this.

    Args:
        model: one that shows its outputs.
        inputs: what it reads.
        heads: these alone; None: all.

    """
    found: list[Deviation] = []

    def on_attention(seen: SiteCall) -> None:
        assert seen.output is not None
        call, output = seen.with_inputs, seen.output.float()  # batch_size n_heads q_length d_value
        largest = torch.zeros(output.shape[1], device=output.device)
        for start in range(0, output.shape[2], BLOCK):
            H: Tensor = call.mix(call.weights(start, start + BLOCK)).float()
            difference = (H - output[:, :, start : start + BLOCK]).abs()
            largest = torch.maximum(largest, difference.amax(dim=(0, 2, 3)))
        head = int(largest.argmax())
        size, (kind, layer) = float(output.abs().max()), (seen.site.kind, seen.site.layer)
        found.append(Deviation(kind, layer, seen.sentence, seen.heads[head], float(largest[head]), size))

    model.run(inputs, on_attention, heads)
    return tuple(found)
