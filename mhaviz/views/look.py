"""How a picture looks, in the terminal and as a figure."""

from collections.abc import Iterable
from dataclasses import dataclass

from mhaviz.errors import ArgumentError
from mhaviz.records import AttentionMap
from mhaviz.views.colours import BONE, check_colormap
from mhaviz.views.panels import Scale

LEAST_DPI = 20  # with fewer, letters are less than a pixel high


@dataclass(frozen=True)
class Look:
    """What a user may choose; dpi and columns are for figures.

    Attributes:
        cmap: a matplotlib colormap for weights.
        dpi: pixels an inch.
        columns: heads side by side; None: as it fits.
        vmax: the weight that has the last colour; None: the largest weight that is drawn.
        numbers: whether a figure writes them into its cells where there is room.

    Raises:
        ArgumentError: no such colormap, dpi below 20, columns below 1, vmax not above 0 and at most 1.
    """

    cmap: str = BONE
    dpi: int = 150
    columns: int | None = None
    vmax: float | None = 1.0
    numbers: bool = True

    def __post_init__(self) -> None:
        if self.cmap != BONE:  # which needs no look at matplotlib's list
            check_colormap(self.cmap)
        for name, number, least in (("dpi", self.dpi, LEAST_DPI), ("columns", self.columns, 1)):
            if number is not None and number < least:
                raise ArgumentError(f"{name}: expected at least {least}, got {number}")
        if self.vmax is not None and not 0 < self.vmax <= 1:
            raise ArgumentError(f"vmax: expected a weight above 0 and at most 1, or auto, got {self.vmax}")

    def weight_scale(self, maps: Iterable[AttentionMap]) -> Scale:
        """The one scale of all these maps."""
        largest = self.vmax if self.vmax is not None else max(map(_largest, maps))
        return Scale(self.cmap, 0.0, largest or 1.0)


def _largest(attention_map: AttentionMap) -> float:
    """The largest weight; the first row of a masked map does not count: its one key has it all."""
    weights, kind = attention_map.weights, attention_map.kind
    chosen = weights[:, 1:] if kind == "masked" and weights.shape[1] > 1 else weights
    return float(chosen.max())
