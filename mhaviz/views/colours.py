"""Colours of numbers, for figures, the terminal and the page for the browser alike."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.pages.colormaps import AROUND_UNIFORM, INK, SINK
from mhaviz.pages.panels import Scale
from mhaviz.views.ink import ink

_AROUND_UNIFORM = ("#8f877d", "#b3aca3", "#d9d4ce", "#ffffff", "#f4b195", "#c43608", "#5e1200")
_SINK = ("#ffffff", "#d9d4cc", "#8f887e", "#3d3832")  # at equal steps
_NIGHT = "#16181c"  # paper of dark pages
_SINK_AT_NIGHT = (_NIGHT, "#4a4640", "#8f887e", "#e8e4dc")
_LEAST_CONTRAST = 3.0  # of lines with their paper, by WCAG 2


@cache
def palette(name: str) -> NDArray[np.uint8]:
    """Return the 256 colours of a colormap, (256, 3): "ink", "around uniform", "sink", or one of matplotlib's."""
    if name == INK:
        return ink()
    if name == AROUND_UNIFORM:
        return _between(_AROUND_UNIFORM)
    if name == SINK:
        return _between(_SINK)
    import matplotlib

    return np.round(matplotlib.colormaps[name](np.linspace(0, 1, 256))[:, :3] * 255).astype(np.uint8)


def sink_at_night() -> NDArray[np.uint8]:
    """Return the 256 colours of sinks for dark pages, (256, 3)."""
    return _between(_SINK_AT_NIGHT)


def at_night(colour: str) -> str:
    """Return a colour as dark pages show it, mixed with as little white as lines need to be seen on their paper."""
    paper = _luminance(_between((_NIGHT,))[0])
    mixed = _between((colour, "#ffffff"))
    seen = (_luminance(mixed) + 0.05) / (paper + 0.05) >= _LEAST_CONTRAST
    return "#" + bytes(mixed[int(seen.argmax())]).hex()


def _between(steps: Sequence[str]) -> NDArray[np.uint8]:
    """Return 256 colours from the first to the last of these, (256, 3)."""
    rgb = np.array([list(bytes.fromhex(colour[1:])) for colour in steps])
    channels = [np.interp(np.linspace(0, len(rgb) - 1, 256), range(len(rgb)), channel) for channel in rgb.T]
    return np.round(np.stack(channels, axis=-1)).astype(np.uint8)


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


def needs_dark_text(background: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return whether black text has more contrast than white on each background, (…, 3), by WCAG 2's luminance."""
    # Contrast with black is (L + 0.05) / 0.05, with white 1.05 / (L + 0.05); they are equal at L = 0.179.
    dark: NDArray[np.bool_] = _luminance(background) > 0.179
    return dark


def _luminance(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the relative luminance of colours by WCAG 2, (…, 3) → (…)."""
    channel = rgb / 255
    linear = np.where(channel <= 0.03928, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))
