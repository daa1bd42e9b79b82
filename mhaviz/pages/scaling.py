"""Pages of the effect of scaling the scores: for the heads of one sentence, and for many d_key."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.pages.blocks import (
    NOTHING,
    Column,
    Curves,
    Drawn,
    Matrices,
    Page,
    Plot,
    PlotAxis,
    Series,
    Table,
    Title,
)
from mhaviz.pages.map_words import scores_reading
from mhaviz.pages.panels import SCORE, WEIGHT, Outline, Panel, Scale, blanked
from mhaviz.pages.registry import shown
from mhaviz.pages.words import rule_text, study_title
from mhaviz.results.attention import head_name
from mhaviz.results.axis import Axis
from mhaviz.results.scaling import SATURATED, ScalingComparison, ScalingSweep, ScoreStatistics
from mhaviz.units import with_minus

_NEARLY_ALL = 0.8  # a scale that would end here or above ends at 1
_FEW_ROWS = 12  # most rows that have lines around those that are saturated


@dataclass(frozen=True)
class Statistic:
    """Name and format of one of the numbers in ``ScoreStatistics``.

    Attributes:
        name: full name.
        short: name in the heading of a column.
        form: format of the number, of ``ScoreStatistics`` as argument 0.
        value: the number.
        unit: formats the number at a tick; None: a plain number.
    """

    name: str
    short: str
    form: str
    value: Callable[[ScoreStatistics], float]
    unit: Callable[[float], str] | None = None

    def write(self, statistics: ScoreStatistics) -> str:
        """Return the number as text."""
        return NOTHING if math.isnan(self.value(statistics)) else with_minus(self.form.format(statistics))

    def known(self, several: Sequence[ScoreStatistics]) -> tuple[float | None, ...]:
        """Return the number of each; None: not known, as no row has a choice of keys."""
        return tuple(None if math.isnan(value) else value for value in map(self.value, several))


STATISTICS = (
    Statistic("standard deviation of the scores", "std", "{0.score_std:.2f}", attrgetter("score_std")),
    Statistic(
        "range of the scores", "range", "{0.score_min:.1f} to {0.score_max:.1f}", lambda s: s.score_max - s.score_min
    ),
    Statistic("mean entropy of a row, in nats", "entropy", "{0.entropy:.2f}", attrgetter("entropy")),
    Statistic("mean largest weight of a row", "largest", "{0.largest_weight:.2f}", attrgetter("largest_weight")),
    Statistic(
        f"rows saturated (largest > {SATURATED:g})",
        "saturated",
        "{0.saturated:.0%}",
        attrgetter("saturated"),
        "{:.0%}".format,
    ),
    Statistic("mean ‖Jacobian‖ (Frobenius)", "Jacobian", "{0.jacobian:.3f}", attrgetter("jacobian")),
)
"""The numbers beside every picture of scaling."""


def statistics_table(c: ScalingComparison, i: int, rule: str) -> Table:
    """Return the table of the i-th head's numbers, unscaled and scaled; ``rule``: heading of the scaled column."""
    columns = (
        Column("", align="left", is_key=True),
        Column("unscaled"),
        Column(rule),
    )
    unscaled, scaled = c.unscaled.statistics[i], c.scaled.statistics[i]
    rows = tuple((s.name, s.write(unscaled), s.write(scaled)) for s in STATISTICS)
    n_rows = len(c.queries)
    notes = (
        f"rows that count: {scaled.rows:,} of {n_rows:,}, those with a choice of keys" if scaled.rows < n_rows else ""
    )
    return Table(columns, rows, notes=notes)


@shown(ScalingSweep)
def sweep_page(sweep: ScalingSweep) -> Page:
    """Return the page of every number against d_key, unscaled and scaled, with the expected standard deviation."""
    unscaled, scaled = "q·k, unscaled", "q·k / √d_key"
    theory = (
        Series("theory: √d_key", sweep.d_keys, sweep.theory, line="dotted"),
        Series("theory: 1", sweep.d_keys, (1.0,) * len(sweep.d_keys), line="dashed"),
    )
    plots = []
    for number, statistic in enumerate(STATISTICS):
        lines = (unscaled, sweep.unscaled, 0), (scaled, sweep.scaled, 2)
        series = [Series(name, sweep.d_keys, statistic.known(results), i, i) for name, results, i in lines]
        if not number:  # the standard deviation of the scores, which theory predicts
            series = [*theory, *series]
        y = PlotAxis(unit=statistic.unit, limits=(0, None)) if number else PlotAxis(log=2)
        plots.append(Plot(statistic.name, tuple(series), PlotAxis("d_key", log=2), y))

    draws = f"{sweep.draws} draws"
    length = counted(len(sweep.tokens), "token")
    blocks = (Curves(tuple(plots), _numbers(sweep)),)
    first, last = (f"{sweep.unscaled[i].saturated:.0%}" for i in (0, -1))
    grows = sweep.unscaled[-1].saturated > sweep.unscaled[0].saturated and first != last
    of_rows = f"{first} of rows at d_key {sweep.d_keys[0]:,}, {last} at {sweep.d_keys[-1]:,}"
    return Page(
        f"Unscaled scores saturate the softmax as d_key grows: {of_rows}"
        if grows
        else "What scaling the scores by √d_key does",
        blocks,
        sweep.source.footnote,
        remark=f"{length}, means over {draws} of the weights at each d_key",
    )


def _numbers(sweep: ScalingSweep) -> Table:
    columns = (
        Column("scores", align="left", is_key=True),
        Column("d_key", is_key=True),
        Column("theory", "{:.2f}".format),
        *(Column(statistic.short, statistic.write) for statistic in STATISTICS),
    )
    sides = ("q·k", sweep.theory, sweep.unscaled), ("q·k / √d_key", (1.0,) * len(sweep.d_keys), sweep.scaled)
    rows = [
        (name, d_key, expected, *[result] * len(STATISTICS))
        for name, theory, results in sides
        for d_key, expected, result in zip(sweep.d_keys, theory, results, strict=True)
    ]
    return Table(columns, tuple(rows), notes="theory: the standard deviation of the scores, √d_key, and 1")


@shown(ScalingComparison)
def scaling_page(c: ScalingComparison) -> Page:
    """Return the page of each head's scores and weights, unscaled and scaled, with their numbers."""
    blocks = scaling_blocks(c, study_title(c))

    def reading(drawn: Drawn) -> str:
        return "; ".join(filter(None, [scores_reading(drawn), outlined_text(drawn), scale_remark(c)]))

    return Page(scaling_lesson(c), blocks, c.source.footnote, reading)


def outlined_text(drawn: Drawn) -> str:
    """Return what the outlines of its maps mean; "" without any."""
    return "outlined: saturated rows" * drawn.outlined()


def scaling_lesson(c: ScalingComparison) -> str:
    """Return the title: how many rows of the softmax are saturated without the scale, and with it.

    Random weights show what scaling is for. Others go with their scale, so that nothing follows but what they would do
    without it.
    """
    sides = (c.unscaled.statistics, c.scaled.statistics)
    without, with_scale = (sum(s.saturated_rows for s in side) for side in sides)
    rows = f"{without:,} of {sum(s.rows for s in c.scaled.statistics):,} rows of the softmax"
    if c.source.is_random:
        if without <= with_scale:
            return "What scaling the scores does to the softmax"
        return f"Unscaled scores saturate {rows}, scaled ones {with_scale:,}"
    if without == with_scale:
        return "What the softmax would be without the scale of its scores"
    return f"Without their scale the scores would saturate {rows}, with it {with_scale:,}"


def scale_remark(c: ScalingComparison) -> str:
    """Return what weights that are not random do not show; "" for random ones."""
    return "" if c.source.is_random else "weights go with their scale: what they do without it is not why it is needed"


def _saturated(weights: NDArray[np.float32], hidden: NDArray[np.bool_]) -> tuple[Outline, ...]:
    """Return lines around the rows that are saturated, of few rows; 0.99 in a cell may be less or more."""
    counts = (weights.max(axis=-1) > SATURATED) & (np.count_nonzero(~hidden, axis=-1) > 1)
    rows = np.flatnonzero(counts).tolist() if len(weights) <= _FEW_ROWS else []
    return tuple(Outline(range(row, row + 1), range(weights.shape[-1])) for row in rows)


def scaling_blocks(c: ScalingComparison, title: Title | str) -> tuple[Matrices | Table, ...]:
    """Return the scores and weights of each head on shared scales, each with a table of its numbers."""
    darkest = float(f"{2 * max(statistics.largest_weight for statistics in c.scaled.statistics):.2g}")
    scores = Scale.around_zero(c.unscaled.scores, SCORE)
    # The largest scaled weights then have the middle of the colours, also in long inputs, and unscaled ones, which few
    # keys share, the end.
    weights = Scale(high=darkest if 0 < darkest < _NEARLY_ALL else 1.0, name=WEIGHT)
    rule, rows, columns = rule_text(c), Axis.of(c.queries), Axis.of(c.keys)
    scaled = f"q·k {rule}" if rule.startswith(("/", "·")) else f"q·k, {rule}"
    blocks: list[Matrices | Table] = []
    for i, head in enumerate(c.heads):
        hidden = np.isnan(c.unscaled.scores[i])
        panels = []
        for name, numbers in (("q·k", c.unscaled), (scaled, c.scaled)):
            panels += [
                Panel(f"{head_name(c.layer, head)}: {name}", numbers.scores[i], scores),
                Panel(
                    f"softmax({name})",
                    blanked(numbers.weights[i], hidden),
                    weights,
                    outlined=_saturated(numbers.weights[i], hidden),
                ),
            ]
        across = 4
        if len(c.heads) == 1:  # scores over weights
            panels, across = [panels[place] for place in (0, 2, 1, 3)], 2
        named = "" if blocks else title
        blocks.append(Matrices(named, tuple(panels), rows, columns, across, ("query", "key")))
        blocks.append(statistics_table(c, i, rule))
    return tuple(blocks)
