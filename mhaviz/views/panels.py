"""One matrix to be drawn, with its title and its scale: the same for the terminal and for figures."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap, ScalingComparison
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
    """One matrix, (q_length, k_length). Where a mask has ``hidden`` the key, no number is written."""

    title: str
    values: NDArray[np.float32]
    scale: Scale
    hidden: NDArray[np.bool_] | None = None

    def text(self, row: int, column: int) -> str:
        """The number in a cell."""
        if self.hidden is not None and self.hidden[row, column]:
            return ""
        return self.scale.text(float(self.values[row, column]))

    @property
    def text_length(self) -> int:
        """Characters of the longest number in a cell."""
        values = self.values[~np.isnan(self.values)]
        ends = (values.min(), values.max()) if values.size else (np.nan,)
        return max(len(self.scale.text(float(end))) for end in ends)


def head_panels(attention_map: AttentionMap, scale: Scale) -> list[Panel]:
    """A panel for every head."""
    q_length, k_length = attention_map.weights.shape[1:]
    later = ~np.tri(q_length, k_length, k_length - q_length, dtype=np.bool_)
    hidden = later if attention_map.kind == "masked" else None
    weights = attention_map.weights if hidden is None else np.where(hidden, np.float32(np.nan), attention_map.weights)
    return [Panel(f"head {head}", a, scale, hidden) for head, a in zip(attention_map.heads, weights, strict=True)]


def scaling_panels(
    c: ScalingComparison, i: int, scores: Scale, weights: Scale, head: str = "", times: str = "·", root: str = "√"
) -> list[Panel]:
    """Scores and weights of the i-th head, unscaled and scaled; ``head`` stands before the titles of the scores."""
    product, scaled = f"q{times}k", f"q{times}k / {root}{c.d_key}"
    hidden = np.isnan(c.unscaled.scores[i])
    return [
        Panel(head + product, c.unscaled.scores[i], scores),
        Panel(f"softmax({product})", np.where(hidden, np.float32(np.nan), c.unscaled.weights[i]), weights),
        Panel(head + scaled, c.scaled.scores[i], scores),
        Panel(f"softmax({scaled})", np.where(hidden, np.float32(np.nan), c.scaled.weights[i]), weights),
    ]
