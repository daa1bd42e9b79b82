"""A page of blocks as a sheet: one below the other, with what belongs beside pictures beside them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mhaviz.errors import ArgumentError
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.blocks import Drawn, Heads, Page, QuotedTable
from mhaviz.views.figure.curves import CurvesPart
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.heads import HeadsPart, PanelsPart, choose_scales, written_texts
from mhaviz.views.figure.parts import Part, decide_parts
from mhaviz.views.figure.sheet import (
    DRAWN_WIDER,
    MARGIN,
    PAGE_LIMIT,
    Sheet,
    fewer_pixels_notice,
    foot_height,
    foot_width,
    most_dpi,
    snap,
    title_width,
)
from mhaviz.views.labels import quoting
from mhaviz.views.style import Style

_TITLE = 0.34  # inches
_UNDER = 0.05  # inches between the last words and the foot
_BETWEEN_PICTURES = 0.3
_WIDEST_TITLE = 7.0  # inches that a sheet grows to for the sake of its title
_LEAST_WIDTH, _LEAST_BESIDE_PANELS = 6.5, 5.0  # inches for words, where there are no pictures, or small ones


def draw_page(page: Page, style: Style | None = None) -> Sheet:
    """Draw a page, of which at most one block is curves.

    Raises:
        ArgumentError: there are so many maps that even coarse pixels give no picture of allowed size.
    """
    style = style or Style()
    fonts, asked = Fonts.covering(_texts(page)), style.dpi
    plan = _plan(page, fonts, style)
    while style.dpi > (allowed := most_dpi(plan.width, plan.height)):  # another dpi moves cells to other whole pixels
        if allowed < LEAST_DPI:
            maps = [m for block in page.blocks if isinstance(block, Heads) for m in block.maps]
            raise ArgumentError(
                f"expected a picture of {PAGE_LIMIT}, got {len(maps)} maps of up to "
                f"{max(len(m.heads) for m in maps)} heads; choose fewer sentences, layers or heads, or save them as "
                f"data"
            )
        style = replace(style, dpi=allowed)
        plan = _plan(page, fonts, style)
    sheet = Sheet(plan.width, plan.height, style.dpi, fonts)
    if style.dpi < asked:
        sheet.notices.append(fewer_pixels_notice(style.dpi, asked))
    if page.title:
        sheet.title(MARGIN + 0.1, page.title)
    heads = iter(choose_scales([part for part, *_ in plan.places if isinstance(part, HeadsPart)], style))
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
        if isinstance(table, QuotedTable):
            made = table.quoted(quoting(str))
            yield from (text for row in made.limited(made.most_drawn)[0].texts() for text in row)


Place = tuple[Part, float, float, float]
"""A part, its top left corner and the room to the right of this; in inches."""


@dataclass(frozen=True)
class _Plan:
    """Where the parts of a page go, and its size in inches."""

    places: tuple[Place, ...]
    remark: str
    width: float
    height: float


def _plan(page: Page, fonts: Fonts, style: Style) -> _Plan:
    """Lay the page out for the style's pixels an inch."""
    parts, beside = decide_parts(page, fonts, style)
    if not any(isinstance(part, (HeadsPart, PanelsPart)) for part in parts):
        parts, beside = parts + beside, []
    remark = page.remark if isinstance(page.remark, str) else page.remark(_drawn(parts, style))
    has_pictures = any(isinstance(part, (HeadsPart, PanelsPart, CurvesPart)) for part in parts)
    widest_title = _WIDEST_TITLE if has_pictures else math.inf
    titles = [page.title, *(part.block.title for part in parts if isinstance(part, (HeadsPart, PanelsPart)))]
    later = [part for part in parts if isinstance(part, PanelsPart)][1:]  # the first title stands above what is beside
    across = max([0.0, *(part.width for part in parts), *(title_width(part.block.title, fonts) for part in later)])
    width = 2 * MARGIN + max(
        across + sum(part.before + part.width for part in beside),
        *(min(title_width(title, fonts), widest_title) for title in titles if title),
        *(foot_width(text) * DRAWN_WIDER for text in (page.footnote, remark)),
        0.0 if has_pictures else _LEAST_WIDTH,
        _LEAST_BESIDE_PANELS if any(isinstance(part, PanelsPart) for part in parts) else 0.0,
    )
    places, bottom = _place(parts, beside, MARGIN + (_TITLE if page.title else 0.0), across, width - MARGIN)
    height = bottom + foot_height(width, page.footnote, remark) + MARGIN
    return _Plan(tuple(places), remark, snap(width, style.dpi), snap(height, style.dpi))


def _place(
    parts: Sequence[Part], beside: Sequence[Part], top: float, across: float, edge: float
) -> tuple[list[Place], float]:
    """One part below the other from ``top`` on, as far as ``edge``; what is below all of them.

    Beside pictures, which are ``across`` inches wide, stand those of ``beside``, words below both. What is said of
    curves stands in the place that they leave empty, if there is one.
    """
    x, y, bottom, is_first = MARGIN, top, 0.0, True
    places: list[Place] = []
    for part in parts:
        if not isinstance(part, (HeadsPart, PanelsPart)):
            y = max(y, bottom) if beside else y
        elif is_first:
            left, is_first = MARGIN + across, False
            for other in beside:
                left += other.before
                places.append((other, left, y + part.top, edge - left))
                bottom = y + part.top + other.height(edge - left) + _BETWEEN_PICTURES
        places.append((part, x, y, edge - x))
        end = y + part.height(edge - x) + part.after
        if isinstance(part, CurvesPart) and part.free:
            bottom, x, y = end, x + part.free[0], y + part.free[1]
        else:
            y = end
    ends_with_pictures = bool(parts) and isinstance(parts[-1], (HeadsPart, PanelsPart))
    return places, max(y, bottom) + (0.0 if ends_with_pictures else _UNDER)


def _drawn(parts: Sequence[Part], style: Style) -> Drawn:
    """What became of the maps of the page."""
    heads = [part for part in parts if isinstance(part, HeadsPart)]
    pooled = tuple(part.layout.pooled for part in heads for m in part.block.maps[:1] if m.is_whole)
    return Drawn(tuple(part.cells for part in heads), pooled, ends=style.ends)
