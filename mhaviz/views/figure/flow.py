"""Flow charts of steps: a box for every tensor, with arrows from the tensors that it is computed from."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from mhaviz.pages.blocks import Flow
from mhaviz.pages.trace import shape_text
from mhaviz.results.trace import TraceStep
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, POINTS, SMALL
from mhaviz.views.tiles.labels import LEAST_LABEL

WIDTH = 2.45  # inches of a box
BESIDE, _LEAST_BESIDE = 0.3, 0.15  # inches between two boxes side by side
_INSET, _BETWEEN_TEXTS = 0.07, 0.1  # inches of a box left and right of its texts, and between two in a line
_PER_LETTER = 1.18  # least height of a line / size of its letters
_LINE, _LEAST_LINE = 0.1835, LEAST_LABEL * _PER_LETTER / POINTS  # inches of a line of text in a box
_AROUND, _BELOW, _BELOW_SHORT = 0.25, 1.2, 0.9  # lines: above and below the texts of a box, and between two boxes
_WIDER = 1.3  # most width of a box in a row of its own / width of the others, for letters above the least
_KEY, _LANE = 0.32, 0.09  # inches: the legend above all boxes, and from one arrow beside the boxes to the next
_EDGE, _PASSED, _ARROW = 0.7, 1.4, 0.9  # points: outlines of boxes, also of those that an element passes, and arrows
_LEAST_HEAD = 0.03  # inches of the head of an arrow
_EQUATION, _DETAILS = 0.94, 0.82  # letters of an equation, and of axes and costs / those of a name
_BETWEEN_ENTRIES = 0.2  # inches between entries of the legend
_ELSEWHERE = "#f2f2f2"  # fill of the names of steps of other parts
_HAIR = 1e-6  # inches, for rounding errors
_DASHED = (0, (4, 2))
_KEYS: dict[str, "_Entry"] = {
    "computed": ("#e8eef7", "-", "computed: new numbers"),
    "copy": ("#fdf0d5", "-", "copy: numbers moved"),
    "view": ("#ffffff", "-", "view: numbers in place"),
    "strided": ("#ffffff", _DASHED, "dashed: strided"),
}
_FOLLOWED = "orange: the way of the followed element, and its coordinates"


_Entry = tuple[str, Any, str]
"""Entry of the legend: fill, line style and meaning, which is that of orange outlines where it is ``_FOLLOWED``."""

Places = Mapping[str, tuple[float, int]]
"""Place of each box: columns from the left, which may be fractions, and rows from the top."""


def decide_flow(steps: Sequence[TraceStep]) -> Places:
    """Return the place of each step: one row below the lowest step that it reads, centred below those that it reads."""
    rows: dict[str, int] = {}
    for step in steps:
        rows[step.name] = 1 + max((rows[name] for name in step.inputs), default=-1)
    by_row = [[s for s in steps if rows[s.name] == row] for row in range(max(rows.values()) + 1)]
    widest = max(range(len(by_row)), key=lambda row: len(by_row[row]))
    columns = {step.name: float(i) for i, step in enumerate(by_row[widest])}
    for row in range(widest + 1, len(by_row)):  # downwards: under what they read
        for step in by_row[row]:
            columns[step.name] = sum(columns[name] for name in step.inputs) / len(step.inputs)
    for row in range(widest - 1, -1, -1):  # upwards: over what reads them
        for step in by_row[row]:
            readers = [columns[s.name] for s in steps if step.name in s.inputs and s.name in columns]
            columns[step.name] = sum(readers) / len(readers) if readers else 0.0
    return {name: (columns[name], rows[name]) for name in columns}


@dataclass(frozen=True)
class _Measure:
    """Sizes of a chart.

    Attributes:
        places: places of the boxes.
        width: inches of a box.
        beside: inches between two boxes side by side.
        line: inches of a line of text in a box.
        is_short: whether the equation stands beside the name, in boxes that have a row to themselves.
    """

    places: Places
    width: float
    beside: float = BESIDE
    line: float = _LINE
    is_short: bool = False

    @cached_property
    def short(self) -> Set[str]:
        """Names of the steps whose equation stands beside the name."""
        return _alone(self.places) if self.is_short else frozenset()

    @property
    def below(self) -> float:
        """Inches between two boxes one below the other."""
        return (_BELOW_SHORT if self.is_short else _BELOW) * self.line

    @property
    def size(self) -> float:
        """Font size of a name in points."""
        return min(BODY, self.line * POINTS / _PER_LETTER)

    @property
    def across(self) -> float:
        """Inches of all boxes side by side."""
        return max(column for column, _ in self.places.values()) * (self.width + self.beside) + self.width


@dataclass(frozen=True)
class FlowPart(Part):
    """A flow chart of steps. The boxes that a followed element passes have its coordinates.

    Boxes, their letters and what is between them are smaller where the room asks for it. Where it is too narrow for
    boxes side by side, all stand in one column.

    Attributes:
        block: the steps. Of those of other parts that they read, or that read them, the names stand where they would.
        room: width in inches.
        tall: height in inches, which is exceeded where letters would be too small.
    """

    block: Flow
    room: float
    tall: float = math.inf

    is_picture = True

    @cached_property
    def _nodes(self) -> Sequence[TraceStep]:
        """The steps, between those of other parts that they read and those that read them."""
        steps = self.block.steps
        names, read = {step.name for step in steps}, {name for step in steps for name in step.inputs}
        before = [replace(step, inputs=()) for step in self.block.before if step.name in read]
        after = [replace(step, inputs=tuple(filter(names.__contains__, step.inputs))) for step in self.block.after]
        return [*before, *steps, *(step for step in after if step.inputs)]

    @cached_property
    def _notes(self) -> Mapping[str, str]:
        return {step.name: note for step, note in zip(self.block.steps, self.block.notes, strict=True)}

    @property
    def places(self) -> Places:
        """Places of the boxes."""
        return self._measure.places

    @cached_property
    def _measure(self) -> _Measure:
        """The largest sizes for the room, first those of boxes side by side."""
        by_column, column = decide_flow(self._nodes), {step.name: (0.0, row) for row, step in enumerate(self._nodes)}
        free = self._beside_lanes(column)
        choices = [[_Measure(column, min(WIDTH, free))]]
        if self._is_short and (wide := max(self._needed(step, is_short=True) for step in self._nodes)) <= free:
            choices[0].append(_Measure(column, max(wide, min(WIDTH, free)), is_short=True))
        if _are_apart(by_column):
            n = max(place for place, _ in by_column.values()) + 1
            beside = BESIDE if n * (WIDTH + BESIDE) - BESIDE <= self.room else _LEAST_BESIDE
            width, alone = min((self.room + beside) / n - beside, WIDTH), _alone(by_column)
            least = max((self._needed(step) for step in self._nodes if step.name not in alone), default=0.0)
            if beside == BESIDE or least <= width:
                shapes = (False, True) if self._is_short else (False,)
                choices.insert(0, [_Measure(by_column, width, beside, is_short=is_short) for is_short in shapes])
        fitted = [[replace(one, line=self._line(one)) for one in alike] for alike in choices]
        fitting = ([one for one in alike if self._height(one) <= self.tall + _HAIR] for alike in fitted)
        if largest := next(filter(None, fitting), None):
            return max(largest, key=lambda one: one.line)
        return min((one for alike in fitted for one in alike), key=self._height)

    @property
    def _is_short(self) -> bool:
        """Whether equations may stand beside names, as the height is limited."""
        return math.isfinite(self.tall)

    def _width_alone(self, step: TraceStep, one: _Measure) -> float:
        """Return the inches of a box that no other stands beside."""
        is_short = step.name in one.short
        least, wanted = (self._needed(step, is_short, size) for size in (LEAST_LABEL, one.size))
        most = _WIDER * one.width if any(column for column, _ in one.places.values()) else one.width
        return max(one.width, least, min(wanted, most))

    def _needed(self, step: TraceStep, is_short: bool = False, size: float = LEAST_LABEL) -> float:
        """Return the inches of a step's box with letters of a size; ``is_short``: with the equation beside the name."""
        shape, name, equation, visit, axes, note = (
            text_width(text, max(size * share, LEAST_LABEL), bold=share == 1.0) + _BETWEEN_TEXTS
            for text, share in (
                (shape_text(step.shape), 1.0),
                (step.name, 1.0),
                (f"= {step.equation}", _EQUATION),
                (self.block.visits.get(step.name, ""), _EQUATION),
                (" × ".join(step.axes), _DETAILS),
                (self._notes.get(step.name, ""), _DETAILS),
            )
        )
        lines = (name + equation + shape, axes + visit) if is_short else (name + shape, equation + visit, axes)
        return (max(*lines, note) - _BETWEEN_TEXTS) * DRAWN_WIDER + 2 * _INSET

    def _beside_lanes(self, column: Places) -> float:
        """Return the inches that boxes in one column have beside their lanes."""
        lanes = self._lanes_of(column)
        return self.room - _LANE * (1 + max(lanes.values())) if lanes else self.room

    def _line(self, one: _Measure) -> float:
        """Return the inches of a line with which a chart is as tall as it may be."""
        lines = (self._height(replace(one, line=1.0)) - self._over) or 1.0
        return min(max((self.tall - self._over) / lines, _LEAST_LINE), _LINE)

    def _tops(self, one: _Measure) -> list[float]:
        """Return where each row begins, and where the last one ends, with the space below it."""
        heights = [0.0] * (1 + max(row for _, row in one.places.values()))
        for step in self._nodes:
            row = one.places[step.name][1]
            heights[row] = max(heights[row], self._box_height(step, one) + one.below)
        return [self._over + sum(heights[:row]) for row in range(len(heights) + 1)]

    def _height(self, one: _Measure) -> float:
        return self._tops(one)[-1] - one.below

    def _box_height(self, step: TraceStep, one: _Measure) -> float:
        """Return the inches of a box, which is as high as its texts."""
        is_short = step.name in one.short
        n_lines = 3 - is_short + bool(self._notes[step.name]) if step.name in self._notes else 1
        return (n_lines + _AROUND) * one.line

    @property
    def _lanes(self) -> Mapping[tuple[str, str], int]:
        """Lane of each arrow that passes other boxes of a single column, counted from the boxes."""
        return self._lanes_of(self.places)

    def _lanes_of(self, places: Places) -> Mapping[tuple[str, str], int]:
        if any(column for column, _ in places.values()):
            return {}
        ends: list[int] = []  # row where the last arrow of each lane ends
        lanes: dict[tuple[str, str], int] = {}
        past = [
            (places[name][1], row, name, step.name)
            for row, step in enumerate(self._nodes)
            for name in step.inputs
            if row - places[name][1] > 1
        ]
        for first, last, *pair in sorted(past):
            free = next((lane for lane, end in enumerate(ends) if end < first), len(ends))
            ends[free : free + 1] = [last]
            lanes[pair[0], pair[1]] = free
        return lanes

    @cached_property
    def _key(self) -> list[list[_Entry]]:
        """Lines of the legend, which says what fills and outlines of boxes mean."""
        lines: list[list[_Entry]] = [[]]
        followed: list[_Entry] = [("#ffffff", "-", _FOLLOWED)] if self.block.visits else []
        for entry in [*_KEYS.values(), *followed]:
            if lines[-1] and sum(map(_entry_width, [*lines[-1], entry])) - _BETWEEN_ENTRIES > self.room:
                lines.append([])
            lines[-1].append(entry)
        return lines

    @property
    def _over(self) -> float:
        """Height of the legend in inches."""
        return _KEY + FOOT_LINE * (len(self._key) - 1)

    @property
    def width(self) -> float:
        """Width in inches."""
        lanes = _LANE * (1 + max(self._lanes.values())) if self._lanes else 0.0
        return self._measure.across + lanes

    def height(self, _: float) -> float:
        """Return the height in inches."""
        return self.heads_height

    @property
    def heads_height(self) -> float:
        """Height in inches: a chart gives way to what else is on a page, as heads do."""
        return self._height(self._measure)

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """Draw the chart with its top left corner at (x, y)."""
        block, one = self.block, self._measure
        tops, alone, boxes = self._tops(one), _alone(one.places), dict[str, _Box]()
        for step in self._nodes:
            column, row = one.places[step.name]
            is_wider = step.name in one.short or (step.name in alone and one.beside < BESIDE)
            wide = self._width_alone(step, one) if is_wider else one.width
            left = max(x + column * (one.width + one.beside) - (wide - one.width) / 2, x)
            boxes[step.name] = _Box(left, y + tops[row], wide, self._box_height(step, one))
        for i, line in enumerate(self._key):
            _draw_key(sheet, x, y + 0.1 + FOOT_LINE * i, line)
        _draw_arrows(sheet, self._nodes, one, boxes, set(block.visits), self._lanes)
        for step in self._nodes:
            box = boxes[step.name]
            if step.name not in self._notes:
                where = "a later" if step.inputs else "an earlier"  # only steps of this part are read here
                _draw_elsewhere(sheet, box, step, f"in {where} part", one)
                continue
            _draw_box(sheet, box, step, passed=step.name in block.visits)
            _write_step(sheet, box, step, self._notes[step.name], block.visits.get(step.name), one)


@dataclass(frozen=True)
class _Box:
    """A box on a sheet, in inches."""

    left: float
    top: float
    width: float
    height: float

    def line(self, number: int, line: float) -> float:
        """Return the middle of a line of its text."""
        return self.top + (number + 0.5 + _AROUND / 2) * line


def _are_apart(places: Places) -> bool:
    """Return whether no two boxes lie on each other."""
    by_row = sorted((row, column) for column, row in places.values())
    return all(row != other or right - left >= 1 for (row, left), (other, right) in pairwise(by_row))


def _alone(places: Places) -> set[str]:
    """Return the names of those that have a row to themselves."""
    in_row = Counter(row for _, row in places.values())
    return {name for name, (_, row) in places.items() if in_row[row] == 1}


def _frame(sheet: Sheet, box: _Box, line: float, **looks: Any) -> None:
    """Draw the outline of a box; ``line``: its thickness in points."""
    style = f"round,pad=0,rounding_size={min(box.height, box.width) / 10}"
    patch = FancyBboxPatch((box.left, box.top), box.width, box.height, boxstyle=style, linewidth=line * sheet.zoom)
    patch.set(**looks)
    sheet.page.add_patch(patch)


def _draw_box(sheet: Sheet, box: _Box, step: TraceStep, passed: bool) -> None:
    looks = {"facecolor": _KEYS[step.memory][0], "edgecolor": ACCENT if passed else QUIET}
    _frame(sheet, box, _PASSED if passed else _EDGE, linestyle="-" if step.contiguous else _DASHED, **looks)


def _draw_elsewhere(sheet: Sheet, box: _Box, step: TraceStep, where: str, one: _Measure) -> None:
    """Draw the name of a step that is drawn in another part."""
    _frame(sheet, box, 0.0, facecolor=_ELSEWHERE)
    left, y = box.left + _INSET, box.line(0, one.line)
    sheet.write(left, y, step.name, one.size, bold=True)
    left += text_width(step.name, one.size, bold=True) * DRAWN_WIDER + 0.08
    sheet.write(left, y, where, max(one.size * _DETAILS, LEAST_LABEL), colour=QUIET)


def _write_step(sheet: Sheet, box: _Box, step: TraceStep, note: str, visit: str | None, one: _Measure) -> None:
    """Write a step's name and shape, equation and the followed element's coordinates, axes, and costs."""
    size = one.size
    details, of_equation = (max(size * share, LEAST_LABEL) for share in (_DETAILS, _EQUATION))
    left, right, room = box.left + _INSET, box.left + box.width - _INSET, box.width - 2 * _INSET
    first, second, *others = (box.line(line, one.line) for line in range(4))

    shape, equation = shape_text(step.shape), f"= {step.equation}"
    beside, free = 0.0, room
    if step.name in one.short:
        others, second = [second, *others], first
        texts = (step.name, size, True), (equation, of_equation, False), (shape, size, True)
        shrunk = (room - 2 * _BETWEEN_TEXTS) / sum(text_width(text, points, bold=bold) for text, points, bold in texts)
        size, of_equation = (
            max(points * min(1.0, shrunk / DRAWN_WIDER), LEAST_LABEL) for points in (size, of_equation)
        )
        beside = text_width(step.name, size, bold=True) * DRAWN_WIDER + _BETWEEN_TEXTS
    elif visit:
        free -= text_width(visit, of_equation) + _BETWEEN_TEXTS
    sheet.write(left, first, step.name, size, bold=True).set_label(f"step {step.name}")
    spare = room - text_width(step.name, size, bold=True) - _BETWEEN_TEXTS
    sheet.write(
        right, first, shape, size * min(1.0, spare / text_width(shape, size, bold=True)), bold=True, align="right"
    )
    if not beside:
        of_equation = min(of_equation, size * free / text_width(equation, size))
    sheet.write(left + beside, second, equation, of_equation)
    if visit:
        sheet.write(right, others[0] if beside else second, visit, of_equation, colour=ACCENT, align="right")
    for y, text in zip(others, (" × ".join(step.axes), note), strict=False):
        sheet.write(left, y, fit_text(text, room, details), details, colour=QUIET)


def _draw_arrows(
    sheet: Sheet,
    steps: Sequence[TraceStep],
    one: _Measure,
    boxes: Mapping[str, _Box],
    passed: set[str],
    lanes: Mapping[tuple[str, str], int],
) -> None:
    head = max(one.below * 0.2, _LEAST_HEAD) * POINTS * sheet.zoom
    arrows = [(name, step.name) for step in steps for name in step.inputs]
    for pair in sorted(arrows, key=lambda pair: set(pair) <= passed):  # those of the element above all others
        begin, box = (boxes[name] for name in pair)
        w, h = box.width, box.height
        start = (begin.left + begin.width / 2, begin.top + begin.height)
        rows = [one.places[name][1] for name in pair]
        if pair in lanes:  # out at the right, down beside other boxes, and in again
            beside, end = box.left + w + _LANE * (lanes[pair] + 1), (box.left + w, box.top + h * 0.4)
            out = begin.top + begin.height * 0.6
            path = [(begin.left + begin.width, out), (beside, out), (beside, end[1]), end]
        elif rows[1] - rows[0] > 1:  # past other boxes: down, then in from the side
            side = box.left + w if begin.left > box.left else box.left
            path = [start, (start[0], box.top + h / 2), (side, box.top + h / 2)]
        else:
            end = (min(max(start[0], box.left + w * 0.25), box.left + w * 0.75), box.top)
            middle = box.top - one.below / 2
            path = [start, (start[0], middle), (end[0], middle), end]
        arrow = FancyArrowPatch(
            path=Path(path), arrowstyle="-|>,head_length=1,head_width=0.5", mutation_scale=head, joinstyle="miter",
            color=ACCENT if set(pair) <= passed else QUIET, linewidth=_ARROW * sheet.zoom,
        )  # fmt: skip
        arrow.set_label(" → ".join(pair))
        sheet.page.add_artist(arrow)


def _entry_width(entry: _Entry) -> float:
    return 0.22 + text_width(entry[2], SMALL) + _BETWEEN_ENTRIES


def _draw_key(sheet: Sheet, x: float, y: float, entries: Sequence[_Entry]) -> None:
    """Draw one line of the legend."""
    for fill, line, text in entries:
        width, colour = (_PASSED, ACCENT) if text == _FOLLOWED else (_EDGE, QUIET)
        _frame(sheet, _Box(x, y - 0.05, 0.16, 0.1), width, facecolor=fill, edgecolor=colour, linestyle=line)
        sheet.write(x + 0.22, y, text, SMALL, colour=QUIET)
        x += _entry_width((fill, line, text))
