"""Attention rollout: an estimate of how much of each input token has reached each position, layer after layer.

Abnar and Zuidema 2020, arXiv 2005.00928, section 3: the residual connection adds the identity to the weights, averaged
over heads, and the matrices of the layers are multiplied: R_l = (A_l + I) / 2 · R_{l−1}, R_{−1} = I.
"""

from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, parameter
from mhaviz.records.attention import Attention, AttentionMap
from mhaviz.records.quantity import ROLLOUT
from mhaviz.records.tokens import Kind


def rollout(model: Model, inputs: Inputs) -> Attention:
    """The rollout up to each layer that is looked at, for each sentence: of an encoder and of a decoder.

    Args:
        model: all heads of all layers up to these take part; cross attention is passed over.
        inputs: what it reads.

    Raises:
        ArgumentError: there is nothing but cross attention.
        MhavizError: the weights of one layer and the rollouts of all do not fit into memory.
    """
    drawn = [site for site in model.sites(inputs) if site.kind != "cross"]
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
        R = rolled[seen.sentence, kind] = _through(A, rolled.get((seen.sentence, kind)))
        if seen.site in drawn:
            maps.append(seen.map(R[None].cpu().numpy(), heads=(0,), reach=None, sink=False, quantity=ROLLOUT))

    through.run(inputs, on_attention)
    return Attention(through.describe(inputs), tuple(maps))


def rollout_of_maps(attention: Attention) -> Attention:
    """The same of maps of all layers, in the order in which these run.

    Raises:
        ArgumentError: maps that are pooled, or of a part; nothing but cross attention; layers of different lengths, or
            of another kind between them.
    """
    rolled: dict[tuple[int | None, int | None, Kind], Tensor] = {}
    maps: list[AttentionMap] = []
    for m in attention.maps:
        if m.kind == "cross":
            continue
        if m.kind == "other":
            raise ArgumentError(
                f"a rollout goes through attention of tokens to themselves, and of layer {m.layer} that is not known"
            )
        if not m.is_whole:
            raise ArgumentError(
                f"a rollout goes through single tokens, got pooled cells in layer {m.layer}; take a shorter input or a "
                f"larger {parameter('size')}"
            )
        of = m.pass_number, m.sentence, m.kind
        A, before = torch.from_numpy(m.weights).mean(dim=0), rolled.get(of)
        length = A.shape[1] if before is None else len(before)
        if A.shape != (length, length):
            raise ArgumentError(
                f"a rollout goes through layers of one length, got {length} tokens, and {len(A)} in layer {m.layer}; "
                f"choose others by {parameter('layer')}"
            )
        R = rolled[of] = _through(A, before)
        maps.append(replace(m, weights=R[None].numpy(), heads=(0,), reach=None, sink=False, quantity=ROLLOUT))
    if not maps:
        raise ArgumentError("a rollout goes through self-attention, got source-target attention alone")
    maps = [replace(m, queries_and_keys=None, summary=None) for m in maps]
    return Attention(attention.source, tuple(maps))


def _through(A: Tensor, before: Tensor | None) -> Tensor:
    """R_l of the mean weights of layer l, and of R_{l−1}; None: of the first layer. All are (length, length)."""
    A = A / A.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(A.dtype).tiny)  # of a sink's rows the rest is gone
    mixed = A if before is None else A @ before
    return (mixed + (torch.eye(len(A)).to(A) if before is None else before)) / 2
