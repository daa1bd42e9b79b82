"""Scales and colours of numbers, for figures, the terminal and the page for the browser alike."""

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.pages.attention import scale_group
from mhaviz.pages.panels import FILM, INK, Panel, Scale, decimals_of
from mhaviz.pages.weight_range import darkest_from, histograms
from mhaviz.results.attention import AttentionMap
from mhaviz.views.ink import ink

if TYPE_CHECKING:
    from mhaviz.views.style import Style

_FILM = (196, 54, 8)  # strongest colour of a film over an image, which is grey
_PALEST = 0.72  # grey of the darkest pixels of an image, as a share of white
# The palest 1 % of the weights take the first sixth of a logarithmic scale: nearly equal weights are not at its end.
_DARKEST, _DARK = 0.01, 1 / 6
_LEAST_SHARE = 1e-6  # low end of a logarithmic scale at least, as a share of its high end
_MANY_CELLS = 60  # rows or columns; of more, each is too small to be seen alone
_BEYOND = 0.005  # share of the cells of such a head that may lie beyond the scale
_LEAST_RANGE = 4.0  # high end / low end of a logarithmic scale at least, so that weights that are nearly equal look so


def scales_of(style: "Style", maps: Sequence[AttentionMap], drawn: Sequence[AttentionMap]) -> dict[str, Scale]:
    """Return the scale of each ``scale_group`` of maps; ``drawn``: the maps, pooled to the cells of the picture.

    Raises ArgumentError if ``vmax`` is above 1 and one of the maps is of weights.
    """
    if any(m.quantity.is_distribution for m in maps):
        style.require_vmax()
    groups: dict[str, list[AttentionMap]] = {}
    for m, shown in zip(maps, drawn, strict=True):
        groups.setdefault(scale_group(m), []).append(shown)
    return {
        group: change_scale(style, alike) if alike[0].quantity.is_signed else weight_scale(style, alike)
        for group, alike in groups.items()
    }


def change_scale(style: "Style", maps: Sequence[AttentionMap]) -> Scale:
    """Return the scale that maps of changes share, with 0 in its middle, and the decimals that the largest needs."""
    largest = style.vmax or max(map(_largest_change, maps)) or 1.0
    return Scale(style.diverging, -largest, largest, decimals_of(largest), signed=True)


def weight_scale(style: "Style", maps: Sequence[AttentionMap]) -> Scale:
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


def _largest(attention_map: AttentionMap) -> float:
    """Return the largest weight, without the first query where a mask leaves it a single key, whose weight is 1."""
    weights, hidden = attention_map.weights, attention_map.hidden
    if hidden is None or weights.shape[1] == 1 or not hidden[0, 1:].all():
        return float(weights.max())
    return float(weights[:, 1:].max())


def _largest_change(m: AttentionMap) -> float:
    """Return the largest change; of many cells a high quantile, or a single cell would make all others pale."""
    sizes = [np.abs(change) for change in m.weights]
    if max(m.weights.shape[1:]) > _MANY_CELLS:
        beyond = max(float(np.quantile(size, 1 - _BEYOND)) for size in sizes)
        if beyond:
            return beyond
    return max(float(size.max()) for size in sizes)


def _palest(maps: Sequence[AttentionMap]) -> float:
    """Return the weight that the palest 1 % of all weights above 0 lie below; 0 if there are none."""
    counts, _ = histograms(maps)
    below = counts.cumsum()
    if not below[-1]:
        return 0.0
    rank = _DARKEST * (below[-1] - 1)
    group = int(np.searchsorted(below, rank, side="right"))
    low, high = (np.array([group, group + 1], np.uint32) << 16).view(np.float32)
    return float(low + (high - low) * (rank - below[group] + counts[group]) / counts[group])


@cache
def palette(name: str) -> NDArray[np.uint8]:
    """Return the 256 colours of a colormap, (256, 3): "ink", "film", or one of matplotlib's."""
    if name == INK:
        return ink()
    if name == FILM:
        return np.round(np.linspace((255, 255, 255), _FILM, 256)).astype(np.uint8)
    import matplotlib

    return np.round(matplotlib.colormaps[name](np.linspace(0, 1, 256))[:, :3] * 255).astype(np.uint8)


def check_colormap(name: str) -> None:
    """Raise ArgumentError, which suggests similar names, unless this is "ink" or a colormap of matplotlib."""
    if name == INK:
        return
    import difflib

    import matplotlib

    if name not in matplotlib.colormaps:
        near = difflib.get_close_matches(name, list(matplotlib.colormaps), n=3, cutoff=0.7) or [INK, "bone", "viridis"]
        raise ArgumentError(f"{parameter('cmap')}: expected a matplotlib colormap, got {name!r}; try {', '.join(near)}")


def places(values: NDArray[np.float32], scale: Scale) -> NDArray[np.uint8]:
    """Return the index of each value's colour, 0 to 255, as matplotlib chooses it; for NaN any index."""
    return np.clip(np.nan_to_num(scale.shares(values)) * 256, 0, 255).astype(np.uint8)


def colours(values: NDArray[np.float32], scale: Scale) -> NDArray[np.uint8]:
    """Return the colour of each value, (…, 3); NaN is white."""
    chosen: NDArray[np.uint8] = palette(scale.colormap)[places(values, scale)]
    chosen[np.isnan(values)] = 255
    return chosen


def over_image(panel: Panel, height: int, width: int) -> NDArray[np.uint8]:
    """Return the cells of a panel as a coloured film over its image in pale grey, (height, width, 3).

    Over white pixels a cell has exactly the colour of its scale. Cells are not smoothed.

    Args:
        panel: a panel with an image.
        height, width: pixels of the result; multiples of the numbers of rows and columns.
    """
    from PIL import Image

    assert panel.image is not None
    resized = Image.fromarray(panel.image).convert("L").resize((width, height), Image.Resampling.LANCZOS)
    light = _PALEST + (1 - _PALEST) * np.asarray(resized) / 255
    cells, (rows, columns) = colours(panel.values, panel.scale), panel.values.shape
    film = cells.repeat(height // rows, axis=0).repeat(width // columns, axis=1)
    return np.round(film * light[..., None]).astype(np.uint8)


def needs_dark_text(background: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return whether black text has more contrast than white on each background, (…, 3), by WCAG 2's luminance."""
    channel = background / 255
    linear = np.where(channel <= 0.03928, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    # Contrast with black is (L + 0.05) / 0.05, with white 1.05 / (L + 0.05); they are equal at L = 0.179.
    dark: NDArray[np.bool_] = luminance > 0.179
    return dark
