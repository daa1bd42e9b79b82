"""Panels: matrices to be drawn as heatmaps, each with its title and colour scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.colormaps import DIVERGING, INK, SINK
from mhaviz.pages.numbers import fixed, short
from mhaviz.pages.pooling import pool_hidden, pool_mass, pool_strongest
from mhaviz.results.attention import AttentionMap, head_name

WEIGHT = "weight"  # name of the scale whose end a user may choose
SCORE = "score"  # name of the scale of scores
CROSS = "×"  # mark of a dropped weight

_MANY = 1_000  # numbers; among more, a few outliers do not make all others pale
_BEYOND = 0.01  # share of them that may lie beyond the scale


def decimals_of(largest: float) -> int:
    """Return the decimals that show two digits of the largest number: 2 for 0.31, 4 for 0.0031, at most 6."""
    return min(max(1 - math.floor(math.log10(largest)), 2), 6)


def end_of_scale(several: Sequence[NDArray[np.float32]]) -> float:
    """Return the high end of a scale of these numbers of two signs, in two digits; NaN is ignored."""
    sizes = np.concatenate([np.zeros(0, np.float32), *(np.abs(x[np.isfinite(x)]) for x in several)])
    end = float(np.quantile(sizes, 1 - _BEYOND) if sizes.size > _MANY else sizes.max(initial=0.0))
    if not end:
        return 1.0
    return rounded_up(end)


def rounded_up(number: float) -> float:
    """Return a number above 0 rounded up to two digits."""
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / step - 1e-6) * step:.2g}")


@dataclass(frozen=True)
class Scale:
    """Mapping from numbers to colours.

    Attributes:
        colormap: "ink", "around uniform", or a colormap of matplotlib.
        low, high: numbers of the first and the last colour.
        decimals: decimals of the numbers in the cells.
        log: logarithmic, so that equal factors are equal steps of colour. Numbers below ``low`` have the first colour.
        ratios: logarithmic, with 1 in the middle: from 1 / ``high`` to ``high``.
        signed: write the sign of numbers above 0, too.
        zeros: write numbers that round to 0, too, as for statistics; many cells of 0.00 would clutter maps of weights.
        name: name of the numbers; if given, a colour bar stands beside the first panels with this scale.
        group: name of the maps whose heads share the scale, and whose weights decide its ends; "": the ends are given.
        below, above: whether some of the numbers lie below ``low``, and above ``high``.
    """

    colormap: str = INK
    low: float = 0.0
    high: float = 1.0
    decimals: int = 2
    log: bool = False
    ratios: bool = False
    signed: bool = False
    zeros: bool = False
    name: str = ""
    group: str = ""
    below: bool = False
    above: bool = False

    @classmethod
    def around_zero(cls, values: NDArray[np.float32], name: str = "") -> "Scale":
        """Return a scale with 0 in the middle that ends at the largest absolute value."""
        largest = float(np.nanmax(np.abs(values), initial=1e-6))
        return cls(DIVERGING, -largest, largest, decimals=1, name=name)

    @classmethod
    def around_one(cls, colormap: str, largest: float, name: str = "") -> "Scale":
        """Return a scale of ratios with 1 in the middle, from 1 / ``largest`` to ``largest``."""
        return cls(colormap, 1 / largest, largest, log=True, ratios=True, name=name)

    @property
    def diverges(self) -> bool:
        """Whether colours diverge from a neutral number inside the scale: 1 of ratios, 0 of numbers of two signs."""
        return self.ratios or self.low < 0 < self.high

    @property
    def ends(self) -> tuple[str, str]:
        """Texts at the ends of a colour bar: "0" and "2.51", or "≥ 2.51" if some lie above; of ratios "1/8" and "8"."""
        low, high = f"1/{short(self.high)}" if self.ratios else short(self.low), short(self.high)
        return f"{'≤ ' * self.below}{low}", f"{'≥ ' * self.above}{high}"

    @property
    def range_text(self) -> str:
        """Both ends in one text: "0–2.51", or "−0.3 to 0.3" where a dash would stand beside a minus sign."""
        return (" to " if self.low < 0 else "–").join(self.ends)

    def coloured(self, colormap: str) -> "Scale":
        """Return the scale with another colormap. Ink replaces no diverging colormap."""
        keeps = colormap == INK and self.diverges
        return self if keeps else replace(self, colormap=colormap)

    def shares(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the place of each value on the scale: 0 for the first colour, 1 for the last; NaN stays NaN."""
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(np.maximum(values, np.float32(low))), np.log(low), np.log(high)
        return np.asarray((values - low) / ((high - low) or 1.0), np.float32)

    def value(self, share: float) -> float:
        """Return the value at a place on the scale: the inverse of ``shares``."""
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share

    @property
    def half_digit(self) -> float:
        """Number from which on a number in a cell does not round to 0."""
        return 0.5 * 10.0**-self.decimals

    def text(self, value: float) -> str:
        """Return a number as it is written in a cell; "" for NaN, and for 0.00 unless ``zeros``."""
        if np.isnan(value):
            return ""
        rounded, text = round(value, self.decimals), fixed(value, self.decimals)
        if rounded == 0 and not self.zeros and (self.signed or self.low == 0):
            return ""
        return f"+{text}" if self.signed and rounded > 0 else text


def blanked(values: NDArray[np.float32], hidden: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the values with NaN in the hidden cells."""
    return np.where(hidden, np.float32(np.nan), values)


SINK_SCALE = Scale(SINK, name="sink")
"""Scale of columns that stand apart, from 0 to 1."""


class Outline(NamedTuple):
    """Line around neighbouring rows and columns of a panel; a "fine" one separates parts of it."""

    rows: range
    columns: range
    colour: Literal["black", "orange", "blue", "fine"] = "black"


@dataclass(frozen=True, eq=False)
class Panel:
    """One matrix to be drawn as a heatmap.

    Attributes:
        title: text above it.
        short: title where tiles are narrow; "": the same.
        values: the matrix, (rows, columns); NaN: hidden.
        scale: its colour scale.
        aside, aside_short: number after the title, where there is room for it, with its name and without; "": none.
        note: meaning of the numbers, below the title in figures of numbers of heads; "": none.
        chance: number expected by chance, marked at the scale in such figures; NaN: unknown.
        hidden: further cells that are hidden, bool, (rows, columns), as of a head, whose weights are not copied; None:
            none.
        queries: number of queries of each row, int64, (rows,), where cells of several rows and columns show sums of
            weights; None: they show the number farthest from 0.
        marks: texts in place of numbers, "×" or a word, (rows, columns); "": the number is written.
        outlined: lines around some rows and columns.
        numbers: which numbers are written, where cells have room for them.
        apart: columns that stand apart, on ``SINK_SCALE``; in a pooled panel they are the first. They are never pooled
            with others.
    """

    title: str
    values: NDArray[np.float32]
    scale: Scale
    aside: str = ""
    note: str = ""
    chance: float = math.nan
    hidden: NDArray[np.bool_] | None = None
    queries: NDArray[np.int64] | None = None
    marks: NDArray[np.str_] | None = None
    outlined: tuple[Outline, ...] = ()
    numbers: Literal["all", "outlined", "none"] = "all"
    short: str = ""
    apart: tuple[int, ...] = ()
    aside_short: str = ""

    def scale_of(self, column: int) -> Scale:
        """Return the scale of a column."""
        return SINK_SCALE if column in self.apart else self.scale

    def mark(self, row: int, column: int) -> str:
        """Return the mark in place of the number in a cell; "": none."""
        return "" if self.marks is None else str(self.marks[row, column])

    def text(self, row: int, column: int) -> str:
        """Return the text in a cell: its mark, or its number."""
        return self.mark(row, column) or self.number(row, column)

    def number(self, row: int, column: int) -> str:
        """Return the number in a cell as it is written; "" where it is not."""
        is_outlined = any(row in one.rows and column in one.columns for one in self.outlined)
        if self.mark(row, column) or self.numbers == "none" or (self.numbers == "outlined" and not is_outlined):
            return ""
        return self.scale_of(column).text(float(self.values[row, column]))

    @property
    def has_blanks(self) -> bool:
        """Whether cells that are not hidden are without their number, as it rounds to 0."""
        values = self.shown
        return self.numbers == "all" and any(
            not self.text(int(row), int(column)) for row, column in np.argwhere(np.abs(values) < self.scale.half_digit)
        )

    def outlined_numbers(self) -> list[str]:
        """Return the numbers in the cells inside outlines as they are written."""
        return [self.number(i, j) for one in self.outlined for i in one.rows for j in one.columns]

    def pooled(self, rows: int, columns: int) -> "Panel":
        """Return the panel in at most ``rows`` × ``columns`` cells, with NaN in those that are hidden."""
        n_rows, n_columns = self.values.shape
        if self.apart:
            others = [column for column in range(n_columns) if column not in self.apart]
            first, rest = (self._columns(which) for which in (list(self.apart), others))
            first, rest = first.pooled(rows, len(self.apart)), rest.pooled(rows, columns - len(self.apart))
            values = np.concatenate([first.values, rest.values], axis=1)
            return replace(rest, values=values, apart=tuple(range(len(self.apart))))
        if rows >= n_rows and columns >= n_columns:
            return self if self.hidden is None else replace(self, values=self.shown, hidden=None)
        if self.queries is None:
            values = pool_strongest(self.shown, rows, columns)
        else:
            values = pool_mass(self.values, self.queries, rows, columns)
            if self.hidden is not None:
                values = blanked(values, pool_hidden(self.hidden, rows, columns))
        return Panel(self.title, values, self.scale, self.aside, short=self.short, aside_short=self.aside_short)

    def _columns(self, which: list[int]) -> "Panel":
        hidden = None if self.hidden is None else self.hidden[:, which]
        return replace(self, values=self.values[:, which], hidden=hidden, apart=())

    @property
    def shown(self) -> NDArray[np.float32]:
        """The matrix with NaN in all hidden cells."""
        return self.values if self.hidden is None else blanked(self.values, self.hidden)

    @property
    def text_length(self) -> int:
        """Number of characters of the longest number in a cell."""
        values = self.shown
        if not values.size:
            return len(self.scale.text(np.nan))
        ends = (choose.reduce(values, axis=None) for choose in (np.fmin, np.fmax))  # which ignore NaN
        return max(len(self.scale.text(float(end))) for end in ends)


def tile_titles(attention_map: AttentionMap) -> tuple[str, ...]:
    """Return "L5 H0" for every head; "layer 5" for one matrix of all heads, "6 layers"
    where it is the mean over these."""
    if attention_map.quantity.row == "layer":
        return ("all layers",)
    if attention_map.quantity.of_all_heads:
        return (attention_map.layer_text,) * len(attention_map.heads)
    return tuple(head_name(attention_map.layer, head) for head in attention_map.heads)


def _short(m: AttentionMap, title: str) -> str:
    """Return "H0" for a head, "5" for "layer 5"; the layer is in the title of the block, or is that of the row."""
    return title if m.quantity.row == "layer" or m.layer is None else title.rpartition(" ")[2]


def group_scale(m: AttentionMap) -> Scale:
    """Return what stands for the scale of a map before its ends are known: the same for all maps that share it.

    Weights, means, largest weights and rollouts each have their own.
    """
    group = "change" if m.quantity.is_signed else f"{m.quantity.key}, {m.quantity.reduction if m.is_pooled else 'each'}"
    return Scale(name=m.quantity.drawn_name, group=group)


def head_panels(attention_map: AttentionMap, before: str = "", short_before: str = "") -> tuple[Panel, ...]:
    """Return a panel for every head, on the map's ``group_scale``.

    ``before``, ``short_before``: text before their titles and short titles.
    """
    m = attention_map
    scale = group_scale(m)
    queries, hidden = np.diff(m.rows.edges) if m.are_sums else None, m.hidden
    return tuple(
        Panel(before + title, weights, scale, hidden=hidden, queries=queries, short=short_before + _short(m, title))
        for title, weights in zip(tile_titles(m), m.weights, strict=True)
    )
