"""Matrices as grids of coloured cells, as many side by side as the terminal has room for."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style as RichStyle

from mhaviz.pages.labels import (
    count_text,
    cut,
    every,
    quoted,
    round_positions,
    token_labels,
    visible,
)
from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.numbers import percent
from mhaviz.pages.panels import Panel, Scale, tile_titles
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis, cell_edges, even_cells
from mhaviz.views.terminal.cells import HIDDEN, CellKind, Cells, Colours
from mhaviz.views.terminal.safe_console import SafeConsole
from mhaviz.views.text import isolated

VALUES_UP_TO = 16
"""Largest number of rows or columns with numbers in their cells; larger matrices are pictures alone."""

LEGEND_UP_TO = 100  # tokens
_TWO_ROWS = "a line shows two rows"
GAP = 2  # blank columns between two panels
_TOKEN = 24  # cells of a token in a legend
_DOWN = 8  # most lines of a label that is written downwards
_SHORT, _WIDEST_CELL = 4, 10  # cells that are enough for a label, though it is cut, and most of a cell with its blank
# For maps with round positions as labels:
_READABLE = 30  # least columns of a panel, where the terminal is that wide
_BESIDES = 6  # lines of the screen for titles, positions and the scale
_LEAST_LINES = 8  # least lines of a panel, however low the screen is
_APART = 4  # columns between two positions, about
_FEW = 16  # most rows that each have a label of their own
_BETWEEN = 4  # least lines from one row label to the next

_LEAST_SHARE, _MOST_SHARE = 4, 6  # columns of the terminal for a column that stands apart, "100%" or its label
_BESIDE_APART = "│"

_ARROWS = " ↓", " →"  # after the names of rows and columns

DIM = RichStyle(dim=True)
BOLD = RichStyle(bold=True)


RowLabel = tuple[list[Segment], range]
"""Label at the left of a line, and the rows that the line shows."""


@dataclass(frozen=True)
class Abilities:
    """Abilities of a terminal.

    Attributes:
        colours: its colours; None: without colour, or only sixteen, which are too few for a scale.
        lines: most lines for all pictures together; None: no limit.
    """

    colours: Colours | None
    lines: int | None = None

    @classmethod
    def of(cls, console: Console, options: ConsoleOptions) -> "Abilities":
        """Return the abilities of the terminal that a console prints to."""
        colours: dict[str | None, Colours] = {"256": "256", "truecolor": "truecolor"}
        lines = console.most_lines if isinstance(console, SafeConsole) else None
        without = console.no_color or options.ascii_only  # in ASCII, half blocks would lose every other row
        return cls(None if without else colours.get(console.color_system), lines)

    @property
    def blocks(self) -> Literal["half-blocks", "lines"]:
        """Kind of the smallest cells: two rows a line, or one."""
        return "half-blocks" if self.colours else "lines"


@dataclass(frozen=True)
class GridLayout:
    """Layout of a grid, which is decided before a line of it is drawn.

    Attributes:
        cells: see ``CellKind``.
        cell_width: columns of the terminal for a cell; above 1, each has its token above it.
        label_width: columns for the row labels.
        panel_width: columns for a panel: its cells, or its title if that is wider.
        per_line: number of panels side by side.
        rows, columns: cells of a panel, fewer than tokens where the map is pooled.
        apart: columns of the terminal for the keys that stand apart, before the cells.
        above: lines of labels above the cells; of several, each label is written downwards.
        labels: "tokens"; "positions" of the rows, where there is no room for tokens; "round", round positions along
            both sides of a pooled map; "columns", round positions along the columns alone, with tokens beside the rows.
    """

    cells: CellKind
    cell_width: int
    label_width: int
    panel_width: int
    per_line: int
    rows: int
    columns: int
    labels: Literal["tokens", "positions", "round", "columns"] = "tokens"
    above: int = 1
    apart: int = 0

    @property
    def lines(self) -> list[range]:
        """Rows that each line of a panel shows."""
        together = 2 if self.cells == "half-blocks" else 1
        return [range(row, min(row + together, self.rows)) for row in range(0, self.rows, together)]

    @property
    def panel_height(self) -> int:
        """Lines of a panel, with its title, the labels above its cells, and the blank line below it."""
        return 2 + self.above + len(self.lines)

    def height(self, n_panels: int) -> int:
        """Return the lines that ``n_panels`` take, without the blank line below the last."""
        return -(-n_panels // self.per_line) * self.panel_height - 1

    def fitting(self, height: int) -> int:
        """Return the number of panels that fit into ``height`` lines: at least as many as stand side by side."""
        return max((height + 1) // self.panel_height, 1) * self.per_line


@dataclass(frozen=True)
class HeatGrid:
    """Grid of panels of one shape.

    Attributes:
        panels: the matrices.
        queries, keys: axes of the rows and columns of every panel.
        with_values: write numbers in the cells if there is room; otherwise more panels fit side by side.
        layout: a layout chosen in advance; None: ``decide`` chooses.
        across: most panels side by side; None: as many as fit.
        names: names of the rows and columns, above the row labels; "": none.
        positions: whether tokens that occur more than once have their positions in their labels.
    """

    panels: Sequence[Panel]
    queries: Axis
    keys: Axis
    with_values: bool = True
    layout: GridLayout | None = None
    across: int | None = None
    names: tuple[str, str] = ("", "")
    positions: bool = True

    def coloured(self, scale: Scale) -> "HeatGrid":
        """Return the grid on this scale."""
        return replace(self, panels=[replace(panel, scale=scale) for panel in self.panels])

    @property
    def _numbered(self) -> bool:
        """Whether the labels of columns are their numbers, as of features, so that pooled rows keep their labels."""
        return self.keys.are_positions and not self.queries.are_same(self.keys)

    def _keeps_rows(self, width: int) -> bool:
        """Return whether rows keep their labels though columns are pooled, as heads do, whose names are short."""
        are_short = self._longest(self.queries, width) <= _SHORT and not self.queries.are_same(self.keys)
        return self._numbered or are_short

    def decide(self, width: int, abilities: Abilities) -> GridLayout:
        """Choose a layout with as many panels side by side as fit, and with numbers in the cells if there is room."""
        if self.layout:
            return self.layout
        values = self._decide_values(width, abilities) if self.with_values else None
        return values or self._decide_blocks(width, abilities)

    def pools(self, layout: GridLayout) -> bool:
        """Return whether not all rows or columns have room in a layout."""
        return layout.labels == "positions" or layout.columns < len(self._others)

    def drawn(self, width: int, abilities: Abilities) -> list[Panel]:
        """Return the panels as they are drawn, pooled to the cells of the layout, without keys that stand apart."""
        layout = self.decide(width, abilities)
        return [self._pooled(panel, layout)[1] for panel in self.panels]

    def _pooled(self, panel: Panel, layout: GridLayout) -> tuple[NDArray[np.float32], Panel]:
        """Return the numbers of keys that stand apart, (rows, keys apart), and the panel of the others, both pooled."""
        n_apart = len(self._apart)
        pooled = panel.pooled(layout.rows, n_apart + layout.columns)
        return pooled.values[:, :n_apart], replace(
            pooled, values=pooled.values[:, n_apart:], apart=()
        ) if n_apart else pooled

    @property
    def _apart(self) -> tuple[int, ...]:
        """Keys that stand apart in all panels."""
        return self.panels[0].apart

    @property
    def _others(self) -> list[int]:
        return [key for key in range(len(self.keys)) if key not in self._apart]

    @property
    def _shares(self) -> list[str]:
        """Labels of the keys that stand apart, each as wide as its column of the terminal."""
        labels = self._labels(self.keys, _MOST_SHARE) if self._apart else []
        return [set_cell_size(labels[key], max(cell_len(labels[key]), _LEAST_SHARE)) for key in self._apart]

    @property
    def _apart_width(self) -> int:
        return sum(map(cell_len, self._shares)) + len(_BESIDE_APART) * len(self._shares)

    def _decide_values(self, width: int, abilities: Abilities) -> GridLayout | None:
        """Return a layout with numbers in the cells, as wide as labels need unless fewer panels would fit side by side;
        None: there is no room."""
        q_length, k_length, apart = len(self.queries), len(self._others), self._apart_width
        if max(q_length, k_length + len(self._apart)) > VALUES_UP_TO:
            return None
        label_width = self._with_names(min(self._longest(self.queries, width), max(width // 4, 4)))
        room = width - label_width - 1 + GAP
        least = max(4, *(panel.text_length for panel in self.panels)) + 1
        least += not abilities.colours  # a ramp character stands in for the colour
        title = self._longest_title(room - GAP)
        fitting = self._abreast(room // (max(k_length * least + apart, title) + GAP))
        if not fitting:
            return None
        widest = max(min(self._longest(self.keys, width) + 1, _WIDEST_CELL), least)
        panels = ((w, max(k_length * w + apart, title)) for w in range(widest, least - 1, -1))
        cell_width, panel_width = next((w, panel) for w, panel in panels if room // (panel + GAP) >= fitting)
        return GridLayout("values", cell_width, label_width, panel_width, fitting, q_length, k_length, apart=apart)

    def _decide_blocks(self, width: int, abilities: Abilities) -> GridLayout:
        """Return a layout with cells one character wide, pooled to the width of the terminal, or as wide as the keys'
        labels need where as many panels fit side by side."""
        q_length, k_length, apart = len(self.queries), len(self._others), self._apart_width
        cells = abilities.blocks
        together = 2 if cells == "half-blocks" else 1  # labels that share a line
        label_width = min(together * (self._longest(self.queries, width) + 1) - 1, max(width // 4, 4))
        by_position = max(q_length, 0 if self._keeps_rows(width) else k_length + apart) > width - label_width - 1
        if by_position:
            label_width = len(str(self.queries.end))
        label_width = self._with_names(label_width)
        most = max(width - label_width - 1, 1)
        columns = min(k_length, max(most - apart, 1))
        rows = min(q_length, most) if by_position else q_length
        panel_width = max(columns + apart, self._longest_title(most))
        fitting = self._abreast(max((most + GAP) // (panel_width + GAP), 1))
        if by_position:
            return GridLayout(cells, 1, label_width, panel_width, fitting, rows, columns, "positions", apart=apart)
        widest = (most + GAP) // fitting - GAP - apart
        longest = 0 if self.keys.are_positions else self._longest(self.keys, width)
        cell_width, above = min(longest + 1, widest // columns, _WIDEST_CELL), 1
        if cell_width <= min(longest, _SHORT):  # no room for words in lines
            downwards = [_letters(label) for label in self._labels(self.keys, _DOWN)] if longest else []
            letter = max((cell_len(letter) for letters in downwards for letter in letters), default=0) + 1
            cell_width = letter if 1 < letter <= cell_width else 1
            above = max(map(len, downwards)) if cell_width > 1 else 1
        panel_width = max(panel_width, columns * cell_width + apart)
        return GridLayout(cells, cell_width, label_width, panel_width, fitting, rows, columns, above=above, apart=apart)

    def _abreast(self, fitting: int) -> int:
        """Return the number of panels side by side, so that ``across`` panels take as few lines, equally full."""
        if self.across and fitting:
            fitting = -(-self.across // -(-self.across // fitting))
        return min(fitting, len(self.panels))

    def _with_names(self, width: int) -> int:
        return max(width, *(len(name + _ARROWS[0]) for name in self.names if name), 0)

    def _longest_title(self, most: int) -> int:
        return min(max(cell_len(visible(panel.title)) for panel in self.panels), most)

    def _labels(self, axis: Axis, width: int) -> list[str]:
        counts = axis.tokens.counts
        return token_labels(axis.tokens.texts, width, axis.start, positions=self.positions, counts=counts)

    def _longest(self, axis: Axis, width: int) -> int:
        return max(map(cell_len, self._labels(axis, width)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        layout = self.decide(options.max_width, abilities)
        for line in self._lines(layout, abilities):
            yield from (*line, Segment.line())
        for text in self._legend_lines(options.max_width, layout):
            yield from (Segment(text, DIM), Segment.line())

    def height(self, width: int, abilities: Abilities) -> int:
        """Return the number of lines of the grid."""
        layout = self.decide(width, abilities)
        return layout.height(len(self.panels)) + len(self._legend_lines(width, layout))

    def _legend_lines(self, width: int, layout: GridLayout) -> list[str]:
        return [line for words in self._explanations(layout) for line in wrapped(*words, width)]

    def _lines(self, layout: GridLayout, abilities: Abilities) -> Iterator[list[Segment]]:
        """Yield the lines of all panels, those side by side together."""
        ends = [name and name + arrow for name, arrow in zip(self.names, _ARROWS, strict=True)]
        corner = [Segment(end.rjust(layout.label_width) + " ", DIM) for end in ends]
        width, labels = layout.panel_width, list(self._row_labels(layout))
        headers = [list(Segment.simplify(_filled(line, width, DIM))) for line in self._all_headers(layout)]
        for first in range(0, len(self.panels), layout.per_line):
            panels = self.panels[first : first + layout.per_line]
            if first:
                yield []
            titles = (set_cell_size(cut(visible(panel.title), width), width) for panel in panels)
            yield [corner[0], *_beside([Segment(title, BOLD)] for title in titles)]
            for i, header in enumerate(headers):
                left = corner[1] if i == layout.above - 1 else Segment(" " * (layout.label_width + 1))
                yield [left, *_beside([header] * len(panels))]
            pooled = [self._pooled(panel, layout) for panel in panels]
            shown = [Cells(panel, layout.cells, layout.cell_width, abilities.colours) for _, panel in pooled]
            for label, rows in labels:
                left = Segment(" " * (layout.label_width - Segment.get_line_length(label)))
                lines = (
                    [*self._before(apart[rows]), *cells.line(rows)]
                    for (apart, _), cells in zip(pooled, shown, strict=True)
                )
                yield [left, *label, Segment(" "), *_beside(_filled(line, width) for line in lines)]

    def _before(self, numbers: NDArray[np.float32]) -> Iterator[Segment]:
        """Yield the numbers of keys that stand apart, (rows, keys apart), before the cells of a line: their means."""
        for values, label in zip(numbers.T, self._shares, strict=True):
            text = HIDDEN if np.isnan(values).all() else percent(float(np.nanmean(values)))
            yield from (Segment(text.rjust(cell_len(label))), Segment(_BESIDE_APART, DIM))

    def _all_headers(self, layout: GridLayout) -> Iterator[list[Segment]]:
        """Yield the lines above a panel, with the labels of keys that stand apart in the last."""
        headers = list(self._headers(layout))
        names = " ".join([*self._shares, ""])
        for i, line in enumerate(headers, 1):
            yield [Segment(names if i == len(headers) else " " * layout.apart, DIM)] * bool(self._apart) + line

    def _headers(self, layout: GridLayout) -> Iterator[list[Segment]]:
        """Yield the lines above the cells of a panel: dim, or, where there are special tokens, only these dim."""
        if layout.cell_width == 1:
            yield [self._positions(layout)]
            return
        whole, width = self._key_labels(layout), layout.cell_width
        labels = [whole[key] for key in self._others]
        special = [place for place, key in enumerate(self._others) if key in self.keys.tokens.special]
        if layout.above > 1:
            ends = ([*[""] * layout.above, *_letters(label)][-layout.above :] for label in labels)
            lines = list(zip(*ends, strict=True))
        else:
            lines = [tuple(labels)]
        for line in lines:
            centred = (" " * ((width - cell_len(text)) // 2) + text for text in line)
            texts = [isolated(set_cell_size(text, width)) for text in centred]
            if special:
                yield [Segment(text, DIM if i in special else None) for i, text in enumerate(texts)]
            else:
                yield [Segment("".join(texts), DIM)]

    def _key_labels(self, layout: GridLayout) -> list[str]:
        """Return the labels of the columns, as short as they are written above the cells."""
        return self._labels(self.keys, layout.cell_width - 1 if layout.above == 1 else _DOWN)

    def _positions(self, layout: GridLayout) -> Segment:
        """Return the line of positions above the cells of a panel."""
        columns = layout.columns
        if layout.labels in ("round", "columns"):
            room = len(f"{self.keys.end:,}") + _APART
            placed = _round_labels(self.keys.edges, columns // room)
        else:
            edges = self.keys.start + np.array(self._others)[cell_edges(len(self._others), columns)[:-1]]
            placed = ((cell, str(edges[cell])) for cell in range(0, columns, every(columns, columns // 4)))
        header = ""
        for column, label in placed:
            if len(header) <= column and column + len(label) <= columns:
                header = header.ljust(column) + label + " "
        return Segment(header[:columns].ljust(columns), DIM)

    def _row_labels(self, layout: GridLayout) -> Iterator[RowLabel]:
        lines = layout.lines
        if layout.labels == "round":
            edges = self.queries.edges[[*(rows.start for rows in lines), -1]]
            places = dict(reversed(list(_round_labels(edges, len(lines) // _BETWEEN))))
            yield from (([Segment(places.get(line, ""))], rows) for line, rows in enumerate(lines))
        elif layout.labels == "positions":
            edges = self.queries.start + cell_edges(len(self.queries), layout.rows)
            yield from (([Segment(str(edges[rows.start]))], rows) for rows in lines)
        else:
            width = layout.label_width if layout.cells != "half-blocks" else (layout.label_width - 1) // 2
            labels, special = self._labels(self.queries, width), set(self.queries.tokens.special)
            for rows in lines:
                tokens = [Segment(isolated(labels[r]), DIM if r in special else None) for r in rows]
                yield [tokens[0], *(part for token in tokens[1:] for part in (Segment("·"), token))], rows

    def _explanations(self, layout: GridLayout) -> list[tuple[list[str], str]]:
        """Return what a line and a cell show, and the tokens at the positions, each as words and their separator.

        With round positions it can be seen how many rows a line has.
        """
        texts = list(self._cell_explanations(layout))
        if layout.cells != "half-blocks" or layout.rows == 1 or layout.labels == "round":
            return texts
        (words, blank), *rest = texts or [([], " ")]
        return [([f"{_TWO_ROWS};" if words else _TWO_ROWS, *words], blank), *rest]

    def _cell_explanations(self, layout: GridLayout) -> Iterator[tuple[list[str], str]]:
        sides = {"queries": self.queries, "keys": self.keys}
        if layout.cell_width > 1:
            if cut := [] if self.queries.are_same(self.keys) else self._cut_keys(layout):
                yield ["keys:", *cut], "  "
            return
        if layout.labels in ("round", "columns"):
            if layout.labels == "columns":
                sides = {"keys": self.keys}
            elif self.queries.are_same(self.keys):
                sides = {"queries and keys": self.keys}
            yield from ((_ends(name, axis), " ") for name, axis in sides.items() if not _ends_are_bare(axis))
            return
        pooled = pooled_text(len(self.queries), len(self._others), layout.rows, layout.columns)
        if pooled:
            text = f"{pooled} values" + "; labels are positions" * (layout.labels == "positions")
            yield text.split(" "), " "
        if self._numbered:
            return
        same = self.queries.are_same(self.keys)
        named = ["keys"] + ["queries"] * (layout.labels == "positions" and not same)
        for name in named:
            axis = sides[name]
            if len(axis) <= LEGEND_UP_TO and not axis.are_positions:
                yield [f"{name}:", *_legend(axis)], "  "

    def _cut_keys(self, layout: GridLayout) -> list[str]:
        """Return "3 understanding" for the keys whose labels are cut; no row has them whole."""
        whole = zip(self._key_labels(layout), self._labels(self.keys, _TOKEN), _legend(self.keys), strict=True)
        return [text for label, full, text in whole if label != full]


def long_layout(
    attention_map: AttentionMap,
    width: int,
    height: int | None,
    abilities: Abilities,
    titles: Sequence[str] | None = None,
) -> GridLayout:
    """Return a layout of a pooled map in panels as large as the terminal allows: squares, or up to twice as wide as
    high where the screen is low.

    ``height``: lines of the screen; None: a file or a pipe, without a limit. ``titles``: of the panels, in place of
    ``tile_titles``.
    """
    titles = titles or tile_titles(attention_map)
    n_heads, (q_cells, k_cells) = len(titles), attention_map.weights.shape[1:]
    label_width, of_rows = len(f"{attention_map.rows.end - 1:,}"), attention_map.rows
    are_few = of_rows.cells is None and q_cells <= _FEW and not of_rows.are_positions
    if are_few:
        longest = max(map(cell_len, token_labels(of_rows.tokens.texts, width, of_rows.start)))
        label_width = 2 * min(longest, width // 8) + 1
    title = max(map(cell_len, titles))
    room = max(width - label_width - 1, 1) + GAP
    fitting = min(max(room // (max(min(_READABLE, k_cells), title) + GAP), 1), n_heads)
    per_line = -(-n_heads // -(-n_heads // fitting))  # as few lines of panels as possible, each about equally full
    side = max(room // per_line - GAP, 1)
    highest = side if height is None else max(height - _BESIDES, _LEAST_LINES)
    side = min(side, 4 * highest)  # a line is about as high as 2 columns are wide
    columns, lines = even_cells(k_cells, side), min((side + 1) // 2, highest)
    rows = even_cells(q_cells, min(side, 2 * lines) if abilities.blocks == "half-blocks" else lines)
    panel_width = max(columns, min(title, room - GAP))
    labels: Literal["round", "columns"] = "columns" if are_few and rows == q_cells else "round"
    return GridLayout(abilities.blocks, 1, label_width, panel_width, per_line, rows, columns, labels)


def _letters(label: str) -> list[str]:
    """Return the letters of a label, each with its marks."""
    letters = list[str]()
    for character in label:
        if letters and unicodedata.category(character).startswith("M"):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _legend(axis: Axis) -> list[str]:
    """Return "0 the", "1 cat" for all tokens."""
    labels, counts = (
        token_labels(axis.tokens.texts, _TOKEN, positions=False),
        axis.tokens.counts or [1] * len(axis.tokens),
    )
    named = zip(labels, counts, strict=True)
    return [f"{i} {isolated(label)}{count_text(n)}" for i, (label, n) in enumerate(named, axis.start)]


def _ends_are_bare(axis: Axis) -> bool:
    """Return whether the texts of the first and the last token are only their positions."""
    return (axis.tokens.texts[0], axis.tokens.texts[-1]) == (str(axis.start), str(axis.end - 1))


def _ends(name: str, axis: Axis) -> list[str]:
    """Return "queries: 0 the … 19,999 whale" as words between which a line may be broken."""
    tokens = axis.tokens.texts
    first, last = (isolated(quoted(token, _TOKEN)) for token in (tokens[0], tokens[-1]))
    return [f"{name}:", f"{axis.start:,} {first}", "…", f"{axis.end - 1:,} {last}"]


def _round_labels(edges: NDArray[np.int64], most: int) -> Iterator[tuple[int, str]]:
    """Yield the first position and about ``most`` round ones, each after the cell that holds it."""
    start, end = int(edges[0]), int(edges[-1])
    for position in (start, *round_positions(start, end, most)):
        yield int(np.searchsorted(edges, position, side="right")) - 1, f"{position:,}"


def _beside(parts: Iterable[Sequence[Segment]]) -> list[Segment]:
    """Return parts of a line with gaps between them, without blanks at its end."""
    line: list[Segment] = []
    for i, part in enumerate(parts):
        line += [Segment(" " * GAP)] * (i > 0) + list(part)
    while line and not line[-1].style and not line[-1].text.strip():
        line.pop()
    return line


def _filled(line: list[Segment], width: int, style: RichStyle | None = None) -> list[Segment]:
    """Return a line with blanks up to this width."""
    return [*line, Segment(" " * (width - Segment.get_line_length(line)), style)]


def wrapped(words: Sequence[str], blank: str, width: int) -> Iterator[str]:
    """Yield lines of whole words, joined by ``blank``."""
    line = ""
    for word in words:
        if line and cell_len(line + blank + word) > width:
            yield line
            line = ""
        line += (blank if line else "") + word
    yield line
