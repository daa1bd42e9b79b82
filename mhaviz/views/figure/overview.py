"""Overview of layers × heads on a sheet: a small map of each head, and one enlarged, which has the labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.peaks import compared
from mhaviz.results.attention import AttentionMap
from mhaviz.views.figure.heads import MosaicPart, write_asides
from mhaviz.views.figure.measuring import wrap
from mhaviz.views.figure.mosaic import draw_mosaic, write_sides
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL
from mhaviz.views.style import LayoutStyle
from mhaviz.views.tiles.labels import BESIDE_LABEL
from mhaviz.views.tiles.layout import NAME, TILE_TITLE, Enlarged, Layout
from mhaviz.views.tiles.overview import BETWEEN, is_film

_OVER_NOTE = 0.05  # inches below the small maps
_HEADER = TILE_TITLE  # inches above the small maps
_OUTLINE = 1.6  # points
_CHANGED = "outlined, and enlarged: the head whose weights have changed most, altogether"
_PEAKED = "outlined, and enlarged: the head whose queries each give most to one"


@dataclass(frozen=True, eq=False, kw_only=True)
class OverviewPart(MosaicPart):
    """Small maps of all heads, laid out by ``layout``, and one head enlarged.

    Attributes:
        enlarged: the enlarged head.
        note: lines that say why this head is enlarged.
    """

    enlarged: Enlarged
    note: tuple[str, ...]

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Layouts of the small maps and of the large one."""
        return self.layout, self.enlarged.layout

    @property
    def _small_height(self) -> float:
        return _HEADER + self.layout.height + _OVER_NOTE + FOOT_LINE * len(self.note)

    @property
    def _large_at(self) -> tuple[float, float]:
        """Top left corner of the enlarged map, from that of all maps."""
        if self.enlarged.is_beside:
            return self.layout.width + BETWEEN, 0.0
        return 0.0, self._small_height + BETWEEN

    @property
    def _mosaic_width(self) -> float:
        return self._large_at[0] + self.enlarged.layout.width

    @property
    def width(self) -> float:
        """Width in inches, with colour bars."""
        return max(super().width, self.layout.width)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        below = self._large_at[1] + self.enlarged.layout.height
        return self.above(room) + max(self._small_height, below)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the part with its top left corner at (x, y)."""
        self.draw_above(sheet, x, y, room)
        y += self.above(room)
        draw_mosaic(sheet, x, y + _HEADER, self.layout, self.panels)
        self._write_sides(sheet, x, y + _HEADER)
        dx, dy = self.layout.tile(self.enlarged.number)
        frame = x + dx, y + _HEADER + dy, self.layout.tile_width, self.layout.tile_height
        sheet.frames([frame], ACCENT, _OUTLINE)
        left, top, large = x + self._large_at[0], y + self._large_at[1], self.enlarged.layout
        shown, whole = self.panels[self.enlarged.number], self.block.panels[self.enlarged.number]
        whole = replace(shown, values=whole.values, hidden=whole.hidden, apart=large.keys.apart).pooled(*large.cells)
        draw_mosaic(sheet, left, top, large, [whole])
        write_asides(sheet, left, top, large, [whole])
        for i, line in enumerate(self.note):
            middle = y + _HEADER + self.layout.height + _OVER_NOTE + FOOT_LINE * (i + 0.5)
            sheet.write(x, middle, line, SMALL, colour=QUIET)
        self.draw_bars(sheet, x, top + large.tile(0)[1], large.tile_height)

    def _write_sides(self, sheet: Sheet, x: float, y: float) -> None:
        """Write the numbers of heads or passes above the first row, and those of layers, calls or heads beside the
        first column."""
        layout, maps, columns = self.layout, self.block.maps, "head"
        if is_film(self.block):
            columns, across = "pass", [str(m.pass_number) for m in maps[: layout.columns]]
            rows = [f"head {m.heads[0]}" for m in maps[:: layout.columns]]
        else:
            across = list(map(str, maps[0].heads))
            firsts = zip(maps, self.panels[:: layout.columns], strict=True)
            rows = [one.title.partition(" · ")[0] if " · " in one.title else m.layer_text for m, one in firsts]
        down = [row.rpartition(" ") for row in rows]
        write_sides(sheet, x, y, layout, across, [number for *_, number in down])
        right = x + layout.queries.room - BESIDE_LABEL
        sheet.write(right, y - 0.04, columns, SMALL, colour=QUIET, align="right", vertical="bottom")
        middle = y + layout.height / 2
        sheet.write(x + 0.4 * NAME, middle, down[0][0], SMALL, colour=QUIET, align="center", rotation=90)


def overview(part: MosaicPart, style: LayoutStyle) -> OverviewPart:
    """Return heads of which one is enlarged, with a note that says why this one."""
    block, m, layout, enlarged = part.block, part.block.maps[0], part.layout, part.layout.enlarged
    assert enlarged is not None, "of many layers and heads one is enlarged"
    if m.rows.cells is None:
        layout = replace(layout, pooled=_pooled((len(m.rows), len(m.columns)), layout.cells, enlarged.layout))
    note = wrap(_reason(m), (layout.width if enlarged.is_beside else style.across) / DRAWN_WIDER, SMALL)
    return OverviewPart(
        block,
        part.title,
        part.subtitle,
        layout,
        part.fonts,
        bars_lie=part.bars_lie,
        enlarged=enlarged,
        note=tuple(note),
    )


def _pooled(lengths: tuple[int, int], cells: Sequence[int], large: Layout) -> str:
    """Return what a cell of the small maps shows, and one of the large map."""
    text = pooled_text(*lengths, *cells)
    if not text or text == large.pooled:
        return text
    return f"in small maps {text}" if not large.pooled else f"{large.pooled}, in small maps {text.partition('of ')[2]}"


def _reason(m: AttentionMap) -> str:
    """Return why a head of maps with these columns is enlarged."""
    if m.quantity.is_signed:
        return _CHANGED
    return f"{_PEAKED} {'cell' if m.columns.is_pooled else 'key'}{compared(m)[1]}"
