"""Curves over the length of the input, both axes logarithmic, each with its name at its end."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from mhaviz.views.figure.sheet import BODY, INK, POINTS, QUIET, SMALL, Sheet, text_width
from mhaviz.views.labels import every

# Apart for eyes of every kind, and in grey by their markers. After Okabe and Ito 2008, darkened for thin lines.
COLOURS = ("#c2410c", "#a67c00", "#1d4e89", "#00806a", "#93418c")
MARKERS = ("o", "s", "^", "D", "v")
STYLES = ("-", "-", "-", "--", "-")
_GRID = "#e6e6e6"
_LINE = 0.14  # inches from one name to the next
_LEADER = 0.22  # inches between the plot and the names
MOST_TICKS = 7


@dataclass(frozen=True)
class Curve:
    """One line. Where a value is None, nothing is drawn.

    Attributes:
        name: stands at its end; a curve without one is named by another.
        xs, ys: its points, x rising.
        style: a matplotlib line style.
        marker: a matplotlib marker, or "".
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float | None]
    colour: str
    marker: str = ""
    style: str = "-"

    @property
    def points(self) -> list[tuple[float, float]]:
        """Those that are there, and that a logarithmic axis can show."""
        return [(x, y) for x, y in zip(self.xs, self.ys, strict=True) if y is not None and y > 0]


@dataclass(frozen=True)
class Plot:
    """Where a plot stands on its sheet, in inches, and what its axes show."""

    left: float
    top: float
    width: float
    height: float
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """A point of the plot in inches on the sheet."""
        across = math.log(x / self.x_limits[0]) / math.log(self.x_limits[1] / self.x_limits[0])
        up = math.log(y / self.y_limits[0]) / math.log(self.y_limits[1] / self.y_limits[0])
        return self.left + across * self.width, self.top + (1 - up) * self.height


def names_width(curves: Sequence[Curve]) -> float:
    """Inches to the right of a plot that the names of its curves take."""
    return _LEADER + max((text_width(curve.name, SMALL) for curve in curves if curve.name), default=0.0)


def draw_curves(
    sheet: Sheet,
    box: tuple[float, float, float, float],
    title: str,
    curves: Sequence[Curve],
    ticks: Sequence[float],
    unit: Callable[[float], str],
    base: int = 10,
) -> Plot:
    """Draw the curves with their names to the right.

    Args:
        sheet: where.
        box: left, top, width and height of the axes, in inches.
        title: stands above them.
        curves: at least one; if none of them has points, that is said.
        ticks: lengths at which the x axis may have labels.
        unit: writes the label of a place on the y axis.
        base: these places are powers of it.
    """
    left, top, width, height = box
    points = [point for curve in curves for point in curve.points]
    ys = [y for _, y in points] or [1.0]
    xs = [x for x, _ in points] or list(ticks)
    plot = Plot(*box, _around(min(xs), max(xs), 1.12), _around(min(ys), max(ys), 1.6))
    axes = sheet.plot_axes(*box, title)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=base)
    axes.set_xlim(plot.x_limits)
    axes.set_ylim(plot.y_limits)
    axes.set_xlabel("N, tokens", size=SMALL, labelpad=2)
    _label_x(axes, plot, [x for x in ticks if plot.x_limits[0] <= x <= plot.x_limits[1]])
    _label_y(axes, plot.y_limits, unit, base)
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)  # or it would hide what is drawn on the page: leaders and marks
    for curve in curves:
        if curve.points:
            x, y = zip(*curve.points, strict=True)
            axes.plot(
                x, y, color=curve.colour, marker=curve.marker, linestyle=curve.style, markersize=3.5, linewidth=1.2,
                label=curve.name,
            )  # fmt: skip
    if points:
        _write_names(sheet, plot, curves)
    else:
        sheet.write(left + width / 2, top + height / 2, "nothing was measured", BODY, colour=QUIET, align="center")
    return plot


def mark(sheet: Sheet, plot: Plot, x: float, y: float, text: str) -> None:
    """A ring around a point, a thin line from it down to its x, and a remark beside that; nothing outside the plot."""
    if not (plot.x_limits[0] <= x <= plot.x_limits[1] and plot.y_limits[0] <= y <= plot.y_limits[1]):
        return
    across, down = plot.place(x, y)
    bottom = plot.top + plot.height
    sheet.page.plot([across, across], [down, bottom], color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    sheet.page.plot([across], [down], "o", markersize=8, markerfacecolor="none", markeredgecolor=INK)
    beside = 0.09 if across + 0.2 < plot.left + plot.width else -0.09
    sheet.write(across + beside, bottom - 0.05, text, SMALL, rotation=90)


def _around(low: float, high: float, factor: float) -> tuple[float, float]:
    return low / factor, high * factor


def _label_x(axes: Axes, plot: Plot, ticks: Sequence[float]) -> None:
    """As many of the lengths as fit beside each other."""
    labels = [f"{tick:,.0f}" for tick in ticks]
    places = [plot.place(tick, plot.y_limits[0])[0] for tick in ticks]
    fitting = 0
    for fitting in range(len(ticks), 0, -1):
        step = every(len(ticks), fitting)
        ends = [(place, text_width(label, SMALL) / 2) for place, label in zip(places, labels, strict=True)][::step]
        if all(place - half > before + other + 0.06 for (before, other), (place, half) in pairwise(ends)):
            break
    step = every(len(ticks), fitting)
    axes.set_xticks(ticks[::step], labels[::step])
    axes.xaxis.minorticks_off()


def _label_y(axes: Axes, limits: tuple[float, float], unit: Callable[[float], str], base: int) -> None:
    first, last = (math.log(limit, base) for limit in limits)
    powers = range(math.ceil(first), math.floor(last) + 1)
    step = next(step for step in (1, 2, 3, 5, 10, 20, 50, 100, 200) if len(powers) <= MOST_TICKS * step)
    ticks = [float(base) ** power for power in powers if power % step == 0]
    if len(ticks) < 3 and base == 10:  # too few to read the scale by
        spread = [digit * 10.0**power for power in range(math.floor(first), powers.stop) for digit in (1, 2, 5)]
        ticks = [tick for tick in spread if limits[0] <= tick <= limits[1]]
    axes.set_yticks(ticks, [re.sub(r"\.0+ ", " ", unit(tick)) for tick in ticks])
    axes.yaxis.minorticks_off()


def _write_names(sheet: Sheet, plot: Plot, curves: Sequence[Curve]) -> None:
    """Each beside the last point of its curve, moved apart where they would touch."""
    named = [(plot.place(*curve.points[-1]), curve) for curve in curves if curve.name and curve.points]
    named.sort(key=lambda item: item[0][1])
    heights = spread([y for (_, y), _ in named], _LINE, plot.top, plot.top + plot.height)
    right = plot.left + plot.width
    for ((x, y), curve), height in zip(named, heights, strict=True):
        gap = 3.5 / POINTS
        sheet.page.plot(
            [x + gap, right + _LEADER - 0.08, right + _LEADER - 0.02], [y, height, height], color=curve.colour,
            linewidth=0.5, alpha=0.6,
        )  # fmt: skip
        sheet.write(right + _LEADER, height, curve.name, SMALL, colour=curve.colour)


def spread(places: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Places, rising, moved as little as needed to lie ``least`` apart, between low and high if there is room."""
    moved = np.asarray(places, dtype=np.float64)
    steps = np.arange(len(moved)) * least
    # What must rise by at least one step each time must, with the steps taken away, not fall.
    level = moved - steps
    blocks: list[list[float]] = []
    for value in level:
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = np.concatenate([np.full(len(block), np.mean(block)) for block in blocks]) if blocks else level
    result = np.clip(level, low, max(high - (steps[-1] if len(steps) else 0), low)) + steps
    return [float(place) for place in result]
