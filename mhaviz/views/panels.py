"""Maps as matrices to be drawn, each with its title and its scale: the same for the terminal and for figures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap, ScalingComparison
from mhaviz.views.captions import layers_text, part_text, rule_text
from mhaviz.views.colours import BONE, DIVERGING, colours
from mhaviz.views.labels import mathematics_in_ascii
from mhaviz.views.pooling import pool_map, pool_strongest

_ROUNDING = 2**-20  # of numbers in float32, relative to them


@dataclass(frozen=True)
class Scale:
    """How numbers become colours. ``decimals`` is for the numbers in the cells.

    With ``log``, equal factors are equal steps of colour; what is below ``low``, above 0, has the first colour.
    ``signed``: a number above 0 has its sign too.
    """

    colormap: str = BONE
    low: float = 0.0
    high: float = 1.0
    decimals: int = 2
    log: bool = False
    signed: bool = False

    @classmethod
    def around_zero(cls, values: NDArray[np.float32]) -> "Scale":
        """A scale for scores: zero in the middle, as far to both sides as the largest reaches."""
        largest = float(np.nanmax(np.abs(values), initial=1e-6))
        return cls(DIVERGING, -largest, largest, decimals=1)

    def shares(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far along the scale each value is: 0 for the first colour, 1 for the last; NaN stays NaN."""
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(np.maximum(values, np.float32(low))), np.log(low), np.log(high)
        return np.asarray((values - low) / ((high - low) or 1.0), np.float32)

    def value(self, share: float) -> float:
        """What stands at a place along the scale: the reverse of ``shares``."""
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share

    def colours(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The colour of each value, (…, 3); NaN is grey."""
        if self.log:
            return colours(self.shares(values), self.colormap)
        return colours(values, self.colormap, self.low, self.high)

    def text(self, value: float) -> str:
        """The number as it stands in a cell; hidden ones, NaN, are a dash."""
        if np.isnan(value):
            return "-"
        text = f"{value:z.{self.decimals}f}"
        return f"+{text}" if self.signed and float(text) > 0 else text


@dataclass(frozen=True)
class Panel:
    """One matrix, (rows, columns). Where a mask has ``hidden`` the key, no number is written."""

    title: str
    values: NDArray[np.float32]
    scale: Scale
    hidden: NDArray[np.bool_] | None = None

    def text(self, row: int, column: int) -> str:
        """The number in a cell."""
        if self.hidden is not None and self.hidden[row, column]:
            return ""
        return self.scale.text(float(self.values[row, column]))

    def pooled(self, rows: int, columns: int) -> "Panel":
        """In at most so many cells, of which each shows its strongest number."""
        values = pool_strongest(self.values, rows, columns)
        return self if values is self.values else Panel(self.title, values, self.scale)

    @property
    def text_length(self) -> int:
        """Characters of the longest number in a cell."""
        if not self.values.size:
            return len(self.scale.text(np.nan))
        ends = (choose.reduce(self.values, axis=None) for choose in (np.fmin, np.fmax))  # which pass over NaN
        return max(len(self.scale.text(float(end))) for end in ends)


def tile_titles(attention_map: AttentionMap) -> tuple[str, ...]:
    """ "head 0" for every head; a rollout has none: "layer 5"."""
    if attention_map.quantity.through_layers:
        return (f"layer {attention_map.layer}",) * len(attention_map.heads)
    return tuple(f"head {head}" for head in attention_map.heads)


def head_panels(
    attention_map: AttentionMap,
    scale: Scale,
    titles: Sequence[str] | None = None,
    cells: tuple[int, int] | None = None,
) -> list[Panel]:
    """A panel for every head, one after the other: of many large ones none is copied before it is pooled.

    ``titles``: others than ``tile_titles``. ``cells``: rows and columns in which they are drawn; see ``Panel.pooled``.
    """
    hidden = attention_map.hidden
    titles = tile_titles(attention_map) if titles is None else titles
    panels: list[Panel] = []
    for title, weights in zip(titles, attention_map.weights, strict=True):
        values = weights if hidden is None else np.where(hidden, np.float32(np.nan), weights)
        panel = Panel(title, values, scale, hidden)
        panels.append(panel if cells is None else panel.pooled(*cells))
    return panels


def values_beyond(panels: Iterable[Panel], scale: Scale, with_below: bool = True) -> tuple[bool, bool]:
    """Whether values lie below the scale, and above it, by more than their rounding.

    ``with_below``: whether it matters that some lie below; not where only the strongest of several are drawn.
    """
    least, most = scale.low - _ROUNDING * abs(scale.low), scale.high + _ROUNDING * abs(scale.high)
    ends = [(bool((p.values < least).any()), bool((p.values > most).any())) for p in panels]
    return with_below and any(below for below, _ in ends), any(above for _, above in ends)


def scaling_panels(
    c: ScalingComparison, i: int, scores: Scale, weights: Scale, head: str = "", ascii_only: bool = False
) -> list[Panel]:
    """Scores and weights of the i-th head, unscaled and scaled; ``head`` stands before the titles of the scores."""
    product, rule = "q·k", rule_text(c)
    scaled = f"{product} {rule}" if rule.startswith(("/", "·")) else f"{product}, {rule}"
    if ascii_only:
        product, scaled = mathematics_in_ascii(product), mathematics_in_ascii(scaled)
    hidden = np.isnan(c.unscaled.scores[i])
    return [
        Panel(head + product, c.unscaled.scores[i], scores),
        Panel(f"softmax({product})", np.where(hidden, np.float32(np.nan), c.unscaled.weights[i]), weights),
        Panel(head + scaled, c.scaled.scores[i], scores),
        Panel(f"softmax({scaled})", np.where(hidden, np.float32(np.nan), c.scaled.weights[i]), weights),
    ]


@dataclass(frozen=True)
class LayerStack:
    """Maps that differ in their layer alone, or a single one: a row of tiles for each layer, a column for each head.

    A rollout has no heads: its layers stand side by side, as many as there is room for.

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
    stacks = {id(stack.maps[0]): stack for stack in stack_layers([m for m in maps if m.quantity.through_layers])}
    alone = [stacks.get(id(m)) if m.quantity.through_layers else _stack([m]) for m in maps]
    return [stack for stack in alone if stack is not None]


def _differ_in_layer_alone(m: AttentionMap, other: AttentionMap) -> bool:
    if m.layer == other.layer or (m.sentence, m.kind, m.heads) != (other.sentence, other.kind, other.heads):
        return False
    return m.quantity == other.quantity and m.rows.is_same(other.rows) and m.columns.is_same(other.columns)


def _stack(group: Sequence[AttentionMap], named: bool = False) -> LayerStack:
    first, maps = group[0], tuple(group)
    layers = layers_text([m.layer for m in maps])
    if len(maps) == 1:
        layer = f", {layers}" if named and not first.quantity.through_layers else ""
        return LayerStack(maps, tile_titles(first), None, f"{part_text(first)}{layer}")
    part = f"{part_text(first)}, {layers}"
    titles = [title for m in maps for title in tile_titles(m)]
    if first.quantity.through_layers:
        return LayerStack(maps, tuple(titles), None, part)
    numbers = [m.layer for m in maps for _ in m.heads]
    titles = [f"layer {layer} · {title}" for layer, title in zip(numbers, titles, strict=True)]
    return LayerStack(maps, tuple(titles), len(first.heads), part)
