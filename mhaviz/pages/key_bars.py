"""Bars of the one row that is left where heads and layers are averaged: how much a query gives to each key."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import BLANK, OF_ONE_TEXT
from mhaviz.pages.blocks import Column, Dot, Dots, Table
from mhaviz.pages.labels import cut, in_quotes, token_labels, visible
from mhaviz.pages.map_words import map_title
from mhaviz.pages.numbers import fixed
from mhaviz.pages.panels import decimals_of
from mhaviz.results.attention import AttentionMap
from mhaviz.results.means import averages_inputs
from mhaviz.results.quantity import MEANS, WEIGHT

_MOST_BARS = 64  # keys of a row; more are a row of a heatmap
_NAME, _BAR = 24, 24  # most cells of a name, and of a bar in a terminal
_LEAST_DECIMALS = 3  # of numbers
_TELLING = 2.0  # least ratio to uniform attention of a key that a title says
_WHOLE = 1e-3  # most by which a row of all keys differs from 1


def can_be_bars(row: AttentionMap) -> bool:
    """Return whether a row of one query has so few single keys that each can have a bar with its name.

    ``row``: the row of a mean over heads, whose columns are the keys that the query sees.
    """
    keys = row.columns.tokens
    is_few = len(row.columns) <= _MOST_BARS and not row.columns.is_pooled
    return is_few and not row.quantity.is_signed and keys.grid is None and not keys.begins_image


class KeyBars:
    """The bars of one row.

    Args:
        m: the map of one query, of one matrix.
        row: the same with the keys that the query sees alone.
        model: name of the model, for the title.
        with_layer: whether the title names the layer.
    """

    def __init__(self, m: AttentionMap, row: AttentionMap, model: str, with_layer: bool) -> None:
        self._map, self._row = m, row
        self._title = map_title(row, model, row.layer_text if with_layer and row.layer is not None else "").head
        tokens = row.columns.tokens
        self._weights: NDArray[np.float64] = row.weights[0, 0].astype(np.float64)
        self._names = token_labels(tokens.texts, _NAME, row.columns.start, counts=tokens.counts)
        self._chances = self._uniform()
        itself = m.rows.start - row.columns.start if m.kind in OF_ONE_TEXT else -1
        sinks = row.sinks.keys if row.sinks else ()
        self._itself = itself if 0 <= itself < len(tokens) else None
        self._aside = sorted({*tokens.special, *sinks, *([] if self._itself is None else [itself])})
        self._drawn = [j for j in range(len(tokens)) if j not in self._aside] or list(range(len(tokens)))
        self._aside = [j for j in self._aside if j not in self._drawn]
        top = float(np.nanmax(np.append(self._weights[self._drawn], 0.0)))
        self._decimals = max(decimals_of(top) if top > 0 else 0, _LEAST_DECIMALS)

    @property
    def text(self) -> str:
        """The text that it is of, "sentence 2: "; "": it has no number."""
        return "" if self._map.sentence is None else f"{self._map.text_name} {self._map.sentence}: "

    @property
    def lesson(self) -> str:
        """What the query gives most to, "CLS gives most to “income”: 0.25, 2.3 × uniform"."""
        called = cut(visible(self._map.queries[0].strip()) or BLANK, _NAME)
        query = in_quotes(called) if self._itself is None else self._called(self._itself)
        known = [j for j in self._drawn if np.isfinite(self._weights[j])]
        if not known:
            return f"{query} has no number"
        first = max(known, key=lambda j: self._weights[j])
        what, ratio = f"{self._called(first)}: {self._text(self._weights[first])}", self._ratio(first)
        if ratio is None or ratio >= _TELLING:
            return f"{query} gives most to {what}" + ("" if ratio is None else f", {ratio:.1f} × uniform")
        other = "other " * bool(self._aside)
        return f"{query} gives no {other}key {_TELLING:g} × uniform; most to {what}, {ratio:.1f} ×"

    def block(self) -> Dots:
        """Return the bars."""
        dots = tuple(Dot(self._names[j], float(self._weights[j]), chance=self._chances[j]) for j in self._drawn)
        notes = "; ".join(filter(None, [self._aside_text, self._chance_text]))
        return Dots(self._table(), dots, self._map.quantity.name, self._text, notes, are_bars=True)

    def _table(self) -> Table:
        """Return the keys with their numbers, in the order of the text."""
        has_ratio = self._ratio(self._drawn[0]) is not None
        top = max(float(np.nanmax(self._weights[self._drawn])), *self._known_chances, 0.0) or 1.0
        columns = (
            Column("key", align="left", is_key=True),
            Column(self._map.quantity.name, self._text),
            Column("", bar=_BAR, align="left"),
            *[Column("× uniform", "{:.1f}".format)] * has_ratio,
        )
        rows = tuple(
            (
                self._names[j],
                None if np.isnan(self._weights[j]) else float(self._weights[j]),
                float(np.nan_to_num(self._weights[j])) / top,
                *[self._ratio(j)] * has_ratio,
            )
            for j in self._drawn
        )
        return Table(columns, rows, self._title, notes=self._aside_text)

    @property
    def _aside_text(self) -> str:
        """What is set apart, "without bars: itself 0.13, [SEP] 0.05"."""
        listed = ", ".join(
            f"{'itself' if j == self._itself else self._called(j)} {self._text(self._weights[j])}" for j in self._aside
        )
        return f"without bars: {listed}" * bool(listed)

    @property
    def _chance_text(self) -> str:
        return "grey line: uniform attention" * bool(self._known_chances)

    @property
    def _known_chances(self) -> list[float]:
        return [self._chances[j] for j in self._drawn if not math.isnan(self._chances[j])]

    def _called(self, key: int) -> str:
        """Return the name of a key in a text: digits beside positions are in quotes already."""
        name = self._names[key] or BLANK
        return name if name.startswith('"') else in_quotes(name)

    def _text(self, number: float) -> str:
        return fixed(number, self._decimals)

    def _ratio(self, key: int) -> float | None:
        """Return a weight as a multiple of that of uniform attention; None: it is not known."""
        chance = self._chances[key]
        return None if math.isnan(chance) or self._map.quantity.is_ratio else float(self._weights[key] / chance)

    def _uniform(self) -> Sequence[float]:
        """Return the weight of each key by uniform attention, where all keys that the query sees are in the row."""
        m, n_keys = self._map, len(self._row.columns)
        if m.quantity.is_ratio:
            return [1.0] * n_keys
        are_weights = m.quantity.key in (WEIGHT.key, MEANS[WEIGHT.key].key)
        has_all = m.columns.start == 0 and m.to_special is None and abs(self._weights.sum() - 1) <= _WHOLE
        counts = self._row.columns.tokens.counts
        if not (are_weights and has_all) or (counts and averages_inputs(m.mean_over)):  # whose spans differ in length
            return [math.nan] * n_keys
        return [count / sum(counts) for count in counts] if counts else [1 / n_keys] * n_keys
