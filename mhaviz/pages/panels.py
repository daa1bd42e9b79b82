"""Matrices to be drawn, each with its title and its scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.pooling import pool_strongest
from mhaviz.results.attention import AttentionMap

WEIGHT = "weight"  # the name of a scale whose end a user may choose
CROSS = "×"  # the mark of what is dropped
INK = "ink"  # paper is 0: mhaviz.views.ink
DIVERGING = "RdBu_r"  # for numbers of two signs: blue below 0, red above
FILM = "film"  # from clear to one strong colour, for what lies over an image: mhaviz.views.scale

_ROUNDING = 2**-20  # of numbers in float32, relative to them
_MANY = 1_000  # numbers; of more, a few that are far from all others do not make these pale
_BEYOND = 0.01  # of so many numbers, the share that may have more than the last colour


def decimals_of(largest: float) -> int:
    """So many that two digits of the largest number are written: 2 of 0.31, 4 of 0.0031, at most 6."""
    return min(max(1 - math.floor(math.log10(largest)), 2), 6)


def end_of_scale(several: Sequence[NDArray[np.float32]]) -> float:
    """Where a scale of these numbers of two signs ends, in two digits; NaN is none."""
    sizes = np.concatenate([np.zeros(0, np.float32), *(np.abs(x[np.isfinite(x)]) for x in several)])
    end = float(np.quantile(sizes, 1 - _BEYOND) if sizes.size > _MANY else sizes.max(initial=0.0))
    if not end:
        return 1.0
    step = 10.0 ** (math.floor(math.log10(end)) - 1)  # two digits, and nothing beyond that is not far beyond
    return float(f"{math.ceil(end / step - 1e-6) * step:.2g}")


@dataclass(frozen=True)
class Scale:
    """How numbers become colours. ``decimals`` is for the numbers in the cells.

    With ``log``, equal factors are equal steps of colour; what is below ``low``, above 0, has the first colour.
    ``signed``: a number above 0 has its sign too. ``zeros``: what rounds to 0 is written, too, as of a statistic; pages
    of 0.00 say nothing of weights or changes. ``name``: of the numbers; if there is one, a bar stands beside the first
    panels that have the scale.
    """

    colormap: str = INK
    low: float = 0.0
    high: float = 1.0
    decimals: int = 2
    log: bool = False
    signed: bool = False
    zeros: bool = False
    name: str = ""

    @classmethod
    def around_zero(cls, values: NDArray[np.float32], name: str = "") -> "Scale":
        """A scale for scores: zero in its middle, as far to both sides as the largest reaches."""
        largest = float(np.nanmax(np.abs(values), initial=1e-6))
        return cls(DIVERGING, -largest, largest, decimals=1, name=name)

    @property
    def has_two_signs(self) -> bool:
        """Whether 0 lies inside it."""
        return self.low < 0 < self.high

    @property
    def ends(self) -> tuple[str, str]:
        """The lowest and the highest number in three digits: "0", "2.51"."""
        return f"{self.low:.3g}", f"{self.high:.3g}"

    @property
    def range_text(self) -> str:
        """Both in one text: "0–2.51"; "-0.3 to 0.3", as a dash before a sign would be one too many."""
        return (" to " if self.low < 0 else "–").join(self.ends)

    def coloured(self, colormap: str) -> "Scale":
        """The same numbers in these colours; ink, which has no middle, is for numbers of one sign on paper."""
        keeps = colormap == INK and (self.has_two_signs or self.colormap == FILM)
        return self if keeps else replace(self, colormap=colormap)

    def shares(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far along the scale each value is: 0 for the first colour, 1 for the last; NaN stays NaN."""
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(np.maximum(values, np.float32(low))), np.log(low), np.log(high)
        return np.asarray((values - low) / ((high - low) or 1.0), np.float32)

    def value(self, share: float) -> float:
        """What stands at a place along the scale: the reverse of ``shares``."""
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share

    def text(self, value: float) -> str:
        """The number as it stands in a cell; nothing where it is hidden, or a weight or change that rounds to 0."""
        text = "" if np.isnan(value) else f"{value:z.{self.decimals}f}"
        if not text or (not self.zeros and (self.signed or self.low == 0) and float(text) == 0):
            return ""
        return f"+{text}" if self.signed and float(text) > 0 else text


class Outline(NamedTuple):
    """A line around neighbouring rows and columns of a panel; a fine one divides it."""

    rows: range
    columns: range
    colour: Literal["black", "orange", "blue", "fine"] = "black"


@dataclass(frozen=True)
class Panel:
    """One matrix, (rows, columns). Where a mask has ``hidden`` the key, no number is written.

    ``marks``: (rows, columns), what stands in place of a number, "×" or a word; "" where the number stays. ``image``:
    uint8, (height, width, 3), over which the cells lie, stretched to them.
    ``numbers``: which are written, where cells have room for them.
    """

    title: str
    values: NDArray[np.float32]
    scale: Scale
    hidden: NDArray[np.bool_] | None = None
    marks: NDArray[np.str_] | None = None
    outlined: tuple[Outline, ...] = ()
    image: NDArray[np.uint8] | None = None
    numbers: Literal["all", "outlined", "none"] = "all"

    def mark(self, row: int, column: int) -> str:
        """What stands in place of the number in a cell, if something does."""
        return "" if self.marks is None else str(self.marks[row, column])

    def text(self, row: int, column: int) -> str:
        """What is written in a cell: its mark, or its number."""
        return self.mark(row, column) or self.number(row, column)

    def number(self, row: int, column: int) -> str:
        """The number in a cell, unless a mark stands in its place."""
        if self.mark(row, column):
            return ""
        if self.hidden is not None and self.hidden[row, column]:
            return ""
        if self.numbers == "none" or (self.numbers == "outlined" and not self._is_outlined(row, column)):
            return ""
        return self.scale.text(float(self.values[row, column]))

    def _is_outlined(self, row: int, column: int) -> bool:
        return any(row in one.rows and column in one.columns for one in self.outlined)

    def outlined_numbers(self) -> list[str]:
        """What is written in the cells inside of outlines."""
        return [self.number(i, j) for one in self.outlined for i in one.rows for j in one.columns]

    def pooled(self, rows: int, columns: int) -> "Panel":
        """In at most so many cells, of which each shows its strongest number."""
        if rows >= self.values.shape[0] and columns >= self.values.shape[1]:
            return self
        return Panel(self.title, pool_strongest(self.values, rows, columns), self.scale, image=self.image)

    @property
    def text_length(self) -> int:
        """Characters of the longest number in a cell."""
        if not self.values.size:
            return len(self.scale.text(np.nan))
        ends = (choose.reduce(self.values, axis=None) for choose in (np.fmin, np.fmax))  # which pass over NaN
        return max(len(self.scale.text(float(end))) for end in ends)


def tile_titles(attention_map: AttentionMap) -> tuple[str, ...]:
    """ "head 0" for every head; one matrix of all has none: "layer 5"."""
    if attention_map.quantity.row == "layer":
        return ("all layers",)
    if attention_map.quantity.of_all_heads:
        return (f"layer {attention_map.layer}",) * len(attention_map.heads)
    return tuple(f"head {head}" for head in attention_map.heads)


def head_panels(
    attention_map: AttentionMap,
    scale: Scale,
    titles: Sequence[str] | None = None,
    cells: tuple[int, int] | None = None,
) -> list[Panel]:
    """A panel for every head, one after the other: of many large ones none is copied before it is pooled.

    ``titles``: others than ``tile_titles``. ``cells``: rows and columns in which they are drawn; see ``Panel.pooled``.
    """
    hidden = attention_map.hidden
    titles = tile_titles(attention_map) if titles is None else titles
    panels: list[Panel] = []
    for title, weights in zip(titles, attention_map.weights, strict=True):
        values = weights if hidden is None else np.where(hidden, np.float32(np.nan), weights)
        panel = Panel(title, values, scale, hidden)
        panels.append(panel if cells is None else panel.pooled(*cells))
    return panels


def values_beyond(panels: Sequence[Panel], scale: Scale, with_below: bool = True) -> tuple[bool, bool]:
    """Whether values lie below the scale, and above it, by more than their rounding.

    ``with_below``: whether it matters that some lie below; not where only the strongest of several are drawn.
    """
    least, most = scale.low - _ROUNDING * abs(scale.low), scale.high + _ROUNDING * abs(scale.high)
    below = with_below and any(bool((panel.values < least).any()) for panel in panels)
    return below, any(bool((panel.values > most).any()) for panel in panels)
