"""Plots of curves side by side, with names at the ends of the curves, or in a legend where these are not apart."""

import math
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, product
from statistics import fmean

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator
from matplotlib.transforms import Bbox

from mhaviz.pages.blocks import Curves, Plot, PlotAxis, Series
from mhaviz.units import with_minus
from mhaviz.views.figure.measuring import fit_text, text_width, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, POINTS, SMALL
from mhaviz.views.style import Style

# Distinct with any colour blindness, and in grey by their markers. After Okabe and Ito 2008, darkened for thin lines.
_COLOURS = ("#c2410c", "#a67c00", "#1d4e89", "#00806a", "#93418c")
_MARKERS = ("o", "s", "^", "D", "v")
_LINES = {"solid": "-", "dashed": "--", "dotted": ":", "dash-dotted": "-."}
_GAPS = (0, (3.0, 3.0))  # of a curve on another one
_GRID = "#e6e6e6"
_LINE_WIDTH, _MARKER_SIZE = 1.2, 3.5  # points
_WIDER, _LARGER = 0.9, 1.0  # points by which a curve, and its markers, are larger for each curve that lies on it
_ON = 0.02  # inches between the points of curves that lie on each other
_LEGEND_LINE, _OVER_LEGEND = 0.14, 0.06  # inches: a line of the legend, above it
_HANDLE, _BETWEEN_NAMES = 1.6, 2.8  # of the legend, in sizes of its letters: a line, and all gaps of a name
_ABREAST = 3  # most plots side by side
_LEAST, _LEAST_NAMED = 1.9, 1.4  # inches: least width of axes, and of those with names at their side
_SHAPE, _LEAST_HIGH, _MOST_HIGH = 0.8, 1.6, 2.4  # axes: height / width, limits of the height
_HAIR = 0.01  # inches from the end of a curve to where a line to its name is beside the curve
_TO_NAME, _NAME_LINE = 0.05, 0.125  # inches from the axes to the name of a curve; between two names
_LEADER = 0.18  # inches of the lines from ends of curves to names that are not beside them
_FROM_END = 0.15  # inches from the end of a curve to a name in the axes that needs no line to it
_AROUND_END = sorted(  # inches from the end of a curve to names in the axes, the nearest first
    ((0.09 * i, 0.06 * j) for i, j in product(range(-10, 11), range(-15, 16)) if i or abs(j) > 1),
    key=lambda place: math.hypot(*place),
)
_FARTHEST = 2 * _NAME_LINE  # inches between the end of a curve and its name: five names can share an end
_AT_END = 0.15  # inches that a label may extend beyond the axes
_AROUND_TEXT = 0.02  # inches around a label, where no line is
_UP = 0.05  # inches from the x axis to the lowest remark, and by which it goes up where a line is in its way
_BELOW_AXES = 4.0  # points from the least y to the x axis, which would cover a curve on it
_BEYOND_X = 1.12  # x of the ends of a logarithmic axis / x of the points
_BEYOND, _LEAST_TIMES = 0.03, 2.6  # of a logarithmic y axis: its ends beyond the points; its range, which has a tick
_MOST_TICKS, _FEW_DECADES = 7, 3
_AROUND = 0.05  # share of its range that a linear axis extends beyond the points
_BESIDE_TICK = 0.06  # inches between the labels of two ticks
_TITLE, _OVER_NOTES = 0.21, 0.08  # inches above axes, and above the notes, which are below them


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
        names: of each plot, the names at the ends of its curves; None: there is a legend instead.
        names_across: names of the legend side by side.
    """

    curves: Curves
    size: tuple[float, float]
    places: tuple[tuple[float, float], ...]
    plots_bottom: float
    across: float
    names: "Sequence[Sequence[Name]] | None" = None
    names_across: int = 1

    after = 0.08
    is_picture = True

    @property
    def at_ends(self) -> bool:
        """Whether names stand at the ends of curves; otherwise there is a legend."""
        return self.names is not None

    @property
    def legend_names(self) -> list[str]:
        """Names of the curves that are drawn, in the order of their ends in the first plot that has them."""
        return _legend_names(self.curves.plots)

    @property
    def _legend_lines(self) -> int:
        return 0 if self.at_ends else math.ceil(len(self.legend_names) / self.names_across)

    @property
    def width(self) -> float:
        """Width in inches."""
        return self.across

    def _notes(self, room: float) -> list[str]:
        """Return the lines of the notes: whole notes side by side where they have room, else wrapped."""
        lines = list[str]()
        for note in dict.fromkeys(note for plot in self.curves.plots for note in plot.notes):
            both = f"{lines[-1]}; {note}" if lines else note
            if lines and text_width(both, SMALL) * DRAWN_WIDER <= room:
                lines[-1] = both
            else:
                lines += wrap(note, room / DRAWN_WIDER, SMALL)
        return lines

    def height(self, room: float) -> float:
        """Return the height in inches."""
        lines = len(self._notes(room))
        return self.plots_bottom + (_OVER_NOTES + FOOT_LINE * lines) * bool(lines)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the plots with the top left corner at (x, y), in a width of ``room`` inches."""
        names = self.names or [()] * len(self.places)
        covered = {pair for plot in self.curves.plots for pair in _Frame(plot, self.size).on_each_other()}
        drawn = [
            draw_plot(sheet, (x + left, y + top, *self.size), plot, of_plot, covered)
            for (left, top), plot, of_plot in zip(self.places, self.curves.plots, names, strict=True)
        ]
        if self.names is None:
            bottom = y + self.plots_bottom - _LEGEND_LINE * self._legend_lines
            _legend(sheet, (x + self.places[0][0], bottom), self.legend_names, self.names_across, drawn)
        y += self.plots_bottom + _OVER_NOTES + FOOT_LINE / 2
        for text in self._notes(room):
            sheet.write(x, y, text, SMALL, colour=QUIET)
            y += FOOT_LINE


def decide_curves(curves: Curves, style: Style) -> CurvesPart:
    """Lay out plots in the width of the page, as many side by side as have their least width.

    Names stand at the ends of the curves if in every plot they have room there. Otherwise, a legend of all is below.
    """
    room = style.across
    plots = curves.plots
    names = {one.name for plot in plots for one in plot.series if one.name}
    has_units = any(plot.y.unit and plot.y.log for plot in plots)
    left, beside, below = (0.6, 0.75, 0.42) if has_units else (0.45, 0.65, 0.51)
    last = max(max(one.xs, default=1.0) for plot in plots for one in plot.series)
    at_end = max(text_width(f"{last:,.0f}", SMALL) / 2 * DRAWN_WIDER, _AT_END)
    to_end = _TO_NAME + max((_name_width(name) for name in names), default=0.0)

    def sizes(at_end: float, beside: float, least: float) -> tuple[int, float, float]:
        """Return how many plots stand side by side, and the width and the height of their axes."""
        widths = {n: (room - left - at_end + beside) / n - beside for n in range(1, min(len(plots), _ABREAST) + 1)}
        most = max((n for n, width in widths.items() if width >= least), default=1)
        columns = math.ceil(len(plots) / math.ceil(len(plots) / most))  # four stand as two and two
        return columns, widths[columns], min(max(_SHAPE * widths[columns], _LEAST_HIGH), _MOST_HIGH)

    at_ends: list[list[Name]] | None = None
    for leader in (0.0, _LEADER) if names else ():
        with_names = max(at_end, to_end + leader), left + max(beside - left, to_end + leader + _BESIDE_TICK)
        columns, *size = sizes(*with_names, _LEAST_NAMED)
        found = [name_places(plot, (size[0], size[1])) for plot in plots]
        placed = [names_of_plot for names_of_plot in found if names_of_plot is not None]
        at_ends = placed if size[0] >= _LEAST_NAMED and len(placed) == len(found) else None
        if at_ends is not None and not any(name.has_leader for of_plot in at_ends for name in of_plot):
            break
    if at_ends is not None:
        at_end, beside = with_names
    else:
        columns, *size = sizes(at_end, beside, _LEAST)
    across, down = size
    between = _TITLE + below
    places = tuple(
        (left + column * (across + beside), _TITLE + row * (down + between + 0.12))
        for row, column in (divmod(i, columns) for i in range(len(plots)))
    )
    bottom, width = places[-1][1] + down + below, places[columns - 1][0] + across + at_end
    if at_ends is not None:
        return CurvesPart(curves, (across, down), places, bottom, width, at_ends)
    names_of = _legend_names(plots)
    widest = max(map(_name_width, names_of), default=0.0) + (_HANDLE + _BETWEEN_NAMES) * SMALL / POINTS
    abreast = min(max(int((width - left) / widest), 1), max(len(names_of), 1))
    bottom += _OVER_LEGEND + _LEGEND_LINE * math.ceil(len(names_of) / abreast)
    return CurvesPart(curves, (across, down), places, bottom, width, None, abreast)


def _name_width(name: str) -> float:
    return text_width(name, SMALL) * DRAWN_WIDER


@dataclass(frozen=True)
class Name:
    """The name of a curve, in inches from the lower left corner of the axes.

    Attributes:
        series: the curve.
        end: its last point.
        left, middle: left end of the name, and the middle of its height.
        has_leader: whether a line leads from the end to the name, which is not beside it.
    """

    series: Series
    end: tuple[float, float]
    left: float
    middle: float
    has_leader: bool = False

    @property
    def box(self) -> Bbox:
        """The rectangle of the name."""
        return _box(self.left, self.middle, _name_width(self.series.name))

    @property
    def leader(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The line from beside the last point to the rectangle."""
        return self._leader(_TO_NAME)

    @property
    def way(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The line from the last point to the rectangle, without the point."""
        return self._leader(_HAIR)

    def _leader(self, beside: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the line that begins so many inches beside the last point."""
        (x, y), box = self.end, self.box
        to = (
            min(max(x, box.x0 - 0.02), box.x1 + 0.02),
            min(max(y, box.y0), box.y1) if box.x0 <= x <= box.x1 else self.middle,
        )
        share = min(beside / (math.hypot(to[0] - x, to[1] - y) or 1.0), 1.0)
        return (x + share * (to[0] - x), y + share * (to[1] - y)), to


def _box(left: float, middle: float, width: float) -> Bbox:
    return Bbox.from_bounds(left, middle - _NAME_LINE / 2, width, _NAME_LINE)


def _share(value: float, axis: PlotAxis, limits: tuple[float, float]) -> float:
    """Return where on its axis a value is, from 0 to 1."""
    low, high = limits
    return math.log(value / low) / math.log(high / low) if axis.log else (value - low) / (high - low)


_Look = tuple[str, int | None, int | None, str]
Covered = tuple[_Look, _Look]
"""The looks of a curve, and of another that lies on it."""


def _look(series: Series) -> _Look:
    """Return what tells a curve, which may be in many plots, from others."""
    return series.name, series.colour, series.marker, series.line


@dataclass(frozen=True)
class _Frame:
    """The axes of a plot, with their width and height in inches."""

    plot: Plot
    size: tuple[float, float]

    @cached_property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Ends of the x axis and of the y axis."""
        return _x_limits(self.plot), _limits(self.plot)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the inches of a point from the lower left corner."""
        return self.across(x), self.size[1] * _share(y, self.plot.y, self.limits[1])

    def across(self, x: float) -> float:
        """Return the inches of an x from the left."""
        return self.size[0] * _share(x, self.plot.x, self.limits[0])

    @cached_property
    def curves(self) -> dict[int, list[tuple[float, float]]]:
        """The known points of each series that has any, in inches, by the ``id`` of the series."""
        known = {id(series): _points(series, self.plot.y) for series in self.plot.series}
        return {i: [self.at(*point) for point in points] for i, points in known.items() if points}

    @cached_property
    def marks(self) -> list[tuple[float, float, str]]:
        """The marks in the axes, in inches."""
        (left, right), (low, high) = self.limits
        return [(*self.at(x, y), text) for x, y, text in self.plot.marks if left <= x <= right and low <= y <= high]

    @cached_property
    def lines(self) -> list[Path]:
        """Lines that a label must not cover: curves, sides of bands and spans, and those from marks down
        to the x axis."""
        marks = [[(x, 0.0), (x, y)] for x, y, _ in self.marks]
        bands = [
            [self.at(x, ends[side]) for x, ends in zip(series.xs, series.band, strict=True) if ends]
            for series in self.plot.series
            for side in range(2 * bool(series.band))
        ]
        spans = [self.across(x) for low, high, _ in self.plot.spans for x in (low, high)]
        sides = [[(x, 0.0), (x, self.size[1])] for x in spans]
        return [Path([*points, points[-1]]) for points in (*self.curves.values(), *bands, *marks, *sides) if points]

    def is_clear(self, name: Name) -> bool:
        """Return whether no line is between the end of a curve and its name."""
        path = Path(name.way)
        return not any(line.intersects_path(path, filled=False) for line in self.lines)

    def has_room(self, box: Bbox, taken: Iterable[Bbox], right: float = 0.0) -> bool:
        """Return whether a label lies in the axes, or left of ``right``, on no line and on no other label."""
        wide = box.padded(_AROUND_TEXT)
        is_inside = wide.x0 >= 0 and wide.y0 >= 0 and box.x1 <= max(self.size[0], right) and box.y1 <= self.size[1]
        return (
            is_inside
            and not any(line.intersects_bbox(wide, filled=False) for line in self.lines)
            and not any(wide.overlaps(other) for other in taken)
        )

    def on_each_other(self) -> "set[Covered]":
        """Return the pairs of curves, a lower and a later one, which lies on most of it."""
        pairs = set()
        for below, above in combinations(self.plot.series, 2):
            here, there = (dict(self.curves.get(id(series), [])) for series in (below, above))
            near = sum(abs(here[x] - there[x]) <= _ON for x in here.keys() & there.keys())
            if 2 * near > len(here) > 1:
                pairs.add((_look(below), _look(above)))
        return pairs


def name_places(plot: Plot, size: tuple[float, float]) -> list[Name] | None:
    """Return the names of the curves of a plot, at their ends.

    Beside the axes names keep the order of the ends and are moved apart as little as possible (isotonic regression);
    lines lead to those that are moved. A curve that ends before others has its name in the axes, where no line is.
    None: some name has no room.

    Args:
        plot: the plot.
        size: width and height of its axes in inches.
    """
    frame = _Frame(plot, size)
    ends = {i: points[-1] for i, points in frame.curves.items()}
    last = max((x for x, _ in ends.values()), default=0.0)
    named = [series for series in plot.series if series.name and id(series) in ends]
    early = [series for series in named if ends[id(series)][0] < last - _ON]
    beside = sorted((series for series in named if series not in early), key=lambda series: ends[id(series)][1])
    groups: list[list[float]] = []
    for i, series in enumerate(beside):
        groups.append([ends[id(series)][1] - i * _NAME_LINE])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    most = size[1] - (len(beside) - 1) * _NAME_LINE
    levels = [min(max(fmean(group), 0.0), most) for group in groups for _ in group]
    middles = [level + i * _NAME_LINE for i, level in enumerate(levels)]
    moved = [abs(middle - ends[id(series)][1]) for series, middle in zip(beside, middles, strict=True)]
    if max(moved, default=0.0) > _FARTHEST + 1e-9:
        return None
    has_leaders = any(one > 0.75 * _NAME_LINE for one in moved)  # two names can share an end without
    left = size[0] + _TO_NAME + _LEADER * has_leaders
    places = [
        Name(series, ends[id(series)], left, middle, has_leaders)
        for series, middle in zip(beside, middles, strict=True)
    ]
    for series in early:
        end, taken = ends[id(series)], [name.box for name in places]
        near = (_near(series, end, across, up) for across, up in _AROUND_END)
        free = (name for name in near if frame.has_room(name.box, taken))
        if (nearest := next(free, None)) is None:
            return None
        clear = next(filter(frame.is_clear, chain([nearest], free)), None)
        places.append(clear or replace(nearest, has_leader=True))
    return places


def _near(series: Series, end: tuple[float, float], across: float, up: float) -> Name:
    """Return the name of a curve beside its end, or centred above or below it."""
    width, far = _name_width(series.name), math.hypot(across, up)
    left = end[0] + (across if across > 0 else across - width if across < 0 else -width / 2)
    return Name(series, end, left, end[1] + up, far > _FROM_END)


def remark_places(plot: Plot, size: tuple[float, float], taken: Sequence[Bbox] = ()) -> list[tuple[str, Bbox]]:
    """Return the texts of the marks and spans of a plot, each with its rectangle in inches from the lower left corner
    of the axes: beside its line, as low as no line is in the way, upwards or, where that has no room, from left to
    right.

    Args:
        plot: the plot.
        size: width and height of its axes in inches.
        taken: the rectangles of other labels.
    """
    frame = _Frame(plot, size)
    texts = [(x, x, text) for x, _, text in frame.marks]
    texts += [(frame.across(low), frame.across(high), text) for low, high, text in plot.spans]
    right = max([size[0], *(box.x1 for box in taken)])
    places: list[tuple[str, Bbox]] = []
    for low, high, text in texts:
        long, wide = _name_width(text), _NAME_LINE - 0.02
        boxes = [
            Bbox.from_bounds(left, up * _UP, across, tall)
            for across, tall in ((wide, long), (long, wide))
            for up in range(1, int(size[1] / _UP))
            for left in (high + 0.03, low - 0.03 - across)
        ]
        others = [*taken, *(box for _, box in places)]
        inside = [box for box in boxes if box.x0 >= 0 and box.x1 <= right] or boxes
        places.append((text, next((box for box in inside if frame.has_room(box, others, right)), inside[0])))
    return places


def draw_plot(
    sheet: Sheet,
    box: tuple[float, float, float, float],
    plot: Plot,
    names: Sequence[Name] = (),
    covered: Set[Covered] | None = None,
) -> Axes:
    """Draw a plot with its axes in a box, (left, top, width, height) in inches, and return its axes.

    Logarithmic axes end a little beyond the points. Of curves that lie on each other the lower ones are wider, and
    the upper ones have gaps. Without points, the plot says that nothing was measured.

    Args:
        sheet: the sheet.
        box: where the axes are.
        plot: the plot.
        names: those at the ends of the curves.
        covered: the curves that lie on each other in this plot or in others beside it, as a curve looks the same in
            all; None: those in this plot.
    """
    frame = _Frame(plot, box[2:])
    covered = frame.on_each_other() if covered is None else covered
    right = max([box[2] + _AT_END, *(name.box.x1 for name in names)])
    axes = sheet.plot_axes(*box, fit_text(plot.title, right, BODY))
    axes.set_axisbelow(True)
    axes.set_zorder(-1)  # below the labels and marks, which are drawn on the page
    for series in plot.series:
        if there := _points(series, plot.y):
            xs, ys = zip(*there, strict=True)
            wider = sum(below == _look(series) for below, _ in covered)
            is_above = any(above == _look(series) and above[-1] == below[-1] == "solid" for below, above in covered)
            has_gaps = is_above and not wider
            axes.plot(
                xs, ys, color=_colour(series.colour), marker=_marker(series), label=series.name, clip_on=False,
                linestyle=_GAPS if has_gaps else _LINES[series.line],
                linewidth=(_LINE_WIDTH + _WIDER * wider) * sheet.zoom,
                markersize=(_MARKER_SIZE + _LARGER * wider) * sheet.zoom,
            )  # fmt: skip
        if any(series.band):
            known = [(x, *ends) for x, ends in zip(series.xs, series.band, strict=True) if ends is not None]
            along, lows, highs = zip(*known, strict=True)
            axes.fill_between(along, lows, highs, color=_colour(series.colour), alpha=0.18, linewidth=0)
    _finish(sheet, axes, frame)
    left, bottom = box[0], box[1] + box[3]
    for name in names:
        colour, at = _colour(name.series.colour), (left + name.left, bottom - name.middle)
        if name.has_leader:
            xs, ys = zip(*name.leader, strict=True)
            sheet.page.plot([left + x for x in xs], [bottom - y for y in ys], color=colour, linewidth=0.5 * sheet.zoom)
        _write_over(sheet, *at, name.series.name, colour)
    if not frame.curves:
        sheet.write(left + box[2] / 2, bottom - box[3] / 2, "nothing was measured", BODY, colour=QUIET, align="center")
    for x, y, _ in frame.marks:
        _mark(sheet, left + x, bottom - y, bottom)
    for low, high, _ in plot.spans:
        axes.axvspan(low, high, color=QUIET, alpha=0.18, linewidth=0)
    for text, place in remark_places(plot, frame.size, [name.box for name in names]):
        if place.width < place.height:
            _write_over(sheet, left + (place.x0 + place.x1) / 2, bottom - place.y0, text, INK, rotation=90)
        else:
            _write_over(sheet, left + place.x0, bottom - (place.y0 + place.y1) / 2, text, INK)
    return axes


def _write_over(sheet: Sheet, x: float, y: float, text: str, colour: str, rotation: float = 0.0) -> None:
    """Write a label with white behind it, which hides the grid."""
    label = sheet.write(x, y, text, SMALL, colour=colour, rotation=rotation)
    label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5 * sheet.zoom})


def _legend_names(plots: Sequence[Plot]) -> list[str]:
    ordered = list[str]()
    for plot in plots:
        ends = {series.name: there[-1][1] for series in plot.series if (there := _points(series, plot.y))}
        ordered += sorted(filter(None, ends), key=ends.__getitem__, reverse=True)
    return list(dict.fromkeys(ordered))


def _legend(sheet: Sheet, at: tuple[float, float], names: Sequence[str], across: int, plots: Sequence[Axes]) -> None:
    """Draw the legend of all plots, with its top left corner at (x, y)."""
    handles: dict[str, Artist] = {}
    for axes in plots:
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True)) | handles
    sheet.legend(
        [handles[name] for name in names], names, loc="upper left", bbox_to_anchor=at,
        bbox_transform=sheet.page.transData, ncols=across, frameon=False, fontsize=SMALL * sheet.zoom,
        handlelength=_HANDLE, columnspacing=1.8, handletextpad=0.6, labelspacing=0.3, borderpad=0, borderaxespad=0,
    )  # fmt: skip


def _points(series: Series, y: PlotAxis) -> list[tuple[float, float]]:
    """Return the points of a series that are known and that the axis can show."""
    points = zip(series.xs, series.ys, strict=True)
    return [(x, value) for x, value in points if value is not None and not (y.log and value <= 0)]


def _xs(plot: Plot) -> list[float]:
    """Return the x of the points that are known, or of all if none is."""
    return [x for one in plot.series for x, _ in _points(one, plot.y)] or [x for one in plot.series for x in one.xs]


def _x_limits(plot: Plot) -> tuple[float, float]:
    """Return the ends of the x axis."""
    low, high = min(_xs(plot), default=1.0), max(_xs(plot), default=1.0)
    return (low / _BEYOND_X, high * _BEYOND_X) if plot.x.log else _linear(plot.x, low, high)


def _linear(axis: PlotAxis, low: float, high: float) -> tuple[float, float]:
    """Return the ends of a linear axis: those that it is given, or a little beyond the points."""
    around = _AROUND * ((high - low) or abs(high) or 1.0)
    low, high = (
        end if given is None else given for given, end in zip(axis.limits, (low - around, high + around), strict=True)
    )
    return low, high


def _limits(plot: Plot) -> tuple[float, float]:
    """Return the ends of the y axis: those that the plot gives, or a little beyond its points and bands."""
    ys = [y for series in plot.series for _, y in _points(series, plot.y)]
    ys += [end for series in plot.series for ends in series.band for end in ends or ()]
    low, high = min(ys, default=1.0), max(ys, default=1.0)
    if plot.y.log:
        times = high / low
        beyond = max(times**_BEYOND, math.sqrt(_LEAST_TIMES / times))
        return low / beyond, high * beyond
    return _linear(plot.y, low, high)


def log_ticks(xs: Sequence[float], base: int, most: int) -> list[float]:
    """Return at most about ``most`` powers of a base between the least and the largest x, evenly spaced: from the least
    power on and, where they need not be much farther apart, up to the largest one. Some x, if these are fewer than two
    powers.
    """
    first = math.ceil(math.log(min(xs), base) - 1e-9)
    last = math.floor(math.log(max(xs), base) + 1e-9)
    if last <= first:
        return sorted(set(xs))
    step = math.ceil((last - first) / max(most - 1, 1))
    step = next((one for one in range(step, 2 * step) if (last - first) % one == 0), step)
    return [float(base**power) for power in range(first, last + 1, step)]


def _finish(sheet: Sheet, axes: Axes, frame: _Frame) -> None:
    """Set limits, ticks and labels."""
    plot, xs = frame.plot, _xs(frame.plot)
    axes.set_xlabel(plot.x.label, size=SMALL * sheet.zoom, labelpad=2)
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.spines["bottom"].set_position(("outward", _BELOW_AXES * sheet.zoom))
    if base := plot.x.log:
        axes.set_xscale("log", base=base)
        apart = text_width(f"{max(xs):,.0f}", SMALL) + _BESIDE_TICK
        ticks = log_ticks(xs, base, int(frame.size[0] / apart))
        axes.xaxis.set_major_locator(FixedLocator(ticks, nbins=None if max(xs) >= base * min(xs) else 4))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.minorticks_off()
    elif plot.x.unit:
        axes.xaxis.set_major_formatter(FuncFormatter(_tick_text(plot.x.unit)))
    (left, right), (low, high) = frame.limits
    axes.set_xlim(left, right)
    if base := plot.y.log:
        axes.set_yscale("log", base=base)
        is_short = base == 10 and high < 10**_FEW_DECADES * low
        axes.yaxis.set_major_locator(LogLocator(base, (1.0, 2.0, 5.0) if is_short else (1.0,), numticks=_MOST_TICKS))
        axes.yaxis.minorticks_off()
    if plot.y.log or plot.y.unit:
        axes.yaxis.set_major_formatter(FuncFormatter(_tick_text(plot.y.unit or "{:g}".format)))
    axes.set_ylim(low, high)


def _tick_text(unit: Callable[[float], str]) -> Callable[[float, object], str]:
    """Return what formats the numbers at ticks: without decimals that are zeros, "1 ms"."""
    return lambda number, _: re.sub(r"\.0+ ", " ", with_minus(unit(number)))


def _mark(sheet: Sheet, across: float, down: float, bottom: float) -> None:
    """Draw a ring around a point, and a thin line down to the x axis."""
    ends = [down, bottom + _BELOW_AXES / POINTS]
    sheet.page.plot([across, across], ends, color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    sheet.page.plot([across], [down], "o", markersize=8 * sheet.zoom, markerfacecolor="none", markeredgecolor=INK)
