"""Layout of attention over images: how large each photo and its map are, and how many stand side by side.

Lengths are in inches. A few heads are pairs, each photo with its map below it, or beside it if there is one head. Many
are a mosaic of maps, beside the pair of the most peaked head. Heads with several views, such as the frames of a video,
are strips.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mhaviz.pages.overlays import Forms, HeadOverlay, Overlays
from mhaviz.views.measures import DRAWN_WIDER, SMALL, snap
from mhaviz.views.style import LayoutStyle
from mhaviz.views.tiles.labels import Ruler

TITLE, LINE, WITHIN = 0.17, 0.135, 0.05  # name of a head; a line of its notes; between a photo and its map
GAP, ROW_GAP = 0.12, 0.12  # between two pairs, across and down
BAR, BAR_LINE = 0.07, 0.26  # bar of a view's share; the same with the line of its name
KEY_GAP = 0.16
FEW = 12
"""Most heads that are pairs."""
BETWEEN, BESIDE = 0.03, 0.25  # between maps of a mosaic; between it and the enlarged head
LABEL = 0.05
"""Between the name of a row and its maps."""
HAIR = 0.02
_MOST, _MOST_OF_STRIP, _MOST_OF_MOSAIC = 3.4, 2.6, 1.2  # most width of a photo, and of a map of a mosaic
_LEAST, _LEAST_OF_MOSAIC = 0.4, 0.11
_HIGH, _HIGHER, _FEW_HIGH = 4.7, 7.0, 4  # most height; of more heads than so many
_COLUMN = 2.0  # most height / width of the page, where it is narrow
_ENLARGED = 2.6, 2.2, 1.8, 1.5, 1.3, 1.0, 0.8  # widths of the photo of the enlarged head
_ENOUGH, _ENOUGH_ENLARGED = 0.5, 1.6  # widths from which on a map, and the enlarged photo, are large enough
_OF_ENLARGED, _OF_MORE = 0.1, 0.02  # worth of the width of the enlarged photo, and of more / that of a map
_OF_ROWS = 1.15  # how much larger photos are worth giving up rows of one layer each
_OF_ONE, _OF_SEVERAL = 2.0, 0.8  # worth of a photo beside its map / that of one above it, of one head and of several
_MOST_STRIPS, _MOST_VIEWS = 4, 24  # most heads, and more of them where they have as few views
STRIP_GAP = 0.24
"""Between two heads that are strips, across."""
_OF_NEAT, _OF_CUT_NAME = 0.03, 0.5  # worth of rows of one layer each, and of names that have room / that of the width
_OF_ONE_MORE = 0.1  # worth of one more head, or of one row less / that of the width of a view
_BOLD = 1.15
"""Width of bold letters / that of others, at most."""
_IN_ONE_ROW = 0.7  # width of a view that is large enough


@dataclass(frozen=True)
class OverlayLayout:
    """Layout of heads over images.

    Attributes:
        kind: "pairs", "mosaic" or "strips".
        tile: width and height of a photo, and of a map.
        across: number of photos side by side.
        is_abreast: whether the map is beside its photo.
        n_notes: lines of notes.
        heads: the heads that are drawn, in order.
        small: width and height of a map of a mosaic.
        small_across: number of maps of a mosaic side by side.
        left: width of the names of the mosaic's rows; 0: each map has its name above it.
        is_beside: whether the mosaic stands beside the enlarged head rather than below it.
        has_photos: whether there are photos.
        slope: height / width of the photos, of several shapes that of the highest.
        strips_across: number of heads with several views side by side.
        name_lines: lines of the name and the share of a view.
    """

    kind: Literal["pairs", "mosaic", "strips"]
    tile: tuple[float, float]
    across: int
    is_abreast: bool
    n_notes: int
    heads: tuple[HeadOverlay, ...]
    small: tuple[float, float] = (0.0, 0.0)
    small_across: int = 1
    left: float = 0.0
    is_beside: bool = False
    has_photos: bool = True
    slope: float = 1.0
    strips_across: int = 1
    name_lines: int = 1

    @property
    def pair_size(self) -> tuple[float, float]:
        """Width and height of a photo and its map, without name and notes."""
        width, height = self.tile
        if not self.has_photos:
            return width, height
        return (2 * width + GAP, height) if self.is_abreast else (width, 2 * height + WITHIN)

    @property
    def pair_height(self) -> float:
        """Height of a pair with its name and notes."""
        return TITLE + self.pair_size[1] + self.n_notes * LINE

    @property
    def mosaic_size(self) -> tuple[float, float]:
        """Width and height of the mosaic with its names."""
        above = TITLE if self.left else 0.0
        each = TITLE if not self.left else 0.0
        n_rows = -(-len(self.heads) // self.small_across)
        width = self.left + self.small_across * (self.small[0] + BETWEEN) - BETWEEN
        return width, above + n_rows * (self.small[1] + each + BETWEEN) - BETWEEN

    def strip_rows(self, head: HeadOverlay) -> int:
        """Return the number of rows of views of a head."""
        return -(-len(head.pictures) // self.across)

    @property
    def strip_height(self) -> float:
        """Height of a row of views with their maps and bars."""
        return self.pair_size[1] + BAR_LINE + (self.name_lines - 1) * LINE

    @property
    def strip_size(self) -> tuple[float, float]:
        """Width and height of a head with several views, of the highest if others have fewer."""
        most = max(len(head.pictures) for head in self.heads)
        rows = max(map(self.strip_rows, self.heads))
        width = min(most, self.across) * (self.tile[0] + WITHIN) - WITHIN
        return width, TITLE + LINE * self.n_notes + rows * (self.strip_height + WITHIN)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of everything but the key."""
        if self.kind == "strips":
            (width, height), n_rows = self.strip_size, -(-len(self.heads) // self.strips_across)
            return self.strips_across * (width + STRIP_GAP) - STRIP_GAP, n_rows * (height + ROW_GAP) - ROW_GAP
        n_rows = -(-len(self.heads) // self.across)
        if self.kind == "pairs":
            width = self.across * (self.pair_size[0] + GAP) - GAP
            return width, n_rows * (self.pair_height + ROW_GAP) - ROW_GAP
        (width, height), (across, down) = (self.pair_size[0], self.pair_height), self.mosaic_size
        if self.is_beside:
            return width + BESIDE + across, max(height, down)
        return max(width, across), height + 2 * ROW_GAP + down


def lay_out_overlays(block: Overlays, style: LayoutStyle, ruler: Ruler, key: float) -> OverlayLayout:
    """Lay out heads in the width of a page, and the height that it leaves.

    Where they have no room, they are as small as can be seen.

    ``key``: height of the key below.
    """
    usual = _HIGH if len(block.heads) <= _FEW_HIGH and not block.are_strips else _HIGHER
    usual = _COLUMN * style.across if style.is_narrow else usual
    room = math.inf if style.heads_height is None else style.heads_height - key
    high = room if style.room == "slide" else min(usual, room)
    ways = _strips if block.are_strips else _mosaics if len(block.heads) > FEW else _pairs
    found = [(worth, layout) for worth, layout in ways(block, style, ruler, _Space(style.across, high, block.slope))]

    def rank(worth: float, layout: OverlayLayout) -> tuple[bool, float]:
        width, height = layout.size
        fits = width <= style.across + HAIR and height <= high + HAIR
        return fits, worth if fits else -height

    return max(found, key=lambda one: rank(*one))[1]


class _Space(NamedTuple):
    """Width and height for heads, and height / width of a photo."""

    width: float
    height: float
    slope: float


_Ways = Iterator[tuple[float, OverlayLayout]]
"""Layouts, each with how good it is, where it has room."""


def _layout(block: Overlays, style: LayoutStyle, space: _Space, width: float, **more: Any) -> OverlayLayout:
    """Return a layout with photos of about this width."""
    tile = _whole(block, max(width, _LEAST), space.slope, style.pixels)
    whole: dict[str, Any] = {
        "heads": block.heads,
        "n_notes": block.most_notes,
        "has_photos": block.has_photos,
        "slope": space.slope,
    }
    return OverlayLayout(tile=tile, **(whole | more))


def _pairs(block: Overlays, style: LayoutStyle, ruler: Ruler, space: _Space) -> _Ways:
    """Yield pairs with each number of columns; the largest are best."""
    n, n_notes = len(block.heads), block.most_notes
    for across in [min(style.columns, n)] if style.columns else range(1, n + 1):
        for is_abreast in (False, True)[: 1 + block.has_photos]:
            width = (space.width - (across - 1) * GAP) / across
            n_rows = -(-n // across)
            free = (space.height - (n_rows - 1) * ROW_GAP) / n_rows - TITLE - n_notes * LINE
            of_pair = 1 if is_abreast or not block.has_photos else 2
            down = (free - WITHIN * (of_pair - 1)) / of_pair / space.slope
            inside = min((width - GAP) / 2 if is_abreast else width, down, _MOST)
            better = _OF_ROWS if across == block.across else 1.0
            better *= (_OF_ONE if n == 1 else _OF_SEVERAL) if is_abreast else 1.0
            yield (
                better * inside,
                _layout(block, style, space, inside, kind="pairs", across=across, is_abreast=is_abreast),
            )


def _mosaics(block: Overlays, style: LayoutStyle, ruler: Ruler, space: _Space) -> _Ways:
    """Yield mosaics beside and below the enlarged head, of several sizes."""
    n, n_notes = len(block.heads), block.most_notes
    grid = None if style.columns else block.across
    left = max(ruler.width(head.row, SMALL) for head in block.heads) * DRAWN_WIDER + LABEL if grid else 0.0
    for is_beside, is_abreast in ((True, False), *[(True, True)] * block.has_photos, (False, block.has_photos)):
        of_pair = 1 if is_abreast or not block.has_photos else 2
        for enlarged in _ENLARGED:
            tile = min(enlarged, (space.width - GAP) / 2 if is_abreast else space.width)
            pair = of_pair * tile * space.slope + WITHIN + TITLE + n_notes * LINE
            across, down = space.width, space.height
            taken = tile + is_abreast * (tile + GAP) + BESIDE
            across, down = (across - taken, down) if is_beside else (across, down - pair - 2 * ROW_GAP)
            most = max(int((across + BETWEEN) / (_LEAST_OF_MOSAIC + BETWEEN)), 1)
            for n_across in [style.columns or grid or 1] if style.columns or grid else range(1, min(n, most) + 1):
                n_rows = -(-n // n_across)
                width = (across - left + BETWEEN) / n_across - BETWEEN
                height = (down - (TITLE if grid else 0.0) + BETWEEN) / n_rows - BETWEEN - (0.0 if grid else TITLE)
                small = max(min(width, height / space.slope, _MOST_OF_MOSAIC), _LEAST_OF_MOSAIC)
                yield (
                    min(small, _ENOUGH) + _OF_ENLARGED * min(tile, _ENOUGH_ENLARGED) + _OF_MORE * (tile + is_beside),
                    _layout(
                        block,
                        style,
                        space,
                        tile,
                        kind="mosaic",
                        across=1,
                        is_abreast=is_abreast,
                        small=_whole(block, small, space.slope, style.pixels),
                        small_across=n_across,
                        left=left,
                        is_beside=is_beside,
                    ),
                )


def _strips(block: Overlays, style: LayoutStyle, ruler: Ruler, space: _Space) -> _Ways:
    """Yield strips of the most peaked heads: as many heads as have room, in as few rows as can be seen."""
    n_views = max(len(head.pictures) for head in block.heads)
    of_pair = 2 if block.has_photos else 1
    names = {name for head in block.heads for picture in head.pictures for name in view_names(picture.name)[1:]}
    alone, with_share = (max(ruler.width(form, SMALL) for form in of) * _BOLD for of in (names, _with_shares(names)))
    notes = max((ruler.width(strip_note(head)[0], SMALL) for head in block.heads), default=0.0) * DRAWN_WIDER
    for n_heads in range(min(len(block.heads), max(_MOST_STRIPS, _MOST_VIEWS // n_views)), 0, -1):
        peaked = {id(head) for head in block.by_peak[:n_heads]}
        heads = tuple(head for head in block.heads if id(head) in peaked)
        for abreast in [min(style.columns, n_heads)] if style.columns else range(1, n_heads + 1):
            for n_rows in range(1, n_views + 1):
                across, n_rows_of_heads = -(-n_views // n_rows), -(-n_heads // abreast)
                strip = (space.width + STRIP_GAP) / abreast - STRIP_GAP
                width, n_notes = (strip + WITHIN) / across - WITHIN, 1 if notes <= strip else block.most_notes
                name_lines = 1 if with_share <= min(width, _MOST_OF_STRIP) else 2
                free = (space.height + ROW_GAP) / n_rows_of_heads - TITLE - n_notes * LINE - ROW_GAP
                free = free / n_rows - BAR_LINE - (name_lines - 1) * LINE - WITHIN
                inside = min(width, (free - WITHIN * (of_pair - 1)) / of_pair / space.slope, _MOST_OF_STRIP)
                worth = min(inside, _IN_ONE_ROW) + 0.05 * inside + _OF_ONE_MORE * (n_heads - n_rows)
                worth += _OF_NEAT * (abreast == block.across) - _OF_CUT_NAME * (alone > inside)
                yield (
                    worth,
                    _layout(
                        block,
                        style,
                        space,
                        inside,
                        kind="strips",
                        across=across,
                        is_abreast=False,
                        heads=heads,
                        n_notes=n_notes,
                        strips_across=abreast,
                        name_lines=1 if with_share <= inside else 2,
                    ),
                )


def view_names(name: str) -> tuple[str, str]:
    """Return the name of a view, and the same without what all have, "3" of "frame 3"."""
    return name, name.partition(" ")[2] or name


def _with_shares(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f"{name}: 100%"


def strip_note(head: HeadOverlay) -> Forms:
    """Return what is said of a head in a line."""
    return tuple("; ".join(forms[0] for forms in notes) for notes in (head.notes, head.notes[::2], head.notes[:1]))


def _whole(block: Overlays, width: float, slope: float, pixels: float) -> tuple[float, float]:
    """Return the width and height of a photo of which patches are whole pixels, where all have as many."""
    size = [width * pixels, width * slope * pixels]
    if len(block.grids) == 1:
        ((rows, columns),) = block.grids
        size = [max(int(x / n), 1) * n if x >= n else x for x, n in zip(size, (columns, rows), strict=True)]
    return snap(size[0] / pixels, pixels), snap(size[1] / pixels, pixels)
