"""A page of blocks as a sheet: one below the other, with what belongs beside pictures beside them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mhaviz.errors import ArgumentError
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.blocks import Bars, Block, Curves, Drawn, Heads, Legend, Page, Panels, Table, Text
from mhaviz.pages.panels import DIVERGING
from mhaviz.views.figure.curves import CurvesPart, decide_curves
from mhaviz.views.figure.heads import (
    BarsPart,
    HeadsPart,
    PanelsPart,
    choose_scales,
    decide_heads,
    decide_panels,
    number_length,
    written_texts,
)
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.sheet import (
    BODY,
    DRAWN_WIDER,
    FOOT_LINE,
    INK,
    MARGIN,
    PAGE_LIMIT,
    QUIET,
    SMALL,
    Sheet,
    fewer_pixels_notice,
    foot_height,
    foot_width,
    most_dpi,
    snap,
    title_width,
    wrap,
)
from mhaviz.views.figure.table import TableBars, TablePart, decide_table
from mhaviz.views.labels import quoting
from mhaviz.views.look import Look

_TITLE = 0.34  # inches
_BETWEEN, _UNDER = 0.08, 0.05  # inches between two texts, and, with that, between the last one and the foot
_AFTER_INTRO, _BETWEEN_PICTURES = 0.14, 0.3
_WIDEST_TITLE = 7.0  # inches that a sheet grows to for the sake of its title
_LEAST_WIDTH, _LEAST_BESIDE_PANELS = 6.5, 5.0  # inches for words, where there are no pictures, or small ones


def draw_page(page: Page, look: Look | None = None) -> Sheet:
    """Draw a page, of which at most one block is curves.

    Raises:
        ArgumentError: there are so many maps that even coarse pixels give no picture of allowed size.
    """
    look = look or Look()
    lettering, asked = Lettering.covering(_texts(page)), look.dpi
    plan = _plan(page, lettering, look)
    while look.dpi > (allowed := most_dpi(plan.width, plan.height)):  # another dpi moves cells to other whole pixels
        if allowed < LEAST_DPI:
            maps = [m for block in page.blocks if isinstance(block, Heads) for m in block.maps]
            raise ArgumentError(
                f"expected a picture of {PAGE_LIMIT}, got {len(maps)} maps of up to "
                f"{max(len(m.heads) for m in maps)} heads; choose fewer sentences, layers or heads, or save them as "
                f"data"
            )
        look = replace(look, dpi=allowed)
        plan = _plan(page, lettering, look)
    sheet = Sheet(plan.width, plan.height, look.dpi, lettering)
    if look.dpi < asked:
        sheet.notices.append(fewer_pixels_notice(look.dpi, asked))
    if page.title:
        sheet.title(MARGIN + 0.1, page.title)
    heads = iter(choose_scales([part for part, *_ in plan.places if isinstance(part, HeadsPart)], look))
    for part, x, y, room in plan.places:
        (next(heads) if isinstance(part, HeadsPart) else part).draw(sheet, x, y, room)
    sheet.foot(page.footnote, plan.remark)
    return sheet


def _texts(page: Page) -> Iterator[str]:
    """The users' texts that may stand in the picture."""
    for block in (*page.blocks, *page.beside):
        if isinstance(block, Heads):
            yield from written_texts(block)
        table = block.table if isinstance(block, Heads) else block
        if callable(table):
            made = table(quoting(str))
            yield from (text for row in made.limited(made.most_drawn)[0].texts() for text in row)


@dataclass(frozen=True)
class _TextPart:
    """Lines of words, broken where the place is too narrow for them."""

    block: Text
    size: float

    width, before = 0.0, 0.0

    @property
    def after(self) -> float:
        """Inches to the next part."""
        return _AFTER_INTRO if self.block.style == "intro" else _BETWEEN

    def _lines(self, room: float) -> list[str]:
        return [part for line in self.block.lines for part in wrap(line, room, self.size)]

    def height(self, room: float) -> float:
        """In inches."""
        return FOOT_LINE * len(self._lines(room))

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """With its top left corner at (x, y)."""
        colour = INK if self.block.style in ("plain", "heading") else QUIET
        for i, line in enumerate(self._lines(room)):
            middle = y + FOOT_LINE * (i + 0.5)
            sheet.write(x, middle, line, self.size, colour=colour, bold=self.block.style == "heading")


_Part = CurvesPart | HeadsPart | PanelsPart | BarsPart | TablePart | TableBars | _TextPart
"""A block that has been measured: what it is wide, and high in so much room, and how it is drawn there."""


@dataclass(frozen=True)
class _Plan:
    """Parts of a page with their top left corners and the room to the right of these; all in inches."""

    places: tuple[tuple[_Part, float, float, float], ...]
    remark: str
    width: float
    height: float


def _plan(page: Page, lettering: Lettering, look: Look) -> _Plan:
    """Lay the page out for the look's pixels an inch."""
    blocks = [b for b in page.blocks if not isinstance(b, Legend) and getattr(b, "where", "everywhere") != "listed"]
    stacked = [block for block in blocks if isinstance(block, Heads)]
    length = number_length([m for block in stacked for m in block.maps], look)

    def decide(block: Block, height: float = 0.0) -> _Part:
        if isinstance(block, Heads):
            return decide_heads(block, lettering, look, len(stacked), length)
        if isinstance(block, Panels):
            return decide_panels(block, look)
        if isinstance(block, Curves):
            return decide_curves(block)
        if isinstance(block, Bars):
            return BarsPart(block, look.cmap, height)
        if isinstance(block, Text):
            explains = any(isinstance(other, (Curves, Panels)) for other in blocks)
            return _TextPart(block, SMALL if explains else BODY)
        assert not isinstance(block, Legend), "it is left out"
        return decide_table(block if isinstance(block, Table) else block(quoting(lettering.shown)), lettering)

    parts = [decide(block) for block in blocks]
    pictures = [part for part in parts if isinstance(part, (HeadsPart, PanelsPart))]
    cells = sum(part.height(0) + part.after for part in pictures)
    if pictures:
        cells -= pictures[-1].after + pictures[-1].layout.keys.room + pictures[0].top
    beside = [decide(block, cells) for block in page.beside]
    remark = page.remark if isinstance(page.remark, str) else page.remark(_drawn(pictures, look))

    least, widest_title = 0.0, _WIDEST_TITLE
    if not any(isinstance(block, (Heads, Panels, Curves)) for block in blocks):
        least, widest_title = _LEAST_WIDTH, math.inf
    elif any(isinstance(block, Panels) for block in blocks):
        least = _LEAST_BESIDE_PANELS
    across = max(part.width for part in parts)
    titles = [block.title for block in blocks if isinstance(block, (Heads, Panels))] + [page.title]
    width = 2 * MARGIN + max(
        across + sum(part.before + part.width for part in beside),
        *(min(title_width(title, lettering), widest_title) for title in titles if title),
        *(foot_width(text) * DRAWN_WIDER for text in (page.footnote, remark)),
        least,
    )
    edge = width - MARGIN

    x, y, ends = MARGIN, MARGIN + (_TITLE if page.title else 0.0), [0.0, 0.0]
    places: list[tuple[_Part, float, float, float]] = []
    for part in parts:
        if beside and part is pictures[0]:
            top, left = y + pictures[0].top, MARGIN + across
            for other in beside:
                left += other.before
                places.append((other, left, top, edge - left))
                ends.append(top + other.height(edge - left) + _BETWEEN_PICTURES)
        elif pictures and not isinstance(part, (HeadsPart, PanelsPart)):
            y = max(y, *ends)
        places.append((part, x, y, edge - x))
        end = y + part.height(edge - x) + part.after
        if isinstance(part, CurvesPart) and part.free:
            ends.append(end)
            x, y = x + part.free[0], y + part.free[1]
        else:
            y = end
    y = max(y, *ends) + (0.0 if isinstance(parts[-1], (HeadsPart, PanelsPart)) else _UNDER)
    height = y + foot_height(width, page.footnote, remark) + MARGIN
    return _Plan(tuple(places), remark, snap(width, look.dpi), snap(height, look.dpi))


def _drawn(parts: Sequence[HeadsPart | PanelsPart], look: Look) -> Drawn:
    heads = [part for part in parts if isinstance(part, HeadsPart)]
    pooled = tuple(part.layout.pooled for part in heads for m in part.block.maps[:1] if m.is_whole)
    ends = ("blue", "red") if look.cmap == DIVERGING else None
    return Drawn(tuple(part.cells for part in heads), pooled, ends=ends)
