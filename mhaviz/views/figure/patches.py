"""Attention over images on a sheet: photos in which patches stand out, and the maps of all patches."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mhaviz.pages.numbers import percent
from mhaviz.pages.overlays import Forms, HeadOverlay, Overlays, PatchPicture
from mhaviz.pages.panels import Scale
from mhaviz.results.axis import cell_edges
from mhaviz.views.colours import palette
from mhaviz.views.figure.artists import Cells
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, FAINT, FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, POINTS, SMALL, snap
from mhaviz.views.photos import lit_photo
from mhaviz.views.style import LayoutStyle
from mhaviz.views.tiles.patches import (
    BAR,
    BESIDE,
    BETWEEN,
    GAP,
    KEY_GAP,
    LABEL,
    LINE,
    ROW_GAP,
    STRIP_GAP,
    TITLE,
    WITHIN,
    OverlayLayout,
    lay_out_overlays,
    strip_note,
    view_names,
)

_KEY_WIDTH = 5.5  # most inches of the key for which a page is wider than what it is of
_KEY_BAR, _KEY_HEIGHT, _AFTER_BAR, _TICKS = 1.1, 0.09, 0.22, 0.14  # inches of the key
_LINE, _HALO = 0.9, 2.0  # points of a white line around patches that stand out, and of black under it
_QUERY, _QUERY_HALO = 1.4, 1.6  # points of the line around the query; with its edge, as a multiple of that
_OF_CELL = 0.2  # most of a cell that the line takes
_QUERY_COLOUR, _QUERY_EDGE = "#00d5ff", "#06323c"
_FRAME, _GROUND = 0.4, "#dedad4"  # points of frames; colour of that around what the query does not see
_BAR_COLOUR = 0.8  # place on the colormap

_Box = tuple[float, float, float, float]
"""x, y, width and height in inches."""


@dataclass(frozen=True, eq=False)
class OverlayPart(Part):
    """Heads over images, with the key of their colours below.

    Attributes:
        block: the heads.
        scale: the scale that they are drawn on.
        fonts: fonts of the figure.
        style: style of the page.
    """

    block: Overlays
    scale: Scale
    fonts: Fonts
    style: LayoutStyle

    after = 0.1

    @property
    def is_picture(self) -> bool:
        """Always True."""
        return True

    @cached_property
    def layout(self) -> OverlayLayout:
        """Sizes of photos and maps."""
        key = self._key_height(self.style.across)
        return lay_out_overlays(self.block, self.style, self.fonts, key)

    @property
    def width(self) -> float:
        """Width of photos and maps, or what their key needs."""
        key = _KEY_BAR + 3 * _AFTER_BAR
        key += max(self.fonts.width(self.fonts.shown(text), SMALL) for text in self._key_texts) * DRAWN_WIDER
        return max(self.layout.size[0], min(key, _KEY_WIDTH, self.style.across))

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return self.layout.size[1] + self._key_height(room)

    @property
    def photo_size(self) -> float:
        """Width of a photo."""
        return self.layout.tile[0]

    @property
    def heads_height(self) -> float:
        """Height of photos and maps with their key."""
        return self.height(self.style.across)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the heads with their top left corner at (x, y), and the key."""
        {"pairs": self._draw_pairs, "mosaic": self._draw_mosaic, "strips": self._draw_strips}[self.layout.kind](
            sheet, x, y
        )
        self._draw_key(sheet, x, y + self.layout.size[1] + KEY_GAP, room)
        if left := len(self.block.heads) - len(self.layout.heads):
            drawn = len(self.layout.heads)
            heads = f"the {drawn} most peaked heads are drawn" if drawn > 1 else "the most peaked head is drawn"
            sheet.notices.append(f"{heads}; {left} more have no room")

    # pairs

    def _draw_pairs(self, sheet: Sheet, x: float, y: float) -> None:
        layout = self.layout
        for i, head in enumerate(layout.heads):
            left = x + i % layout.across * (layout.pair_size[0] + GAP)
            self._draw_pair(sheet, left, y + i // layout.across * (layout.pair_height + ROW_GAP), head)

    def _draw_pair(self, sheet: Sheet, x: float, y: float, head: HeadOverlay) -> None:
        """Draw a head: its name, the photo, its map and what is said of it."""
        layout, (picture,) = self.layout, head.pictures
        across, down = layout.pair_size
        name = self._fitting((head.name,), across, bold=True)
        sheet.write(x, y + TITLE - 0.05, name, SMALL, bold=True, vertical="baseline")
        self._draw_picture(sheet, x, y + TITLE, picture, head.name)
        y += TITLE + down
        for i, forms in enumerate(head.notes):
            text, colour = self._fitting(forms[min(self._forms[i], len(forms) - 1) :], across), INK if i == 0 else QUIET
            sheet.write(x, y + LINE * (i + 0.5) + 0.02, text, SMALL, colour=colour, vertical="center_baseline")

    @cached_property
    def _forms(self) -> list[int]:
        """Number of the longest form of each note that has room in all heads that have it."""
        room = self.layout.pair_size[0]

        def shortest(forms: Forms) -> int:
            fits = (self.fonts.width(self.fonts.shown(form), SMALL) * DRAWN_WIDER <= room for form in forms)
            return next((i for i, has_room in enumerate(fits) if has_room), len(forms) - 1)

        notes = zip_longest(*(head.notes for head in self.layout.heads), fillvalue=("",))
        return [max(map(shortest, of_line)) for of_line in notes]

    def _draw_picture(self, sheet: Sheet, x: float, y: float, picture: PatchPicture, name: str) -> None:
        """Draw a photo, and its map below or beside it."""
        layout = self.layout
        width, height = layout.tile
        low = snap(height * picture.slope / layout.slope, sheet.pixels)  # of photos of other shapes
        if layout.has_photos:
            self._draw_photo(sheet, (x, y, width, low), picture, name)
            x, y = (x + width + GAP, y) if layout.is_abreast else (x, y + height + WITHIN)
        self._draw_map(sheet, (x, y, width, low), picture, name)

    def _draw_photo(self, sheet: Sheet, box: _Box, picture: PatchPicture, name: str) -> None:
        x, y, width, height = box = _snapped(box, sheet)
        if picture.photo is None:
            return
        picture = picture.within_photo()
        pixels = lit_photo(picture, *(max(round(side * sheet.pixels), 1) for side in (height, width)))
        sheet.image(x, y, width, height, pixels).set_label(f"photo of {name} {picture.name}".strip())
        inner = _inner(box, picture)
        if picture.dims:
            _draw_outline(sheet, picture, inner)
        self._draw_query(sheet, inner, picture)

    def _draw_map(self, sheet: Sheet, box: _Box, picture: PatchPicture, name: str, is_small: bool = False) -> None:
        """Draw the map: outside of what the query sees it is blank, and without a frame."""
        scale, picture = self.scale, picture.within_photo()
        box = _snapped(box, sheet)
        inner = _inner(box, picture)
        if not is_small and (inner != box or not picture.seen.all()):
            sheet.frames([box], _GROUND, _FRAME)
        most = (max(int(side * sheet.pixels + 0.5), 1) for side in (inner[3], inner[2]))
        values = np.maximum(_strongest(picture.times, *most), np.float32(scale.low))  # 0 has no logarithm
        sheet.image(*inner, values, scale, Cells).set_label(f"{name} {picture.name}".strip())
        _draw_edges(sheet, _edges(picture.seen, inner), ((FAINT, _FRAME),))
        if picture.dims and picture.photo is None and not is_small:
            _draw_outline(sheet, picture, inner)
        if not is_small:
            self._draw_query(sheet, inner, picture)

    def _draw_query(self, sheet: Sheet, inner: _Box, picture: PatchPicture) -> None:
        if picture.query is None:
            return
        x, y, width, height = inner
        (row, column), (rows, columns) = picture.query, picture.times.shape
        across, down = width / columns, height / rows
        thin = min(_QUERY, _OF_CELL * min(across, down) * POINTS)
        out = thin / POINTS / 2  # the line is around the cell, which stays visible
        box = x + column * across - out, y + row * down - out, across + 2 * out, down + 2 * out
        sheet.frames([box], _QUERY_EDGE, thin * _QUERY_HALO)
        sheet.frames([box], _QUERY_COLOUR, thin)

    # mosaic

    def _draw_mosaic(self, sheet: Sheet, x: float, y: float) -> None:
        layout = self.layout
        peak = self.block.by_peak[0]
        self._draw_pair(sheet, x, y, peak)
        left, top = x, y + layout.pair_height + 2 * ROW_GAP
        if layout.is_beside:
            left, top = x + layout.pair_size[0] + BESIDE, y
        width, height = layout.small
        each = 0.0 if layout.left else TITLE
        if layout.left:
            self._write_sides(sheet, left, top)
            left, top = left + layout.left, top + TITLE
        for i, head in enumerate(layout.heads):
            at = left + i % layout.small_across * (width + BETWEEN)
            down = top + i // layout.small_across * (height + BETWEEN + each) + each
            if each:
                name = self._fitting((head.name, head.column), width)
                sheet.write(at, down - 0.04, name, SMALL, vertical="baseline")
            self._draw_map(sheet, (at, down, width, height), head.pictures[0], head.name, is_small=True)
            if head is peak:
                sheet.frames([_snapped((at, down, width, height), sheet)], ACCENT, 1.4)

    def _write_sides(self, sheet: Sheet, x: float, y: float) -> None:
        """Write the names of layers and heads beside the mosaic, as many as have room."""
        layout = self.layout
        width, height = layout.small
        columns = [head.column for head in layout.heads[: layout.small_across]]
        rows = [head.row for head in layout.heads[:: layout.small_across]]
        wide = max(self.fonts.width(name, SMALL) for name in columns) * DRAWN_WIDER + 0.04
        step = -(-wide // (width + BETWEEN))
        for i in range(0, len(columns), int(step)):
            at = x + layout.left + i * (width + BETWEEN) + width / 2
            sheet.write(at, y + TITLE - 0.05, columns[i], SMALL, colour=QUIET, align="center", vertical="baseline")
        step = -(-LINE // (height + BETWEEN))
        for i in range(0, len(rows), int(step)):
            at = y + TITLE + i * (height + BETWEEN) + height / 2
            right = x + layout.left - LABEL
            sheet.write(right, at, rows[i], SMALL, colour=QUIET, align="right", vertical="center_baseline")

    # strips

    def _draw_strips(self, sheet: Sheet, x: float, y: float) -> None:
        layout, (across, down) = self.layout, self.layout.strip_size
        for i, head in enumerate(layout.heads):
            left = x + i % layout.strips_across * (across + STRIP_GAP)
            self._draw_strip(sheet, left, y + i // layout.strips_across * (down + ROW_GAP), head)

    def _draw_strip(self, sheet: Sheet, x: float, y: float, head: HeadOverlay) -> None:
        """Draw a head: its name, what is said of it, and its views."""
        layout, pitch = self.layout, self.layout.tile[0] + WITHIN
        across = (self.width + STRIP_GAP) / layout.strips_across - STRIP_GAP
        name = self._fitting((head.name,), across, bold=True)
        sheet.write(x, y + TITLE - 0.05, name, SMALL, bold=True, vertical="baseline")
        notes = (strip_note(head),) if layout.n_notes == 1 else head.notes
        for i, forms in enumerate(notes):
            colour = QUIET if i or layout.n_notes == 1 else INK
            at = y + TITLE + LINE * (i + 1) - 0.05
            sheet.write(x, at, self._fitting(forms, across), SMALL, colour=colour, vertical="baseline")
        y += TITLE + LINE * layout.n_notes
        best = {*np.argsort([-picture.share for picture in head.pictures], kind="stable")[:2].tolist()}
        if len(head.pictures) == 2:
            best = {int(np.argmax([picture.share for picture in head.pictures]))}
        texts = self._share_texts(head)
        largest = max(max(picture.share, picture.uniform) for picture in head.pictures) or 1.0
        for i, picture in enumerate(head.pictures):
            left, top = x + i % layout.across * pitch, y + i // layout.across * (layout.strip_height + WITHIN)
            self._draw_picture(sheet, left, top, picture, head.name)
            if picture.query is not None and layout.has_photos:
                sheet.frames([_snapped((left, top, *layout.tile), sheet)], _QUERY_COLOUR, _QUERY)
            self._draw_share(sheet, left, top + layout.pair_size[1], picture, largest, texts[i], i in best)

    def _draw_share(
        self,
        sheet: Sheet,
        x: float,
        y: float,
        picture: PatchPicture,
        largest: float,
        texts: Sequence[str],
        is_best: bool,
    ) -> None:
        """Draw the share of a view as a bar, with a mark at that of uniform attention, and write it below."""
        width, top = self.layout.tile[0], y + 0.03
        fill = palette(self.scale.colormap)[round(_BAR_COLOUR * 255)] / 255
        sheet.page.add_patch(Rectangle((x, top), width * picture.share / largest, BAR, facecolor=fill, linewidth=0))
        at = x + width * picture.uniform / largest
        sheet.ticks([(at, top - 0.015, at, top + BAR + 0.015)], INK, 0.9)
        for i, text in enumerate(texts):
            at = top + BAR + LINE * (i + 0.5) + 0.02
            sheet.write(x, at, text, SMALL, bold=is_best, vertical="center_baseline")

    def _share_texts(self, head: HeadOverlay) -> list[tuple[str, ...]]:
        """Return the lines of the name and the share of each view, all in the longest form that has room."""
        shares = [percent(picture.share) for picture in head.pictures]
        named = list(zip(*(view_names(picture.name) for picture in head.pictures), strict=True))
        room = self.layout.tile[0]
        if self.layout.name_lines == 1:
            forms = [[f"{name}: {share}" for name, share in zip(names, shares, strict=True)] for names in named]
            return [(text,) for text in self._alike(forms, room)]
        return list(zip(self._alike(named, room), shares, strict=True))

    def _alike(self, forms: Sequence[Sequence[str]], room: float) -> list[str]:
        """Return texts in the first form in which all have room, or in the last, shortened."""
        shown = [[self.fonts.shown(text) for text in texts] for texts in forms]

        def fit(texts: Sequence[str]) -> bool:
            return max(self.fonts.width(text, SMALL, bold=True) for text in texts) * DRAWN_WIDER <= room

        return next(filter(fit, shown), None) or [self._fitting((text,), room, bold=True) for text in shown[-1]]

    # key

    @cached_property
    def _key_texts(self) -> list[str]:
        """What is said beside the colour bar."""
        marks = [*self.block.marks, *["bar: share of a view, with a mark at that of uniform"] * self.block.are_strips]
        return [text for text in (self.block.key, "; ".join(marks)) if text]

    def _key_lines(self, room: float) -> list[str]:
        """Return the lines beside the colour bar."""
        width = room - _KEY_BAR - 2.4 * _AFTER_BAR
        return [
            line
            for text in self._key_texts
            for line in wrap(self.fonts.shown(text), width / DRAWN_WIDER, SMALL, self.fonts.families)
        ]

    def _key_height(self, room: float) -> float:
        return KEY_GAP + max(_KEY_HEIGHT + _TICKS, FOOT_LINE * len(self._key_lines(room)))

    def _draw_key(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        scale = self.scale
        x += _AFTER_BAR / 2
        gradient = np.array([[scale.value(share) for share in np.linspace(0, 1, 256)]], np.float32)
        box = snap(x, sheet.pixels), snap(y, sheet.pixels), _KEY_BAR, _KEY_HEIGHT
        sheet.image(*box, gradient, scale).set_label(f"scale of {scale.name}")
        sheet.frames([box])
        low, high = scale.ends
        for share, text in ((0.0, low), (0.5, "1"), (1.0, high)):
            at = x + share * _KEY_BAR, y + _KEY_HEIGHT + 0.03
            sheet.write(*at, text, SMALL, colour=QUIET, align="center", vertical="top")
        for i, line in enumerate(self._key_lines(room)):
            at = x + _KEY_BAR + 1.2 * _AFTER_BAR, y + _KEY_HEIGHT / 2 + i * FOOT_LINE
            sheet.write(*at, line, SMALL, colour=QUIET, vertical="center_baseline")

    def _fitting(self, forms: Forms, room: float, bold: bool = False) -> str:
        """Return the first form of a text that has room, or the last, shortened."""
        shown = [self.fonts.shown(form) for form in forms]
        fits = (form for form in shown if self.fonts.width(form, SMALL, bold=bold) * DRAWN_WIDER <= room)
        return next(fits, None) or fit_text(shown[-1], room / DRAWN_WIDER, SMALL, self.fonts.families, bold)


def _strongest(times: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Return numbers in at most so many rows and columns of pixels; of patches that share one, that with most."""
    for axis, most in enumerate((rows, columns)):
        if times.shape[axis] > most:
            times = np.fmax.reduceat(times, cell_edges(times.shape[axis], most)[:-1], axis=axis)
    return times


def _snapped(box: _Box, sheet: Sheet) -> _Box:
    x, y, width, height = box
    return snap(x, sheet.pixels), snap(y, sheet.pixels), width, height


def _inner(box: _Box, picture: PatchPicture) -> _Box:
    """Return the part of a photo that its patches cover."""
    x, y, width, height = box
    top, left, bottom, right = picture.box
    return x + left * width, y + top * height, (right - left) * width, (bottom - top) * height


def _edges(chosen: NDArray[np.bool_], box: _Box) -> list[list[tuple[float, float]]]:
    """Return the lines around chosen cells of a box, each as long as it is straight."""
    x, y, width, height = box
    rows, columns = chosen.shape
    padded = np.pad(chosen, 1)
    lines = []
    across, down = padded[1:, 1:-1] ^ padded[:-1, 1:-1], padded[1:-1, 1:] ^ padded[1:-1, :-1]
    for is_across, sides in ((True, across), (False, down.T)):
        for place, side in enumerate(sides):
            steps = np.flatnonzero(np.diff(np.pad(side, 1).astype(np.int8)))
            for begin, end in zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True):
                if is_across:
                    at = y + place * height / rows
                    lines.append([(x + begin * width / columns, at), (x + end * width / columns, at)])
                else:
                    at = x + place * width / columns
                    lines.append([(at, y + begin * height / rows), (at, y + end * height / rows)])
    return lines


def _draw_outline(sheet: Sheet, picture: PatchPicture, inner: _Box) -> None:
    """Draw a line around the patches that stand out, as thin as small patches need."""
    rows, columns = picture.times.shape
    thin = min(1.0, _OF_CELL * min(inner[2] / columns, inner[3] / rows) * POINTS / _LINE)
    _draw_edges(sheet, _edges(picture.outlined, inner), (("black", thin * _HALO), ("white", thin * _LINE)))


def _draw_edges(
    sheet: Sheet, edges: Sequence[Sequence[tuple[float, float]]], pens: Sequence[tuple[str, float]]
) -> None:
    """Draw lines with each of these pens, given as colour and points, one over the other."""
    for colour, line in pens:
        drawn = LineCollection(edges, colors=colour, linewidths=line * sheet.zoom, capstyle="projecting")
        sheet.page.add_collection(drawn, autolim=False)
