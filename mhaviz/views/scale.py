"""What colours mean, for paper, terminal and page alike: the scale of some numbers, and the colour of each of them."""

import math
from collections.abc import Iterable, Sequence
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

_FILM = (196, 54, 8)  # the strongest colour of what lies over an image, whose greys have no hue
_PALEST = 0.72  # of white, the grey of the darkest places of an image
_DARKEST = 0.01  # of all weights that are shown, the share that has the palest colours of a logarithmic scale,
_DARK = 1 / 6  # which are so much of the scale: even weights that are nearly equal are not at its end
_LEAST_SHARE = 1e-6  # of the largest weight, that a logarithmic scale reaches down to
_MANY_CELLS = 60  # rows or columns; each of more is too small to be seen alone
_BEYOND = 0.005  # of the cells of such a head, the share that may have more than the last colour
_LEAST_RANGE = 4.0  # from end to end of it: weights that are nearly equal look so, and are neither black nor white


def scales_of(style: "Style", maps: Sequence[AttentionMap], drawn: Sequence[AttentionMap]) -> dict[str, Scale]:
    """The one scale of each ``scale_group``. ``drawn``: the same maps, in the cells of the picture."""
    groups: dict[str, list[AttentionMap]] = {}
    for m, shown in zip(maps, drawn, strict=True):
        groups.setdefault(scale_group(m), []).append(shown)
    return {
        group: change_scale(style, alike) if alike[0].quantity.is_signed else weight_scale(style, alike)
        for group, alike in groups.items()
    }


def change_scale(style: "Style", maps: Iterable[AttentionMap]) -> Scale:
    """The one scale of these changes, 0 in its middle, with as many decimals as the largest needs.

    Raises ArgumentError as ``weight_scale``.
    """
    maps = _checked(style, maps)
    largest = style.vmax or max(map(_largest_change, maps)) or 1.0
    return Scale(style.diverging, -largest, largest, decimals_of(largest), signed=True)


def weight_scale(style: "Style", maps: Iterable[AttentionMap]) -> Scale:
    """The one scale of all these maps.

    Raises ArgumentError if ``vmax`` is above 1 and one of them is of weights.
    """
    maps = _checked(style, maps)
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


def _checked(style: "Style", maps: Iterable[AttentionMap]) -> tuple[AttentionMap, ...]:
    several = tuple(maps)
    if any(m.quantity.is_distribution for m in several):
        style.require_vmax()
    return several


def _largest(attention_map: AttentionMap) -> float:
    """The largest weight; the first row does not count if its one key, or cell, has it all, as a mask hides others."""
    weights, hidden = attention_map.weights, attention_map.hidden
    if hidden is None or weights.shape[1] == 1 or not hidden[0, 1:].all():
        return float(weights.max())
    return float(weights[:, 1:].max())


def _largest_change(m: AttentionMap) -> float:
    """The largest change; of many cells the one that few are beyond, or a single cell would make all others pale."""
    sizes = [np.abs(change) for change in m.weights]
    if max(m.weights.shape[1:]) > _MANY_CELLS:
        beyond = max(float(np.quantile(size, 1 - _BEYOND)) for size in sizes)
        if beyond:
            return beyond
    return max(float(size.max()) for size in sizes)


def _palest(maps: Sequence[AttentionMap]) -> float:
    """The weight that the palest share of all weights above 0 stays below; 0 if there are none."""
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
    """The 256 colours of a colormap, (256, 3): of "ink", of "film", or of one of matplotlib's.

    Raises:
        ArgumentError: there is no such colormap; the message names some that are near.
    """
    if name == INK:
        return ink()
    if name == FILM:
        return np.round(np.linspace((255, 255, 255), _FILM, 256)).astype(np.uint8)
    import matplotlib
    from matplotlib.colors import Colormap

    check_colormap(name)
    colormap: Colormap = matplotlib.colormaps[name]
    return np.round(colormap(np.linspace(0, 1, 256))[:, :3] * 255).astype(np.uint8)


def check_colormap(name: str) -> None:
    """Raise ArgumentError, with names that are near, unless this is "ink" or matplotlib has such a colormap."""
    if name == INK:
        return
    import difflib

    import matplotlib

    if name not in matplotlib.colormaps:
        near = difflib.get_close_matches(name, list(matplotlib.colormaps), n=3, cutoff=0.7) or [INK, "bone", "viridis"]
        raise ArgumentError(f"{parameter('cmap')}: expected a matplotlib colormap, got {name!r}; try {', '.join(near)}")


def places(values: NDArray[np.float32], scale: Scale) -> NDArray[np.uint8]:
    """Which of the 256 colours of its scale each value has, as matplotlib chooses it; NaN has any."""
    return np.clip(np.nan_to_num(scale.shares(values)) * 256, 0, 255).astype(np.uint8)


def colours(values: NDArray[np.float32], scale: Scale) -> NDArray[np.uint8]:
    """The colour of each value, (…, 3); NaN is paper."""
    chosen: NDArray[np.uint8] = palette(scale.colormap)[places(values, scale)]
    chosen[np.isnan(values)] = 255
    return chosen


def over_image(panel: Panel, height: int, width: int) -> NDArray[np.uint8]:
    """The cells of a panel as a film over its image, which is grey and pale, in so many pixels: (height, width, 3).

    On white a cell has the colour of its scale; nothing is smoothed. ``height``, ``width``: multiples of the cells.
    """
    from PIL import Image

    assert panel.image is not None
    resized = Image.fromarray(panel.image).convert("L").resize((width, height), Image.Resampling.LANCZOS)
    light = _PALEST + (1 - _PALEST) * np.asarray(resized) / 255
    cells, (rows, columns) = colours(panel.values, panel.scale), panel.values.shape
    film = cells.repeat(height // rows, axis=0).repeat(width // columns, axis=1)
    return np.round(film * light[..., None]).astype(np.uint8)


def needs_dark_text(background: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether black text reads better than white on a background (…, 3), by WCAG 2's relative luminance."""
    channel = background / 255
    linear = np.where(channel <= 0.03928, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    # Contrast with black is (L + 0.05) / 0.05, with white 1.05 / (L + 0.05); they are equal at L = 0.179.
    dark: NDArray[np.bool_] = luminance > 0.179
    return dark
