"""Overview of layers × heads on a sheet: a small map of each head, and one enlarged, which has the labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Matrices
from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.attention import AttentionMap
from mhaviz.views.figure.colour_bar import scale_width
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.heads import MosaicPart
from mhaviz.views.figure.measuring import text_width, wrap
from mhaviz.views.figure.mosaic import (
    BESIDE,
    BESIDE_LABEL,
    NAME,
    TILE_TITLE,
    MosaicLayout,
    Side,
    Space,
    decide_mosaic,
    draw_mosaic,
    even_number,
    write_sides,
)
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, MARGIN, PAGE_WIDTH, SMALL, snap
from mhaviz.views.style import Style

_FEW = 12  # most heads that each have labels
_MANY = 16  # heads from which on the enlarged map stands below
_TOKEN, _LEAST, _MORE, _MOST = 0.1, 1.8, 2.3, 3.4  # inches of a token of the enlarged map, and limits of its side
_SMALL_SIDE = 0.7  # most inches of a small map
_GAP, _BETWEEN = 0.027, 0.25  # inches: between two heads, and before the enlarged one
_BAR, _OVER_NOTE = 0.58, 0.05  # inches: a colour bar with its numbers, and the gap below the small maps
_HEADER, _LABELS = TILE_TITLE, 1.5  # inches: above the small maps, and for labels of the enlarged one
_OUTLINE = 1.6  # points
_CHANGED = "outlined, and enlarged: the head whose weights have changed most, altogether"
_PEAKED = "outlined, and enlarged: the head whose queries each give most to one"


def is_overview(block: Matrices, style: Style) -> bool:
    """Return whether a block of layers × heads has too many heads for legible labels beside each."""
    several = len(block.by_layer) > 1 and block.across is not None
    return several and len(block.panels) > _FEW and style.columns is None


@dataclass(frozen=True, eq=False, kw_only=True)
class OverviewPart(MosaicPart):
    """Small maps of all heads, laid out by ``layout``, and one head enlarged.

    Attributes:
        large: layout of the enlarged map.
        place: index of the enlarged head among all.
        is_beside: whether the enlarged map stands beside the small ones, not below.
        note: lines that say why this head is enlarged.
    """

    large: MosaicLayout
    place: int
    is_beside: bool
    note: tuple[str, ...]

    @property
    def layouts(self) -> tuple[MosaicLayout, ...]:
        """Layouts of the small maps and of the large one."""
        return self.layout, self.large

    @property
    def _small_height(self) -> float:
        return _HEADER + self.layout.height + _OVER_NOTE + FOOT_LINE * len(self.note)

    @property
    def _large_at(self) -> tuple[float, float]:
        """Top left corner of the enlarged map, from that of all maps."""
        if self.is_beside:
            return self.layout.width + _BETWEEN, 0.0
        return 0.0, self._small_height + _BETWEEN

    @property
    def _mosaic_width(self) -> float:
        return self._large_at[0] + self.large.width

    @property
    def width(self) -> float:
        """Width in inches, with colour bars."""
        return max(super().width, self.layout.width)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        below = self._large_at[1] + self.large.height
        return self.above(room) + max(self._small_height, below)

    def _bar_width(self, scale: Scale) -> float:
        return scale_width(scale, _BAR)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the part with its top left corner at (x, y)."""
        self.draw_above(sheet, x, y, room)
        y += self.above(room)
        draw_mosaic(sheet, x, y + _HEADER, self.layout, self.panels)
        self._write_sides(sheet, x, y + _HEADER)
        dx, dy = self.layout.tile(self.place)
        frame = x + dx, y + _HEADER + dy, self.layout.tile_width, self.layout.tile_height
        sheet.frames([frame], ACCENT, _OUTLINE)
        left, top = x + self._large_at[0], y + self._large_at[1]
        draw_mosaic(sheet, left, top, self.large, [self.enlarged])
        for i, line in enumerate(self.note):
            middle = y + _HEADER + self.layout.height + _OVER_NOTE + FOOT_LINE * (i + 0.5)
            sheet.write(x, middle, line, SMALL, colour=QUIET)
        self.draw_bars(sheet, x, top + self.large.tile(0)[1], self.large.tile_height)

    @property
    def enlarged(self) -> Panel:
        """The enlarged matrix."""
        whole = replace(self.block.panels[self.place], scale=self.panels[0].scale)
        return whole.pooled(*self.large.cells)

    def _write_sides(self, sheet: Sheet, x: float, y: float) -> None:
        """Write the numbers of heads above the first row, and those of layers left of the first column."""
        layout, maps = self.layout, self.block.maps
        across = list(map(str, maps[0].heads))
        firsts = zip(maps, self.panels[:: layout.columns], strict=True)
        rows = [one.title.partition(" · ")[0] if " · " in one.title else f"layer {m.layer}" for m, one in firsts]
        down = [row.rpartition(" ") for row in rows]
        write_sides(sheet, x, y, layout, across, [number for *_, number in down])
        right = x + layout.queries.room - BESIDE_LABEL
        sheet.write(right, y - 0.04, "head", SMALL, colour=QUIET, align="right", vertical="bottom")
        middle = y + layout.height / 2
        sheet.write(x + 0.4 * NAME, middle, down[0][0], SMALL, colour=QUIET, align="center", rotation=90)


def decide_overview(block: Matrices, fonts: Fonts, style: Style) -> OverviewPart:
    """Lay out the small maps, with cells of whole pixels, and the enlarged map in the room that they leave."""
    m, dpi, room = block.maps[0], style.dpi, (style.width or PAGE_WIDTH) - 2 * MARGIN
    n_columns = len(m.heads)
    lengths = len(m.rows), len(m.columns)

    def enlarged(side: float) -> MosaicLayout:
        space = Space(fonts, dpi, 1, side + _LABELS, side + _LABELS, least_tile=side, cell=side / max(lengths))
        return decide_mosaic(1, m.rows, m.columns, space)

    least = min(max(max(lengths) * _TOKEN, _LEAST), _MORE)
    large = enlarged(least)
    bar = 0.0 if style.is_narrow else BESIDE + _BAR
    beside = large.width - large.tile_width + bar  # labels and colour bar of the enlarged map
    is_beside = not style.is_narrow and n_columns <= _MANY and large.width < room / 2
    left = snap(max(text_width("head", SMALL), NAME + text_width("99", SMALL)) + BESIDE_LABEL, dpi)
    gap = snap(_GAP, dpi)
    free = room - left - (beside + least + _BETWEEN if is_beside else 0.0) + gap
    most = max(int(min(free / n_columns - gap, _SMALL_SIDE) * dpi + 1e-6), 1)
    cells = [even_number(length, most) for length in lengths]
    cell = max(most // max(cells), 1) / dpi
    small = MosaicLayout(
        n_columns,
        len(block.maps),
        Side(cells[0], cell, left),
        Side(cells[1], cell, 0.0),
        SMALL,
        turned=False,
        gap=gap,
        title=0.0,
        below=gap,
    )
    free = room - (small.width + _BETWEEN if is_beside else 0.0)
    large = enlarged(min(free - beside, _MOST))
    if (beyond := large.width + bar - free) > 0:  # labels grow with their cells
        large = enlarged(large.tile_width - beyond)
    if m.rows.cells is None:
        small = replace(small, pooled=_pooled(lengths, cells, large))
    why = wrap(_reason(m), (small.width if is_beside else room) / DRAWN_WIDER, SMALL)
    return OverviewPart(
        block,
        block.title,
        block.module,
        small,
        large=large,
        place=most_peaked(block.maps),
        is_beside=is_beside,
        is_narrow=style.is_narrow,
        note=tuple(why),
    )


def _pooled(lengths: tuple[int, int], cells: Sequence[int], large: MosaicLayout) -> str:
    """Return what a cell of the small maps shows, and one of the large map."""
    text = pooled_text(*lengths, *cells)
    if not text or text == large.pooled:
        return text
    return f"in small maps {text}" if not large.pooled else f"{large.pooled}, in small maps {text.partition('of ')[2]}"


def _reason(m: AttentionMap) -> str:
    """Return why a head of maps with these columns is enlarged."""
    if m.quantity.is_signed:
        return _CHANGED
    return f"{_PEAKED} {'cell' if m.columns.is_pooled else 'key'}{_compared(m)[1]}"


def most_peaked(maps: Sequence[AttentionMap]) -> int:
    """Return the index of the head whose rows have the largest maximum on average, as a share of their sum where rows
    of all keys are shares. For changes it is the head with the largest sum of absolute changes.

    Columns of ``AttentionMap.aside`` do not count, unless there are no others.
    """
    return int(np.argmax(peaks(maps)))


def peaks(maps: Sequence[AttentionMap]) -> list[float]:
    """Return what ``most_peaked`` compares, of each head."""
    return [_peak(m, weights) for m in maps for weights in m.weights]


def _peak(m: AttentionMap, weights: NDArray[np.float32]) -> float:
    sizes = np.nan_to_num(np.abs(weights))
    if m.quantity.is_signed:
        return float(sizes.sum())
    are_shares = m.quantity.rows_are_shares and not m.has_rest
    sums = sizes.sum(axis=1) if are_shares else np.ones(len(sizes))
    most = sizes.max(axis=1, where=_compared(m)[0], initial=0.0)
    return float(np.divide(most, sums, out=np.zeros_like(most), where=sums > 0).mean())


def _compared(m: AttentionMap) -> tuple[NDArray[np.bool_], str]:
    """Return the columns that count, and a text that names the others, ", first and special ones aside"."""
    of_first, of_special = m.aside
    counts = ~(of_first | of_special)
    if not counts.any():
        return ~counts, ""
    if not of_special.any():
        return counts, ", the first aside" * bool(of_first.any())
    return counts, f", {'first and ' * bool(of_first.any())}special ones aside"
