"""A page as a sheet: each block is measured, then all are laid out from top to bottom, then drawn."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from mhaviz.errors import ArgumentError, counted, is_accepted, parameter
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.blocks import (
    Drawn,
    Page,
    Title,
    heads,
    leaves,
    matrices,
    text_of,
)
from mhaviz.pages.numbers import short
from mhaviz.pages.registry import FIGURE_SUFFIXES
from mhaviz.views.figure.fonts import NARROW_CELLS, Fonts
from mhaviz.views.figure.grid import GridPart
from mhaviz.views.figure.heads import (
    MosaicPart,
)
from mhaviz.views.figure.part import Part, Place
from mhaviz.views.figure.parts import ROUNDING, Measuring, pooled_cells
from mhaviz.views.figure.rooms import pages_in_room
from mhaviz.views.figure.sheet import (
    PAGE_LIMIT,
    TITLE_LINE,
    Sheet,
    foot_height,
    foot_width,
    most_dpi,
    title_lines,
    title_size,
)
from mhaviz.views.measures import BODY, DRAWN_WIDER, MARGIN, PAGE_WIDTH, snap
from mhaviz.views.scales import Scales, resolve, resolve_sheets
from mhaviz.views.style import ROOMS, LayoutStyle, Style
from mhaviz.views.tiles.fit import PAGE_SHAPE
from mhaviz.views.tiles.heads import HIGH
from mhaviz.views.tiles.labels import has_labels, lacks_labels

_TITLE = 0.34  # inches
_LEAST_MARGIN = 0.05  # inches around a figure of a given width
_UNDER = 0.13  # inches between the last part and the foot
_WIDEST_FOOT = 4.0  # most inches that a sheet is widened to for its foot
_MOST_STACKED, _LEAST_ABREAST = 24.0, 2.6  # inches: height of maps one below the other; width of one beside others
_PAPER = 8.27, 11.0  # inches that a sheet of A4 and one of letter paper have in common: width and height
_MOST_LOWERED = 100  # positions of up to two digits are subscripts; longer ones would be as small as they are many
_LEAST_HEAD = 1.2  # least inches of a head in a room, where not all its labels have room
_OF_SLIDES = 20.0, 18.0, 16.0, 14.0, 12.0, 11.0  # font sizes in points, the largest that has room
_OF_MORE_SLIDES, _MOST_SLIDES = (10.0, 9.0), 2  # sizes of letters that are worth more slides; times the usual number
_SQUEEZED = 0.6, 0.7, 0.8, 0.9  # shares of usual heights, of which the largest with room is taken
_TIGHTEST = 0.5  # share where none has room: with it, some cells are narrower, and their labels may need more room
_STEPS = 4  # sizes of photos that are told apart, of which the largest is twice the smallest
_LEAST_OF_HEADS, _HAIR = 1.0, 0.02  # inches: least of the heads of a page, down; and that matter to nobody
_LEAST_WIDTH, _LEAST_BESIDE_PANELS = 6.5, 5.0  # least inches of a sheet without pictures, and with small ones


class _TooWideError(ArgumentError):
    """What is drawn is wider than the page."""


@dataclass(frozen=True)
class _Laid:
    """A page that has been laid out.

    Attributes:
        page: the page.
        plan: its layout, in inches before it is enlarged by ``zoom``.
        scales, fonts, style: what it is drawn with.
        zoom: chosen font size / usual font size.
        crop: inches of the usual margin that are cut off at each side.
        most: most inches of its height; None: any.
    """

    page: Page
    plan: "_Plan"
    scales: Scales
    fonts: Fonts
    style: LayoutStyle
    zoom: float
    crop: float
    most: float | None

    @property
    def fits(self) -> bool:
        """Whether it is at most as high as it may be, with heads that are not too small to be read."""
        mosaics = (one for part, *_ in self.plan.places for one in part.pictures if one.block.maps)
        are_legible = all(map(_is_legible, (one for one in mosaics if one.layout.enlarged is None)))
        return self.most is None or (self.plan.height <= self.most + _HAIR and are_legible)

    @property
    def lacks(self) -> Counter[str]:
        """Counts that grow with what has no room; those of tiles, of their cells and of the labels of sides without
        room for all are negative, as more of them is more."""
        parts = [part for part, *_ in self.plan.places]
        others = sum(part.is_picture and not part.pictures for part in parts)
        lacks = Counter(broken_rows=not self.are_abreast, left_out=len(self.plan.notices), pieces=others)
        for part in parts:
            if part.photo_size:
                lacks["photos"] -= round(_STEPS * math.log2(part.photo_size * self.zoom))
        for one in _pictures(parts):
            n_tiles, sides = len(one.panels), ((one.rows, one.layout.queries), (one.columns, one.layout.keys))
            lacks["pieces"] += not one.block.maps  # each head is a picture by itself
            lacks["labels"] -= n_tiles * sum(len(side.marks) for axis, side in sides if lacks_labels(axis, side))
            lacks["without_labels"] += n_tiles * any(lacks_labels(axis, side) for axis, side in sides)
            lacks["without_numbers"] += n_tiles * (one.layout.value_size is None)
            lacks["tiles"] -= n_tiles
            lacks["cells"] -= math.prod(one.layout.cells)
            if not (has_labels(one.rows) or has_labels(one.columns)):  # inches are all that its cells have
                lacks["inches"] -= int(one.layout.width * self.zoom)
        return lacks

    @property
    def are_abreast(self) -> bool:
        """Whether no row of a grid is broken."""
        return all(part.is_abreast for part, *_ in self.plan.places)

    @property
    def cell(self) -> float:
        """Inches of the smallest cell of its heads; 0: it has none."""
        layouts = (one.layout for part, *_ in self.plan.places for one in part.pictures if one.block.maps)
        return min((min(layout.queries.cell, layout.keys.cell) for layout in layouts), default=0.0)

    @property
    def cells(self) -> dict[int, tuple[int, int]]:
        """Cells in which pooled maps are drawn."""
        return pooled_cells(_pictures(part for part, *_ in self.plan.places))


def _is_legible(part: MosaicPart) -> bool:
    """Return whether each token has a label, or heads are so large that it may lack some."""
    sides = (part.rows, part.layout.queries), (part.columns, part.layout.keys)
    have_all = all(has_labels(axis) and len(side.marks) >= len(axis.tokens) for axis, side in sides)
    return have_all or part.layout.tile_width >= _LEAST_HEAD - _HAIR


def draw_pages(page: Page, style: Style, formats: Collection[str] = FIGURE_SUFFIXES) -> list[Sheet]:
    """Draw a page as ``draw_page`` does, on the sheets of the size of the style's room that it takes."""
    if style.room is None:
        return [draw_page(page, style, formats)]
    scales = resolve(page, {}, style)
    sheets = _sheets(page, style, scales)
    if style.room == "slide" and style.font_size is None:
        style, sheets = _legible_from_afar(page, style, scales, sheets)
    cells = {key: shape for sheet in sheets for key, shape in _lay_out(sheet, style, scales).cells.items()}
    scales = resolve_sheets(page, sheets, cells, style)
    return [draw_page(sheet, style, formats, scales) for sheet in sheets]


def _sheets(page: Page, style: Style, scales: Scales) -> list[Page]:
    """Return the page as sheets of the style's room."""

    def laid_out(part: Page) -> _Laid | None:
        try:
            return _lay_out(part, style, scales)
        except _TooWideError:
            return None

    return pages_in_room(page, laid_out)


def _legible_from_afar(page: Page, style: Style, scales: Scales, usual: list[Page]) -> tuple[Style, list[Page]]:
    """Return the style of slides with the largest letters with which their matrices show all that they show with the
    usual ones, and the slides: the usual ones, or, for letters that are just read from afar, up to twice as many."""

    def lacks(laid: Iterable[_Laid]) -> Counter[str]:
        total = Counter[str]()
        for one in laid:
            total.update(one.lacks)
        return total

    most = lacks(_lay_out(sheet, style, scales) for sheet in usual)
    for size in (*_OF_SLIDES, *_OF_MORE_SLIDES):
        larger = replace(style, font_size=size)
        try:
            sheets = _sheets(page, larger, scales) if size in _OF_MORE_SLIDES else usual
            laid = [_lay_out(sheet, larger, scales) for sheet in sheets]
        except ArgumentError:
            continue
        has_room = len(sheets) <= _MOST_SLIDES * len(usual) and all(one.fits for one in laid)
        if has_room and lacks(laid) <= most:
            return larger, sheets
    return style, usual


def _lay_out(page: Page, style: Style, scales: Scales | None = None) -> _Laid:
    """Lay out a page at the resolution of the style. Raises ArgumentError if it is narrower than what is drawn.

    ``scales``: those of all sheets of a room, which this is one of.
    """
    zoom, crop, most = (style.font_size or BODY) / BODY, 0.0, None
    across, down = (style.width, None) if style.room is None else ROOMS[style.room]
    if across is not None and style.room != "slide":  # the document around it has margins
        crop = MARGIN - _LEAST_MARGIN
    width = None if across is None else snap(across / zoom, style.pixels * zoom) + 2 * crop
    given = {**vars(style), "dpi": round(style.pixels * zoom), "width": width}
    if down is not None:
        most = down / zoom + 2 * crop
    elif page.fits_paper and width is None:
        given["width"], most = (inches / zoom for inches in _PAPER)
    layout = LayoutStyle(**given, is_least=most is not None and style.room is None, heads_height=most)
    scales = resolve(page, {}, layout) if scales is None else scales.of_sheet(page.blocks)
    fonts = Fonts.covering([*_texts(page), layout.title or "", page.footnote, page.reading(Drawn())])
    last = max((max(block.rows.end, block.columns.end) for block in matrices(page.blocks)), default=0)
    on_paper = layout.is_narrow or style.room is not None or style.has_small_letters or last > _MOST_LOWERED
    cells = NARROW_CELLS if layout.is_narrow else fonts.label_cells
    fonts = replace(fonts, label_cells=cells, positions=layout.positions, on_paper=on_paper)
    plan = _plan(page, scales, fonts, layout)
    if layout.width is None and plan.width > PAGE_WIDTH / zoom:
        layout = replace(layout, is_least=True, width=PAGE_WIDTH / zoom)
        plan = _plan(page, scales, fonts, layout)
    if most and plan.height > most and plan.heads_height > _LEAST_OF_HEADS:
        low, high = _LEAST_OF_HEADS, most  # inches of the heads
        layout = replace(layout, heads_height=low)
        plan = _plan(page, scales, fonts, layout)
        while plan.height <= most and high - low > _HAIR:
            larger = replace(layout, heads_height=(low + high) / 2)
            if (trial := _plan(page, scales, fonts, larger)).height <= most:
                low, layout, plan = (low + high) / 2, larger, trial
            else:
                high = (low + high) / 2
    is_in_room, is_free = style.room is not None, most is None and across is None
    limit = most if is_in_room else _PAPER[1] / zoom if is_free else None
    if limit and plan.height > limit:

        def with_room(shares: Iterable[float]) -> list[tuple[LayoutStyle, _Plan]]:
            """Return the layouts with these shares, up to the first that has no room."""
            layouts = (replace(layout, squeeze=share) for share in shares)
            trials = ((squeezed, _plan(page, scales, fonts, squeezed)) for squeezed in layouts)
            return [*takewhile(lambda trial: trial[1].height <= limit, trials)]

        if squeezed := with_room(_SQUEEZED) or with_room([_TIGHTEST] * is_in_room):
            layout, plan = squeezed[-1]
    return _Laid(page, plan, scales, fonts, layout, zoom, crop, most)


def draw_page(
    page: Page, style: Style, formats: Collection[str] = FIGURE_SUFFIXES, scales: Scales | None = None
) -> Sheet:
    """Draw a page.

    Args:
        page: the page.
        style: looks.
        formats: suffixes of the files that its result can be saved in.
        scales: those of all sheets of a room, which this is one of; None: its scales are its own.

    Raises:
        ArgumentError: the picture would be too large even with the coarsest pixels, or narrower than what is drawn.
    """
    laid = _lay_out(page, style, scales)
    page, plan, scales, fonts, zoom = laid.page, laid.plan, laid.scales, laid.fonts, laid.zoom
    is_on_paper, crop = laid.style.is_least and laid.most is not None, laid.crop
    style, asked = laid.style, laid.style.pixels
    # Another dpi moves cells to other whole pixels.
    while style.pixels > (allowed := most_dpi(plan.width, plan.height)):
        if allowed < LEAST_DPI:
            maps = [m for block in heads(page.blocks) for m in block.maps]
            got, advice = "", "save it as data"
            if maps:
                most = max(len(m.heads) for m in maps)
                got = f", of {counted(len(maps), 'map')} of up to {counted(most, 'head')}"
                advice = "choose fewer sentences, layers or heads, or save them as data"
            size = " × ".join(f"{inches * LEAST_DPI:,.0f}" for inches in (plan.width, plan.height))
            raise ArgumentError(f"expected a picture of {PAGE_LIMIT}, got at least {size}{got}; {advice}")
        style = replace(style, dpi=allowed)
        plan = _plan(page, scales, fonts, style)
    sheet = Sheet(plan.width, plan.height, style.pixels, fonts, zoom, crop, title_size(_titles(plan), fonts))
    sheet.notices += plan.notices
    if is_on_paper and any(inches > most / zoom + ROUNDING for inches, most in zip(plan.size, _PAPER, strict=True)):
        size = " × ".join(f"{inches * zoom:.1f}" for inches in plan.size)
        sheet.notices.append(f"the picture is {size} inches, more than a page; a .html file has all on one")
    if plan.height > HIGH / zoom:
        choices = " and ".join(parameter(name) for name in ("layer", "head") if is_accepted(name))
        sheet.notices.append(
            f"the picture is {plan.height * zoom:.0f} inches high, more than anybody sees at once; draw fewer sentences"
            + f", or choose by {choices}" * bool(choices)
            + f"; {parameter('room')} divides it" * is_accepted("room")
            + "; a .html file has all on one page" * (".html" in formats)
        )
    if style.pixels < asked:
        fewer = f"{style.pixels / zoom:.0f} dpi instead of {asked / zoom:.0f}"
        sheet.notices.append(f"drawn at {fewer}: a picture has {PAGE_LIMIT}")
    if plan.title:
        sheet.page_title(plan.title)
    for part, x, y, room in plan.places:
        part.draw(sheet, x, y, room)
    sheet.foot(page.footnote, plan.remark)
    return sheet


def _texts(page: Page) -> Iterator[str]:
    """Yield the texts of users that may be written in the picture."""
    if isinstance(page.title, str):
        yield page.title
    else:
        yield page.title.head
        yield from (token for _, tokens in page.title.texts for token in tokens.texts)
    for block in leaves(page.blocks):
        yield from block.texts_of_users()


@dataclass(frozen=True)
class _Plan:
    """Layout of a page: places of its parts, title, remark, size in inches, and the height of its heads."""

    places: tuple[Place, ...]
    title: Title | str
    remark: str
    width: float
    height: float
    heads_height: float
    notices: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return self.width, self.height


def _plan(page: Page, scales: Scales, fonts: Fonts, style: LayoutStyle) -> _Plan:
    """Lay out the page at the resolution of the style."""
    title, parts = _titled(page.title, Measuring(page, scales, fonts, style).parts(), style.title)
    parts, notices = _fitted(parts, style)
    parts = _abreast(parts, style)
    notes = page.reading(_drawn(parts, style)), _blanks_text(parts), _labels_text(parts)
    remark = "; ".join(filter(None, notes))
    across = max([0.0, *(part.width for part in parts)])
    width = 2 * MARGIN + max(
        across,
        *(min(foot_width(text, fonts) * DRAWN_WIDER, _WIDEST_FOOT) for text in (page.footnote, remark)),
        0.0 if any(part.is_picture for part in parts) else _LEAST_WIDTH,
        _LEAST_BESIDE_PANELS if any(part.of_panels for part in parts) else 0.0,
    )
    if style.width is not None:
        needed = 2 * MARGIN + across
        if needed > style.width + ROUNDING and not style.is_least:
            zoom, margins = (style.font_size or BODY) / BODY, 2 * (MARGIN - _LEAST_MARGIN)
            are_beside = is_accepted("columns") and bool(matrices(page.blocks))
            raise _TooWideError(
                f"{parameter('width')}: expected at least {zoom * (needed - margins) + 0.05:.1f} inches for what is "
                f"drawn, got {zoom * (style.width - margins):.3g}; give more"
                + (f", or choose fewer heads side by side, by {parameter('columns')}" if are_beside else "")
            )
        width = max(style.width, needed - ROUNDING) if style.is_least else style.width
    lines = len(title_lines(title, width, fonts)) - 1
    places, bottom = _place(
        parts, MARGIN + (_TITLE + TITLE_LINE * lines if title else 0.0), width - MARGIN, style.squeeze
    )
    foot = foot_height(width, page.footnote, remark, fonts)
    height = bottom + (foot or -_UNDER) + MARGIN
    of_heads = sum(part.heads_height for part, *_ in places)
    size = snap(width, style.pixels), snap(height, style.pixels)
    return _Plan(tuple(places), title, remark, *size, of_heads, tuple(notices))


def _titles(plan: _Plan) -> Iterator[tuple[Title | str, float]]:
    """Yield all titles of a page that are bold, each with the inches that it has."""
    yield plan.title, plan.width - 2 * MARGIN
    for part, _, _, room in () if plan.title else plan.places:
        yield from part.titles(room)


def _abreast(parts: list[Part], style: Style) -> list[Part]:
    """Return maps of many sentences in rows of several: one below the other, nobody would see them at once."""
    mosaics = _pictures(parts)
    high = sum(part.height(0.0) + part.after for part in parts)
    if style.width is not None or high <= _MOST_STACKED or mosaics != parts:
        return parts
    wide = max(_LEAST_ABREAST, *(part.width for part in mosaics))
    n = min(int(math.sqrt(PAGE_SHAPE * high / wide)), int(PAGE_WIDTH / wide))
    if n < 2:
        return parts
    rows = (mosaics[i : i + n] for i in range(0, len(mosaics), n))
    return [GridPart(tuple(tuple(replace(part, across=wide) for part in row) for row in rows), ())]


def _fitted(parts: list[Part], style: Style) -> tuple[list[Part], list[str]]:
    """Return the parts with tables that are too wide for the page split, and notices of what has no room."""
    room = style.most_across
    split = [one for part in parts for one in part.split(room)]
    kept = [one for one in split if one.width <= room or not one.can_be_left_out]
    said = "a table is wider than the picture, and left out; a .json file has its numbers"
    return kept, [said] * (len(kept) < len(split))


def _titled(title: Title | str, parts: list[Part], wanted: str | None) -> tuple[Title | str, list[Part]]:
    """Return the title of the page, and its parts, with the title that the user has ``wanted``; None: their own."""
    if wanted is None:
        return title, parts
    titled = [title for part in parts for title, _ in part.titles(0.0) if isinstance(title, Title)]
    if wanted and len(titled) != 1:
        return wanted, parts
    own = "" if title else wanted  # below the page's title, the one picture's own is the second line of it
    return (wanted if title else ""), [part.entitled(own) for part in parts]


def _place(parts: Sequence[Part], top: float, edge: float, squeeze: float) -> tuple[list[Place], float]:
    """Place parts from ``top`` downwards, as wide as ``edge`` allows; return their places and where a foot begins.

    ``squeeze``: share of their usual height that gaps have.
    """
    y, room = top, edge - MARGIN
    places: list[Place] = []
    for part in parts:
        places.append((part, MARGIN, y, room))
        y += part.height(room) + part.after * squeeze
    return places, y - (parts[-1].after * squeeze - _UNDER if parts else 0.0)


def _pictures(parts: Iterable[Part]) -> list[MosaicPart]:
    """Return all pictures of matrices, also those in grids."""
    return [picture for part in parts for picture in part.pictures]


def _labels_text(parts: Sequence[Part]) -> str:
    """Return that tokens or heads are without their labels; "" if none is."""
    lacks = any(
        lacks_labels(axis, side)
        for part in _pictures(parts)
        for axis, side in ((part.rows, part.layouts[-1].queries), (part.columns, part.layouts[-1].keys))
    )
    return "some labels are left out for want of room" * lacks


def _blanks_text(parts: Sequence[Part]) -> str:
    """Return that cells whose number rounds to 0 are without it; "" if none is."""
    blanks = {
        panel.scale.half_digit
        for part in _pictures(parts)
        if any(layout.value_size for layout in part.layouts)
        for panel in part.panels
        if panel.has_blanks
    }
    return f"blank: below {short(min(blanks))}" if blanks else ""


def _drawn(parts: Sequence[Part], style: Style) -> Drawn:
    """Return how the maps of the page have been drawn."""
    mosaics = _pictures(parts)
    of_maps = [(part, part.block.maps[0]) for part in mosaics if part.block.maps]
    pooled = tuple(part.layout.pooled for part in mosaics if not part.block.maps or part.block.maps[0].is_whole)
    cells = (m.cells if m.is_whole else m.cells.pooled(*layout.cells) for part, m in of_maps for layout in part.layouts)
    sinks = "apart, in grey and on a scale of its own" * style.has_sinks_apart
    panels = [panel for part in mosaics for panel in part.panels]
    return Drawn(
        tuple(cells),
        pooled,
        outlines=frozenset(outline.colour for panel in panels for outline in panel.outlined),
        sinks=sinks,
        ends=style.ends,
        scales=frozenset(panel.scale.name for panel in panels),
        texts=frozenset(text_of(m) for part in mosaics for m in part.block.maps),
    )
