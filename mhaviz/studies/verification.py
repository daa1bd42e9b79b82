"""Whether the weights that are drawn are those that a model has used: they must give the model's own outputs."""

import torch
from torch import Tensor

from mhaviz.maps.attention_call import BLOCK
from mhaviz.maps.map_of_inputs import weights_of_inputs
from mhaviz.records import Deviation, MapInputs, QueriesAndKeys


def verify(inputs: MapInputs) -> tuple[Deviation, ...]:
    """Recompute H = A V of every attention from its weights, a block of queries at a time, and compare.

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
