"""Weights between spans on a sheet: numbers in cells, in the colours of their ratios to uniform attention."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import SpanGrid, SpanPanel
from mhaviz.pages.numbers import short
from mhaviz.pages.panels import SINK_SCALE
from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.artists import Cells
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL, snap
from mhaviz.views.tiles.span_grid import BESIDE, GAP, NUMBER, ROW, TITLE, SpanLayout, lay_out_spans

_BAR, _BAR_HEIGHT, _AFTER_BAR = 1.0, 0.09, 0.2  # inches: the bar of the key, and the gap beside it
_TICKS = 0.14  # inches of the numbers below the bar
_LEAST_WIDTH = 2.2
_BETWEEN, _BETWEEN_SMALL = 0.5, 0.2  # points of the white lines between cells, and between small ones
_OUTLINE, _HALO = 1.3, 2.8  # points of an outline, and of the white around it


@dataclass(frozen=True)
class SpanGridPart(Part):
    """Panels of weights between spans, with the key of their colours below."""

    block: SpanGrid
    fonts: Fonts

    after = 0.16

    @property
    def is_picture(self) -> bool:
        """Always True."""
        return True

    @property
    def width(self) -> float:
        """Least width."""
        return _LEAST_WIDTH

    def _layout(self, room: float) -> SpanLayout:
        return lay_out_spans(self.block, room, self.fonts)

    @property
    def _has_titles(self) -> bool:
        return any(panel.title for panel in self.block.panels)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        layout = self._layout(room)
        lines = -(-len(self.block.panels) // layout.across)
        return lines * layout.line_height(self._has_titles) + self._key_height(room)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the panels with their top left corner at (x, y), and the key."""
        layout, block = self._layout(room), self.block
        pitch = layout.line_height(self._has_titles)
        for begin in range(0, len(block.panels), layout.across):
            top = y + TITLE * self._has_titles
            self._write_rows(sheet, x, top, layout)
            for i, panel in enumerate(block.panels[begin : begin + layout.across]):
                left = x + layout.left + i * (layout.panel_width + GAP)
                title = self._fitting(panel.title, layout.panel_width, bold=True)
                sheet.write(left, top - 0.04, title, SMALL, bold=True, vertical="bottom")
                self._draw_panel(sheet, left, top, layout, panel)
            y += pitch
        self._draw_key(sheet, x, y, room)

    def _write_rows(self, sheet: Sheet, x: float, top: float, layout: SpanLayout) -> None:
        others = len(self.block.rows) - self.block.apart[0]
        for row in range(0, len(self.block.rows), layout.steps[0]):
            name = self.block.rows[row]
            shown = self._fitting(name, layout.left - BESIDE)
            middle, colour = top + layout.y(row) + layout.row / 2, INK if row < others else QUIET
            right = x + layout.left - BESIDE
            sheet.write(right, middle, shown, SMALL, colour=colour, align="right", vertical="center_baseline")

    def _draw_panel(self, sheet: Sheet, left: float, top: float, layout: SpanLayout, panel: SpanPanel) -> None:
        block, fills = self.block, self._fills(panel)
        n_rows, n_columns = panel.shares.shape
        rows, columns = n_rows - block.apart[0], n_columns - block.apart[1]
        for part_rows in filter(len, (range(rows), range(rows, n_rows))):
            for part_columns in filter(len, (range(columns), range(columns, n_columns))):
                box = (
                    snap(left + layout.x(part_columns[0]), sheet.pixels),
                    snap(top + layout.y(part_rows[0]), sheet.pixels),
                    len(part_columns) * layout.cell,
                    len(part_rows) * layout.row,
                )
                cells = slice(part_rows[0], part_rows[-1] + 1), slice(part_columns[0], part_columns[-1] + 1)
                if block.is_grey(panel, part_rows[0], part_columns[0]):
                    sheet.image(*box, panel.shares[cells], SINK_SCALE, Cells).set_label(f"apart of {panel.title}")
                else:
                    numbers = np.maximum(panel.colours[cells], block.scale.low)  # 0 has no logarithm
                    sheet.image(*box, numbers, block.scale, Cells).set_label(panel.title)
                self._draw_lines(sheet, box, len(part_rows), len(part_columns))
        if layout.has_numbers:
            texts = [block.text(panel, i, j) for i in range(n_rows) for j in range(n_columns)]
            lefts, tops = ([at(i) for i in range(n)] for at, n in ((layout.x, n_columns), (layout.y, n_rows)))
            middles = [(x + layout.cell / 2, y + layout.row / 2) for y in tops for x in lefts]
            inks = np.where(needs_dark_text(fills), INK, "white").ravel().tolist()
            shown = [n for n, text in enumerate(texts) if text]
            places = np.array(middles)[shown] + (left, top)
            sheet.numbers([texts[n] for n in shown], places, [inks[n] for n in shown], NUMBER)
        outlined = [(left + layout.x(j), top + layout.y(i), layout.cell, layout.row) for i, j in panel.outlined]
        for colour, line in (("white", _HALO), (ACCENT, _OUTLINE)):
            sheet.frames(outlined, colour, line)
        self._write_columns(sheet, left, top + layout.cells_height + 0.04, layout)

    def _draw_lines(self, sheet: Sheet, box: tuple[float, float, float, float], n_rows: int, n_columns: int) -> None:
        """Draw white lines between the cells of a rectangle."""
        x, y, width, height = box
        row = height / n_rows
        across = [(x, y + i * row, x + width, y + i * row) for i in range(1, n_rows)]
        down = [(x + j * width / n_columns, y, x + j * width / n_columns, y + height) for j in range(1, n_columns)]
        sheet.ticks([*across, *down], "white", _BETWEEN if row >= ROW else _BETWEEN_SMALL)

    def _write_columns(self, sheet: Sheet, left: float, top: float, layout: SpanLayout) -> None:
        others = len(self.block.columns) - self.block.apart[1]
        for column in range(0, len(self.block.columns), layout.steps[1]):
            middle = left + layout.x(column) + layout.cell / 2
            colour = INK if column < others else QUIET
            if layout.is_turned:
                shown = self._fitting(self.block.columns[column], layout.below - BESIDE)
                sheet.write(middle, top, shown, SMALL, colour=colour, align="right", rotation=90)
            else:
                shown = self._fitting(self.block.columns[column], layout.cell * layout.steps[1])
                sheet.write(middle, top, shown, SMALL, colour=colour, align="center", vertical="top")

    def _fills(self, panel: SpanPanel) -> NDArray[np.uint8]:
        """Return the colour of each cell, (rows, columns, 3)."""
        fills = colours(panel.colours.astype(np.float32), self.block.scale)
        shares = colours(panel.shares.astype(np.float32), SINK_SCALE)
        n_rows, n_columns = panel.shares.shape
        are_grey = [[self.block.is_grey(panel, i, j) for j in range(n_columns)] for i in range(n_rows)]
        return np.where(np.array(are_grey)[..., None], shares, fills)

    def _fitting(self, text: str, room: float, bold: bool = False) -> str:
        return fit_text(self.fonts.shown(text), room / DRAWN_WIDER, SMALL, self.fonts.families, bold)

    def _key_lines(self, room: float) -> list[str]:
        """Return the lines of the notes beside the bar."""
        notes = [self.block.of_colours, *[self.block.of_numbers] * self._layout(room).has_numbers]
        width = room - _BAR - 2 * _AFTER_BAR
        return [line for note in notes for line in wrap(self.fonts.shown(note), width, SMALL, self.fonts.families)]

    def _key_height(self, room: float) -> float:
        return max(_BAR_HEIGHT + _TICKS, FOOT_LINE * len(self._key_lines(room))) + 0.04

    def _draw_key(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        scale = self.block.scale
        x += _AFTER_BAR
        gradient = np.array([[scale.value(share) for share in np.linspace(0, 1, 256)]], np.float32)
        box = snap(x, sheet.pixels), snap(y, sheet.pixels), _BAR, _BAR_HEIGHT
        sheet.image(*box, gradient, scale).set_label(f"scale of {scale.name}")
        sheet.frames([box])
        low, high = scale.ends
        for share, text in ((0.0, low), (0.5, short(scale.value(0.5))), (1.0, high)):
            at = x + share * _BAR, y + _BAR_HEIGHT + 0.03
            sheet.write(*at, text, SMALL, colour=QUIET, align="center", vertical="top")
        for i, line in enumerate(self._key_lines(room)):
            at = x + _BAR + _AFTER_BAR, y + _BAR_HEIGHT / 2 + i * FOOT_LINE
            sheet.write(*at, line, SMALL, colour=QUIET, vertical="center_baseline")
