"""How a picture looks, in the terminal and as a figure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mhaviz.errors import ArgumentError, parameter
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.attention import scale_group
from mhaviz.pages.panels import DIVERGING, INK, Scale, decimals_of
from mhaviz.pages.weight_range import darkest_from, histograms
from mhaviz.results.attention import AttentionMap
from mhaviz.views.colours import check_colormap

_DARKEST = 0.01  # of all weights that are shown, the share that has the palest colours of a logarithmic scale,
_DARK = 1 / 6  # which are so much of the scale: even weights that are nearly equal are not at its end
_LEAST_SHARE = 1e-6  # of the largest weight, that a logarithmic scale reaches down to
_LEAST_VMAX, _MOST_VMAX = 1e-30, 1e30  # numbers divided by it are still numbers of float32
_WIDTHS, _FONT_SIZES = (1.0, 100.0), (2.0, 72.0)  # inches, points
_MANY_CELLS = 60  # rows or columns; each of more is too small to be seen alone
_BEYOND = 0.005  # of the cells of such a head, the share that may have more than the last colour
_LEAST_RANGE = 4.0  # from end to end of it: weights that are nearly equal look so, and are neither black nor white


@dataclass(frozen=True)
class Style:
    """What a user may choose; all but cmap, vmax and log is for figures, title and footnote for the browser as well.

    Attributes:
        cmap: the colours of weights: "ink", from paper to dark, or a colormap of matplotlib.
        dpi: pixels an inch.
        columns: heads side by side; None: as it fits.
        vmax: the number from which on the colour is darkest, of weights at most 1, over an image in times of uniform;
            None: chosen so that most of the attention lies below it.
        numbers: whether they stand in the cells; None: where there are few.
        log: whether equal factors are equal steps of colour.
        width: of the picture in inches, into which heads are fitted; None: as it comes.
        font_size: of labels, in points; other letters go with them. None: 8, and less where cells are small.
        title: stands in the place of the picture's own; "": there is none.
        footnote: stands in the place of all small print: where the numbers come from, and how to read them; "": none.

    Raises:
        ArgumentError: no such colormap, dpi below 20, columns below 1, vmax not from 1e-30 to 1e30, a width or a font
            size that no page has.
    """

    cmap: str = INK
    dpi: int = 150
    columns: int | None = None
    vmax: float | None = None
    numbers: bool | None = None
    log: bool = False
    width: float | None = None
    font_size: float | None = None
    title: str | None = None
    footnote: str | None = None

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> "Style":
        """The style of these choices, by their names. Raises ArgumentError as above, and for names that are none."""
        if unknown := [name for name in choices if name not in cls.__dataclass_fields__]:
            known = ", ".join(cls.__dataclass_fields__)
            raise ArgumentError(f"a picture has no {unknown[0]}: expected a style among {known}")
        return cls(**choices)

    def __post_init__(self) -> None:
        for name in ("title", "footnote"):
            if not isinstance(getattr(self, name), str | None):
                raise ArgumentError(f"{parameter(name)}: expected a text, or None, got {getattr(self, name)!r}")
        check_colormap(self.cmap)
        for name, number, least in (("dpi", self.dpi, LEAST_DPI), ("columns", self.columns, 1)):
            if number is not None and number < least:
                raise ArgumentError(f"{parameter(name)}: expected at least {least}, got {number}")
        if self.vmax is not None and self.vmax > 1:
            self.require_vmax("number", _MOST_VMAX)
        else:
            self.require_vmax()
        lengths = ("width", self.width, _WIDTHS, "inches"), ("font_size", self.font_size, _FONT_SIZES, "points")
        for name, length, (shortest, longest), unit in lengths:
            if length is not None and not isinstance(length, int | float):
                raise ArgumentError(f"{parameter(name)}: expected a number of {unit}, got {length!r:.60}")
            if length is not None and not shortest <= length <= longest:
                raise ArgumentError(f"{parameter(name)}: expected {shortest:g} to {longest:g} {unit}, got {length:.4g}")

    def require_vmax(self, what: str = "weight", most: float = 1.0) -> None:
        """Raise ArgumentError if the end of the scale is none for weights, or for what reaches farther than to 1."""
        if self.vmax is not None and not _LEAST_VMAX <= self.vmax <= most:
            raise ArgumentError(
                f"{parameter('vmax')}: expected a {what} from {_LEAST_VMAX:g} to {most:g}, or auto, got {self.vmax}"
            )

    @property
    def ends(self) -> tuple[str, str] | None:
        """What the colours of the lowest and the highest change are called, if anybody could call them so."""
        return ("blue", "red") if self.diverging == DIVERGING else None

    @property
    def diverging(self) -> str:
        """The colours of numbers of two signs, for which ink has no middle."""
        return DIVERGING if self.cmap == INK else self.cmap

    def scales(self, maps: Sequence[AttentionMap], drawn: Sequence[AttentionMap]) -> dict[str, Scale]:
        """The one scale of each ``scale_group``. ``drawn``: the same maps, in the cells of the picture."""
        groups: dict[str, list[AttentionMap]] = {}
        for m, shown in zip(maps, drawn, strict=True):
            groups.setdefault(scale_group(m), []).append(shown)
        return {
            group: self.change_scale(alike) if alike[0].quantity.is_signed else self.weight_scale(alike)
            for group, alike in groups.items()
        }

    def change_scale(self, maps: Iterable[AttentionMap]) -> Scale:
        """The one scale of these changes, 0 in its middle, with as many decimals as the largest needs.

        Raises ArgumentError as ``weight_scale``.
        """
        maps = self._checked(maps)
        largest = self.vmax or max(map(_largest_change, maps)) or 1.0
        return Scale(self.diverging, -largest, largest, decimals_of(largest), signed=True)

    def weight_scale(self, maps: Iterable[AttentionMap]) -> Scale:
        """The one scale of all these maps.

        Raises ArgumentError if ``vmax`` is above 1 and one of them is of weights.
        """
        maps = self._checked(maps)
        if not self.log:
            return Scale(self.cmap, 0.0, self.vmax if self.vmax is not None else darkest_from(maps))
        largest = (self.vmax if self.vmax is not None else max(map(_largest, maps))) or 1.0
        share = _palest(maps) / largest
        low = largest * max(min(share, 1.0) ** (1 / (1 - _DARK)), _LEAST_SHARE)
        if low * _LEAST_RANGE > largest:
            middle = math.sqrt(min(share, 1.0)) * largest
            most = 1.0 if all(m.quantity.is_distribution for m in maps) else math.inf
            largest = min(middle * math.sqrt(_LEAST_RANGE), most) if self.vmax is None else largest
            low = largest / _LEAST_RANGE
        return Scale(self.cmap, low, largest, log=True)

    def _checked(self, maps: Iterable[AttentionMap]) -> tuple[AttentionMap, ...]:
        several = tuple(maps)
        if any(m.quantity.is_distribution for m in several):
            self.require_vmax()
        return several


class LayoutStyle(Style):
    """The style of a page before it is enlarged to the letters that are wanted: its sizes have been checked."""

    def __post_init__(self) -> None:
        """Check nothing."""


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
