"""Style: what a user may choose about the look of pictures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.colormaps import DIVERGING, INK
from mhaviz.pages.registry import FIGURE_SUFFIXES
from mhaviz.views.measures import BODY, MARGIN, PAGE_WIDTH, SMALL

_LEAST_VMAX, _MOST_VMAX = 1e-30, 1e30  # numbers divided by it are still numbers of float32
_NARROW = 6.5  # inches
_ON_SCREEN, _OF_PAPER = 150, 300  # pixels an inch
ROOMS = {"slide": (13.3, 7.5), "column": (3.3, 9.0), "page": (6.5, 9.0)}  # inches, width and height
_WIDTHS, _FONT_SIZES = (1.0, 100.0), (2.0, 72.0)  # inches, points
SINKS = ("apart", "in")
_KINDS: Mapping[str, tuple[type, str]] = {
    "cmap": (str, "the name of a colormap"),
    "dpi": (Real, "a number of pixels an inch"),
    "columns": (Integral, "a whole number of heads side by side"),
    "vmax": (Real, "a number"),
    "log": (bool, "True or False"),
    "positions": (bool, "True or False"),
    "sinks": (str, " or ".join(SINKS)),
    "width": (Real, "a number of inches, such as 3.3"),
    "font_size": (Real, "a number of points, such as 8"),
    "title": (str, "a text"),
    "room": (str, f"a room among {', '.join(ROOMS)}"),
}
"""What each look is, and the words for it in a message."""

LOOKS_OF_FILES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("room", "dpi", "width", "font_size", "columns"), FIGURE_SUFFIXES),
    "title": (*FIGURE_SUFFIXES, ".html"),
}
"""Looks, by default None, that apply to files with these suffixes alone; all others apply everywhere."""


@dataclass(frozen=True)
class Style:
    """What a user may choose about the look of pictures: the one list of looks.

    ``save``, ``plot`` and ``to_html`` of results take its attributes by name (``results.result.Looks`` has their types
    for editors), and commands have an option for each that their pictures heed (``cli.shared.appearance``).

    They apply everywhere, but for ``LOOKS_OF_FILES``.

    Attributes:
        cmap: colormap of weights: "ink", from white to dark blue, or one of matplotlib's.
        dpi: pixels an inch; None: 300 in the column or page of a paper, as journals ask for, else 150.
        columns: number of heads side by side; None: as many as fit.
        vmax: number that gets the darkest colour: a weight of at most 1, or, for other quantities, any number; None:
            chosen so that most of the attention lies below it.
        log: logarithmic colour scale.
        positions: whether tokens that occur more than once have their positions in their labels, as in "the₃".
        sinks: "apart": keys that all queries give weight stand apart, in grey and on a scale of their own, and do not
            decide that of the others, unless it is given as ``vmax``; "in": all keys share one scale. Differences and
            other numbers than weights have no sinks.
        width: width of the picture in inches; None: as wide as its contents.
        font_size: size of labels in points, with which all other text scales; None: 8, or less where cells are small.
        title: replaces the title of the picture; "": no title.
        room: name of the room in ``ROOMS`` that the picture fits, with fewer heads, or in several files; None: any.

    Raises:
        ArgumentError: an attribute of another type, an unknown colormap or room, other sinks, a room with a width, dpi
            below 20, columns below 1, vmax outside 1e-30 to 1e30, a width outside 1 to 100 inches, or a font size
            outside 2 to 72 points.
    """

    cmap: str = INK
    dpi: int | None = None
    columns: int | None = None
    vmax: float | None = None
    log: bool = False
    positions: bool = True
    sinks: str = "apart"
    width: float | None = None
    font_size: float | None = None
    title: str | None = None
    room: str | None = None

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> "Style":
        """Return the style with these attributes; None is the default. Raises ArgumentError for unknown names, too."""
        if unknown := [name for name in choices if name not in cls.__dataclass_fields__]:
            known = ", ".join(cls.__dataclass_fields__)
            raise ArgumentError(f"a picture has no {unknown[0]}: expected a style among {known}")
        return cls(**{name: choice for name, choice in choices.items() if choice is not None})

    def __post_init__(self) -> None:
        from mhaviz.views.colours import check_colormap  # which needs numpy, and help texts need our defaults

        for name, (kind, expected) in _KINDS.items():
            choice, default = getattr(self, name), self.__dataclass_fields__[name].default
            if choice is not default and not (isinstance(choice, kind) and isinstance(choice, bool) == (kind is bool)):
                raise ArgumentError(f"{parameter(name)}: expected {expected}, got {quoted(choice)}")
        if self.sinks not in SINKS:
            raise ArgumentError(f"{parameter('sinks')}: expected {' or '.join(SINKS)}, got {quoted(self.sinks)}")
        if self.room is not None and self.room not in ROOMS:
            raise ArgumentError(f"{parameter('room')}: expected {', '.join(ROOMS)}, got {quoted(self.room)}")
        if self.room is not None and self.width is not None:
            raise ArgumentError(f"{parameter('room')} has a width; leave out {parameter('width')}")
        check_colormap(self.cmap)
        for name, number, least in (("dpi", self.dpi, LEAST_DPI), ("columns", self.columns, 1)):
            if number is not None and number < least:
                raise ArgumentError(f"{parameter(name)}: expected at least {least}, got {number}")
        if self.vmax is not None and self.vmax > 1:
            self.require_vmax("number", _MOST_VMAX)
        else:
            self.require_vmax()
        lengths = ("width", self.width, _WIDTHS, "inches"), ("font_size", self.font_size, _FONT_SIZES, "points")
        for name, length, (shortest, longest), unit in lengths:
            if length is not None and not shortest <= length <= longest:
                raise ArgumentError(f"{parameter(name)}: expected {shortest:g} to {longest:g} {unit}, got {length:.4g}")

    @property
    def pixels(self) -> int:
        """Pixels an inch."""
        return self.dpi or (_OF_PAPER if self.is_printed else _ON_SCREEN)

    @property
    def is_printed(self) -> bool:
        """Whether the picture is for the column or page of a paper."""
        return self.room in ("column", "page")

    @property
    def has_small_letters(self) -> bool:
        """Whether subscripts beside letters of the chosen size would be too small to be read."""
        return (self.font_size or BODY) < SMALL

    @property
    def has_sinks_apart(self) -> bool:
        """Whether sinks stand apart, with a scale of their own."""
        return self.sinks == "apart" and self.vmax is None

    @property
    def most_across(self) -> float:
        """Inches between the margins; infinity where the page has no width."""
        return math.inf if self.width is None else self.width - 2 * MARGIN

    @property
    def across(self) -> float:
        """Inches between the margins, or those of a page of many pictures where it has no width."""
        return (self.width or PAGE_WIDTH) - 2 * MARGIN

    @property
    def is_narrow(self) -> bool:
        """Whether the page is too narrow for anything beside its pictures."""
        return self.width is not None and self.width < _NARROW

    def require_vmax(self, what: str = "weight", most: float = 1.0) -> None:
        """Raise ArgumentError unless ``vmax`` is None or from 1e-30 to ``most``; ``what`` names the number."""
        if self.vmax is not None and not _LEAST_VMAX <= self.vmax <= most:
            raise ArgumentError(
                f"{parameter('vmax')}: expected a {what} from {_LEAST_VMAX:g} to {most:g}, or auto, got {self.vmax}"
            )

    @property
    def ends(self) -> tuple[str, str] | None:
        """Names of the colours of the lowest and the highest change; None for a colormap without names for them."""
        return ("blue", "red") if self.diverging == DIVERGING else None

    @property
    def diverging(self) -> str:
        """Colormap of numbers of two signs: blue to red instead of ink, which has no middle."""
        return DIVERGING if self.cmap == INK else self.cmap


@dataclass(frozen=True)
class LayoutStyle(Style):
    """Style of a page before it is enlarged to the chosen font size. Its sizes are not checked, as ``Style`` has.

    Attributes:
        is_least: whether what has no room in ``width`` makes the page wider, as the user has not chosen it.
        heads_height: inches that the heads of a page of a given height may take, down; None: any.
        squeeze: share of their usual height that gaps, rows of small matrices and rows with bars have, in a room that
            would have none for all otherwise.
    """

    is_least: bool = False
    heads_height: float | None = None
    squeeze: float = 1.0

    @property
    def bars_lie(self) -> bool:
        """Whether colour bars lie above pictures, as there is no width for bars beside them."""
        return self.is_narrow or self.is_least or self.heads_height is not None

    def __post_init__(self) -> None:
        """Check nothing."""
