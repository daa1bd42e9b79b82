"""Attention rollout: an estimate of how much of each input token has reached each position, layer by layer.

Abnar and Zuidema 2020, arXiv 2005.00928, section 3: the weights A_l are averaged over heads, the identity is added for
the residual connection, and the matrices of the layers are multiplied: R_l = (A_l + I) / 2 · R_{l−1}, R_{−1} = I.
"""

from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.analyses.weights import weight_map
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import Kind
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.quantity import ROLLOUT


def rollout(model: Model, inputs: Inputs) -> Attention:
    """Compute the rollout up to each selected layer for each sentence, separately for encoder and decoder.

    Args:
        model: the model. All heads of all layers up to the selected ones take part; cross-attention is skipped.
        inputs: encoded input of the sentences.

    Raises:
        ArgumentError: only cross-attention is selected.
        MhavizError: the weights of one layer and the rollouts of all layers do not fit into memory.
    """
    drawn = [site for site in model.sites(inputs) if site.kind != "cross"]
    if not drawn:
        raise ArgumentError("a rollout goes through self-attention, got only source-target attention")
    through = model.select(tuple(range(max(site.layer for site in drawn) + 1)), model.kind)
    n_layers = len(through.sites(inputs)) * len(inputs.texts)
    n_heads, length = max(site.n_heads for site in drawn), inputs.longest
    matrices = (n_heads + n_layers + 4) * length**2  # of one layer's heads, and R of every layer
    require_memory(4 * matrices, torch.device("cpu"), "the rollout")
    rollout = _Rollout()

    def on_attention(seen: SiteCall) -> None:
        if seen.site.kind != "cross":
            rollout.add(weight_map(seen), seen.site in drawn)

    through.run(inputs, on_attention)
    return Attention(through.describe(inputs), tuple(rollout.maps))


def rollout_of_maps(attention: Attention) -> Attention:
    """Compute the rollout from maps of all layers, given in the order in which the layers run.

    Raises:
        ArgumentError: a map is pooled, a window or of kind "other"; there is only cross-attention; or layers have
            different lengths.
    """
    rollout = _Rollout()
    for m in attention.maps:
        if m.kind == "other":
            raise ArgumentError(
                f"a rollout goes through self-attention, and it is not known whether layer {m.layer} is"
            )
        if m.kind != "cross":
            rollout.add(m)
    if not rollout.maps:
        raise ArgumentError("a rollout goes through self-attention, got only source-target attention")
    return Attention(attention.source, tuple(rollout.maps))


class _Rollout:
    """Maps of the rollout up to each layer so far, for each pass, sentence and kind of attention."""

    def __init__(self) -> None:
        self.maps: list[AttentionMap] = []
        self._rolled: dict[tuple[int | None, int | None, Kind], Tensor] = {}  # R, (length, length)

    def add(self, m: AttentionMap, is_drawn: bool = True) -> None:
        """Add a layer: compute R_l from its mean weights A_l and R_{l−1}; ``is_drawn``: keep its map."""
        if not m.is_whole:
            raise ArgumentError(
                f"a rollout goes through single tokens, got pooled cells in layer {m.layer}; take a shorter input or a "
                f"larger {parameter('size')}"
            )
        of = m.pass_number, m.sentence, m.kind
        A, before = torch.from_numpy(m.weights).mean(dim=0), self._rolled.get(of)
        length = A.shape[1] if before is None else len(before)
        if A.shape != (length, length):
            raise ArgumentError(
                f"a rollout goes through layers of one length, got {length} tokens, and {len(A)} in layer {m.layer}; "
                f"choose others by {parameter('layer')}"
            )
        A = A / A.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(A.dtype).tiny)  # rows with a sink sum to less than 1
        mixed, before = (A, torch.eye(length)) if before is None else (A @ before, before)
        R = self._rolled[of] = (mixed + before) / 2
        if is_drawn:
            alone = replace(m, summary=None, queries_and_keys=None, reach=None, sink=False, quantity=ROLLOUT)
            self.maps.append(replace(alone, weights=R[None].numpy(), heads=(0,)))
