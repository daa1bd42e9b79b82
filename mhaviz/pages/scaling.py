"""What scaling the scores does, in numbers: of one sentence's heads, and at many d_key."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mhaviz.pages.blocks import Column, Curves, Key, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.panels import Panel, Scale
from mhaviz.pages.words import rule_text
from mhaviz.records.scaling import ScalingComparison, ScalingSweep, ScoreStatistics

_NEARLY_ALL = 0.8  # a scale that would end at such a weight ends at 1


@dataclass(frozen=True)
class Statistic:
    """How one of the numbers in ``ScoreStatistics`` is called and written."""

    name: str
    short: str
    text: Callable[[ScoreStatistics], str]
    value: Callable[[ScoreStatistics], float]


STATISTICS = (
    Statistic("standard deviation of the scores", "std", lambda s: f"{s.score_std:.2f}", lambda s: s.score_std),
    Statistic(
        "range of the scores",
        "range",
        lambda s: f"{s.score_min:.1f} to {s.score_max:.1f}",
        lambda s: s.score_max - s.score_min,
    ),
    Statistic("mean entropy of a row, in nats", "entropy", lambda s: f"{s.entropy:.2f}", lambda s: s.entropy),
    Statistic(
        "mean largest weight of a row", "largest", lambda s: f"{s.largest_weight:.2f}", lambda s: s.largest_weight
    ),
    Statistic("rows saturated (largest > 0.99)", "saturated", lambda s: f"{s.saturated:.0%}", lambda s: s.saturated),
    Statistic("mean Frobenius norm of the Jacobian", "Jacobian", lambda s: f"{s.jacobian:.3f}", lambda s: s.jacobian),
)
"""The numbers that stand beside every picture of scaling, in their order."""


def statistics_table(c: ScalingComparison, i: int, rule: str) -> Table:
    """The i-th head's numbers, unscaled and scaled; ``rule``: what becomes of q·k, over a column."""
    columns = (
        Column("", align="left", is_key=True),
        Column("unscaled"),
        Column(rule),
    )
    unscaled, scaled = c.unscaled.statistics[i], c.scaled.statistics[i]
    return Table(columns, tuple((s.name, s.text(unscaled), s.text(scaled)) for s in STATISTICS))


def sweep_page(sweep: ScalingSweep) -> Page:
    """Every number against d_key, unscaled and scaled, and the standard deviation that theory expects."""
    unscaled, scaled, theory = (
        Key("q·k, unscaled", 0),
        Key("q·k / √d_key", 2),
        Key("theory: √d_key, and 1", None, line="dotted"),
    )
    results = ((unscaled, sweep.unscaled), (scaled, sweep.scaled))
    ones = (1.0,) * len(sweep.d_keys)
    d_keys = sweep.d_keys[::3] if len(sweep.d_keys) > 6 else sweep.d_keys
    plots = []
    for number, statistic in enumerate(STATISTICS):
        series = [
            Series("", sweep.d_keys, tuple(map(statistic.value, values)), key.colour, 0) for key, values in results
        ]
        if not number:  # that is what theory is about
            series = [Series("", sweep.d_keys, ys, line="dotted") for ys in (sweep.theory, ones)] + series
        label = "d_key" if number >= len(STATISTICS) // 2 else ""  # of the lower row
        y = PlotAxis(limits=(0, None)) if number else PlotAxis(log=2)
        plots.append(Plot(statistic.name, tuple(series), PlotAxis(label, log=2, ticks=d_keys), y))

    draws = f"{sweep.draws} draws"
    length = f"{len(sweep.tokens)} token{'s' if len(sweep.tokens) != 1 else ''}"
    blocks = (
        Curves(tuple(plots), columns=len(STATISTICS) // 2, size=(2.7, 2.0), keys=(unscaled, scaled, theory)),
        Text(("unscaled, q·k",), "heading", "listed"),
        _numbers(sweep, sweep.unscaled, sweep.theory),
        Text(("scaled, q·k / √d_key",), "heading", "listed"),
        _numbers(sweep, sweep.scaled, ones),
        Text((f"theory: the standard deviation of the scores, √d_key; means over {draws}",), where="listed"),
    )
    return Page(
        "what scaling the scores by √d_key does",
        blocks,
        sweep.source.footnote,
        remark=f"{length}, means over {draws} of the weights at each d_key",
        title_where="drawn",
    )


def _numbers(sweep: ScalingSweep, results: tuple[ScoreStatistics, ...], theory: tuple[float, ...]) -> Table:
    columns = (
        Column("d_key", is_key=True),
        Column("theory", "{:.2f}".format),
        *(Column(statistic.short, statistic.text) for statistic in STATISTICS),
    )
    rows = zip(sweep.d_keys, theory, *[results] * len(STATISTICS), strict=True)
    return Table(columns, tuple(rows), where="listed")


def scaling_scales(c: ScalingComparison, colormap: str) -> tuple[Scale, Scale]:
    """The one scale of all scores, and that of all weights, unscaled and scaled.

    That of the weights ends at twice the mean largest weight of a scaled row: in long inputs, too, scaled weights then
    have the middle of the colours, and unscaled ones, which few keys share, the end.
    """
    darkest = float(f"{2 * max(statistics.largest_weight for statistics in c.scaled.statistics):.2g}")
    weights = Scale(colormap, 0.0, darkest if 0 < darkest < _NEARLY_ALL else 1.0)
    return Scale.around_zero(c.unscaled.scores), weights


def scaling_panels(c: ScalingComparison, i: int, scores: Scale, weights: Scale, head: str = "") -> list[Panel]:
    """Scores and weights of the i-th head, unscaled and scaled; ``head`` stands before the titles of the scores."""
    product, rule = "q·k", rule_text(c)
    scaled = f"{product} {rule}" if rule.startswith(("/", "·")) else f"{product}, {rule}"
    hidden = np.isnan(c.unscaled.scores[i])
    return [
        Panel(head + product, c.unscaled.scores[i], scores),
        Panel(f"softmax({product})", np.where(hidden, np.float32(np.nan), c.unscaled.weights[i]), weights),
        Panel(head + scaled, c.scaled.scores[i], scores),
        Panel(f"softmax({scaled})", np.where(hidden, np.float32(np.nan), c.scaled.weights[i]), weights),
    ]
