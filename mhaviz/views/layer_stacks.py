"""The same attention in several layers as one picture: a row of tiles for each layer, a column for each head.

A rollout has no heads: its layers stand side by side, as many as there is room for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mhaviz.records import AttentionMap
from mhaviz.views.captions import layers_text, part_text
from mhaviz.views.panels import Panel, Scale, head_panels, tile_titles
from mhaviz.views.pooling import pool_map


@dataclass(frozen=True)
class LayerStack:
    """Maps that differ in their layer alone, or a single one.

    Attributes:
        maps: in the order of the tiles; what their masks hide may differ.
        titles: of the tiles, layer by layer.
        columns: tiles that belong side by side; None: as it fits.
        part: what the title says beside the kind of attention.
    """

    maps: tuple[AttentionMap, ...]
    titles: tuple[str, ...]
    columns: int | None
    part: str

    @property
    def n_tiles(self) -> int:
        """Of all layers."""
        return len(self.titles)

    @property
    def first(self) -> AttentionMap:
        """The map of the first layer, for what all have in common; of several there is no summary."""
        return self.maps[0] if len(self.maps) == 1 else replace(self.maps[0], summary=None)

    @cached_property
    def map(self) -> AttentionMap:
        """All weights as those of one map, layer by layer; its mask is that of the first, its summary of a single."""
        first = self.maps[0]
        if len(self.maps) == 1:
            return first
        weights = np.concatenate([m.weights for m in self.maps])
        return replace(first, weights=weights, heads=tuple(range(len(weights))), summary=None)

    def panels(self, scale: Scale, rows: int, columns: int) -> list[Panel]:
        """A panel a tile in at most so many cells, with what the mask of its own layer hides."""
        titles = iter(self.titles)
        panels: list[Panel] = []
        for m in self.maps:
            drawn = m if m.is_whole else pool_map(m, rows, columns)
            panels += head_panels(drawn, scale, [next(titles) for _ in m.heads], (rows, columns))
        return panels


def stack_layers(maps: Sequence[AttentionMap], named: bool = False) -> list[LayerStack]:
    """Maps of the same sentence, kind, tokens, heads and cells together, in the order of the first of each.

    ``named``: say which layer a single map is of.
    """
    groups: list[list[AttentionMap]] = []
    for m in maps:
        group = next((group for group in groups if _differ_in_layer_alone(m, group[-1])), None)
        if group is None:
            groups.append([m])
        else:
            group.append(m)
    return [_stack(group, named) for group in groups]


def stack_rollouts(maps: Sequence[AttentionMap]) -> list[LayerStack]:
    """As ``stack_layers`` does it, but of rollouts alone: a terminal has no room for several rows of heads."""
    stacks = {id(stack.maps[0]): stack for stack in stack_layers([m for m in maps if m.quantity.is_rollout])}
    alone = [stacks.get(id(m)) if m.quantity.is_rollout else _stack([m]) for m in maps]
    return [stack for stack in alone if stack is not None]


def _differ_in_layer_alone(m: AttentionMap, other: AttentionMap) -> bool:
    if m.layer == other.layer or (m.sentence, m.kind, m.heads) != (other.sentence, other.kind, other.heads):
        return False
    return m.quantity == other.quantity and m.rows.is_same(other.rows) and m.columns.is_same(other.columns)


def _stack(group: Sequence[AttentionMap], named: bool = False) -> LayerStack:
    first, maps = group[0], tuple(group)
    layers = layers_text([m.layer for m in maps])
    if len(maps) == 1:
        layer = f", {layers}" if named and not first.quantity.is_rollout else ""
        return LayerStack(maps, tile_titles(first), None, f"{part_text(first)}{layer}")
    part = f"{part_text(first)}, {layers}"
    titles = [title for m in maps for title in tile_titles(m)]
    if first.quantity.is_rollout:
        return LayerStack(maps, tuple(titles), None, part)
    numbers = [m.layer for m in maps for _ in m.heads]
    titles = [f"layer {layer} · {title}" for layer, title in zip(numbers, titles, strict=True)]
    return LayerStack(maps, tuple(titles), len(first.heads), part)
