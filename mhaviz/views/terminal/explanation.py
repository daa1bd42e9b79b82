"""One query taken apart in the terminal: its scores over features, then its output over keys."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mhaviz.records import Axis, Explanation
from mhaviz.views.captions import rule_text, study_title
from mhaviz.views.explaining import (
    MOST_KEYS,
    features_text,
    heading,
    largest_contributions,
    lengths_of,
    number_text,
    others,
    output_heading,
    rest_text,
    scores_heading,
    strongest_text,
    visible_products,
)
from mhaviz.views.labels import token_labels
from mhaviz.views.panels import Panel, Scale
from mhaviz.views.terminal.bars import bar
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote

_WIDE, _NARROW = (24, 16), (10, 6)  # cells for labels and for bars


@dataclass(frozen=True)
class ExplanationView:
    """Both readings of one query, each as a strip of cells for every key and as a table."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        e, width = self.explanation, options.max_width
        abilities = Abilities.of(console, options)
        in_unicode, plain, shown = abilities.unicode, abilities.plain, abilities.shown

        def fits(table: Table) -> bool:
            return Measurement.get(console, options.update(max_width=1000), table).maximum <= width

        lines = _Lines(e, in_unicode, plain)
        keys, largest = e.heaviest(MOST_KEYS), largest_contributions(e)
        yield Text(study_title(e, width, not in_unicode), BOLD, no_wrap=True)
        yield Text(plain(heading(e, shown)), BOLD)
        yield Segment.line()

        yield Text(plain(scores_heading(e)), BOLD)
        query, products = Scale.around_zero(e.query), Scale.around_zero(e.products[e.visible])
        yield lines.strips(plain("q"), e.query[None], ["q"], query)
        yield lines.strips(plain("q ∘ k"), visible_products(e)[keys], lines.labels(keys), products)
        yield Segment.line()
        yield from lines.scores(keys, fits)
        yield Text(plain(strongest_text(e, shown)))
        yield Segment.line()

        yield Text(plain(output_heading(e)), BOLD)
        contributions = np.concatenate([e.contributions[largest], e.output[None]])
        values = Scale.around_zero(contributions)
        yield lines.strips(plain("a v"), contributions, [*lines.labels(largest), plain("Σ a v")], values)
        yield Segment.line()
        yield from lines.contributions(largest, fits)
        yield Segment.line()

        for scale, name in ((query, "q"), (products, "q ∘ k"), (values, "a v")):
            yield ScaleBar(scale, plain(name))
        yield footnote(e.source.footnote, not in_unicode)


@dataclass(frozen=True)
class _Lines:
    """The parts of the view, for a terminal that has Unicode or not."""

    e: Explanation
    in_unicode: bool
    plain: Callable[[str], str]

    def labels(self, keys: list[int], width: int = 24) -> list[str]:
        every = token_labels(self.e.keys, width, not self.in_unicode)
        return [every[key] for key in keys]

    def strips(self, title: str, values: NDArray[np.float32], labels: list[str], scale: Scale) -> HeatGrid:
        features = Axis.of(str(i) for i in range(self.e.d_key))
        return HeatGrid([Panel(title, values, scale)], Axis.of(labels), features, numbered=True)

    def scores(self, keys: list[int], fits: Callable[[Table], bool]) -> Iterator[RenderableType]:
        """The keys in their order: scores, weights and the features that made them."""
        wide = self._scores(keys, *_WIDE, wide=True)
        if fits(wide):
            yield wide
        else:
            yield self._scores(keys, *_NARROW, wide=False)
            for key, label in zip(keys, self.labels(keys, _NARROW[0]), strict=True):
                yield Text(f"{label}: {features_text(self.e, key)}", DIM)
        if rest := others(self.e, keys):
            yield Text(rest_text(self.e, rest))

    def _scores(self, keys: list[int], label_width: int, bar_width: int, wide: bool) -> Table:
        e = self.e
        headings = ["#", "key", *["q·k"] * wide, rule_text(e), "weight", "", *["strongest features"] * wide]
        table = self._table(headings)
        for key, label in zip(keys, self.labels(keys, label_width), strict=True):
            score = number_text(e.scores[key]) if e.visible[key] else "hidden"
            drawn = bar(float(e.weights[key]), bar_width, self.in_unicode)
            product, features = [number_text(e.similarities[key])] * wide, [features_text(e, key)] * wide
            cells = [str(key), label, *product, score, f"{e.weights[key]:.2f}", drawn, *features]
            table.add_row(*map(Text, cells))
        return table

    def contributions(self, keys: list[int], fits: Callable[[Table], bool]) -> Iterator[RenderableType]:
        """The keys by what they contribute, and the sum of all."""
        wide = self._contributions(keys, *_WIDE, wide=True)
        yield wide if fits(wide) else self._contributions(keys, *_NARROW, wide=False)

    def _contributions(self, keys: list[int], label_width: int, bar_width: int, wide: bool) -> Table:
        e = self.e
        table = self._table(["#", "value of", *["weight", "‖v‖"] * wide, "‖a v‖", "share", ""])
        norms = lengths_of(e.value)
        for key, label in zip(keys, self.labels(keys, label_width), strict=True):
            factors = [f"{e.weights[key]:.2f}", number_text(norms[key])] * wide
            drawn = bar(float(e.shares[key]), bar_width, self.in_unicode)
            cells = [str(key), label, *factors, number_text(e.sizes[key]), f"{e.shares[key]:.0%}", drawn]
            table.add_row(*map(Text, cells))
        rest = [key for key in others(e, keys) if e.visible[key]]
        if rest:
            size = float(lengths_of(e.contributions[rest].sum(axis=0)))
            factors = [f"{e.weights[rest].sum():.2f}", ""] * wide
            table.add_row("", f"{len(rest)} more", *factors, number_text(size), f"{e.shares[rest].sum():.0%}", "")
        output = float(lengths_of(e.output))
        table.add_row("", "= output", *[f"{e.weights.sum():.2f}", ""] * wide, number_text(output), "", "")
        return table

    def _table(self, headings: list[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD if self.in_unicode else box.ASCII2, pad_edge=False, show_edge=False)
        for name in headings:
            words = ("key", "value of", "", "strongest features")
            table.add_column(self.plain(name), justify="left" if name in words else "right", no_wrap=True)
        return table
