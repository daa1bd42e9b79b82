"""Pages of a translator's training and of its evaluation."""

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import TypeVar

from mhaviz.errors import counted
from mhaviz.pages.blocks import Column, Curves, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.registry import shown
from mhaviz.results.attention import head_name
from mhaviz.results.training import Evaluation, LearningPoint, Training
from mhaviz.units import readable_share

_T = TypeVar("_T")
_PERCENT = "{:.1%}".format
_ROWS, _BAR = 20, 20  # rows of a table, and characters of a bar


@shown(Training)
def training_page(training: Training) -> Page:
    """Return the page of loss and held-out score against the steps of training."""
    about = (
        f"a translator of {training.parameters:,} parameters, trained on {training.training_sentences:,} sentences; "
        f"scored on {training.scored_sentences:,} of the {training.held_out_sentences:,} held out"
    )
    scored = f"{training.score_name}, {counted(training.scored_sentences, 'held-out sentence')}"
    steps = tuple(float(point.step) for point in training.points)
    losses = tuple(point.loss for point in training.points)
    scores = tuple(point.score for point in training.points)
    x = PlotAxis("step", unit="{:,.0f}".format, limits=(0, training.steps))
    shares = PlotAxis(limits=(0, 1))
    loss_axis = PlotAxis(log=10) if min(losses, default=0) > 0 else shares
    plots = (
        Plot("training loss, in nats a word", (Series("", steps, losses, 0, 0),), x, loss_axis),
        Plot(scored, (Series("", steps, scores, 2, 2),), x, shares),
    )
    blocks = Text((about,), "subtitle"), Curves(plots, _points(training.points, training.score_name, scored))
    return Page(_learnt(training), blocks, training.source.footnote)


def _learnt(training: Training) -> str:
    """Return the title: from which step on all sentences are right, or how well the last step does."""
    wrong = [i for i, point in enumerate(training.points) if point.score < 1]
    last = max(wrong, default=-1)
    if last + 1 < len(training.points):
        sentences = counted(training.scored_sentences, "held-out sentence")
        return f"All of {sentences} are right from step {training.points[last + 1].step:,} on"
    if not training.points:
        return "No step of training yet"
    end = training.points[-1]
    return f"{training.score_name} {readable_share(end.score)} on held-out sentences at step {end.step:,}"


def _points(points: Sequence[LearningPoint], score_name: str, notes: str) -> Table:
    most = max((point.loss for point in points), default=0.0) or 1.0
    columns = (
        Column("step", "{:,}".format, is_key=True),
        Column("loss", "{:.3f}".format),
        Column("", align="left", bar=_BAR),
        Column(score_name, readable_share),
        Column("", align="left", bar=_BAR),
    )
    rows = [(point.step, point.loss, point.loss / most, point.score, point.score) for point in evenly(points, _ROWS)]
    return Table(columns, tuple(rows), notes=notes)


@shown(Evaluation)
def evaluation_page(evaluation: Evaluation) -> Page:
    """Return the page of the model's scores, and of how well each head, and their mean, align words."""
    e = evaluation
    number = counted(e.sentences, "held-out sentence" if e.held_out else "sentence")
    perplexity = f"perplexity {e.perplexity:,.2f}"
    scores = f"{e.source.model}, {number}: {e.score_name} {readable_share(e.score)}, {perplexity}"
    if e.alignment is None:
        why = "no alignment error rate: none of these pairs has a gold alignment, a third column of i-j links"
        return Page(scores, (Text((why,), "subtitle"),), e.source.footnote)
    right = [1 - rate for rate in e.alignment.heads]
    heads = sorted(((head_name(0, i), share) for i, share in enumerate(right)), key=itemgetter(1), reverse=True)
    # The last is that of the averaged weights, not the mean of the heads' shares.
    rows = tuple((name, share, share) for name, share in (*heads, ("heads averaged", 1 - e.alignment.mean)))
    columns = (
        Column("weights of", align="left", is_key=True),
        Column("links that agree", _PERCENT, is_key=True),
        Column("", align="left", bar=_BAR),
    )
    best = f"best: by more than two standard errors of the difference, of {counted(e.alignment.links, 'gold link')}"
    meanings = (
        "links that agree: of those of the largest weights and the gold ones, 1 − alignment error rate; 100% if "
        "each word's largest weight is on its translation",
        *([best] if len(heads) > 1 else []),
    )
    blocks = Text((scores,), "subtitle"), Table(columns, rows, notes="\n".join(meanings))
    return Page(_aligned(heads, e.alignment.links), blocks, e.source.footnote)


def _aligned(heads: Sequence[tuple[str, float]], links: int) -> str:
    """Return the title of an evaluation: which head aligns words best, as far as so many links tell it from the next.

    Args:
        heads: name of each head and its share of links that agree, the best first.
        links: number of gold links.
    """
    (name, best), *others = heads
    if not others:
        return f"{name} aligns words: {_PERCENT(best)} of its and the gold links agree"
    like = [(name, share) for name, share in heads if best - share <= 2 * _standard_error(best, share, links)]
    if len(like) == 1:
        second = _PERCENT(others[0][1])
        agree = f"{_PERCENT(best)} of its and the gold links agree; of the next, {second}"
        return f"Of the heads, {name} aligns words best: {agree}"
    names = [name for name, _ in like]
    shares = " to ".join(dict.fromkeys(_PERCENT(share) for share in (like[-1][1], best)))
    return f"No head aligns words best: of {', '.join(names[:-1])} and {names[-1]}, {shares} of the links agree"


def _standard_error(one: float, other: float, links: int) -> float:
    """Return the standard error of the difference of two shares of so many links, as if these were independent."""
    return math.sqrt((one * (1 - one) + other * (1 - other)) / links)


def evenly(things: Sequence[_T], most: int) -> list[_T]:
    """Return at most ``most`` of these things, about evenly spaced, always with the last."""
    if len(things) <= most:
        return list(things)
    return [things[-1 - place * (len(things) - 1) // (most - 1)] for place in reversed(range(most))]
