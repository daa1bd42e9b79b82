"""Scales of a page: from which number to which colours go, and what stands at the ends, for all media alike."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.pages.blocks import Block, Matrices, Page, Shaded, Stacks, leaves, matrices
from mhaviz.pages.colormaps import AROUND_UNIFORM, DIVERGING, INK
from mhaviz.pages.labels import bare, visible
from mhaviz.pages.numbers import percent, rounded
from mhaviz.pages.panels import SINK_SCALE, WEIGHT, Panel, Scale, decimals_of, group_scale, rounded_up
from mhaviz.pages.pooling import pool_map
from mhaviz.pages.weight_range import darkest_from, histograms, largest_weight
from mhaviz.results.attention import AttentionMap
from mhaviz.results.sinks import is_short, like_sinks, pooled_sinks, sinks_at
from mhaviz.views.style import Style

# The palest 1% of the weights take the first sixth of a logarithmic scale: nearly equal weights are not at its end.
_DARKEST, _DARK = 0.01, 1 / 6
_LEAST_SHARE = 1e-6  # low end of a logarithmic scale at least, as a share of its high end
_MANY_CELLS = 60  # rows or columns; of more, each is too small to be seen alone
_BEYOND = 0.005  # share of the cells of such a head that may lie beyond the scale
_LEAST_RANGE = 4.0  # high end / low end of a logarithmic scale at least, so that weights that are nearly equal look so

DrawnCells = Mapping[int, tuple[int, int]]
"""Rows and columns that maps are drawn in, by the ``id`` of each map; a map that is not in it is drawn whole."""


@dataclass(frozen=True)
class Scales:
    """Scales of everything on a page, each with its ends, as every medium shows them.

    Attributes:
        drawn: for each scale that the page gives its panels, the one that they are drawn on.
        bars: each scale that has a name, with the first block that shows it, in the order of the page. Blocks in stacks
            side by side have their own.
        has_sinks_apart: as in ``Style``.
    """

    drawn: Mapping[Scale, Scale]
    bars: tuple[tuple[Scale, Block], ...] = ()
    has_sinks_apart: bool = False

    def of(self, m: AttentionMap) -> Scale:
        """Return the scale of a map."""
        return self.drawn[group_scale(m)]

    def shaded(self, block: Shaded) -> Shaded:
        """Return a shaded text on its scale."""
        return replace(block, scale=self.drawn[block.scale])

    def panel(self, panel: Panel, m: AttentionMap) -> Panel:
        """Return a panel of a map on its scale."""
        panel = replace(panel, scale=self.of(m))
        if m.sinks is None or not self.has_sinks_apart:
            return panel
        return _with_sinks(panel, m.sinks.keys, [visible(bare(m.keys[key])) for key in m.sinks.keys])

    def panels(self, block: Matrices) -> tuple[Panel, ...]:
        """Return the panels of a block on their scales."""
        panels = tuple(replace(panel, scale=self.drawn[panel.scale]) for panel in block.panels)
        if not (apart := _apart(block, self.has_sinks_apart)):
            return panels
        names = [visible(bare(block.columns.tokens.texts[key])) for key in apart]
        return tuple(_with_sinks(panel, apart, names) for panel in panels)

    def beside(self, block: Block) -> tuple[Scale, ...]:
        """Return the scales whose colour bar stands beside a block: those that no block before it shows."""
        parts = {id(part) for part in leaves([block])}
        return tuple(scale for scale, first in self.bars if id(first) in parts)

    def of_sheet(self, blocks: Iterable[Block]) -> "Scales":
        """Return the same scales, with the colour bars of a sheet that shows these blocks, or parts of blocks."""

        def scales_of(block: Block) -> Iterable[Scale]:
            of_sinks = isinstance(block, Matrices) and bool(_apart(block, self.has_sinks_apart))
            named = (scale for scale in block.scales if scale.name)
            return [*(self.drawn[scale] for scale in named), *[SINK_SCALE] * of_sinks]

        return replace(self, bars=tuple(_bars(blocks, scales_of)))


def resolve(page: Page, cells: DrawnCells, style: Style) -> Scales:
    """Return all scales of a page.

    They are those of whole maps, however few cells a medium has room for, so that all media end at the same numbers.
    Only the numbers of cells that sum weights grow with the cells: the scale of such maps is that of ``cells``. Panels
    of the numbers that maps on the page show, such as weights, have the maps' scale, which reaches their end.

    Args:
        page: the page.
        cells: cells of pooled maps that are drawn in fewer.
        style: colormap, ends and kind of the scales.

    Raises:
        ArgumentError: ``vmax`` is above 1 and there are weights, or it is not above the lowest number of a scale.
    """
    return _resolved(page, _maps_of(page), cells, style)


def _maps_of(page: Page) -> list[AttentionMap]:
    return [m for block in matrices(page.blocks) for m in block.maps]


def _resolved(page: Page, maps_of_page: Sequence[AttentionMap], cells: DrawnCells, style: Style) -> Scales:
    """Return all scales of a page whose maps are these, drawn in these cells."""
    of_maps, maps = _of_maps(maps_of_page, cells, style)
    panels = [panel for block in matrices(page.blocks) if not block.maps for panel in block.panels]
    of_maps = {group: _reaching(scale, panels, style) for group, scale in of_maps.items()}
    named = {_name(m): of_maps[group] for group, (m, *_) in reversed(maps.items()) if not m.is_pooled}
    drawn = _of_panels(panels, named, style)
    drawn |= _with_ends(of_maps, {group: _least_and_most(alike) for group, alike in maps.items()})
    others = (scale for block in leaves(page.blocks) if not isinstance(block, Matrices) for scale in block.scales)
    drawn |= {scale: _of_others(scale, style) for scale in others}
    return Scales(drawn, has_sinks_apart=style.has_sinks_apart).of_sheet(page.blocks)


def _of_others(scale: Scale, style: Style) -> Scale:
    """Return what is drawn of a scale of blocks that are no matrices, which has fixed ends; of multiples of uniform
    over an image a user may choose them."""
    if scale.colormap == AROUND_UNIFORM and style.vmax is not None:
        if style.vmax <= 1:
            raise ArgumentError(
                f"{parameter('vmax')}: expected more than 1 × uniform, the middle of the scale, got {style.vmax:g}"
            )
        scale = replace(scale, low=1 / style.vmax, high=style.vmax)
    return scale.coloured(style.cmap)


def columns_apart(block: Matrices, style: Style) -> tuple[int, ...]:
    """Return the columns of a block that stand apart: sinks."""
    return _apart(block, style.has_sinks_apart)


def _apart(block: Matrices, has_sinks_apart: bool) -> tuple[int, ...]:
    sinks = block.maps[0].sinks if block.maps else None
    return sinks.keys if sinks and has_sinks_apart else ()


def _with_sinks(panel: Panel, apart: tuple[int, ...], names: Sequence[str]) -> Panel:
    """Return a panel with columns that stand apart, and the mean weight of each: "[CLS] 47%", or "47%"."""
    shares = [percent(share) for share in np.nan_to_num(panel.values[:, list(apart)]).mean(axis=0)]
    aside = ", ".join(f"{name} {share}" for name, share in zip(names, shares, strict=True))
    return replace(panel, apart=apart, aside=aside, aside_short=", ".join(shares))


def resolve_sheets(page: Page, sheets: Sequence[Page], cells: DrawnCells, style: Style) -> Scales:
    """Return the scales of a page that is divided into sheets: the same on all of them, and with all parts and heads.

    All heads of maps of sums have the cells that some have on the sheets. Arguments and errors as in ``resolve``.
    """
    of_texts = defaultdict[Hashable, set[tuple[int, int]]](set)
    for m in (m for sheet in sheets for m in _maps_of(sheet) if m.are_sums):
        of_texts[_text(m)].add(cells.get(id(m), m.weights.shape[1:]))
    maps, drawn = list[AttentionMap](), dict[int, tuple[int, int]]()
    for m in _maps_of(page):
        shapes = sorted(of_texts.get(_text(m), ()))
        copies = [replace(m) for _ in shapes] if len(shapes) > 1 else [m]  # sheets may have parts in other cells
        maps += copies
        drawn.update(zip(map(id, copies), shapes, strict=False))
    return _resolved(page, maps, drawn, style)


def _text(m: AttentionMap) -> Hashable:
    """Return what maps of one text have in common in all layers and passes."""
    return m.sentence, m.kind, m.quantity, m.rows.edges.tobytes(), m.columns.edges.tobytes()


def resolve_maps(maps: Sequence[AttentionMap], style: Style, cells: DrawnCells | None = None) -> Scales:
    """Return the scales of maps that are drawn without the blocks of a page. Arguments and errors as in ``resolve``."""
    of_maps, drawn = _of_maps(maps, cells or {}, style)
    ends = {group: _least_and_most(alike) for group, alike in drawn.items()}
    return Scales(_with_ends(of_maps, ends), has_sinks_apart=style.has_sinks_apart)


def change_scale(style: Style, maps: Sequence[AttentionMap]) -> Scale:
    """Return the scale that maps of changes share, with 0 in its middle, and the decimals that the largest needs."""
    largest = style.vmax or max(map(_largest_change, maps)) or 1.0
    return Scale(style.diverging, -largest, largest, decimals_of(largest), signed=True)


def ratio_scale(style: Style, maps: Sequence[AttentionMap]) -> Scale:
    """Return the scale that maps of ratios share, with 1 in its middle. Its first colour is that of a ratio of 0, too.

    Raises:
        ArgumentError: ``vmax`` is not above 1.
    """
    if style.vmax is not None and style.vmax <= 1:
        raise ArgumentError(
            f"{parameter('vmax')}: expected more than 1, which is the middle of a scale of ratios, got {style.vmax:g}"
        )
    largest = max(*map(_largest, maps), math.sqrt(_LEAST_RANGE))
    return Scale.around_one(style.diverging, style.vmax or rounded_up(largest))


def weight_scale(style: Style, maps: Sequence[AttentionMap]) -> Scale:
    """Return the scale that all these maps share."""
    if not style.log:
        return Scale(style.cmap, 0.0, style.vmax if style.vmax is not None else darkest_from(maps))
    largest = (style.vmax if style.vmax is not None else max(map(_largest, maps))) or 1.0
    share = _palest(maps) / largest
    low = largest * max(min(share, 1.0) ** (1 / (1 - _DARK)), _LEAST_SHARE)
    if low * _LEAST_RANGE > largest:
        middle = math.sqrt(min(share, 1.0)) * largest
        most = 1.0 if all(m.quantity.is_distribution for m in maps) else math.inf
        largest = min(middle * math.sqrt(_LEAST_RANGE), most) if style.vmax is None else largest
        low = largest / _LEAST_RANGE
    return Scale(style.cmap, low, largest, log=True)


def _of_maps(
    maps: Sequence[AttentionMap], cells: DrawnCells, style: Style
) -> tuple[dict[Scale, Scale], dict[Scale, list[AttentionMap]]]:
    """Return the scale of each group of maps, without its ends, and the maps with the numbers that are drawn."""
    if any(m.quantity.is_distribution for m in maps):
        style.require_vmax()
    drawn: dict[Scale, list[AttentionMap]] = {}
    for m in maps:
        shown = without_missing(_drawn(m, cells.get(id(m))))
        shown = shown if style.has_sinks_apart else replace(shown, sinks=None)
        drawn.setdefault(group_scale(m), []).append(shown)
    scales = {}
    for group, alike in drawn.items():
        scale = _scale_of(alike[0])(style, _without_sinks(alike, style))
        scales[group] = replace(scale, name=_name(alike[0]) + ", log" * scale.log)
    return scales, drawn


def _reaching(scale: Scale, panels: Sequence[Panel], style: Style) -> Scale:
    """Return a scale of maps that ends no lower than those of panels of the same numbers."""
    ends = [panel.scale.high for panel in panels if panel.scale.name == scale.name]
    return scale if style.vmax is not None else replace(scale, high=max([scale.high, *ends]))


def _scale_of(m: AttentionMap) -> Callable[[Style, Sequence[AttentionMap]], Scale]:
    """Return the function for the scale of maps like this one. Sums of ratios have no neutral number."""
    if m.quantity.is_signed:
        return change_scale
    return ratio_scale if m.quantity.is_ratio and not m.are_sums else weight_scale


def _drawn(m: AttentionMap, cells: tuple[int, int] | None) -> AttentionMap:
    """Return the map in these cells if their numbers are sums, which differ from those of smaller cells."""
    return pool_map(m, *cells) if cells and m.are_sums else m


def without_missing(m: AttentionMap) -> AttentionMap:
    """Return the map with 0 for NaN, which has no place on a scale."""
    return replace(m, weights=np.nan_to_num(m.weights)) if np.isnan(m.weights).any() else m


def _without_sinks(maps: Sequence[AttentionMap], style: Style) -> list[AttentionMap]:
    """Return maps without weights that would set the scale in place of sinks, which stand apart.

    They are those of keys that are sinks in other texts, in texts too short to have any: of "It was.", the weight of
    [CLS] is nearly 1; and of columns of pooled maps with a sink.
    """
    if not style.has_sinks_apart:
        return list(maps)
    sinks, without = {m.sinks for m in maps if m.sinks}, []
    for m, pooled in zip(maps, pooled_sinks(maps), strict=True):
        left_out = [sink.column for sink in pooled]
        if sinks and m.is_whole and is_short(m):
            left_out = np.flatnonzero(like_sinks(m, sinks)).tolist()
        without.append(replace(m, sinks=sinks_at(left_out)) if left_out else m)
    return without


def _name(m: AttentionMap) -> str:
    return m.quantity.drawn_name


def _of_panels(panels: Sequence[Panel], named: Mapping[str, Scale], style: Style) -> dict[Scale, Scale]:
    """Return what panels are drawn on, by the scale that the page gives them.

    Where panels of one sign and of two signs share a page, those of two signs keep their diverging colormap.
    ``named``: scales of the maps of the page, by the name of their numbers.
    """
    wanted = dict.fromkeys(panel.scale for panel in panels)
    signs = {scale.diverges for scale in wanted}

    def drawn(scale: Scale) -> Scale:
        if scale.name in named:
            return named[scale.name]
        keeps = scale.colormap not in (INK, DIVERGING) or (len(signs) > 1 and scale.diverges)
        if scale.name == WEIGHT:
            style.require_vmax()
        if style.vmax is not None and scale.name == WEIGHT:
            if style.vmax <= scale.low:
                raise ArgumentError(
                    f"{parameter('vmax')}: expected more than {scale.low:g} {scale.name}, got {style.vmax:g}"
                )
            scale = replace(scale, high=style.vmax)
        return scale if keeps else scale.coloured(style.cmap)

    numbers = defaultdict[Scale, list[float]](list)
    for panel in panels:
        numbers[panel.scale] += (
            float(np.fmin.reduce(panel.values, axis=None, initial=math.inf)),
            float(np.fmax.reduce(panel.values, axis=None, initial=-math.inf)),
        )
    return _with_ends({scale: drawn(scale) for scale in wanted}, numbers)


def _with_ends(scales: Mapping[Scale, Scale], numbers: Mapping[Scale, Sequence[float]]) -> dict[Scale, Scale]:
    """Return scales that say whether ``numbers`` lie below and above them, as they are written.

    Equal scales say the same.
    """
    of_scale = defaultdict[Scale, list[float]](list)
    for key, scale in scales.items():
        of_scale[scale] += map(rounded, numbers[key])
    return {
        key: replace(
            scale,
            below=min(of_scale[scale]) < rounded(scale.low),
            above=max(of_scale[scale]) > rounded(scale.high),
        )
        for key, scale in scales.items()
    }


def _least_and_most(maps: Sequence[AttentionMap]) -> tuple[float, float]:
    """Return the least number of these maps that no mask hides, and the largest."""
    return min(map(_least, maps)), max(map(largest_weight, maps))


def _bars(blocks: Iterable[Block], scales_of: Callable[[Block], Iterable[Scale]]) -> Iterator[tuple[Scale, Block]]:
    """Yield each scale with the first of these blocks that shows it, again in each of two stacks side by side."""
    known = set[Scale]()
    for block in blocks:
        if isinstance(block, Stacks):
            for stack in (block.left, block.right):
                yield from _bars(stack, scales_of)
            continue
        for part in leaves([block]):
            yield from ((scale, part) for scale in scales_of(part) if scale not in known)
            known.update(scales_of(part))


def _least(m: AttentionMap) -> float:
    """Return the least number that no mask hides."""
    hidden = m.hidden
    seen = np.True_ if hidden is None else ~hidden
    seen = seen & ~np.isin(np.arange(len(m.columns)), m.sinks.keys if m.sinks else ())
    return min(float(weights.min(where=seen, initial=math.inf)) for weights in m.weights)


def _largest(attention_map: AttentionMap) -> float:
    """Return the largest weight, without the first query where a mask leaves it a single key, whose weight is 1."""
    hidden = attention_map.hidden
    sees_one = hidden is not None and len(hidden) > 1 and bool(hidden[0, 1:].all())
    return largest_weight(attention_map, int(sees_one))


def _largest_change(m: AttentionMap) -> float:
    """Return the largest change; of many cells a high quantile, or a single cell would make all others pale."""
    if max(m.weights.shape[1:]) > _MANY_CELLS:
        beyond = max(float(np.quantile(size, 1 - _BEYOND)) for size in _sizes(m))
        if beyond:
            return beyond
    return max(float(size.max()) for size in _sizes(m))


def _sizes(m: AttentionMap) -> Iterator[NDArray[np.float32]]:
    return map(np.abs, m.weights)


def _palest(maps: Sequence[AttentionMap]) -> float:
    """Return the weight that the palest 1% of all weights above 0 lie below; 0 if there are none."""
    counts, _ = histograms(maps)
    below = counts.cumsum()
    if not below[-1]:
        return 0.0
    rank = _DARKEST * (below[-1] - 1)
    group = int(np.searchsorted(below, rank, side="right"))
    low, high = (np.array([group, group + 1], np.uint32) << 16).view(np.float32)
    return float(low + (high - low) * (rank - below[group] + counts[group]) / counts[group])
