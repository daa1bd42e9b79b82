"""Verify weights: multiplied by the values, they must give the outputs that the model itself has computed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.call import BLOCK
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Kind
from mhaviz.units import with_minus

TOLERANCE = 1e-4
"""Tolerance as a share of the largest number of an output; float32 differs by less in any order of summation."""

ROUNDINGS = 16
"""Tolerance of a model in a less precise type, as a multiple of that type's relative rounding error."""


@dataclass(frozen=True)
class Deviation:
    """Difference between the output A V from the drawn weights and the model's own output, for one attention.

    Attributes:
        kind, layer, sentence: as in ``AttentionMap``.
        head: index of the head with the largest difference.
        difference: largest absolute difference between numbers of the two outputs.
        size: largest absolute number of the model's output.
    """

    kind: Kind
    layer: int
    sentence: int | None
    head: int
    difference: float
    size: float


def require_verified(deviations: Sequence[Deviation], dtype: torch.dtype) -> Deviation:
    """Return the largest deviation relative to the size of the output.

    Args:
        deviations: deviations of all attentions.
        dtype: type that the model computes with.

    Raises:
        MhavizError: the deviation is larger than rounding explains.
    """
    worst = max(deviations, key=lambda deviation: deviation.difference / (deviation.size or 1.0))
    if worst.difference > max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps) * worst.size:
        raise MhavizError(
            f"not verified: the weights do not give the model's own outputs, which are up to {worst.size:.2g}; they "
            f"differ by up to {with_minus(f'{worst.difference:.1e}')} (L{worst.layer} H{worst.head}, {worst.kind})"
        )
    return worst


def verify(model: Model, inputs: Inputs, heads: Sequence[int] | None = None) -> tuple[Deviation, ...]:
    """Recompute H = A V of each selected attention from its weights, in blocks of queries, and compare.

    The model is run once more, and weights are computed in the same way as those that are drawn. This does not show
    whether observing the model changes its queries and keys.

    Args:
        model: a model that gives the outputs of its attentions.
        inputs: encoded input of the sentences.
        heads: indices of the heads; None: all.
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
