"""Attention laid over an image, as a figure: the image, and a picture of every head in the colours of all maps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mhaviz.errors import ArgumentError, parameter
from mhaviz.pages.image import (
    image_title,
    left_out_text,
    picture_rows,
    row_heading,
    row_titles,
    special_text,
    stretched_text,
)
from mhaviz.pages.panels import Panel, Scale, values_beyond
from mhaviz.results.image import ImageAttention, ImageMap
from mhaviz.views.colours import palette, places
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import draw_scale
from mhaviz.views.figure.sheet import (
    ACCENT,
    BODY,
    DRAWN_WIDER,
    INK,
    MARGIN,
    POINTS,
    QUIET,
    SMALL,
    TITLE,
    Sheet,
    fit_text,
    foot_height,
    foot_width,
    redraw_coarser,
    snap,
    text_width,
)
from mhaviz.views.style import LayoutStyle, Style

DARKER = 0.25
"""By so much at most a patch is darker than the colour of its weight, where the image is black."""

_SLIDE = 11.6, 5.6  # inches for all pictures
_LARGEST, _LEAST = 4.4, 0.9  # inches of a picture
_MOST_ACROSS = 16  # heads of one of several layers, which stand in a row
_GAP, _BESIDE, _TILE_TITLE = 0.12, 0.3, 0.22  # inches
_HEADING, _MOST_HEADING = 0.12, 1.3  # inches: from the name of a row to its pictures, and the most for a module's
_HEADING_LINE = 0.16  # inches
_SCALE = 0.75  # inches: the scale with its numbers
_LEAST_BAR, _MOST_BAR = 1.0, 2.5
_TITLE = 0.36
_LINE, _CASING = 1.2, 2.6  # points of the outline of the query, and of what sets it off from dark images
_FINE, _FINE_CASING = 0.8, 1.8  # the same of patches that are smaller than
_SMALL_PATCH = 0.1  # inches
_LEAST_MARGIN = 0.05  # inches around a figure of a given width
_WHOLE = np.ones((1, 1), np.bool_)  # of a picture: all of it is visible


def image_figure(over: ImageAttention, style: Style | None = None) -> Sheet:
    """The image with the query's patch outlined, then a picture of each head: nearest to the numbers, not smoothed.

    The colour of a patch is that of its weight on the scale of all maps of mhaviz, up to a quarter darker where the
    image is dark, so that it is seen what lies there.

    Raises:
        ArgumentError: a width in which the pictures have no room, or so many that no picture is so large.
    """
    style, zoom, crop = style or Style(), 1.0, 0.0
    zoom = (style.font_size or BODY) / BODY
    width = style.width
    if width is not None:
        crop = MARGIN - _LEAST_MARGIN
        width = width / zoom + 2 * crop
    laid_out = LayoutStyle(**{**vars(style), "dpi": round(style.dpi * zoom), "width": width})
    return redraw_coarser(lambda coarser: _sheet(over, coarser, zoom, crop), laid_out)


@dataclass(frozen=True)
class _Layout:
    """Where pictures go.

    Attributes:
        side: inches of the longer side of a picture, about: patches are whole pixels.
        columns: pictures side by side.
        photo: how many times as large the image is.
        rows: of pictures, of each map, or of all of them.
    """

    side: float
    columns: int
    photo: float
    rows: tuple[int, ...]


@dataclass(frozen=True)
class _Tile:
    """A picture, and where its top left corner is; ``patch``: inches of a patch."""

    m: ImageMap
    head: int
    title: str
    x: float
    y: float
    patch: float


def _sheet(over: ImageAttention, style: Style, zoom: float, crop: float) -> Sheet:
    quoted = [over.query, over.image_name, *(text for m in over.maps for text in (m.module, *m.special_texts))]
    footnote, remark = style.small_print(over.source.footnote, _remark(over))
    fonts = Fonts.covering([*quoted, style.title or "", footnote, remark])
    title = style.titled(fonts.shown(image_title(over)))
    scale = style.image_scale([m.flat for m in over.maps])
    names = _Names.of(over, fonts)
    layout = _decide(over, style, names.room)
    photo = _sizes(over.maps[0].grid, layout.side * layout.photo, style.dpi)
    left = MARGIN + photo[1] + _BESIDE + names.room
    top = MARGIN + (_TITLE if title else 0.0)
    tiles, headings, bottom, right = _place(over, layout, style.dpi, (left, top))
    first = min(tile.y for tile in tiles)
    bottom = max(bottom, first + photo[0], first + _LEAST_BAR)
    across = right + _BESIDE / 2 + _SCALE + MARGIN
    if style.width is None:
        longest = max(text_width(title, TITLE, fonts.families, bold=True) if title else 0.0, 0.0)
        wanted = max(min(longest * DRAWN_WIDER, _SLIDE[0]), min(foot_width(footnote, fonts), _SLIDE[0]))
        across = max(across, wanted + 2 * MARGIN)
    elif across > style.width + 0.15:
        margins = 2 * (MARGIN - _LEAST_MARGIN)
        raise ArgumentError(
            f"{parameter('width')}: expected at least {zoom * (across - margins) + 0.05:.1f} inches for what is drawn, "
            f"got {zoom * (style.width - margins):.3g}; give more, or choose fewer heads side by side, by "
            f"{parameter('columns')}"
        )
    else:
        across = style.width
    foot = foot_height(across, footnote, remark, fonts)
    height = bottom + 0.16 + (foot + MARGIN if foot else MARGIN - 0.1)
    sheet = Sheet(snap(across, style.dpi), snap(height, style.dpi), style.dpi, fonts, zoom, crop)
    if title:
        sheet.title(MARGIN + 0.1, title)
    _draw_photo(sheet, over, MARGIN, first, photo)
    lights: dict[tuple[int, int, int], NDArray[np.float64]] = {}
    special = fonts.shown(special_text(over)) if special_text(over) else ""
    for tile in tiles:
        _draw_tile(sheet, over, tile, scale, lights, special)
    for y, row in headings:
        names.draw(sheet, left, y, row)
    panels = [Panel("", weights, scale) for m in over.maps for weights in m.weights]
    scale = replace(scale, name=over.quantity.drawn_name + (", log" if scale.log else ""))
    bar = min(max(bottom - first, _LEAST_BAR), _MOST_BAR)
    draw_scale(sheet, right + _BESIDE / 2, first, bar, scale, values_beyond(panels, scale, scale.log))
    sheet.foot(footnote, remark)
    return sheet


def _remark(over: ImageAttention) -> str:
    parts = ["darker, by up to a quarter, where the image is dark"]
    if any(m.patch for m in over.maps):
        parts.append("outlined: the query")
    if special := special_text(over):
        share = np.concatenate([m.special for m in over.maps]).mean()
        parts.append(f"{share:.2g} goes to {special}, on average")
    parts += [over.quantity.remark, stretched_text(over), left_out_text(over), over.source.remark]
    return "; ".join(filter(None, parts))


@dataclass(frozen=True)
class _Names:
    """Of layers and inputs, and of modules below, beside each row of pictures; ``room``: inches, with the gap."""

    fonts: Fonts
    room: float

    @classmethod
    def of(cls, over: ImageAttention, fonts: Fonts) -> "_Names":
        rows = picture_rows(over)
        if len(rows) == 1:
            return cls(fonts, 0.0)
        names = [text_width(name, BODY, bold=True) * DRAWN_WIDER for row in rows for name in row_heading(row)]
        modules = [text_width(fonts.shown(row[0].module), SMALL, fonts.families) for row in rows if len(row) == 1]
        return cls(fonts, max([*names, min(max(modules, default=0.0) * DRAWN_WIDER, _MOST_HEADING)]) + _HEADING)

    def draw(self, sheet: Sheet, x: float, y: float, row: Sequence[ImageMap]) -> None:
        """With the pictures' top left corner at (x, y)."""
        right, room = x - _HEADING, self.room - _HEADING
        y += 0.08
        for name in row_heading(row):
            sheet.write(right, y, name, BODY, bold=True, align="right")
            y += _HEADING_LINE
        if len(row) == 1 and row[0].module:
            module = fit_text(self.fonts.shown(row[0].module), room, SMALL, self.fonts.families)
            sheet.write(right, y, module, SMALL, colour=QUIET, align="right")


def _decide(over: ImageAttention, style: Style, names: float) -> _Layout:
    """As large as a slide has room for, and as the titles need; many heads of many layers are rather small than on many
    lines."""
    rows_of_maps = picture_rows(over)
    counts = [sum(len(m.heads) for m in row) for row in rows_of_maps]
    n_most = max(counts)
    between = _TILE_TITLE + _GAP
    ratio = max(_shape(m.grid)[0] for m in over.maps), max(_shape(m.grid)[1] for m in over.maps)
    width = (
        (_SLIDE[0] + 2 * MARGIN if style.width is None else style.width) - 2 * MARGIN - _SCALE - 1.5 * _BESIDE - names
    )
    titles = [text_width(title, SMALL, bold=True) for row in rows_of_maps for title in sum(row_titles(over, row), ())]
    least = max(_LEAST, (max(titles) - _GAP / 2) / ratio[1] + max(max(m.grid) for m in over.maps) / style.dpi)
    choices = [min(style.columns, n_most)] if style.columns else range(1, min(n_most, _MOST_ACROSS) + 1)
    if len(counts) > 1 and not style.columns:
        choices = [min(n_most, _MOST_ACROSS)]
    elif style.width is None and not style.columns:
        choices = [1, *(n for n in choices if n > 1 and (n + 1) * least * ratio[1] + (n - 1) * _GAP <= width)]
    layouts = []
    for columns in choices:
        rows = tuple(-(-count // columns) for count in counts)
        for photo in (1.0, 2.0):
            side = (width - (columns - 1) * _GAP) / (columns + photo) / ratio[1]
            if style.width is None:
                room = _SLIDE[1] - sum(rows) * between
                side = min(side, max(room, 0.0) / max(sum(rows), photo) / ratio[0], _LARGEST)
                side = max(side, least)
            if photo == 1.0 or sum(rows) > 1:
                layouts.append(_Layout(side, columns, photo, rows))

    def too_high(one: _Layout) -> float:
        return max(sum(one.rows) * (one.side * ratio[0] + between) - _SLIDE[1], 0.0) if style.width is None else 0.0

    return max(layouts, key=lambda one: (round(one.side, 1), -too_high(one), one.photo, -sum(one.rows) * one.columns))


def _shape(grid: tuple[int, int]) -> tuple[float, float]:
    """Height and width of a picture whose longer side is 1."""
    return grid[0] / max(grid), grid[1] / max(grid)


def _sizes(grid: tuple[int, int], side: float, dpi: float) -> tuple[float, float]:
    """Height and width of a picture in inches, its patches squares of whole pixels."""
    patch = max(int(side * dpi / max(grid) + 1e-6), 1) / dpi
    return grid[0] * patch, grid[1] * patch


def _place(
    over: ImageAttention, layout: _Layout, dpi: float, corner: tuple[float, float]
) -> tuple[list[_Tile], list[tuple[float, tuple[ImageMap, ...]]], float, float]:
    """The pictures, how far down the names of rows stand, and where all of them end below and on the right."""
    left, y = (snap(inches, dpi) for inches in corner)
    sizes = [_sizes(m.grid, layout.side, dpi) for m in over.maps]
    width = max(width for _, width in sizes)
    rows = picture_rows(over)
    tiles: list[_Tile] = []
    headings: list[tuple[float, tuple[ImageMap, ...]]] = []
    used = 0
    for row in rows:
        if len(rows) > 1:
            headings.append((snap(y + _TILE_TITLE, dpi), row))
        pictures = list(_pictures(over, row))
        for start in range(0, len(pictures), layout.columns):
            line = pictures[start : start + layout.columns]
            used = max(used, len(line))
            y = snap(y + _TILE_TITLE, dpi)
            for column, (m, head, title) in enumerate(line):
                x = snap(left + column * (width + _GAP), dpi)
                tiles.append(_Tile(m, head, title, x, y, _sizes(m.grid, layout.side, dpi)[1] / m.grid[1]))
            y = snap(y + max(_sizes(m.grid, layout.side, dpi)[0] for m, *_ in line) + _GAP, dpi)
    return tiles, headings, y - _GAP, left + used * (width + _GAP) - _GAP


def _pictures(over: ImageAttention, row: Sequence[ImageMap]) -> Iterator[tuple[ImageMap, int, str]]:
    for m, titles in zip(row, row_titles(over, row), strict=True):
        for place, title in enumerate(titles):
            yield m, place, title


def _draw_photo(sheet: Sheet, over: ImageAttention, x: float, y: float, size: tuple[float, float]) -> None:
    """The image as it is, stretched to its patches."""
    x, y = snap(x, sheet.pixels), snap(y, sheet.pixels)
    height, width = size
    m = over.maps[0]
    pixels = _resized(over.image, round(height * sheet.pixels), round(width * sheet.pixels))
    sheet.image(x, y, width, height, pixels).set_label("image")
    sheet.outline(_WHOLE, (width, height), [(x, y)])
    if m.patch:
        _outline(sheet, x, y, width / m.grid[1], m.patch)
    sheet.write(x, y - 0.04, f"{m.grid[0]} × {m.grid[1]} patches", SMALL, vertical="bottom", colour=QUIET)


def _draw_tile(
    sheet: Sheet,
    over: ImageAttention,
    tile: _Tile,
    scale: Scale,
    lights: dict[tuple[int, int, int], NDArray[np.float64]],
    special: str,
) -> None:
    m, dpi = tile.m, sheet.pixels
    rows, columns = m.grid
    side = round(tile.patch * dpi)
    if (rows, columns, side) not in lights:
        lights[rows, columns, side] = _resized(over.image, rows * side, columns * side).mean(axis=-1) / 255
    height, width = rows * tile.patch, columns * tile.patch
    pixels = painted(m.weights[tile.head], lights[rows, columns, side], scale)
    sheet.image(tile.x, tile.y, width, height, pixels).set_label(f"layer {m.layer}, head {m.heads[tile.head]}")
    sheet.outline(_WHOLE, (width, height), [(tile.x, tile.y)])
    if m.patch:
        _outline(sheet, tile.x, tile.y, tile.patch, m.patch)
    title = fit_text(tile.title, width + _GAP / 2, SMALL, bold=True)
    sheet.write(tile.x, tile.y - 0.04, title, SMALL, bold=True, vertical="bottom", colour=INK)
    text = f"{m.special[tile.head]:.3g} to {special}"
    if special and (text_width(tile.title, SMALL, bold=True) + text_width(text, SMALL)) * DRAWN_WIDER + _GAP < width:
        sheet.write(tile.x + width, tile.y - 0.04, text, SMALL, align="right", vertical="bottom", colour=QUIET)


def _outline(sheet: Sheet, x: float, y: float, patch: float, place: tuple[int, int]) -> None:
    """Around a patch, in a colour that the scale has not, on white, to be seen on any image."""
    row, column = place
    rectangle = (x + column * patch, y + row * patch, patch, patch)
    line, casing = (_LINE, _CASING) if patch >= _SMALL_PATCH else (_FINE, _FINE_CASING)
    out = line / 2 / POINTS
    around = [(rectangle[0] - out, rectangle[1] - out, patch + 2 * out, patch + 2 * out)]
    sheet.frames(around, "white", casing)
    sheet.frames(around, ACCENT, line)


def painted(weights: NDArray[np.float32], light: NDArray[np.float64], scale: Scale) -> NDArray[np.uint8]:
    """Every patch in the colour of its weight, darker where the image is dark: (…, 3).

    ``light``: of the image, from 0 to 1, (grid_rows · side, grid_columns · side): a patch is a square of pixels, and
    nothing is smoothed.
    """
    side = light.shape[0] // weights.shape[0]
    patches = palette(scale.colormap)[places(weights, scale)].repeat(side, axis=0).repeat(side, axis=1)
    return np.round(patches * (1 - DARKER * (1 - light[..., None]))).astype(np.uint8)


def _resized(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    return np.array(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))
