"""Flow charts of steps: a box for every tensor, with arrows from the tensors that it is computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from mhaviz.pages.blocks import Flow
from mhaviz.pages.trace import shape_text
from mhaviz.results.trace import TraceStep
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, QUIET, Sheet
from mhaviz.views.measures import BODY, POINTS, SMALL

WIDTH, HEIGHT = 2.45, 0.78  # inches of a box
BESIDE, BELOW = 0.3, 0.22  # inches between two boxes
_KEY, _LANE = 0.32, 0.09  # inches: the legend above all boxes, and from one arrow beside the boxes to the next
_DASHED = (0, (4, 2))
_KEYS: dict[str, "_Entry"] = {
    "computed": ("#e8eef7", "-", "computed: new numbers"),
    "copy": ("#fdf0d5", "-", "copy: the same numbers, moved"),
    "view": ("#ffffff", "-", "view: the same numbers in place"),
    "strided": ("#ffffff", _DASHED, "dashed: strided"),
}


_Entry = tuple[str, Any, str]
"""Entry of the legend: fill, line style and meaning."""

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
class FlowPart(Part):
    """A flow chart of steps. The boxes that a followed element passes have its coordinates.

    Attributes:
        block: the steps.
        room: width in inches. Where it is too narrow for boxes side by side, all stand in one column.
    """

    block: Flow
    room: float

    @cached_property
    def places(self) -> Places:
        """Places of the boxes."""
        places = decide_flow(self.block.steps)
        if max(column for column, _ in places.values()) * (WIDTH + BESIDE) + WIDTH <= self.room:
            return places
        return {step.name: (0.0, row) for row, step in enumerate(self.block.steps)}

    @cached_property
    def _lanes(self) -> Mapping[tuple[str, str], int]:
        """Lane of each arrow that passes other boxes of a single column, counted from the boxes."""
        if any(column for column, _ in self.places.values()):
            return {}
        ends: list[int] = []  # row where the last arrow of each lane ends
        lanes: dict[tuple[str, str], int] = {}
        past = [
            (self.places[name][1], row, name, step.name)
            for row, step in enumerate(self.block.steps)
            for name in step.inputs
            if row - self.places[name][1] > 1
        ]
        for first, last, *pair in sorted(past):
            free = next((lane for lane, end in enumerate(ends) if end <= first), len(ends))
            ends[free : free + 1] = [last]
            lanes[pair[0], pair[1]] = free
        return lanes

    @cached_property
    def _key(self) -> list[list[_Entry]]:
        """Lines of the legend, which says what fills and outlines of boxes mean."""
        lines: list[list[_Entry]] = [[]]
        for entry in _KEYS.values():
            if lines[-1] and sum(map(_entry_width, [*lines[-1], entry])) > self.room:
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
        return max(column for column, _ in self.places.values()) * (WIDTH + BESIDE) + WIDTH + lanes

    def height(self, _: float) -> float:
        """Return the height in inches."""
        return self._over + max(row for _, row in self.places.values()) * (HEIGHT + BELOW) + HEIGHT

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """Draw the chart with its top left corner at (x, y)."""
        block, places = self.block, self.places
        corners = {
            name: (x + column * (WIDTH + BESIDE), y + self._over + row * (HEIGHT + BELOW))
            for name, (column, row) in places.items()
        }
        for i, line in enumerate(self._key):
            _draw_key(sheet, x, y + 0.1 + FOOT_LINE * i, line)
        _draw_arrows(sheet, block.steps, places, corners, set(block.visits), self._lanes)
        for step, note in zip(block.steps, block.notes, strict=True):
            left, top = corners[step.name]
            _draw_box(sheet, left, top, step, passed=step.name in block.visits)
            _write_step(sheet, left, top, step, note, block.visits.get(step.name))


def _draw_box(sheet: Sheet, left: float, top: float, step: TraceStep, passed: bool) -> None:
    box = FancyBboxPatch(
        (left, top),
        WIDTH,
        HEIGHT,
        boxstyle=f"round,pad=0,rounding_size={HEIGHT / 10}",
        facecolor=_KEYS[step.memory][0],
        edgecolor=ACCENT if passed else QUIET,
        linewidth=1.4 if passed else 0.7,
        linestyle="-" if step.contiguous else _DASHED,
    )
    sheet.page.add_patch(box)


def _write_step(sheet: Sheet, left: float, top: float, step: TraceStep, note: str, visit: str | None) -> None:
    """Write a step's name and shape, equation and the followed element's coordinates, axes, and costs."""
    inset, size = 0.07, BODY
    left, right, room = left + inset, left + WIDTH - inset, WIDTH - 2 * inset
    ys = [top + HEIGHT * (line + 0.62) / 4.25 for line in range(4)]

    sheet.write(left, ys[0], step.name, size, bold=True).set_label(f"step {step.name}")
    shape = shape_text(step.shape)
    spare = room - text_width(step.name, size, bold=True) - 0.1
    shrunk = min(1.0, spare / text_width(shape, size, bold=True))
    sheet.write(right, ys[0], shape, size * shrunk, bold=True, align="right")

    equation = f"= {step.equation}"
    sheet.write(left, ys[1], equation, min(size * 0.94, size * room / text_width(equation, size)))
    if visit:
        sheet.write(right, ys[1], visit, size * 0.94, colour=ACCENT, align="right")
    for y, text in zip(ys[2:], (" × ".join(step.axes), note), strict=True):
        sheet.write(left, y, fit_text(text, room, size * 0.82), size * 0.82, colour=QUIET)


def _draw_arrows(
    sheet: Sheet,
    steps: Sequence[TraceStep],
    places: Places,
    corners: Mapping[str, tuple[float, float]],
    passed: set[str],
    lanes: Mapping[tuple[str, str], int],
) -> None:
    w, h = WIDTH, HEIGHT
    head = BELOW * 0.2 * POINTS * sheet.zoom
    for step in steps:
        left, top = corners[step.name]
        for name in step.inputs:
            from_left, from_top = corners[name]
            start = (from_left + w / 2, from_top + h)
            if (name, step.name) in lanes:  # out at the right, down beside other boxes, and in again
                beside, end = left + w + _LANE * (lanes[name, step.name] + 1), (left + w, top + h * 0.4)
                out = from_top + h * 0.6
                path = [(from_left + w, out), (beside, out), (beside, end[1]), end]
            elif places[step.name][1] - places[name][1] > 1:  # past other boxes: down, then in from the side
                side = left + w if from_left > left else left
                path = [start, (start[0], top + h / 2), (side, top + h / 2)]
            else:
                end = (min(max(start[0], left + w * 0.25), left + w * 0.75), top)
                middle = (start[1] + end[1]) / 2
                path = [start, (start[0], middle), (end[0], middle), end]
            colour = ACCENT if {name, step.name} <= passed else QUIET
            arrow = FancyArrowPatch(
                path=Path(path), arrowstyle="-|>,head_length=1,head_width=0.5", mutation_scale=head,
                color=colour, linewidth=0.9, joinstyle="miter",
            )  # fmt: skip
            sheet.page.add_artist(arrow)


def _entry_width(entry: _Entry) -> float:
    return 0.22 + text_width(entry[2], SMALL) + 0.2


def _draw_key(sheet: Sheet, x: float, y: float, entries: Sequence[_Entry]) -> None:
    """Draw one line of the legend."""
    for fill, line, text in entries:
        box = FancyBboxPatch((x, y - 0.05), 0.16, 0.1, boxstyle="round,pad=0,rounding_size=0.02", linewidth=0.7)
        box.set(facecolor=fill, edgecolor=QUIET, linestyle=line)
        sheet.page.add_patch(box)
        sheet.write(x + 0.22, y, text, SMALL, colour=QUIET)
        x += _entry_width((fill, line, text))
