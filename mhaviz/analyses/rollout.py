"""Attention rollout: an estimate of how much of each input token has reached each position, layer after layer.

Abnar and Zuidema 2020, arXiv 2005.00928, section 3: the residual connection adds the identity to the weights, averaged
over heads, and the matrices of the layers are multiplied: R_l = (A_l + I) / 2 · R_{l−1}, R_{−1} = I.
"""

import torch
from torch import Tensor

from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError
from mhaviz.records import ROLLOUT, Attention, AttentionMap, Kind, Site


def rolled_sites(model: Model, inputs: Inputs) -> list[Site]:
    """The attentions that a rollout up to each of them is drawn of."""
    return [site for site in model.sites(inputs) if site.kind != "cross"]


def rollout(model: Model, inputs: Inputs) -> Attention:
    """The rollout up to each layer that is looked at, for each sentence: of an encoder and of a decoder.

    Args:
        model: all heads of all layers up to these take part; cross attention is passed over.
        inputs: what it reads.

    Raises:
        ArgumentError: there is nothing but cross attention.
        MhavizError: the weights of one layer and the rollouts of all do not fit into memory.
    """
    drawn = rolled_sites(model, inputs)
    if not drawn:
        raise ArgumentError("a rollout goes through self-attention, got source-target attention alone")
    through = model.select(tuple(range(max(site.layer for site in drawn) + 1)), model.kind)
    n_layers = len(through.sites(inputs)) * len(inputs.texts)
    n_heads, length = max(site.n_heads for site in drawn), inputs.longest
    matrices = (n_heads + n_layers + 4) * length**2  # of one layer's heads, and R of every layer
    require_memory(4 * matrices, torch.device("cpu"), "the rollout")
    rolled: dict[tuple[int | None, Kind], Tensor] = {}  # R, (length, length)
    maps: list[AttentionMap] = []

    def on_attention(seen: SiteCall) -> None:
        kind = seen.site.kind
        if kind == "cross":
            return
        A = seen.call.weights()[0].float().mean(dim=0)  # length length
        A = A / A.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(A.dtype).tiny)  # of a sink's rows the rest is gone
        before = rolled.get((seen.sentence, kind))
        mixed = A if before is None else A @ before
        R = (mixed + (torch.eye(len(A)).to(A) if before is None else before)) / 2
        rolled[seen.sentence, kind] = R
        if seen.site in drawn:
            maps.append(seen.map(R[None].cpu().numpy(), heads=(0,), reach=None, sink=False, quantity=ROLLOUT))

    through.run(inputs, on_attention)
    return Attention(through.describe(inputs), tuple(maps))
