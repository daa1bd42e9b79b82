"""One matrix to be drawn, with its title and its scale: the same for the terminal and for figures."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap
from mhaviz.views.colours import BONE, DIVERGING


@dataclass(frozen=True)
class Scale:
    """How numbers become colours. ``decimals`` is for the numbers in the cells."""

    colormap: str = BONE
    low: float = 0.0
    high: float = 1.0
    decimals: int = 2

    @classmethod
    def around_zero(cls, values: NDArray[np.float32]) -> "Scale":
        """A scale for scores: zero in the middle, as far to both sides as the largest reaches."""
        largest = float(np.nanmax(np.abs(values), initial=1e-6))
        return cls(DIVERGING, -largest, largest, decimals=1)

    def text(self, value: float) -> str:
        """The number as it stands in a cell; hidden ones, NaN, are a dash."""
        return "-" if np.isnan(value) else f"{value:z.{self.decimals}f}"


@dataclass(frozen=True)
class Panel:
    """One matrix, (q_length, k_length)."""

    title: str
    values: NDArray[np.float32]
    scale: Scale

    @property
    def text_length(self) -> int:
        """Characters of the longest number in a cell."""
        ends = (np.nanmin(self.values), np.nanmax(self.values))
        return max(len(self.scale.text(float(end))) for end in ends)


def head_panels(attention_map: AttentionMap, scale: Scale) -> list[Panel]:
    """A panel for every head."""
    heads = zip(attention_map.heads, attention_map.weights, strict=True)
    return [Panel(f"head {head}", weights, scale) for head, weights in heads]
