"""How a figure looks."""

from dataclasses import dataclass

from mhaviz.errors import ArgumentError
from mhaviz.views.colours import BONE, check_colormap


@dataclass(frozen=True)
class Look:
    """A matplotlib colormap, pixels an inch, and heads side by side (None: as it fits).

    Raises:
        ArgumentError: no such colormap, or dpi or columns below 1.
    """

    cmap: str = BONE
    dpi: int = 150
    columns: int | None = None

    def __post_init__(self) -> None:
        if self.cmap != BONE:  # which needs no look at matplotlib's list
            check_colormap(self.cmap)
        for name, number in (("dpi", self.dpi), ("columns", self.columns)):
            if number is not None and number < 1:
                raise ArgumentError(f"{name}: expected at least 1, got {number}")
