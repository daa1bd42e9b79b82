"""Plots of curves side by side, each curve with its name at its end, or all with one key."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from mhaviz.pages.blocks import Axis, Curves, Plot, Series
from mhaviz.views.figure.sheet import BODY, FOOT_LINE, INK, POINTS, QUIET, SMALL, Sheet, fit_text, text_width
from mhaviz.views.labels import every

# Apart for eyes of every kind, and in grey by their markers. After Okabe and Ito 2008, darkened for thin lines.
COLOURS = ("#c2410c", "#a67c00", "#1d4e89", "#00806a", "#93418c")
_MARKERS = ("o", "s", "^", "D", "v")
_LINES = {"solid": "-", "dashed": "--", "dotted": ":"}
_GRID = "#e6e6e6"
_LINE = 0.14  # inches from one name to the next
_LEADER = 0.22  # inches between the plot and the names
_MOST_TICKS = 7
_TITLE, _KEYS = 0.21, 0.3  # inches: over the axes for the title of a plot, and over all plots for keys in a row


@dataclass(frozen=True)
class _Room:
    """Inches around axes: to their left, from one plot to the next, from one row to the next, below the last row."""

    left: float
    beside: float
    between: float
    below: float


_WITH_NAMES, _WITHOUT = _Room(0.6, 0.75, 0.85, 0.42), _Room(0.4, 0.65, 0.75, 0.51)


def colour_of(number: int | None) -> str:
    """The colour of a series or a key."""
    return QUIET if number is None else COLOURS[number % len(COLOURS)]


@dataclass(frozen=True)
class CurvesLayout:
    """Where plots stand, in inches from the top left corner of all of them; ``names``: inches for those of curves."""

    curves: Curves
    names: float

    @property
    def _room(self) -> _Room:
        return _WITH_NAMES if self.names else _WITHOUT

    @property
    def keys_in_row(self) -> bool:
        """Whether all keys stand over the plots, as there is nothing to be said of them."""
        return bool(self.curves.keys) and not any(key.remark for key in self.curves.keys)

    def place(self, number: int) -> tuple[float, float]:
        """The top left corner of the axes of a plot, or of one more."""
        row, column = divmod(number, self.curves.columns)
        across, down = self.curves.size
        top = _TITLE + (_KEYS if self.keys_in_row else 0.0)
        return (
            self._room.left + column * (across + self._room.beside + self.names),
            top + row * (down + self._room.between),
        )

    @property
    def width(self) -> float:
        """In inches, labels and names included."""
        last = self.place(self.curves.columns - 1)[0] + self.curves.size[0]
        return last + (self.names + 0.15 if self.names else 0.0)

    @property
    def free(self) -> tuple[float, float] | None:
        """The top left corner of an empty place in the last row, if there is one."""
        if len(self.curves.plots) % self.curves.columns == 0:
            return None
        x, y = self.place(len(self.curves.plots))
        return x - self._room.left, y - 0.1

    @property
    def plots_bottom(self) -> float:
        """What is below the labels of the last row."""
        return self.place(len(self.curves.plots) - 1)[1] + self.curves.size[1] + self._room.below

    @property
    def height(self) -> float:
        """In inches, with the remarks on keys."""
        remarks = 0 if self.keys_in_row else len(self.curves.keys)
        return self.plots_bottom + (0.08 + FOOT_LINE * remarks if remarks else 0.0)


def decide_curves(curves: Curves) -> CurvesLayout:
    """Lay plots out; the names of curves need as much room beside each as the longest."""
    names = {series.name for plot in curves.plots for series in plot.series if series.name}
    widest = max((text_width(name, SMALL) for name in names), default=0.0)
    return CurvesLayout(curves, _LEADER + widest if names else 0.0)


def draw_curves(sheet: Sheet, x: float, y: float, layout: CurvesLayout, room: float) -> None:
    """Draw all plots with their keys, the top left corner at (x, y), in at most ``room`` inches."""
    for number, plot in enumerate(layout.curves.plots):
        left, top = layout.place(number)
        draw_plot(sheet, (x + left, y + top, *layout.curves.size), plot)
    if layout.keys_in_row:
        _draw_key_row(sheet, x, y + 0.06, layout)
        return
    for i, key in enumerate(layout.curves.keys):
        middle = y + layout.plots_bottom + 0.08 + FOOT_LINE * (i + 0.5)
        sheet.write(x, middle, key.name, SMALL, colour=colour_of(key.colour))
        left = layout.names + 0.1
        sheet.write(x + left, middle, fit_text(key.remark, room - left, SMALL), SMALL)


def _draw_key_row(sheet: Sheet, x: float, y: float, layout: CurvesLayout) -> None:
    for key in layout.curves.keys:
        sheet.page.plot([x, x + 0.25], [y, y], color=colour_of(key.colour), linestyle=_LINES[key.line])
        sheet.write(x + 0.32, y, key.name, BODY)
        x += 0.32 + text_width(key.name, BODY) + 0.3


def draw_plot(sheet: Sheet, box: tuple[float, float, float, float], plot: Plot) -> None:
    """One plot, its axes in a box of left, top, width and height, in inches."""
    axes = sheet.plot_axes(*box, plot.title)
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)  # or it would hide what is drawn on the page: leaders and marks
    if plot.x.log:
        axes.set_xscale("log", base=plot.x.log)
    if plot.y.log:
        axes.set_yscale("log", base=plot.y.log)
    has_names = any(series.name for series in plot.series)
    for series in plot.series:
        if points := _points(series, plot.y):
            marker = "" if series.marker is None else _MARKERS[series.marker % len(_MARKERS)]
            xs, ys = zip(*points, strict=True)
            axes.plot(
                xs, ys, color=colour_of(series.colour), marker=marker, linestyle=_LINES[series.line], linewidth=1.2,
                markersize=3.5 if has_names else 3, clip_on=False, label=series.name,
            )  # fmt: skip
    if has_names:
        _finish_with_names(sheet, axes, box, plot)
    else:
        _finish(axes, plot)


def _points(series: Series, y: Axis) -> list[tuple[float, float]]:
    """Those that are there, and that the axis can show."""
    points = zip(series.xs, series.ys, strict=True)
    return [(x, value) for x, value in points if value is not None and not (y.log and value <= 0)]


def _finish(axes: Axes, plot: Plot) -> None:
    """Axes as matplotlib labels them, as far as the plot leaves that open."""
    axes.set_xlabel(plot.x.label, size=BODY)
    axes.set_xlim(*plot.x.limits)
    axes.set_ylim(*plot.y.limits)
    if plot.x.ticks:
        axes.set_xticks(plot.x.ticks)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.minorticks_off()
    if plot.y.log:
        axes.yaxis.set_major_locator(LogLocator(plot.y.log, (1.0, 2.0, 5.0) if plot.y.log == 10 else (1.0,)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if not plot.x.log:
        axes.grid(True, color=_GRID, linewidth=0.6)


@dataclass(frozen=True)
class _Place:
    """Where axes stand on their sheet, in inches, and what they show; both are logarithmic."""

    left: float
    top: float
    width: float
    height: float
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]

    def of(self, x: float, y: float) -> tuple[float, float]:
        """A point of the plot in inches on the sheet."""
        across = math.log(x / self.x_limits[0]) / math.log(self.x_limits[1] / self.x_limits[0])
        up = math.log(y / self.y_limits[0]) / math.log(self.y_limits[1] / self.y_limits[0])
        return self.left + across * self.width, self.top + (1 - up) * self.height


def _finish_with_names(sheet: Sheet, axes: Axes, box: tuple[float, float, float, float], plot: Plot) -> None:
    """Logarithmic axes that end a little beyond the points, the names of curves, and marks.

    If none of the curves has points, that is said.
    """
    points = [point for series in plot.series for point in _points(series, plot.y)]
    ys = [y for _, y in points] or [1.0]
    xs = [x for x, _ in points] or list(plot.x.ticks)
    place = _Place(*box, (min(xs) / 1.12, max(xs) * 1.12), (min(ys) / 1.6, max(ys) * 1.6))
    axes.set_xlim(place.x_limits)
    axes.set_ylim(place.y_limits)
    axes.set_xlabel(plot.x.label, size=SMALL, labelpad=2)
    _label_x(axes, place, [x for x in plot.x.ticks if place.x_limits[0] <= x <= place.x_limits[1]])
    _label_y(axes, place.y_limits, plot.y)
    axes.grid(True, color=_GRID, linewidth=0.6)
    if points:
        _write_names(sheet, place, [(_points(series, plot.y), series) for series in plot.series])
    else:
        left, top, width, height = box
        sheet.write(left + width / 2, top + height / 2, "nothing was measured", BODY, colour=QUIET, align="center")
    for x, y, text in plot.marks:
        _mark(sheet, place, x, y, text)


def _mark(sheet: Sheet, place: _Place, x: float, y: float, text: str) -> None:
    """A ring around a point, a thin line from it down to its x, and a remark beside that; nothing outside the plot."""
    if not (place.x_limits[0] <= x <= place.x_limits[1] and place.y_limits[0] <= y <= place.y_limits[1]):
        return
    across, down = place.of(x, y)
    bottom = place.top + place.height
    sheet.page.plot([across, across], [down, bottom], color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    sheet.page.plot([across], [down], "o", markersize=8, markerfacecolor="none", markeredgecolor=INK)
    beside = 0.09 if across + 0.2 < place.left + place.width else -0.09
    sheet.write(across + beside, bottom - 0.05, text, SMALL, rotation=90)


def _label_x(axes: Axes, place: _Place, ticks: Sequence[float]) -> None:
    """As many of the lengths as fit beside each other."""
    labels = [f"{tick:,.0f}" for tick in ticks]
    places = [place.of(tick, place.y_limits[0])[0] for tick in ticks]
    fitting = 0
    for fitting in range(len(ticks), 0, -1):
        step = every(len(ticks), fitting)
        ends = [(x, text_width(label, SMALL) / 2) for x, label in zip(places, labels, strict=True)][::step]
        if all(x - half > before + other + 0.06 for (before, other), (x, half) in pairwise(ends)):
            break
    step = every(len(ticks), fitting)
    axes.set_xticks(ticks[::step], labels[::step])
    axes.xaxis.minorticks_off()


def _label_y(axes: Axes, limits: tuple[float, float], axis: Axis) -> None:
    base, unit = axis.log or 10, axis.unit or "{:g}".format
    first, last = (math.log(limit, base) for limit in limits)
    powers = range(math.ceil(first), math.floor(last) + 1)
    step = next(step for step in (1, 2, 3, 5, 10, 20, 50, 100, 200) if len(powers) <= _MOST_TICKS * step)
    ticks = [float(base) ** power for power in powers if power % step == 0]
    if len(ticks) < 3 and base == 10:  # too few to read the scale by
        finer = [digit * 10.0**power for power in range(math.floor(first), powers.stop) for digit in (1, 2, 5)]
        ticks = [tick for tick in finer if limits[0] <= tick <= limits[1]]
    axes.set_yticks(ticks, [re.sub(r"\.0+ ", " ", unit(tick)) for tick in ticks])
    axes.yaxis.minorticks_off()


def _write_names(sheet: Sheet, place: _Place, curves: Sequence[tuple[list[tuple[float, float]], Series]]) -> None:
    """Each beside the last point of its curve, moved apart where they would touch."""
    named = [(place.of(*points[-1]), series) for points, series in curves if series.name and points]
    named.sort(key=lambda item: item[0][1])
    heights = spread([y for (_, y), _ in named], _LINE, place.top, place.top + place.height)
    right = place.left + place.width
    for ((x, y), series), height in zip(named, heights, strict=True):
        gap, colour = 3.5 / POINTS, colour_of(series.colour)
        sheet.page.plot(
            [x + gap, right + _LEADER - 0.08, right + _LEADER - 0.02], [y, height, height], color=colour,
            linewidth=0.5, alpha=0.6,
        )  # fmt: skip
        sheet.write(right + _LEADER, height, series.name, SMALL, colour=colour)


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
