"""Maps of long inputs in the terminal: cells of many tokens, with round positions along both sides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from mhaviz.records import AttentionMap
from mhaviz.records.axis import even_cells
from mhaviz.views.labels import bare, cut, in_ascii, visible
from mhaviz.views.panels import Scale, head_panels, tile_titles
from mhaviz.views.positions import are_positions, round_positions
from mhaviz.views.terminal.grid import DIM, GAP, Abilities, GridLayout, RowLabel, panel_lines, wrapped

_READABLE = 30  # columns of a panel, where the terminal has so many
_BESIDES = 6  # lines of the screen that are left to titles, positions and the scale
_LEAST_LINES = 8  # of a panel, however low the screen is
_APART = 4  # columns between two positions, about
_BETWEEN = 4  # lines from one row label to the next, or more
_TOKEN = 24  # cells


def long_layout(
    attention_map: AttentionMap,
    width: int,
    height: int | None,
    abilities: Abilities,
    titles: Sequence[str] | None = None,
) -> GridLayout:
    """Panels as large as the terminal allows: squares, or up to twice as wide as high where the screen is low.

    ``height``: lines of the screen; None: of a file or a pipe, which has no end. ``titles``: as in ``head_panels``.
    """
    n_heads, q_cells, k_cells = attention_map.weights.shape
    half = abilities.colour and abilities.unicode
    label_width = len(f"{attention_map.rows.end - 1:,}")
    title = max(map(len, titles or tile_titles(attention_map)))
    room = max(width - label_width - 1, 1) + GAP
    fitting = min(max(room // (max(min(_READABLE, k_cells), title) + GAP), 1), n_heads)
    per_line = -(-n_heads // -(-n_heads // fitting))  # no fewer lines of panels would do, and none is left half empty
    side = max(room // per_line - GAP, 1)
    highest = side if height is None else max(height - _BESIDES, _LEAST_LINES)
    side = min(side, 4 * highest)  # a line is about as high as 2 columns are wide
    columns, lines = even_cells(k_cells, side), min((side + 1) // 2, highest)
    rows = even_cells(q_cells, min(side, 2 * lines) if half else lines)
    panel_width = max(columns, min(title, room - GAP))
    return GridLayout(
        "half-blocks" if half else "lines", 1, label_width, panel_width, per_line, rows, columns, by_position=True
    )


@dataclass(frozen=True)
class LongGrid:
    """The heads of a map that has the cells of its layout, and the tokens where it begins and ends.

    ``titles``: as in ``head_panels``.
    """

    attention_map: AttentionMap
    scale: Scale
    layout: GridLayout
    titles: Sequence[str] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        panels = head_panels(self.attention_map, self.scale, self.titles)
        header = [Segment(self.header().ljust(self.layout.columns), DIM)]
        labels: list[RowLabel] = [([Segment(label)], rows) for label, rows in self.row_labels()]
        yield from panel_lines(panels, self.layout, abilities, header, labels)
        for words in _ends(self.attention_map, not abilities.unicode):
            yield from wrapped(words, options.max_width, " ")

    def header(self) -> str:
        """Positions of keys, each from the column on that holds the key."""
        edges, columns = self.attention_map.columns.edges, self.layout.columns
        room = len(f"{int(edges[-1]):,}") + _APART
        header = ""
        for column, label in _placed(edges, columns // room):
            if len(header) <= column and column + len(label) <= columns:
                header = header.ljust(column) + label + " "
        return header[:columns]

    def row_labels(self) -> Iterator[tuple[str, range]]:
        """Positions of queries, each on the line that holds the query, and the rows of every line."""
        together = 2 if self.layout.cells == "half-blocks" else 1
        lines = [range(row, min(row + together, self.layout.rows)) for row in range(0, self.layout.rows, together)]
        edges = self.attention_map.rows.edges[[*(rows.start for rows in lines), -1]]
        labels = dict(reversed(list(_placed(edges, len(lines) // _BETWEEN))))
        return ((labels.get(line, ""), rows) for line, rows in enumerate(lines))


def _placed(edges: NDArray[np.int64], most: int) -> Iterator[tuple[int, str]]:
    """The first position and round ones, each with the cell that holds it."""
    start, end = int(edges[0]), int(edges[-1])
    for position in (start, *round_positions(start, end, most)):
        yield int(np.searchsorted(edges, position, side="right")) - 1, f"{position:,}"


def _ends(attention_map: AttentionMap, ascii_only: bool) -> Iterator[list[str]]:
    """ "queries: 0 the … 19,999 whale", in words that a line may be broken between."""
    ellipsis = "..." if ascii_only else "…"
    queries = (attention_map.queries, attention_map.rows.start)
    keys = (attention_map.keys, attention_map.columns.start)
    sides = {"queries and keys": keys} if queries == keys else {"queries": queries, "keys": keys}
    for name, (tokens, start) in sides.items():
        if are_positions((tokens[0],), start) and are_positions((tokens[-1],), start + len(tokens) - 1):
            continue
        texts = [visible(bare(token)) for token in (tokens[0], tokens[-1])]
        texts = list(map(in_ascii, texts)) if ascii_only else texts
        first, last = (cut(text, _TOKEN, ellipsis) for text in texts)
        yield [f"{name}:", f"{start:,} {first}", ellipsis, f"{start + len(tokens) - 1:,} {last}"]
