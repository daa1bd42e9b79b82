"""The same attention in several layers as one picture: a row of tiles for each layer, a column for each head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mhaviz.records import AttentionMap
from mhaviz.views.captions import part_text


@dataclass(frozen=True)
class LayerStack:
    """Maps that differ in their layer alone, or a single one.

    Attributes:
        map: their weights as those of one map, layer by layer; its summary is that of a single one.
        titles: of its tiles.
        columns: tiles that belong side by side; None: as it fits.
        part: what the title says beside the kind of attention.
    """

    map: AttentionMap
    titles: tuple[str, ...]
    columns: int | None
    part: str


def stack_layers(maps: Sequence[AttentionMap]) -> list[LayerStack]:
    """Maps of the same sentence, kind, tokens, heads and cells together, in the order of the first of each."""
    groups: list[list[AttentionMap]] = []
    for m in maps:
        group = next((group for group in groups if _differ_in_layer_alone(m, group[-1])), None)
        if group is None:
            groups.append([m])
        else:
            group.append(m)
    return [_stack(group) for group in groups]


def _differ_in_layer_alone(m: AttentionMap, other: AttentionMap) -> bool:
    if m.layer == other.layer or (m.sentence, m.kind, m.heads) != (other.sentence, other.kind, other.heads):
        return False
    if m.weights.shape != other.weights.shape or m.edges.reduction != other.edges.reduction:
        return False
    same_cells = np.array_equal(m.edges.query_edges, other.edges.query_edges)
    same_cells &= np.array_equal(m.edges.key_edges, other.edges.key_edges)
    return same_cells and m.queries == other.queries and m.keys == other.keys


def _stack(maps: Sequence[AttentionMap]) -> LayerStack:
    first = maps[0]
    if len(maps) == 1:
        return LayerStack(first, tuple(f"head {head}" for head in first.heads), None, part_text(first))
    weights = np.concatenate([m.weights for m in maps])
    stacked = replace(first, weights=weights, heads=tuple(range(len(weights))), summary=None)
    titles = tuple(f"layer {m.layer} · head {head}" for m in maps for head in m.heads)
    layers = ", ".join(str(m.layer) for m in maps)
    if [m.layer for m in maps] == list(range(first.layer, first.layer + len(maps))):
        layers = f"{first.layer} to {maps[-1].layer}"
    return LayerStack(stacked, titles, len(first.heads), f"{part_text(first)}, layers {layers}")
