"""How a picture looks, in the terminal and as a figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mhaviz.errors import ArgumentError, parameter
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.panels import DIVERGING, INK
from mhaviz.views.scale import check_colormap

_LEAST_VMAX, _MOST_VMAX = 1e-30, 1e30  # numbers divided by it are still numbers of float32
_WIDTHS, _FONT_SIZES = (1.0, 100.0), (2.0, 72.0)  # inches, points


@dataclass(frozen=True)
class Style:
    """What a user may choose; all but cmap, vmax and log is for figures, title and footnote for the browser as well.

    Attributes:
        cmap: the colours of weights: "ink", from paper to dark, or a colormap of matplotlib.
        dpi: pixels an inch.
        columns: heads side by side; None: as it fits.
        vmax: the number from which on the colour is darkest, of weights at most 1, over an image in times of uniform;
            None: chosen so that most of the attention lies below it.
        numbers: whether they stand in the cells; None: where there are few.
        log: whether equal factors are equal steps of colour.
        width: of the picture in inches, into which heads are fitted; None: as it comes.
        font_size: of labels, in points; other letters go with them. None: 8, and less where cells are small.
        title: stands in the place of the picture's own; "": there is none.
        footnote: stands in the place of all small print: where the numbers come from, and how to read them; "": none.

    Raises:
        ArgumentError: no such colormap, dpi below 20, columns below 1, vmax not from 1e-30 to 1e30, a width or a font
            size that no page has.
    """

    cmap: str = INK
    dpi: int = 150
    columns: int | None = None
    vmax: float | None = None
    numbers: bool | None = None
    log: bool = False
    width: float | None = None
    font_size: float | None = None
    title: str | None = None
    footnote: str | None = None

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> "Style":
        """The style of these choices, by their names. Raises ArgumentError as above, and for names that are none."""
        if unknown := [name for name in choices if name not in cls.__dataclass_fields__]:
            known = ", ".join(cls.__dataclass_fields__)
            raise ArgumentError(f"a picture has no {unknown[0]}: expected a style among {known}")
        return cls(**choices)

    def __post_init__(self) -> None:
        for name in ("title", "footnote"):
            if not isinstance(getattr(self, name), str | None):
                raise ArgumentError(f"{parameter(name)}: expected a text, or None, got {getattr(self, name)!r}")
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
            if length is not None and not isinstance(length, int | float):
                raise ArgumentError(f"{parameter(name)}: expected a number of {unit}, got {length!r:.60}")
            if length is not None and not shortest <= length <= longest:
                raise ArgumentError(f"{parameter(name)}: expected {shortest:g} to {longest:g} {unit}, got {length:.4g}")

    def require_vmax(self, what: str = "weight", most: float = 1.0) -> None:
        """Raise ArgumentError if the end of the scale is none for weights, or for what reaches farther than to 1."""
        if self.vmax is not None and not _LEAST_VMAX <= self.vmax <= most:
            raise ArgumentError(
                f"{parameter('vmax')}: expected a {what} from {_LEAST_VMAX:g} to {most:g}, or auto, got {self.vmax}"
            )

    @property
    def ends(self) -> tuple[str, str] | None:
        """What the colours of the lowest and the highest change are called, if anybody could call them so."""
        return ("blue", "red") if self.diverging == DIVERGING else None

    @property
    def diverging(self) -> str:
        """The colours of numbers of two signs, for which ink has no middle."""
        return DIVERGING if self.cmap == INK else self.cmap


class LayoutStyle(Style):
    """The style of a page before it is enlarged to the letters that are wanted: its sizes have been checked."""

    def __post_init__(self) -> None:
        """Check nothing."""
