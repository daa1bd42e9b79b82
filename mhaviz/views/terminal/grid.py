"""Matrices as grids of coloured cells, side by side as far as the terminal is wide."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from mhaviz.records.axis import cell_edges
from mhaviz.views.captions import pooled_text
from mhaviz.views.colours import needs_dark_text
from mhaviz.views.labels import cut, every, in_ascii, mathematics_in_ascii, position_suffixes, token_labels, visible
from mhaviz.views.panels import Panel, Scale, pooled_panels
from mhaviz.views.pooling import pool_strongest
from mhaviz.views.positions import are_positions

VALUES_UP_TO = 16
"""With more tokens than this a wall of numbers tells less than a picture."""

LEGEND_UP_TO = 100  # tokens
GAP = 2  # blank columns between two panels
RAMP = " ▁▂▃▄▅▆▇█"
ASCII_RAMP = " .:-=+*#%@"
HIDDEN, ASCII_HIDDEN = "·", "/"
"""What stands in a hidden cell where there is no colour: a blank would be the lowest value."""

DIM = Style(dim=True)
BOLD = Style(bold=True)


RowLabel = tuple[list[Segment], range]
"""The text left of a line, and the rows that the line shows."""


@dataclass(frozen=True)
class Abilities:
    """What the terminal can show."""

    colour: bool
    unicode: bool

    @classmethod
    def of(cls, console: Console, options: ConsoleOptions) -> "Abilities":
        """Sixteen colours are no scale: they count as none."""
        many_colours = console.color_system in ("256", "truecolor", "windows")
        return cls(colour=many_colours and not console.no_color, unicode=not options.ascii_only)

    @property
    def hidden(self) -> str:
        """How hidden cells are shown, for a legend."""
        return "grey" if self.colour else _hidden_mark(self.unicode)

    def plain(self, text: str) -> str:
        """An equation or a remark of mhaviz's own, as this terminal can show it."""
        return text if self.unicode else mathematics_in_ascii(text)

    def shown(self, token: str) -> str:
        """A user's text, as this terminal can show it."""
        return visible(token) if self.unicode else in_ascii(visible(token))


@dataclass(frozen=True)
class GridLayout:
    """What a grid decided before a line of it is drawn.

    Attributes:
        cells: "values", numbers on colour; "half-blocks", two rows a line; "lines", one row a line.
        cell_width: columns of the terminal a cell takes.
        label_width: columns for the row labels.
        panel_width: columns for a panel: its cells, or its title if that is wider.
        per_line: panels side by side.
        rows, columns: cells of a panel; fewer than tokens where the map is pooled.
        by_position: the rows are labelled by positions, for want of room.
    """

    cells: Literal["values", "half-blocks", "lines"]
    cell_width: int
    label_width: int
    panel_width: int
    per_line: int
    rows: int
    columns: int
    by_position: bool = False


@dataclass(frozen=True)
class HeatGrid:
    """Panels of one shape that share the tokens of their rows (queries) and columns (keys).

    Attributes:
        with_values: write numbers in the cells while there is room; without, more panels stand side by side.
        numbered: the columns are known by their numbers, such as features: they need no legend, and when they are
            pooled the rows keep their labels.
        first_query, first_key: the positions of the first row and column in the whole input.
        special_queries, special_keys: the tokens that are not of the text, counted from 0: their labels are dim.
    """

    panels: Sequence[Panel]
    queries: Sequence[str]
    keys: Sequence[str]
    with_values: bool = True
    numbered: bool = False
    first_query: int = 0
    first_key: int = 0
    special_queries: Collection[int] = ()
    special_keys: Collection[int] = ()

    def decide(self, width: int, abilities: Abilities) -> GridLayout:
        """Choose the cells: as many panels side by side as fit, with numbers while there is room for them."""
        values = self._decide_values(width, abilities) if self.with_values else None
        return values or self._decide_blocks(width, abilities)

    def drawn(self, width: int, abilities: Abilities) -> list[Panel]:
        """The panels as they are drawn, pooled where they are."""
        layout = self.decide(width, abilities)
        return pooled_panels(self.panels, layout.rows, layout.columns)

    def _decide_values(self, width: int, abilities: Abilities) -> GridLayout | None:
        """Cells with numbers in them, as wide as the tokens want without fewer panels side by side."""
        q_length, k_length = len(self.queries), len(self.keys)
        if max(q_length, k_length) > VALUES_UP_TO:
            return None
        label_width = min(self._longest(self.queries, self.first_query, width, abilities), max(width // 4, 4))
        room = width - label_width - 1 + GAP
        least = max(4, *(panel.text_length for panel in self.panels)) + 1
        least += not abilities.colour  # a ramp character stands in for the colour
        title = self._longest_title(room - GAP)
        fitting = min(room // (max(k_length * least, title) + GAP), len(self.panels))
        if not fitting:
            return None
        widest = max(min(self._longest(self.keys, self.first_key, width, abilities) + 1, 10), least)
        panels = ((w, max(k_length * w, title)) for w in range(widest, least - 1, -1))
        cell_width, panel_width = next((w, panel) for w, panel in panels if room // (panel + GAP) >= fitting)
        return GridLayout("values", cell_width, label_width, panel_width, fitting, q_length, k_length)

    def _decide_blocks(self, width: int, abilities: Abilities) -> GridLayout:
        """Cells of one column, two rows a line where colour and Unicode allow, pooled to the width."""
        q_length, k_length = len(self.queries), len(self.keys)
        half = abilities.colour and abilities.unicode
        together = 2 if half else 1  # labels that share a line
        longest = self._longest(self.queries, self.first_query, width, abilities)
        label_width = min(together * (longest + 1) - 1, max(width // 4, 4))
        by_position = max(q_length, 0 if self.numbered else k_length) > width - label_width - 1
        if by_position:
            label_width = len(str(self.first_query + q_length))
        most = max(width - label_width - 1, 1)
        columns = min(k_length, most)
        rows = min(q_length, most) if by_position else q_length
        panel_width = max(columns, self._longest_title(most))
        fitting = min(max((most + GAP) // (panel_width + GAP), 1), len(self.panels))
        cells: Literal["half-blocks", "lines"] = "half-blocks" if half else "lines"
        return GridLayout(cells, 1, label_width, panel_width, fitting, rows, columns, by_position)

    def _longest_title(self, most: int) -> int:
        return min(max(cell_len(visible(panel.title)) for panel in self.panels), most)

    def _longest(self, tokens: Sequence[str], start: int, width: int, abilities: Abilities) -> int:
        return max(map(cell_len, token_labels(tokens, width, not abilities.unicode, start)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        layout = self.decide(options.max_width, abilities)
        ascii_only = not abilities.unicode
        labels = list(self._row_labels(layout, ascii_only))
        yield from panel_lines(self.panels, layout, abilities, self._key_header(layout, ascii_only), labels)
        if layout.cells != "values":
            yield from self._explain_cells(layout, abilities, options.max_width)

    def _key_header(self, layout: GridLayout, ascii_only: bool) -> list[Segment]:
        """Dim; where some tokens are not of the text, those alone are."""
        if layout.cells == "values":
            labels = token_labels(self.keys, layout.cell_width - 1, ascii_only, self.first_key)
            texts = [set_cell_size(_centre(label, layout.cell_width), layout.cell_width) for label in labels]
            if not self.special_keys:
                return [Segment("".join(texts), DIM)]
            return [Segment(text, DIM if i in self.special_keys else None) for i, text in enumerate(texts)]
        edges = self.first_key + cell_edges(len(self.keys), layout.columns)
        header = ""
        for cell in range(0, layout.columns, every(layout.columns, layout.columns // 4)):
            label = str(edges[cell])
            if len(header) <= cell and cell + len(label) <= layout.columns:
                header = header.ljust(cell) + label + " "
        return [Segment(header[: layout.columns].ljust(layout.columns), DIM)]

    def _row_labels(self, layout: GridLayout, ascii_only: bool) -> Iterator[RowLabel]:
        together = 2 if layout.cells == "half-blocks" else 1
        width = layout.label_width if together == 1 else (layout.label_width - 1) // 2
        if layout.by_position:
            labels = [str(edge) for edge in self.first_query + cell_edges(len(self.queries), layout.rows)[:-1]]
        else:
            labels = token_labels(self.queries, width, ascii_only, self.first_query)
        for row in range(0, layout.rows, together):
            rows = range(row, min(row + together, layout.rows))
            if layout.by_position:
                yield [Segment(labels[row])], rows
                continue
            tokens = [Segment(labels[r], DIM if r in self.special_queries else None) for r in rows]
            yield [tokens[0], *(part for token in tokens[1:] for part in (Segment("·"), token))], rows

    def _explain_cells(self, layout: GridLayout, abilities: Abilities, width: int) -> Iterator[Segment]:
        """Which token stands at which position, or how many became one cell."""
        ascii_only = not abilities.unicode
        pooled = pooled_text(len(self.queries), len(self.keys), layout.rows, layout.columns)
        if pooled:
            text = f"{pooled} values" + "; labels are positions" * (not self.numbered)
            yield from wrapped((mathematics_in_ascii(text) if ascii_only else text).split(" "), width, " ")
        for name, tokens, start in () if self.numbered else self._legends(layout):
            if are_positions(tokens, start):
                continue
            suffixes = position_suffixes(tokens, ascii_only, start)
            labels = zip(token_labels(tokens, 24, ascii_only, start), suffixes, strict=True)
            entries = [f"{i} {label.removesuffix(suffix)}" for i, (label, suffix) in enumerate(labels, start)]
            yield from wrapped([f"{name}:", *entries], width, "  ")

    def _legends(self, layout: GridLayout) -> Iterator[tuple[str, Sequence[str], int]]:
        if len(self.keys) <= LEGEND_UP_TO:
            yield "keys", self.keys, self.first_key
        same = (self.queries, self.first_query) == (self.keys, self.first_key)
        if layout.by_position and not same and len(self.queries) <= LEGEND_UP_TO:
            yield "queries", self.queries, self.first_query


def panel_lines(
    panels: Sequence[Panel],
    layout: GridLayout,
    abilities: Abilities,
    header: list[Segment],
    labels: Sequence[RowLabel],
) -> Iterator[Segment]:
    """The panels side by side, as the layout has it.

    Args:
        panels: of one shape.
        layout: how they stand.
        abilities: of the terminal.
        header: over the columns of every panel, as wide as its cells.
        labels: of the lines.
    """
    for first in range(0, len(panels), layout.per_line):
        if first:
            yield Segment.line()
        for line in _lines(panels[first : first + layout.per_line], layout, abilities, header, labels):
            yield from line
            yield Segment.line()


def _lines(
    panels: Sequence[Panel],
    layout: GridLayout,
    abilities: Abilities,
    header: list[Segment],
    labels: Sequence[RowLabel],
) -> Iterator[list[Segment]]:
    margin = Segment(" " * (layout.label_width + 1))

    def beside(parts: Sequence[Sequence[Segment]]) -> list[Segment]:
        line: list[Segment] = []
        for i, part in enumerate(parts):
            line += [Segment(" " * GAP)] * (i > 0) + list(part)
        while line and not line[-1].style and not line[-1].text.strip():
            line.pop()  # no blanks at the end of a line
        return line

    ellipsis = "…" if abilities.unicode else "..."
    titles = [[Segment(_fit(visible(p.title), layout.panel_width, ellipsis), BOLD)] for p in panels]
    yield [margin, *beside(titles)]
    rest = Segment(" " * (layout.panel_width - Segment.get_line_length(header)), DIM)
    yield [margin, *beside([list(Segment.simplify([*header, rest]))] * len(panels))]

    shown = [_Cells(panel, layout, abilities) for panel in panels]
    for label, rows in labels:
        left = Segment(" " * (layout.label_width - Segment.get_line_length(label)))
        rest = Segment(" " * (layout.panel_width - layout.columns * layout.cell_width))
        parts = [[*cells.line(rows), rest] for cells in shown]
        yield [left, *label, Segment(" "), *beside(parts)]


class _Cells:
    """One panel's cells, coloured."""

    def __init__(self, panel: Panel, layout: GridLayout, abilities: Abilities) -> None:
        self._panel, self._layout, self._abilities, self._scale = panel, layout, abilities, panel.scale
        self._values = pool_strongest(panel.values, layout.rows, layout.columns)
        self._colours = panel.scale.colours(self._values)
        self._dark_text = needs_dark_text(self._colours)

    def line(self, rows: range) -> list[Segment]:
        """One line of the terminal: one row of cells, or two."""
        if self._layout.cells == "half-blocks":
            return [self._half_block(rows, column) for column in range(self._layout.columns)]
        (row,) = rows
        if self._layout.cells == "values":
            return [self._value(row, column) for column in range(self._layout.columns)]
        return [self._ramp_or_blank(row, column) for column in range(self._layout.columns)]

    def _value(self, row: int, column: int) -> Segment:
        number = self._panel.text(row, column)
        width = self._layout.cell_width
        if not self._abilities.colour:
            is_sign = self._scale.signed and not self._abilities.unicode  # the ramp would look like a second sign
            is_enough = number and (is_sign or np.isnan(self._values[row, column]))
            return Segment((number if is_enough else self._ramp(row, column) + number).center(width))
        text = Color.from_rgb(0, 0, 0) if self._dark_text[row, column] else Color.from_rgb(255, 255, 255)
        return Segment(number.center(width), Style.from_color(text, self._colour(row, column)))

    def _half_block(self, rows: range, column: int) -> Segment:
        lower = self._colour(rows[1], column) if len(rows) > 1 else None
        return Segment("▀", Style.from_color(self._colour(rows[0], column), lower))

    def _ramp_or_blank(self, row: int, column: int) -> Segment:
        if self._abilities.colour:
            return Segment(" ", Style.from_color(None, self._colour(row, column)))
        return Segment(self._ramp(row, column))

    def _colour(self, row: int, column: int) -> Color:
        return Color.from_rgb(*(int(channel) for channel in self._colours[row, column]))

    def _ramp(self, row: int, column: int) -> str:
        return ramp_character(self._values[row, column], self._scale, self._abilities.unicode)


def ramp_character(value: float, scale: Scale, in_unicode: bool) -> str:
    """The character that stands for a value where there is no colour: the fuller, the larger; for NaN another."""
    if np.isnan(value):
        return _hidden_mark(in_unicode)
    ramp = RAMP if in_unicode else ASCII_RAMP
    share = float(scale.shares(np.array(value, np.float32)))
    return ramp[min(max(int(share * len(ramp)), 0), len(ramp) - 1)]


def _hidden_mark(in_unicode: bool) -> str:
    return HIDDEN if in_unicode else ASCII_HIDDEN


def _fit(text: str, width: int, ellipsis: str) -> str:
    return set_cell_size(cut(text, width, ellipsis), width)


def _centre(text: str, width: int) -> str:
    return " " * ((width - cell_len(text)) // 2) + text


def wrapped(words: Sequence[str], width: int, blank: str) -> Iterator[Segment]:
    """Words in dim lines, none broken inside."""
    line = ""
    for word in words:
        if line and cell_len(line + blank + word) > width:
            yield from (Segment(line, DIM), Segment.line())
            line = ""
        line += (blank if line else "") + word
    yield from (Segment(line, DIM), Segment.line())
