"""Mosaic on a sheet: matrices as tiles of one picture, with labels or positions on the outer edges only."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.labels import every
from mhaviz.pages.panels import CROSS, SINK_SCALE, Panel
from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.artists import Cells
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.sheet import ACCENT, FAINT, INK, QUIET, SECOND, Sheet
from mhaviz.views.measures import DRAWN_WIDER, POINTS, SMALL, snap
from mhaviz.views.tiles.labels import BESIDE_LABEL, LEAST_LABEL
from mhaviz.views.tiles.layout import GAP, NAME, TILE_TITLE, Layout

_LEAST_MARK, _INSET = 0.05, 0.3  # least inches of a cell with a mark; share of it left free on each side of a cross
_OUTLINE, _HALO, _FINE = 1.4, 3.2, 0.6  # points: an outline, the white around it, and an outline of small cells
_OUTLINES = {"black": INK, "orange": ACCENT, "blue": SECOND}
_HATCH = "#b4b4b4"


def draw_mosaic(sheet: Sheet, x: float, y: float, layout: Layout, panels: Sequence[Panel]) -> None:
    """Draw the panels with the mosaic's top left corner at (x, y)."""
    offsets = map(layout.tile, range(len(panels)))
    corners = [(snap(x + dx, sheet.pixels), snap(y + dy, sheet.pixels)) for dx, dy in offsets]
    n_apart, begin = len(layout.keys.apart), layout.keys.begin
    alike: dict[bytes, tuple[NDArray[np.bool_], list[tuple[float, float]]]] = {}  # tiles with the same cells hidden
    for (left, top), panel in zip(corners, panels, strict=True):
        pooled = panel.pooled(*layout.cells)
        hidden = np.isnan(pooled.values)
        alike.setdefault(hidden.tobytes(), (hidden, []))[1].append((left, top))
        box = left + begin, top, layout.tile_width - begin, layout.tile_height
        sheet.image(*box, pooled.values[:, n_apart:], panel.scale, Cells).set_label(panel.title)
        if n_apart:
            box = left, top, begin - layout.keys.apart_gap, layout.tile_height
            sheet.image(*box, pooled.values[:, :n_apart], SINK_SCALE, Cells).set_label(f"sinks of {panel.title}")
    if layout.title:
        numbers = ["" if layout.value_size else _without_room(panel) for panel in panels]
        titles, size = _fit_titles(panels, numbers, layout.tile_width + layout.gap - 0.4 * GAP)
        for (left, top), title, beside in zip(corners, titles, numbers, strict=True):
            line = top - layout.title + TILE_TITLE - 0.04
            sheet.write(left, line, title, size, vertical="bottom", bold=True)
            if beside:
                left += text_width(title, size, bold=True) * DRAWN_WIDER
                sheet.write(left, line, beside, size, vertical="bottom")
    for hidden, places in alike.values():
        parts = (
            (hidden[:, :n_apart], layout.keys.apart_cell, 0.0),
            (hidden[:, n_apart:], layout.keys.cell, begin),
        )
        for part, width, dx in parts:
            if not part.all():
                sheet.outline(~part, (width, layout.queries.cell), [(left + dx, top) for left, top in places])
    if layout.value_size:
        _write_values(sheet, layout, corners, panels, layout.value_size)
    _draw_marks(sheet, layout, corners, panels)
    _draw_outlines(sheet, layout, corners, panels)
    _write_labels(sheet, layout, corners)
    if any(layout.names):
        _write_names(sheet, layout, corners)


def _without_room(panel: Panel) -> str:
    """Return the numbers in outlined cells, where only these are written, to stand after the title: "  -0.5, 3.9"."""
    numbers = dict.fromkeys(filter(None, panel.outlined_numbers())) if panel.numbers == "outlined" else {}
    return f"  {', '.join(numbers)}" if numbers else ""


def _fit_titles(panels: Sequence[Panel], numbers: Sequence[str], room: float) -> tuple[list[str], float]:
    """Return the titles of panels in one form, whole or short, and their one font size.

    Args:
        panels: the panels.
        numbers: text after each title.
        room: inches for each title and the text after it.
    """
    room /= DRAWN_WIDER
    for titles in ([panel.title for panel in panels], [panel.short or panel.title for panel in panels]):
        texts = zip(titles, numbers, strict=True)
        longest = max(text_width(title, SMALL, bold=True) + text_width(text, SMALL) for title, text in texts)
        size = SMALL * min(room / max(longest, 1e-9), 1)
        if size >= LEAST_LABEL:
            return titles, size
    rooms = [room - text_width(text, LEAST_LABEL) for text in numbers]
    fitted = [fit_text(*one, LEAST_LABEL, bold=True) for one in zip(titles, rooms, strict=True)]
    return fitted, LEAST_LABEL


def _write_values(
    sheet: Sheet,
    layout: Layout,
    corners: Sequence[tuple[float, float]],
    panels: Sequence[Panel],
    size: float,
) -> None:
    """Write the numbers of panels with these top left corners into their cells."""
    rows, columns = np.indices(panels[0].values.shape)
    keys = layout.keys
    first, others = (columns + 0.5) * keys.apart_cell, keys.begin + (columns - len(keys.apart) + 0.5) * keys.cell
    across = np.where(columns < len(keys.apart), first, others)
    offsets = np.stack([across, (rows + 0.5) * layout.queries.cell], axis=-1)
    places = np.array(corners)[:, None, None] + offsets  # n_tiles q_length k_length 2
    texts: list[str] = []
    inks: list[str] = []
    for panel in panels:
        scales = (panel.scale_of(column) for column in range(panel.values.shape[1]))
        painted = [colours(values, scale) for values, scale in zip(panel.values.T, scales, strict=True)]
        dark = needs_dark_text(np.stack(painted, axis=1)).ravel()
        texts += [panel.number(row, column) for row, column in np.ndindex(panel.values.shape)]
        inks += ["black" if is_dark else "white" for is_dark in dark]
    shown = [i for i, text in enumerate(texts) if text]
    sheet.numbers([texts[i] for i in shown], places.reshape(-1, 2)[shown], [inks[i] for i in shown], size)


def _draw_marks(sheet: Sheet, layout: Layout, corners: Sequence[tuple[float, float]], panels: Sequence[Panel]) -> None:
    """Draw a cross in dropped cells, and a line through cells with another mark."""
    width, height = layout.keys.cell, layout.queries.cell
    inset = _INSET * min(width, height)
    hatches: list[tuple[float, float, float, float]] = []
    crosses: list[tuple[float, float, float, float]] = []
    for (left, top), panel in zip(corners, panels, strict=True):
        if panel.values.shape != layout.cells or min(width, height) < _LEAST_MARK:
            return
        marked = () if panel.marks is None else np.argwhere(panel.marks != "").tolist()
        for row, column in marked:
            x, y = left + column * width, top + row * height
            if panel.mark(row, column) == CROSS:
                x0, y0, x1, y1 = x + inset, y + inset, x + width - inset, y + height - inset
                crosses += [(x0, y0, x1, y1), (x0, y1, x1, y0)]
            else:
                hatches.append((x, y + height, x + width, y))
    for lines, colour in ((hatches, _HATCH), (crosses, INK)):
        if lines:
            sheet.ticks(lines, colour)


def _draw_outlines(
    sheet: Sheet, layout: Layout, corners: Sequence[tuple[float, float]], panels: Sequence[Panel]
) -> None:
    """Draw outlines of rows and columns, with white on both sides to be visible on all colours.

    Outlines of small cells are thin, without white, and drawn outside the cells, which they would cover.
    """
    fine, thick = (defaultdict[str, list[tuple[float, float, float, float]]](list) for _ in range(2))
    for (left, top), panel in zip(corners, panels, strict=True):
        for rows, columns, colour in panel.outlined:
            n_rows, n_columns = panel.values.shape
            (y, height), (x, width) = layout.queries.span(rows, n_rows), layout.keys.span(columns, n_columns)
            x, y, out = left + x, top + y, _FINE / 2 / POINTS
            if colour == "fine":
                fine[INK].append((x, y, width, height))
            elif min(width, height) < _LEAST_MARK:
                fine[_OUTLINES[colour]].append((x - out, y - out, width + 2 * out, height + 2 * out))
            else:
                thick[_OUTLINES[colour]].append((x, y, width, height))
    for ink, rectangles in fine.items():
        sheet.frames(rectangles, ink, _FINE)
    for ink, rectangles in thick.items():
        sheet.frames(rectangles, "white", _HALO)
        sheet.frames(rectangles, ink, _OUTLINE)


def _write_labels(sheet: Sheet, layout: Layout, corners: Sequence[tuple[float, float]]) -> None:
    """Write labels of queries left of the first column of tiles, and of keys below the lowest tile of each column."""
    size = layout.label_size
    lowest = {number % layout.columns: corner for number, corner in enumerate(corners)}
    for left, top in corners[:: layout.columns]:
        for place, label, is_special in layout.queries.marks:
            sheet.write(left - 0.05, top + place, label, size, align="right", colour=FAINT if is_special else INK)
    for left, top in lowest.values():
        y = top + layout.tile_height + 0.05
        for place, label, is_special in layout.keys.marks:
            colour = FAINT if is_special else INK
            if not layout.is_turned:
                sheet.write(left + place, y, label, size, align="center", vertical="top", colour=colour)
            else:  # from bottom to top, and ending at its cell
                sheet.write(left + place, y, label, size, align="right", rotation=90, colour=colour)


def write_sides(sheet: Sheet, x: float, y: float, layout: Layout, across: Sequence[str], down: Sequence[str]) -> None:
    """Write names of columns of tiles above the first row, and of rows left of the first column, as many as fit.

    The mosaic begins at (x, y).
    """
    pitches = layout.tile_width + layout.gap, layout.tile_height + layout.below
    widest = max(text_width(name, SMALL) for name in across) + BESIDE_LABEL
    for i in range(0, len(across), every(len(across), int(len(across) * pitches[0] / widest))):
        middle = x + layout.tile(i)[0] + layout.tile_width / 2
        sheet.write(middle, y - 0.04, across[i], SMALL, align="center", vertical="bottom")
    for i in range(0, len(down), every(len(down), int(len(down) * pitches[1] * POINTS / (1.05 * SMALL)))):
        middle = y + layout.tile(i * layout.columns)[1] + layout.tile_height / 2
        sheet.write(x + layout.queries.room - BESIDE_LABEL, middle, down[i], SMALL, align="right")


def _write_names(sheet: Sheet, layout: Layout, corners: Sequence[tuple[float, float]]) -> None:
    """Write the name of the queries once at the left of all tiles, and that of the keys once below the last row."""
    down, across = layout.names
    last_row = corners[layout.columns * (layout.rows - 1) :]
    (left, top), (first, bottom), (last, _) = corners[0], last_row[0], last_row[-1]
    middle = (top + bottom + layout.tile_height) / 2
    sheet.write(left - layout.queries.room + 0.4 * NAME, middle, down, SMALL, colour=QUIET, align="center", rotation=90)
    below = bottom + layout.tile_height + layout.keys.room - NAME / 2
    sheet.write((first + last + layout.tile_width) / 2, below, across, SMALL, colour=QUIET, align="center")
