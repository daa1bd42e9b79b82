"""Attention rollout: how much of each token's first embedding can have come to each place, layer after layer.

Abnar and Zuidema 2020, arXiv 2005.00928, section 3: the residual connection adds the identity to the weights, averaged
over heads, and the matrices of the layers are multiplied: R_l = (A_l + I) / 2 · R_{l−1}, R_{−1} = I.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError
from mhaviz.maps.map_of_inputs import weights_of_inputs
from mhaviz.records import Attention, AttentionMap, Kind, MapInputs, QueriesAndKeys


def rollout(inputs: MapInputs, layers: Sequence[int] | None = None) -> Attention:
    """The rollout to each of these layers, or to every one, for each sentence: of an encoder and of a decoder.

    Args:
        inputs: all heads of all layers, from the first on; cross attention is passed over.
        layers: which are kept.

    Raises:
        ArgumentError: there is nothing but cross attention.
        MhavizError: the weights of one layer and the rollouts of all do not fit into memory.
    """
    if all(outline.kind == "cross" for outline in inputs.outlines):
        raise ArgumentError("a rollout goes through self-attention, got source-target attention alone")
    largest = max(inputs.outlines, key=lambda outline: outline.q_length * outline.n_heads)
    n_layers = len(inputs.outlines)
    matrices = (largest.n_heads + n_layers + 4) * largest.q_length**2  # of one layer's heads, and R of every layer
    require_memory(4 * matrices, torch.device("cpu"), "the rollout")
    rolled: dict[tuple[int | None, Kind], Tensor] = {}  # R, (length, length)
    maps: list[AttentionMap] = []

    def seen(one: QueriesAndKeys) -> None:
        if one.kind == "cross":
            return
        A = weights_of_inputs(one).mean(dim=0)  # length length
        A = A / A.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(A.dtype).tiny)  # of a sink's rows the rest is gone
        before = rolled.get((one.sentence, one.kind))
        mixed = A if before is None else A @ before
        R = (mixed + (torch.eye(len(A)) if before is None else before)) / 2
        rolled[one.sentence, one.kind] = R
        if layers is None or one.layer in layers:
            maps.append(one.map(R[None].numpy(), heads=(0,), reach=None, sink=False, rollout=True))

    inputs.visit(seen)
    return Attention(inputs.source, tuple(maps))
