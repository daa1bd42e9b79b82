"""Plots of curves side by side, with names at the ends of the curves, or in legends where these are not apart."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator
from numpy.typing import NDArray

from mhaviz.pages.blocks import Curves, Plot, PlotAxis, Series
from mhaviz.views.figure.measuring import fit_text, text_width, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, MARGIN, PAGE_WIDTH, SMALL
from mhaviz.views.style import Style

# Distinct with any colour blindness, and in grey by their markers. After Okabe and Ito 2008, darkened for thin lines.
_COLOURS = ("#c2410c", "#a67c00", "#1d4e89", "#00806a", "#93418c")
_MARKERS = ("o", "s", "^", "D", "v")
_LINES = {"solid": "-", "dashed": "--", "dotted": ":"}
_GRID = "#e6e6e6"
_SAMPLE, _LEGEND_LINE, _LEGEND_GAP = 0.32, 0.135, 0.4  # inches: a sample of a line, a line of a legend, above a legend
_ABREAST = 3  # most plots side by side
_LEAST, _SHAPE, _LEAST_HIGH, _MOST_HIGH = 1.9, 0.8, 1.6, 2.4  # axes: least width, height / width, limits of the height
_TO_NAME, _NAME_LINE = 0.05, 0.125  # inches from the axes to the name of a curve; between two names
_FARTHEST = 0.75 * _NAME_LINE  # inches between a name and the end of its curve: two names can share an end, not three
_AT_END = 0.15  # inches that a label may extend beyond the axes
_BEYOND, _LEAST_TIMES = 0.03, 2.6  # of a logarithmic axis: its ends beyond the points; its range, which has a tick
_MOST_TICKS, _FEW_DECADES = 7, 3
_AROUND = 0.05  # share of its range that a linear axis extends beyond the points
_BESIDE_TICK = 0.06  # inches between the labels of two ticks
_TITLE, _OVER_KEYS = 0.21, 0.08  # inches above axes, and above the shared legend and the notes, which are below them


def _colour(number: int | None) -> str:
    return QUIET if number is None else _COLOURS[number % len(_COLOURS)]


def _marker(series: Series) -> str:
    return "" if series.marker is None else _MARKERS[series.marker % len(_MARKERS)]


@dataclass(frozen=True)
class CurvesPart(Part):
    """Curves that have been laid out, in inches from the top left corner.

    Attributes:
        curves: the block.
        size: width and height of each plot's axes.
        places: top left corner of each plot's axes.
        plots_bottom: end of the last row of plots, with labels and legends.
        across: width of all plots with labels.
        at_ends: whether names stand at the ends of curves; otherwise there are legends.
    """

    curves: Curves
    size: tuple[float, float]
    places: tuple[tuple[float, float], ...]
    plots_bottom: float
    across: float
    at_ends: bool = False

    after = 0.08
    is_picture = True

    @property
    def width(self) -> float:
        """Width in inches."""
        return self.across

    @property
    def _shared(self) -> Mapping[str, str]:
        """The shared legend: of a page that has been divided, without the curves that it does not have."""
        drawn = set[str]() if self.at_ends else {one.name for plot in self.curves.plots for one in plot.series}
        return {name: remark for name, remark in self.curves.keys.items() if name in drawn}

    def _keys(self, room: float) -> list[list[str]]:
        """Return the remark of each key as lines that fit beside the longest name."""
        return [wrap(remark, room - self._beside, SMALL) for remark in self._shared.values()]

    def _notes(self, room: float) -> list[str]:
        return wrap(self.curves.notes, room / DRAWN_WIDER, SMALL) if self.curves.notes else []

    @property
    def _beside(self) -> float:
        return _SAMPLE + max(text_width(name, SMALL) for name in self._shared) * DRAWN_WIDER + 2 * _BESIDE_TICK

    def height(self, room: float) -> float:
        """Return the height in inches."""
        counts = sum(map(len, self._keys(room))), len(self._notes(room))
        return self.plots_bottom + sum((_OVER_KEYS + FOOT_LINE * lines) * bool(lines) for lines in counts)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the plots with the top left corner at (x, y), in a width of ``room`` inches."""
        plots, keys = self.curves.plots, self._shared
        for (left, top), plot in zip(self.places, plots, strict=True):
            draw_plot(sheet, (x + left, y + top, *self.size), plot, None if self.at_ends else keys)
        y += self.plots_bottom + _OVER_KEYS + FOOT_LINE / 2
        for name, lines in zip(keys, self._keys(room), strict=True):
            like = next(one for plot in plots for one in plot.series if one.name == name)
            colour = _colour(like.colour)
            sheet.page.plot([x, x + 0.25], [y, y], color=colour, linestyle=_LINES[like.line])
            sheet.page.plot([x + 0.125], [y], marker=_marker(like), color=colour, markersize=3.5 * sheet.zoom)
            sheet.write(x + _SAMPLE, y, name, SMALL, colour=colour)
            for text in lines:
                sheet.write(x + self._beside, y, text, SMALL)
                y += FOOT_LINE
        y += _OVER_KEYS * bool(keys)
        for text in self._notes(room):
            sheet.write(x, y, text, SMALL, colour=QUIET)
            y += FOOT_LINE


def decide_curves(curves: Curves, style: Style) -> CurvesPart:
    """Lay out plots in the width of the page, as many side by side as have their least width.

    Names stand at the ends of the curves if in every plot they are apart there, and no key has a remark. Otherwise,
    below each plot is a legend of the series that are not in the shared one.
    """
    room = (style.width or PAGE_WIDTH) - 2 * MARGIN
    named = max(len({one.name for one in plot.series if one.name}.difference(curves.keys)) for plot in curves.plots)
    has_units = any(plot.y.unit for plot in curves.plots)
    left, beside, below = (0.6, 0.75, 0.42) if has_units else (0.4, 0.65, 0.51)
    n_plots, last = len(curves.plots), max(max(one.xs, default=1.0) for plot in curves.plots for one in plot.series)
    at_end = max(text_width(f"{last:,.0f}", SMALL) / 2 * DRAWN_WIDER, _AT_END)
    columns = max(
        (n for n in range(1, min(n_plots, _ABREAST) + 1) if (room - left + beside) / n - beside >= _LEAST), default=1
    )

    def size(at_end: float, beside: float) -> tuple[float, float]:
        across = (room - left - at_end + beside) / columns - beside
        return across, min(max(_SHAPE * across, _LEAST_HIGH), _MOST_HIGH)

    names = {one.name for plot in curves.plots for one in plot.series if one.name}
    to_end = max((_TO_NAME + text_width(name, SMALL) * DRAWN_WIDER for name in names), default=0.0)
    with_names = max(at_end, to_end), left + max(beside - left, to_end + _BESIDE_TICK)
    across, down = size(*with_names)
    at_ends = bool(names) and not any(curves.keys.values()) and across >= _LEAST
    if at_ends := at_ends and all(name_places(plot, down) is not None for plot in curves.plots):
        (at_end, beside), named = with_names, 0
    else:
        across, down = size(at_end, beside)
    between = _TITLE + below + _LEGEND_LINE * named
    places = tuple(
        (left + column * (across + beside), _TITLE + row * (down + between + 0.12))
        for row, column in (divmod(i, columns) for i in range(n_plots))
    )
    bottom = places[-1][1] + down + below + _LEGEND_LINE * named
    return CurvesPart(curves, (across, down), places, bottom, places[columns - 1][0] + across + at_end, at_ends)


def name_places(plot: Plot, height: float) -> list[tuple[Series, float]] | None:
    """Return the named series of a plot, each with the inches of its name above the x axis: at the end of its curve.

    Names keep the order of the ends and are moved apart as little as possible (isotonic regression). None: some would
    be far from their ends, or a curve ends before others, which may pass there.

    Args:
        plot: the plot.
        height: height of its axes in inches.
    """
    there = {id(series): points for series in plot.series if (points := _points(series, plot.y))}
    named = [series for series in plot.series if series.name and id(series) in there]
    last = max((points[-1][0] for points in there.values()), default=0.0)
    if any(there[id(series)][-1][0] < last for series in named):
        return None
    low, high = _limits(plot)
    if plot.y.log:
        low, high = math.log(low), math.log(high)

    def above(series: Series) -> float:
        y = there[id(series)][-1][1]
        return height * ((math.log(y) if plot.y.log else y) - low) / (high - low)

    named.sort(key=above)
    groups: list[list[float]] = []
    for i, series in enumerate(named):
        groups.append([above(series) - i * _NAME_LINE])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    most = height - (len(named) - 1) * _NAME_LINE
    levels = [min(max(fmean(group), 0.0), most) for group in groups for _ in group]
    places = [(series, level + i * _NAME_LINE) for i, (series, level) in enumerate(zip(named, levels, strict=True))]
    return places if all(abs(place - above(series)) <= _FARTHEST for series, place in places) else None


def draw_plot(
    sheet: Sheet, box: tuple[float, float, float, float], plot: Plot, keys: Collection[str] | None = frozenset()
) -> None:
    """Draw a plot with its axes in a box, (left, top, width, height) in inches.

    ``keys``: names in the shared legend; None: names stand at the ends of the curves.

    Logarithmic axes end a little beyond the points. Without points, the plot says that nothing was measured.
    """
    axes = sheet.plot_axes(*box, fit_text(plot.title, box[2] + _AT_END, BODY))
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)  # or it would hide the marks and their lines, which are drawn on the page
    points = [_points(series, plot.y) for series in plot.series]
    for series, there in zip(plot.series, points, strict=True):
        if there:
            xs, ys = zip(*there, strict=True)
            axes.plot(
                xs, ys, color=_colour(series.colour), marker=_marker(series), linestyle=_LINES[series.line],
                linewidth=1.2 * sheet.zoom, markersize=3.5 * sheet.zoom, clip_on=False, label=series.name,
            )  # fmt: skip
        if any(series.band):
            known = [(x, *ends) for x, ends in zip(series.xs, series.band, strict=True) if ends is not None]
            along, lows, highs = zip(*known, strict=True)
            axes.fill_between(along, lows, highs, color=_colour(series.colour), alpha=0.18, linewidth=0)
    all_xs = [x for there in points for x, _ in there] or [x for series in plot.series for x in series.xs]
    _finish(sheet, axes, plot, all_xs)
    ends = {series.name: there[-1][1] for series, there in zip(plot.series, points, strict=True) if there}
    for series, place in (name_places(plot, box[3]) or []) if keys is None else []:
        at = box[0] + box[2] + _TO_NAME, box[1] + box[3] - place
        sheet.write(*at, series.name, SMALL, colour=_colour(series.colour))
    in_legend = [name for name in ends if name and keys is not None and name not in keys]
    names = sorted(in_legend, key=lambda name: -ends[name])
    if names:  # as their curves end
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        under = -_LEGEND_GAP * sheet.pixels / axes.bbox.height
        axes.legend(
            [handles[name] for name in names], names, loc="upper left", bbox_to_anchor=(-0.03, under),
            frameon=False, fontsize=SMALL * sheet.zoom, handlelength=1.6, labelspacing=0.3, borderpad=0,
        )  # fmt: skip
    if not ends:
        middle = _place(sheet, axes.transAxes.transform((0.5, 0.5)))
        sheet.write(*middle, "nothing was measured", BODY, colour=QUIET, align="center")
    for x, y, text in plot.marks:
        if axes.viewLim.contains(x, y):
            _mark(sheet, axes, x, y, text)
    for low, high, text in plot.spans:
        axes.axvspan(low, high, color=QUIET, alpha=0.18, linewidth=0)
        _write_up(sheet, axes, _place(sheet, axes.transData.transform((high, axes.viewLim.y0)))[0], text)


def _points(series: Series, y: PlotAxis) -> list[tuple[float, float]]:
    """Return the points of a series that are known and that the axis can show."""
    points = zip(series.xs, series.ys, strict=True)
    return [(x, value) for x, value in points if value is not None and not (y.log and value <= 0)]


def _limits(plot: Plot) -> tuple[float, float]:
    """Return the ends of the y axis: those that the plot gives, or a little beyond its points and bands."""
    ys = [y for series in plot.series for _, y in _points(series, plot.y)]
    ys += [end for series in plot.series for ends in series.band for end in ends or ()]
    low, high = min(ys, default=1.0), max(ys, default=1.0)
    if plot.y.log:
        times = high / low
        beyond = max(times**_BEYOND, math.sqrt(_LEAST_TIMES / times))
        return low / beyond, high * beyond
    around = _AROUND * ((high - low) or abs(high) or 1.0)
    low, high = (
        end if given is None else given for given, end in zip(plot.y.limits, (low - around, high + around), strict=True)
    )
    return low, high


def _finish(sheet: Sheet, axes: Axes, plot: Plot, xs: Sequence[float]) -> None:
    """Set limits, ticks and labels for points with these x."""
    axes.set_xlabel(plot.x.label, size=SMALL * sheet.zoom, labelpad=2)
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.set_xlim(*plot.x.limits)
    low, high = _limits(plot)
    if base := plot.x.log:
        axes.set_xscale("log", base=base)
        axes.set_xlim(min(xs) / 1.12, max(xs) * 1.12)
        apart = text_width(f"{max(xs):,.0f}", SMALL) + _BESIDE_TICK
        by_powers = LogLocator(base, numticks=int(axes.bbox.width / sheet.pixels / apart))
        has_power = max(xs) >= base * min(xs)
        axes.xaxis.set_major_locator(by_powers if has_power else FixedLocator(sorted(set(xs)), nbins=4))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.minorticks_off()
    if base := plot.y.log:
        axes.set_yscale("log", base=base)
        is_short = base == 10 and high < 10**_FEW_DECADES * low
        axes.yaxis.set_major_locator(LogLocator(base, (1.0, 2.0, 5.0) if is_short else (1.0,), numticks=_MOST_TICKS))
        unit = plot.y.unit or "{:g}".format
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: re.sub(r"\.0+ ", " ", unit(y))))
        axes.yaxis.minorticks_off()
    axes.set_ylim(low, high)


def _mark(sheet: Sheet, axes: Axes, x: float, y: float, text: str) -> None:
    """Draw a ring around a point, a thin line down to the x axis, and a remark beside it."""
    across, down = _place(sheet, axes.transData.transform((x, y)))
    _, bottom = _place(sheet, axes.transAxes.transform((1, 0)))
    sheet.page.plot([across, across], [down, bottom], color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    sheet.page.plot([across], [down], "o", markersize=8 * sheet.zoom, markerfacecolor="none", markeredgecolor=INK)
    _write_up(sheet, axes, across, text)


def _write_up(sheet: Sheet, axes: Axes, across: float, text: str) -> None:
    """Write a remark upwards from the x axis, beside a line at ``across`` inches."""
    right, bottom = _place(sheet, axes.transAxes.transform((1, 0)))
    beside = 0.09 if across + 0.2 < right else -0.09
    sheet.write(across + beside, bottom - 0.05, text, SMALL, rotation=90)


def _place(sheet: Sheet, pixels: NDArray[np.float64]) -> tuple[float, float]:
    """Return the place of a pixel on the sheet, in inches."""
    x, y = sheet.page.transData.inverted().transform(pixels)
    return float(x), float(y)
