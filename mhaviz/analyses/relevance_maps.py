"""Maps of attention × gradient: what each weight of a head adds to a prediction's score, to first order."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mhaviz.attention.graded import GradedAttention
from mhaviz.attention.model import Inputs, Model, Site
from mhaviz.attention.reducer import CellReducer
from mhaviz.attention.targets import Why, require_one_text
from mhaviz.errors import ArgumentError, parameter, shortened
from mhaviz.inputs.tokens import Text
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import LOWERS, RAISES, RELEVANCE

MOST_TOKENS = 512
"""Most tokens of a map with a cell for each weight."""


def relevance_maps(
    model: Model,
    inputs: Inputs,
    why: Why,
    heads: Sequence[int],
    size: int | None = None,
    on_progress: Callable[[float, str], None] = lambda done, what: None,
) -> Attention:
    """Compute A ⊙ ∂y/∂A of the selected attentions for one text.

    Maps of at most ``MOST_TOKENS`` tokens have both signs. Of longer texts each attention has two maps, so that signs
    do not cancel within a cell: of the weights that raise y, and of those that lower it, pooled by mass.

    Args:
        model, inputs, why, on_progress: as in ``word_relevance``; ``model`` is restricted to the attentions that are
            wanted.
        heads: indices of the heads.
        size: most cells a side of longer texts; None: ``MOST_TOKENS``.

    Raises:
        ArgumentError: as ``word_relevance``; y does not depend on a selected attention.
        MhavizError: as ``word_relevance``.
    """
    text = require_one_text(inputs.texts)
    target = model.target(why, text)
    on_progress(0.0, "gradients")
    run = model.graded(text, target)
    there = {site.number: graded for site, graded in run.attentions}
    wanted = model.sites(inputs)
    if lacking := [site for site in wanted if site.number not in there]:
        raise ArgumentError(
            f"y does not depend on layer {lacking[0].layer}, {lacking[0].kind}; choose others by {parameter('layer')}"
        )
    maps = list[AttentionMap]()
    for done, site in enumerate(wanted):
        on_progress(done / len(wanted), "maps")
        maps += _maps(site, there[site.number], text, [head for head in heads if head < site.n_heads], size)
    source = model.describe(inputs)
    explained = target.explained
    details = {**source.details, "explained": vars(explained), "y": run.score.y}
    remark = f"y is {explained.named(shortened(explained.choice.strip()))}, {run.score.y:.3g}"
    return Attention(
        replace(source, details=details, remark="; ".join(filter(None, [source.remark, remark]))), tuple(maps)
    )


def _maps(
    site: Site, graded: GradedAttention, text: Text, heads: Sequence[int], size: int | None
) -> list[AttentionMap]:
    rows, columns = map(Axis, text.sides(site.kind))
    most = size or MOST_TOKENS
    about: dict[str, Any] = {"kind": site.kind, "layer": site.layer, "heads": tuple(heads), "module": site.module}
    if max(len(rows), len(columns)) <= most:
        whole = np.zeros((len(heads), len(rows), len(columns)), np.float32)
        for queries, products in graded.blocks():
            graded.require_sound(queries.start, products)
            whole[:, queries, : products.shape[2]] = products[list(heads)].float().cpu().numpy()
        return [AttentionMap(whole, rows, columns, quantity=RELEVANCE, **about)]
    rows, columns = rows.pooled(most), columns.pooled(most)
    both = _pooled(graded, heads, torch.from_numpy(rows.edges), torch.from_numpy(columns.edges))
    return [
        AttentionMap(part.float().cpu().numpy(), rows, columns, quantity=quantity, **about)
        for part, quantity in zip(both, (RAISES, LOWERS), strict=True)
    ]


def _pooled(graded: GradedAttention, heads: Sequence[int], row_edges: Tensor, column_edges: Tensor) -> list[Tensor]:
    """Return the sums over keys, averaged over queries, of the positive and of the negative parts in each cell,
    (n_heads, rows, columns); the latter without their sign."""
    device = graded.gradient.device
    row_edges, column_edges = row_edges.to(device), column_edges.to(device)
    shape = len(heads), len(row_edges) - 1, len(column_edges) - 1
    dtype = torch.float32 if device.type == "mps" else torch.float64
    made = [torch.zeros(shape, dtype=dtype, device=device) for _ in (RAISES, LOWERS)]
    row_of = torch.arange(shape[1], device=device).repeat_interleave(row_edges.diff())
    columns = CellReducer(column_edges)
    for rows, products in graded.blocks():
        graded.require_sound(rows.start, products)
        for whole, sign in zip(made, (1, -1), strict=True):
            part = columns.sum((products[list(heads)] * sign).clamp_(min=0))
            whole[:, :, : part.shape[2]].index_add_(1, row_of[rows], part.to(whole.dtype))
    return [whole / row_edges.diff()[:, None] for whole in made]
