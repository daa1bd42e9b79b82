"""Heads and other small matrices on a sheet: a mosaic with its title, colour bars, table and texts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mhaviz.pages.blocks import Matrices, Title
from mhaviz.pages.labels import title_places
from mhaviz.pages.margins import Margin, key_margin, query_margin
from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.views.figure.colour_bar import draw_lines, draw_upright, lines_height, scale_width
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.margins import AT_RIGHT, OVER, draw_key_margin, draw_query_margin
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.mosaic import (
    BESIDE,
    GAP,
    HIGH,
    LABELS_UP_TO,
    LEAST_LABEL,
    LEAST_PITCH,
    MOST_HEIGHT,
    MOST_LABEL,
    MOST_WIDTH,
    PAGE_SHAPE,
    THUMB,
    TILE_TITLE,
    VALUES_UP_TO,
    MosaicLayout,
    Space,
    decide_mosaic,
    draw_mosaic,
    has_labels,
    thinned_places,
    write_sides,
)
from mhaviz.views.figure.number_grid import draw_ranges, notes_below
from mhaviz.views.figure.patches import patch_layout
from mhaviz.views.figure.sheet import FOOT_LINE, QUIET, Sheet
from mhaviz.views.figure.table import TablePart, measure_table
from mhaviz.views.measures import BODY, DRAWN_WIDER, MARGIN, PAGE_WIDTH, SMALL, snap
from mhaviz.views.scales import Scales
from mhaviz.views.style import LayoutStyle

_TITLE, _SUBTITLE = 0.3, 0.16  # inches for the title of a mosaic, and for the line below it
_BETWEEN, _OVER_TABLE, _OVER_LINES = 0.3, 0.2, 0.04  # inches: from a bar to a card, above a table, above text on cells
_PAGE = 11.6, 7.5  # inches for the tiles of a page: width and height
_LEAST_CELL = 0.12  # least inches of a cell with a label
_OF_HEADS = 0.7  # inches of an upright colour bar with its numbers beside heads
_WIDE, _MOST_LARGER = 5.0, 2.0  # inches of a page that is not narrow; most that cells are enlarged to fill a width
_BESIDE_TABLE = 8.0  # inches of a page with room for a table beside a map
_LEAST_WIDE = 1.0  # most inches of a panel's title beside others, where the page has a width
_COLUMN, _TITLED = 9.0, 0.9  # inches of a column of a paper; of a block's title, labels and the gap below
_WITH_MARGINS = 2.5  # least inches of each side of a map that has numbers along its sides
_LEAST_NUMBER = 0.05  # largest weight of a part of a map from which on its cells have numbers
_WIDEST, _NARROWEST, _HIGHEST = {1: 6.84, 2: 4.5, 3: 3.6}, 2.8, 4.6  # inches: most of a panel, by panels side by side
_LEAST_FEATURE, _LEAST_LABELLED, _LEAST_NUMBERED = 0.02, 0.1, 0.335  # least inches of a cell, with label, with number
_INTO_LINES = 1.1  # most width of a number that stands alone / width of its cell
_HIGHEST_FEATURES = 4.0  # most inches of a panel of features, down
_OF_FEATURES, _OF_NUMBERS = (0.14, 0.2), (0.27, 0.42)  # most inches of a feature's cell, without and with a number
# In a grid: most inches of features across and down, and of tokens; inches of a row with numbers; digits of a number
_SIDE_BY_SIDE, _HIGH, _TOKENS, _ROW, _NUMBER = 10.4, 1.2, 2.8, 0.22, 5
_NARROW_CELL, _NARROW_ROW = 0.3, 0.11  # most inches of a cell on a narrow page, and of a row of features
_AFTER_IDS = 0.12  # inches


@dataclass(frozen=True, eq=False)
class MosaicPart:
    """Heads, or other small matrices, that have been laid out.

    Attributes:
        block: the block.
        title: title of the mosaic; "": none.
        subtitle: line below the title: the name of the attention's module.
        layout: places of tiles and labels.
        panels: the matrices, pooled to the cells of the picture.
        bars: scales with a colour bar.
        is_narrow: whether colour bars lie in lines above the matrices instead of standing beside them.
        table: statistics of each head.
        beside: whether the table stands at the right of a single head instead of below the mosaic.
        text: what a cell shows, below the mosaic; "": not said here.
        across: inches of the mosaic and its margin, or of the widest that it is aligned with.
        margins: numbers of the keys and of the queries along the sides of a single large map.
    """

    block: Matrices
    title: Title | str
    subtitle: str
    layout: MosaicLayout
    panels: Sequence[Panel] = ()
    bars: Sequence[Scale] = ()
    is_narrow: bool = False
    table: TablePart | None = None
    beside: bool = False
    text: str = ""
    across: float = 0.0
    margins: tuple[Margin | None, Margin | None] = (None, None)

    after = 0.2

    @property
    def rows(self) -> Axis:
        """Axis of the rows of each matrix."""
        return self.block.rows

    @property
    def columns(self) -> Axis:
        """Axis of the columns of each matrix."""
        return self.block.columns

    def above(self, room: float) -> float:
        """Return the inches above the mosaic on a page with ``room`` inches."""
        sides = TILE_TITLE * (self.layout.title == 0 and not self.block.maps)
        return self._title_height + (lines_height(self.bars, room) if self.is_narrow else 0.0) + sides

    @property
    def _title_height(self) -> float:
        return _TITLE + _SUBTITLE * bool(self.subtitle) if self.title else 0.0

    @property
    def _mosaic_width(self) -> float:
        """Inches of the mosaic, with the title over the last matrix where bars stand beside it."""
        has_more = self._upright or self.block.are_numbers
        return max(self.layout.width + (self.layout.gap - GAP if has_more else 0.0), self.across)

    @property
    def width(self) -> float:
        """Width in inches, with colour bars and table."""
        bars = max((sum(map(self._bar_width, row)) for row in self._bars_of_rows.values()), default=0.0)
        width = self._mosaic_width + BESIDE * bool(self._upright) + bars
        if self.table is None:
            return width
        return width + _BETWEEN + self.table.full_width if self.beside else max(width, self.table.width)

    @property
    def _upright(self) -> Sequence[Scale]:
        return () if self.is_narrow else self.bars

    @property
    def _bars_of_rows(self) -> Mapping[int, Sequence[Scale]]:
        """Scales whose colour bars stand beside each row of matrices: the first row that has the scale."""
        return _by_row(self._upright, self.panels, self.layout.columns)

    def _bar_width(self, scale: Scale) -> float:
        return scale_width(scale, _OF_HEADS) if self.block.maps else scale_width(scale)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        above = self.above(room)
        n_below = len(self._below(room))
        height = above + self.layout.height + _OVER_LINES * bool(n_below) + FOOT_LINE * n_below
        if self.table is None:
            return height
        if self.beside:
            return max(height, above + self.layout.tile(0)[1] + self.table.height(self.table.full_width))
        return height + _OVER_TABLE + self.table.height(self.width)

    def _below(self, room: float) -> list[str]:
        """Return the lines of text below the matrices."""
        if self.block.are_numbers:
            return notes_below(self.layout, self.panels, room)
        return [self.text] * bool(self.text)

    @property
    def layouts(self) -> tuple[MosaicLayout, ...]:
        """Layouts of all matrices."""
        return (self.layout,)

    def draw_above(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the title, the subtitle and lying colour bars at ``y`` inches from the top."""
        lower = sheet.title(x, y + 0.1, self.title, room)
        if self.title and self.subtitle:
            fonts = sheet.fonts
            subtitle = fit_text(fonts.shown(self.subtitle), room / DRAWN_WIDER, BODY, fonts.families)
            sheet.write(x, y + 0.12 + lower + _SUBTITLE, subtitle, BODY, colour=QUIET)
        if self.is_narrow:
            draw_lines(sheet, x, y + self._title_height, room, self.bars)

    def draw_bars(self, sheet: Sheet, x: float, y: float, height: float) -> float:
        """Draw colour bars at the right of a mosaic that begins at ``x``, and return where they end."""
        right = begin = x + self._mosaic_width + BESIDE
        pitch = self.layout.title + self.layout.tile_height + self.layout.below
        for row, scales in self._bars_of_rows.items():
            left = begin
            for scale in scales:
                draw_upright(sheet, left, y + row * pitch, height, scale)
                left += self._bar_width(scale)
            right = max(right, left)
        return right

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the part with its top left corner at (x, y)."""
        self.draw_above(sheet, x, y, room)
        y += self.above(room)
        draw_mosaic(sheet, x, y, self.layout, self.panels)
        cells = y + self.layout.tile(0)[1]
        (of_keys, of_queries), corner = self.margins, (x + self.layout.queries.room, cells)
        left, top = (snap(inches, sheet.pixels) for inches in corner)
        if of_keys:
            draw_key_margin(sheet, left, top, self.layout, of_keys)
        if of_queries:
            draw_query_margin(sheet, left, top, self.layout, of_queries)
        if self.layout.title == 0:
            titles, n = [panel.title.rpartition(" ") for panel in self.panels], self.layout.columns
            across, down = [name for *_, name in titles[:n]], [name for name, *_ in titles[::n]]
            down = down if self.layout.queries.room else []  # a neighbour has them
            write_sides(sheet, x, y, self.layout, across, down)
        if self.block.are_numbers:
            draw_ranges(sheet, x, y, self.layout, self.panels)
        self._write_asides(sheet, x, y)
        if self.block.ids:
            self._write_ids(sheet, x, cells)
        left = self.draw_bars(sheet, x, cells, self.layout.tile_height)
        under = y + self.layout.height
        left_of_lines = x if self.block.are_numbers else x + self.layout.queries.room
        for i, line in enumerate(self._below(room)):
            sheet.write(left_of_lines, under + _OVER_LINES / 2 + FOOT_LINE * (i + 0.5), line, SMALL, colour=QUIET)
        if self.table and self.beside:
            self.table.draw(sheet, left + _BETWEEN, cells, self.table.full_width)
        elif self.table:
            self.table.draw(sheet, x, under + _OVER_TABLE, self.width)

    def _write_asides(self, sheet: Sheet, x: float, y: float) -> None:
        """Write the number of each panel at the right end of its title, if there is room for all."""
        layout, panels = self.layout, [(panel.title, panel.aside) for panel in self.panels if panel.aside]
        widths = (text_width(title, SMALL, bold=True) + text_width(number, SMALL) for title, number in panels)
        if max(widths, default=0.0) * DRAWN_WIDER + GAP > layout.tile_width:
            return
        for i, panel in enumerate(self.panels):
            if not panel.aside:
                continue
            left, top = layout.tile(i)
            right = x + left + layout.tile_width
            sheet.write(right, y + top - 0.04, panel.aside, SMALL, vertical="bottom", align="right", colour=QUIET)

    def _write_ids(self, sheet: Sheet, x: float, y: float) -> None:
        """Write token ids in a column before the labels of the first matrix, whose cells begin at ``y``."""
        block, size, side = self.block, self.layout.label_size, self.layout.queries
        right = x + _ids_width(block, size)
        sheet.write(right, y - 0.06, "id", SMALL, align="right", vertical="bottom", colour=QUIET)
        for place, i in thinned_places(len(block.ids), 1, side.cells):
            sheet.write(right, y + place * side.cell, str(block.ids[i]), size, align="right", colour=QUIET)

    def aligned(self, others: Sequence["MosaicPart"]) -> "MosaicPart":
        """Return the part with its matrices aligned below those of other parts with as many side by side."""
        alike = [one.layout for one in others if one.layout.columns == self.layout.columns]
        room = max(layout.queries.room for layout in alike)
        layout = replace(self.layout, queries=replace(self.layout.queries, room=room))
        pitch = max(one.tile_width + one.gap for one in alike) if layout.columns > 1 else 0.0
        return replace(self, layout=layout.spread(pitch))


def decide_heads(
    block: Matrices, fonts: Fonts, style: LayoutStyle, stacked: int, text_length: int, like: Sequence[MosaicPart] = ()
) -> MosaicPart:
    """Lay out heads with cells of whole pixels.

    Args:
        block: the heads.
        fonts: fonts of the figure.
        style: style of the figure, with the width of the page.
        stacked: number of such blocks on the page.
        text_length: characters of the longest number in a cell.
        like: parts to align with: with the same size of cells, columns and room for labels.
    """
    m = block.maps[0]
    numbers = m.is_whole or m.quantity.is_signed or any(one.weights.max() >= _LEAST_NUMBER for one in block.maps)
    lies = style.is_narrow or style.heads_height is not None  # the colour bar, as room across is short
    around = 2 * MARGIN + (0.0 if lies else BESIDE + _OF_HEADS)
    columns, longest = style.columns or block.across, max(len(m.rows), len(m.columns))
    space = Space(
        fonts,
        style.dpi,
        columns,
        MOST_WIDTH - around,
        MOST_HEIGHT / stacked,
        PAGE_SHAPE * stacked,
        least_label=LEAST_LABEL if style.font_size is None else MOST_LABEL,
        names=block.names,
    )
    is_alone, room = len(block.panels) == 1, style.width or math.inf
    table = measure_table(block.table, fonts, is_alone, room - 2 * MARGIN) if block.table else None
    beside = is_alone and room >= _BESIDE_TABLE and not style.is_least  # a map is not made smaller for its sake
    margins: tuple[Margin | None, Margin | None] = (None, None)
    if is_alone and stacked == 1 and min(len(m.rows), len(m.columns)) > VALUES_UP_TO and room >= _WIDE:
        margins = key_margin(m), query_margin(m)
    if style.width is not None:  # a narrow page grows in height, as tiles would be tiny
        around += AT_RIGHT * any(margins) + (_BETWEEN + table.full_width if table and beside else 0.0)
        column = _COLUMN / stacked - _TITLED if style.is_narrow else 0.0
        room = max(style.width - around, THUMB)
        space = replace(space, width=room, larger=_MOST_LARGER, column=column)
        if style.heads_height is not None:
            space = replace(space, height=style.heads_height / stacked, fills=True)
    elif m.is_whole and longest <= LABELS_UP_TO:  # on one page, as far as labels stay legible
        least = min(_LEAST_CELL * longest, MOST_WIDTH / (columns or math.sqrt(PAGE_SHAPE * len(block.panels))))
        space = replace(space, width=_PAGE[0], height=_PAGE[1] / stacked, least_tile=least)
    if like:
        cells = [min(part.layout.queries.cell, part.layout.keys.cell) for part in like]
        left = max(part.layout.queries.room for part in like)
        columns = max(part.layout.columns for part in like)
        if style.width is not None:  # the longest map fits beside the widest labels
            longest = max(part.layout.keys.cells for part in like)
            cells.append(((space.width - left + GAP) / columns - GAP) / longest)
        space = replace(space, cell=min(cells), left=left, columns=columns)

    def decided(space: Space) -> MosaicLayout:
        return decide_mosaic(len(block.panels), m.rows, m.columns, space, text_length, numbers)

    layout = decided(space)
    if style.is_least and style.heads_height is None and not columns and _lacks(layout, m):
        # Fewer side by side where that spares all labels; else as many as make heads largest on a page as high as wide.
        fewer = (decided(replace(space, columns=n)) for n in range(layout.columns - 1, 0, -1))
        whole = (one for one in fewer if one.height * stacked < HIGH and not _lacks(one, m))
        layout = next(whole, None) or decided(replace(space, height=PAGE_WIDTH / stacked, fills=True))
    across = 0.0
    if like:  # heads with the same number stand above each other
        gap, pitch = layout.gap, max(part.layout.keys.cells for part in like) * layout.keys.cell + layout.gap
        across = layout.queries.room + layout.columns * pitch - gap
        layout = layout.spread(pitch)
    if any(margins) and min(layout.tile_width, layout.tile_height) >= _WITH_MARGINS:
        layout = replace(layout, title=layout.title + OVER * bool(margins[0]))
        across = layout.width + AT_RIGHT
    else:
        margins = None, None
    text = block.cell_text(m.cells.pooled(*layout.cells)) if m.quantity.is_signed else ""
    return MosaicPart(
        block,
        block.title,
        block.module,
        layout,
        table=table,
        beside=beside,
        text=text,
        across=across,
        margins=margins,
        is_narrow=lies,
    )


def _lacks(layout: MosaicLayout, m: AttentionMap) -> bool:
    """Return whether labels of tokens are left out."""
    sides = (m.rows, layout.queries), (m.columns, layout.keys)
    return any(has_labels(axis) and len(side.marks) < len(axis) for axis, side in sides)


def painted(part: MosaicPart, scales: Scales) -> MosaicPart:
    """Return heads with their panels, and the colour bars that stand beside them.

    Maps of all tokens are pooled head by head when they are drawn.
    """
    panels = [panel.pooled(*part.layout.cells) for panel in scales.panels(part.block)]
    return replace(part, panels=panels, bars=scales.beside(part.block))


def number_length(blocks: Iterable[Matrices], scales: Scales) -> int:
    """Return the characters of the longest number in a cell of the maps that are short enough to have numbers."""
    panels = (panel for block in blocks for panel in scales.panels(block))
    changes = (one for one in panels if one.scale.signed and max(one.values.shape) <= VALUES_UP_TO)
    return max((panel.text_length for panel in changes), default=4)


def written_texts(block: Matrices) -> Iterator[str]:
    """Yield the texts that may be written in a picture; of a part of a map or a pooled map, not all tokens are."""
    is_whole = all(m.is_whole for m in block.maps)
    for side in (block.rows.tokens.texts, block.columns.tokens.texts):
        yield from (side[i] for i in (range(len(side)) if is_whole else title_places(len(side))))
    if block.module:
        yield block.module


def decide_panels(
    block: Matrices,
    panels: Sequence[Panel],
    fonts: Fonts,
    style: LayoutStyle,
    bars: Sequence[Scale],
    in_line: int = 0,
    of_patches: int = 0,
) -> MosaicPart:
    """Lay out small matrices, far enough apart for their titles.

    Args:
        block: the matrices.
        panels: its panels, on the scales that they are drawn on.
        fonts: fonts of the figure.
        style: style of the figure, with the width of the page.
        bars: scales with a colour bar.
        in_line: number of matrices side by side in the grid of this block, with axes drawn to one measure; 0: none.
        of_patches: number of blocks of image patches on the page.
    """
    if block.are_patches:
        layout = patch_layout(block, max(in_line, 1), max(of_patches, 1), style)
        return MosaicPart(block, block.title, "", layout, panels, bars, style.is_narrow)
    across = block.most_across
    titles = max(text_width(panel.title, SMALL, bold=True) for panel in panels) * DRAWN_WIDER
    space = Space(fonts, style.dpi, names=block.names)
    labels = space.widest(fonts.labels(block.rows.tokens.texts), BODY) + space.beside_name
    labels += _ids_width(block, BODY) + _AFTER_IDS if block.ids else 0.0
    room = (style.width or PAGE_WIDTH) - 2 * MARGIN - labels
    lies = style.is_narrow or style.is_least  # the colour bar, as room across is short
    if not lies:
        beside = (sum(map(scale_width, scales)) for scales in _by_row(bars, panels, across).values())
        room -= BESIDE + max(beside, default=0.0)
    is_numbered = style.width is None and max(len(block.rows), len(block.columns)) <= VALUES_UP_TO
    is_numbered &= any(panel.numbers == "all" for panel in panels)
    features = block.columns.are_positions and not block.rows.are_same(block.columns)
    least = len(block.columns) * (_LEAST_FEATURE if features else _LEAST_NUMBERED if is_numbered else _LEAST_LABELLED)
    if style.width is None:
        widest = min(max(room / across - GAP, least, titles), _WIDEST.get(across, _NARROWEST))
    else:
        wanted = 0 if all(panel.numbers == "none" for panel in panels) else len(block.columns) * LEAST_PITCH
        least = THUMB if style.heads_height is not None else max(min(least, wanted), min(titles, _LEAST_WIDE), THUMB)
        across = max((n for n in range(1, across + 1) if room / n - GAP >= least), default=1)
        across = -(-block.most_across // -(-block.most_across // across))
        most = math.inf if features or not style.is_narrow else len(block.columns) * _NARROW_CELL
        widest = max(min(room / across - GAP, most), THUMB)
    n_lines = -(-len(panels) // across)
    space = replace(space, columns=across, height=n_lines * _HIGHEST, width=labels + across * (widest + GAP))
    if features:  # a row is as high as a label
        n_rows, n_columns = len(block.rows), len(block.columns)
        high, wide = _OF_NUMBERS if max(n_rows, n_columns) <= VALUES_UP_TO else _OF_FEATURES
        high = min(high, _HIGHEST_FEATURES / n_rows, _NARROW_ROW if style.is_narrow else high)
        space = replace(space, shape=(high, min(wide, widest / n_columns)))
    if in_line:
        widest = _WIDEST.get(in_line, _SIDE_BY_SIDE / in_line)
        feature = _OF_FEATURES[0] / min(in_line, 2)
        shape = (
            _in_line(block.rows, _ROW, min(feature, _HIGH / len(block.rows))),
            _in_line(block.columns, _OF_NUMBERS[1], min(feature, widest / len(block.columns))),
        )
        if style.width is not None:  # as wide as the page, where it stands alone
            room = max(room, THUMB)
            shape = shape[0], min(shape[1], room / len(block.columns))
            across = min(block.most_across, max(int(room / (max(titles, shape[1] * len(block.columns)) + GAP)), 1))
        space = Space(
            fonts,
            style.dpi,
            across if style.width else block.most_across,
            least_tile=math.inf,
            names=("", ""),
            shape=shape,
        )
    text_length = max(_NUMBER if in_line else 0, *(panel.text_length for panel in panels))
    layout = decide_mosaic(len(panels), block.rows, block.columns, space, text_length)
    if found := [text for panel in panels if panel.numbers == "outlined" for text in panel.outlined_numbers()]:
        has_room = max(text_width(text, LEAST_LABEL) for text in found) <= _INTO_LINES * layout.keys.cell
        layout = replace(layout, value_size=LEAST_LABEL if has_room else None)
    if block.ids:
        room = snap(layout.queries.room + _ids_width(block, layout.label_size) + _AFTER_IDS, style.dpi)
        layout = replace(layout, queries=replace(layout.queries, room=room))
    pitch = titles + GAP
    layout = layout.spread(pitch if style.width is None else min(pitch, room / across))
    return MosaicPart(block, block.title, "", layout, panels, bars, lies)


def _by_row(bars: Iterable[Scale], panels: Sequence[Panel], across: int) -> Mapping[int, list[Scale]]:
    """Return the scales by the row of the first panel that has each, with ``across`` panels in a row."""
    rows = defaultdict[int, list[Scale]](list)
    for scale in bars:
        rows[next((i for i, panel in enumerate(panels) if panel.scale == scale), 0) // across].append(scale)
    return rows


def _in_line(axis: Axis, with_number: float, feature: float) -> float:
    """Return the inches of a cell along an axis in a grid: with a number, of a feature, or of a token."""
    if len(axis) <= VALUES_UP_TO:
        return with_number
    return feature if axis.are_positions else min(_OF_FEATURES[0], _TOKENS / len(axis))


def _ids_width(block: Matrices, size: float) -> float:
    """Return the inches of the column of token ids."""
    return max(text_width(str(number), size) for number in block.ids)
