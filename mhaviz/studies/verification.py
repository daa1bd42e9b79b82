"""Whether the weights that are drawn are those that a model has used: they must give the model's own outputs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mhaviz.errors import MhavizError
from mhaviz.maps.attention_call import BLOCK
from mhaviz.maps.map_of_inputs import weights_of_inputs
from mhaviz.records import Deviation, MapInputs, QueriesAndKeys

TOLERANCE = 1e-4
"""Of the largest number of an output: float32 differs by less, whatever the order in which it is summed."""

ROUNDINGS = 16
"""So many of the roundings of a coarser type a model's own output may be off."""


def require_alike(deviations: Sequence[Deviation], dtype: torch.dtype) -> Deviation:
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


def verify(inputs: MapInputs) -> tuple[Deviation, ...]:
    """Recompute H = A V of every attention from its weights, a block of queries at a time, and compare.

    The model runs once more; the weights are computed as those that are drawn. That a model computes with other queries
    and keys than it would without us cannot be seen from this.

    Args:
        inputs: with values and outputs.
    """
    found: list[Deviation] = []

    def seen(one: QueriesAndKeys) -> None:
        assert one.value is not None
        assert one.output is not None
        V, output = torch.from_numpy(one.value), torch.from_numpy(one.output)
        group = len(output) // len(V)
        largest = torch.zeros(len(output))
        for start in range(0, output.shape[1], BLOCK):
            A = weights_of_inputs(one, start, start + BLOCK)  # n_heads queries k_length
            H: Tensor = A @ V.repeat_interleave(group, dim=0)  # n_heads queries d_value
            difference = (H - output[:, start : start + BLOCK]).abs()
            largest = torch.maximum(largest, difference.amax(dim=(1, 2)))
        head = int(largest.argmax())
        size = float(output.abs().max())
        found.append(Deviation(one.kind, one.layer, one.sentence, one.heads[head], float(largest[head]), size))

    inputs.visit(seen)
    return tuple(found)
