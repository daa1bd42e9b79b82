"""Plots of curves side by side, each with a legend, or all with one key."""

import re
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from mhaviz.pages.blocks import Curves, Plot, PlotAxis, Series
from mhaviz.views.figure.sheet import BODY, FOOT_LINE, INK, QUIET, SMALL, Sheet, fit_text, text_width

# Apart for eyes of every kind, and in grey by their markers. After Okabe and Ito 2008, darkened for thin lines.
_COLOURS = ("#c2410c", "#a67c00", "#1d4e89", "#00806a", "#93418c")
_MARKERS = ("o", "s", "^", "D", "v")
_LINES = {"solid": "-", "dashed": "--", "dotted": ":"}
_GRID = "#e6e6e6"
_LEADER = 0.42  # inches from a plot to the names in its legend
_MOST_TICKS, _FEW_DECADES = 7, 3
_BESIDE_TICK = 0.06  # inches between the labels of two ticks
_TITLE, _KEYS, _OVER_REMARKS = 0.21, 0.3, 0.08  # inches: over axes, over all plots for keys, over remarks on keys


def _colour(number: int | None) -> str:
    """The colour of a series or a key."""
    return QUIET if number is None else _COLOURS[number % len(_COLOURS)]


@dataclass(frozen=True)
class CurvesPart:
    """Where plots stand, in inches from the top left corner of all of them.

    Attributes:
        places: the top left corners of their axes, then of those of one more plot.
        names: room for the names of curves beside each plot; 0: they have none.
        free: the top left corner of an empty place in the last row, if there is one.
        plots_bottom: what is below the labels of the last row.
        has_remarks: whether keys stand one below the other under the plots, not side by side over them.
        width, bottom: with names, labels and keys.
    """

    curves: Curves
    places: tuple[tuple[float, float], ...]
    names: float
    free: tuple[float, float] | None
    plots_bottom: float
    has_remarks: bool
    width: float
    bottom: float

    after = 0.08

    def height(self, _: float) -> float:
        """In inches."""
        return self.bottom

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """With its top left corner at (x, y), in at most ``room`` inches."""
        for (left, top), plot in zip(self.places, self.curves.plots, strict=False):
            draw_plot(sheet, (x + left, y + top, *self.curves.size), plot)
        along = x
        for i, key in enumerate(self.curves.keys):
            colour = _colour(key.colour)
            if self.has_remarks:
                middle = y + self.plots_bottom + _OVER_REMARKS + FOOT_LINE * (i + 0.5)
                sheet.write(x, middle, key.name, SMALL, colour=colour)
                left = self.names + 0.1
                sheet.write(x + left, middle, fit_text(key.remark, room - left, SMALL), SMALL)
            else:
                sheet.page.plot([along, along + 0.25], [y + 0.06] * 2, color=colour, linestyle=_LINES[key.line])
                sheet.write(along + 0.32, y + 0.06, key.name, BODY)
                along += 0.32 + text_width(key.name, BODY) + 0.3


def decide_curves(curves: Curves) -> CurvesPart:
    """Lay plots out; the names of curves need as much room beside each as the longest."""
    (across, down), n_plots, columns = curves.size, len(curves.plots), curves.columns
    named = {series.name for plot in curves.plots for series in plot.series if series.name}
    names = _LEADER + max(text_width(name, SMALL) for name in named) if named else 0.0
    # To the left of axes, from one plot to the next, from one row to the next, below the last row.
    left, beside, between, below = (0.6, 0.75, 0.85, 0.42) if named else (0.4, 0.65, 0.75, 0.51)
    has_remarks = any(key.remark for key in curves.keys)
    top = _TITLE + (_KEYS if curves.keys and not has_remarks else 0.0)
    places = tuple(
        (left + column * (across + beside + names), top + row * (down + between))
        for row, column in (divmod(i, columns) for i in range(n_plots + 1))
    )
    free = (places[-1][0] - left, places[-1][1] - 0.1) if n_plots % columns else None
    bottom = places[-2][1] + down + below
    height = bottom + (_OVER_REMARKS + FOOT_LINE * len(curves.keys) if has_remarks else 0.0)
    width = places[columns - 1][0] + across + (names + 0.15 if named else 0.0)
    return CurvesPart(curves, places, names, free, bottom, has_remarks, width, height)


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
                xs, ys, color=_colour(series.colour), marker=marker, linestyle=_LINES[series.line], linewidth=1.2,
                markersize=3.5 if has_names else 3, clip_on=False, label=series.name,
            )  # fmt: skip
    if has_names:
        _finish_with_names(sheet, axes, plot)
    else:
        _finish(axes, plot)


def _points(series: Series, y: PlotAxis) -> list[tuple[float, float]]:
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


def _finish_with_names(sheet: Sheet, axes: Axes, plot: Plot) -> None:
    """Logarithmic axes that end a little beyond the points, the names of curves, and marks.

    If none of the curves has points, that is said.
    """
    points = {series.name: there for series in plot.series if (there := _points(series, plot.y))}
    xs = [x for there in points.values() for x, _ in there] or list(plot.x.ticks)
    ys = [y for there in points.values() for _, y in there] or [1.0]
    limits = min(ys) / 1.6, max(ys) * 1.6
    axes.set_xlim(min(xs) / 1.12, max(xs) * 1.12)
    axes.set_ylim(limits)
    axes.set_xlabel(plot.x.label, size=SMALL, labelpad=2)
    base, unit = plot.y.log or 10, plot.y.unit or "{:g}".format
    is_short = base == 10 and limits[1] < 10**_FEW_DECADES * limits[0]
    powers = plot.x.log or 10
    has_power = max(xs) >= powers * min(xs)
    apart = text_width(f"{max(xs):,.0f}", SMALL) + _BESIDE_TICK
    by_powers = LogLocator(powers, numticks=int(axes.bbox.width / sheet.dpi / apart))
    axes.xaxis.set_major_locator(by_powers if has_power else FixedLocator(sorted(set(xs)), nbins=4))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(base, (1.0, 2.0, 5.0) if is_short else (1.0,), numticks=_MOST_TICKS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: re.sub(r"\.0+ ", " ", unit(y))))
    axes.xaxis.minorticks_off()
    axes.yaxis.minorticks_off()
    axes.grid(True, color=_GRID, linewidth=0.6)
    if points:
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        names = sorted(handles, key=lambda name: -points[name][-1][1])  # as their curves end
        axes.legend(
            [handles[name] for name in names], names, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
            fontsize=SMALL, handlelength=1.6, labelspacing=0.5,
        )  # fmt: skip
    else:
        middle = _place(sheet, axes.transAxes.transform((0.5, 0.5)))
        sheet.write(*middle, "nothing was measured", BODY, colour=QUIET, align="center")
    for x, y, text in plot.marks:
        if axes.viewLim.contains(x, y):
            _mark(sheet, axes, x, y, text)


def _mark(sheet: Sheet, axes: Axes, x: float, y: float, text: str) -> None:
    """A ring around a point, a thin line from it down to its x, and a remark beside that."""
    across, down = _place(sheet, axes.transData.transform((x, y)))
    right, bottom = _place(sheet, axes.transAxes.transform((1, 0)))
    sheet.page.plot([across, across], [down, bottom], color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    sheet.page.plot([across], [down], "o", markersize=8, markerfacecolor="none", markeredgecolor=INK)
    beside = 0.09 if across + 0.2 < right else -0.09
    sheet.write(across + beside, bottom - 0.05, text, SMALL, rotation=90)


def _place(sheet: Sheet, pixels: NDArray[np.float64]) -> tuple[float, float]:
    """Where on the sheet a pixel is, in inches."""
    x, y = sheet.page.transData.inverted().transform(pixels)
    return float(x), float(y)
