"""A part of a sheet: a block that has been measured, which a page places and draws without knowing its kind."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mhaviz.pages.blocks import Title

if TYPE_CHECKING:
    from mhaviz.views.figure.heads import MosaicPart
    from mhaviz.views.figure.sheet import Sheet


class Part:
    """A block that has been measured. All lengths are in inches.

    A kind of part says how wide and high it is, and draws itself; the rest has answers that fit words and numbers.

    Attributes:
        after: gap between the part and the next one below.
        after_in_grid: the same in a grid; None: no other.
        can_be_left_out: whether it is left out where it is too wide, as files of data have it.
    """

    after: float = 0.2
    after_in_grid: float | None = None
    can_be_left_out = False

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture, beside which a sheet may be narrow."""
        return False

    @property
    def width(self) -> float:
        """Width that it needs; 0: it is wrapped to any width."""
        return 0.0

    def height(self, room: float) -> float:
        """Return the height in a width of ``room``."""
        raise NotImplementedError

    def draw(self, sheet: "Sheet", x: float, y: float, room: float) -> None:
        """Draw the part with its top left corner at (x, y), in a width of ``room``."""
        raise NotImplementedError

    @property
    def pictures(self) -> Sequence["MosaicPart"]:
        """All pictures of matrices in it."""
        return ()

    @property
    def of_panels(self) -> "MosaicPart | None":
        """The part, if it is of matrices that are no heads; their cells are in line with those of others below."""
        return None

    @property
    def heads_height(self) -> float:
        """Height of the heads of maps that it is."""
        return 0.0

    @property
    def photo_size(self) -> float:
        """Width of a photo in it; 0: it has none."""
        return 0.0

    def titles(self, room: float) -> Iterator[tuple[Title | str, float]]:
        """Yield the titles of its pictures, each with the width that it has."""
        yield from ()

    def entitled(self, title: str) -> "Part":
        """Return the part with this title in place of those of its pictures that name sentences."""
        return self

    @property
    def is_abreast(self) -> bool:
        """Whether it has a single row, as a grid that is not broken, and has one, does."""
        return True

    def split(self, room: float) -> Iterator["Part"]:
        """Yield the part, or the parts that it can be divided into where it is wider than ``room``."""
        yield self

    @property
    def left(self) -> float:
        """Width of the labels before its cells, which begin in one line with those of parts above and below."""
        return 0.0

    def begun(self, left: float) -> "Part":
        """Return the part with its cells ``left`` inches from where it begins."""
        return self

    @property
    def last_cells(self) -> float | None:
        """Distance from its top to the end of its last row of cells, which is in line with neighbours'; None: its top
        is."""
        return None

    def among(self, before: Sequence["MosaicPart"], below: Sequence["MosaicPart"]) -> "Part":
        """Return the part as it stands beside the pictures ``before`` it, and above those ``below``, in a grid."""
        return self


Place = tuple[Part, float, float, float]
"""A part, x and y of its top left corner, and the width that it has there; in inches."""
