"""Pages of a translator's training and of its evaluation."""

from collections.abc import Sequence
from operator import itemgetter
from typing import TypeVar

from mhaviz.errors import counted
from mhaviz.pages.blocks import Column, Curves, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.registry import shown
from mhaviz.results.attention import head_name
from mhaviz.results.training import Evaluation, LearningPoint, Training

_T = TypeVar("_T")
_ROWS, _BAR = 20, 20  # rows of a table, and characters of a bar


@shown(Training)
def training_page(training: Training) -> Page:
    """Return the page of loss and held-out score against the steps of training."""
    title = (
        f"a translator of {training.parameters:,} parameters, trained on {training.training_sentences:,} sentences; "
        f"{training.held_out_sentences:,} held out"
    )
    scored = f"{training.score_name}, {counted(training.scored_sentences, 'held-out sentence')}"
    steps = tuple(float(point.step) for point in training.points)
    losses = tuple(point.loss for point in training.points)
    scores = tuple(point.score for point in training.points)
    x = PlotAxis("step", limits=(0, training.steps))
    shares = PlotAxis(limits=(0, 1))
    loss_axis = PlotAxis(log=10) if min(losses, default=0) > 0 else shares
    plots = (
        Plot("loss: cross-entropy of the next word, in nats", (Series("", steps, losses, 0, 0),), x, loss_axis),
        Plot(scored, (Series("", steps, scores, 2, 0),), x, shares),
    )
    blocks = (Curves(plots, _points(training.points, training.score_name, scored)),)
    return Page(title, blocks, training.source.footnote)


def _points(points: Sequence[LearningPoint], score_name: str, notes: str) -> Table:
    most = max((point.loss for point in points), default=0.0) or 1.0
    columns = (
        Column("step", "{:,}".format, is_key=True),
        Column("loss", "{:.3f}".format),
        Column("", align="left", bar=_BAR),
        Column(score_name, "{:.2f}".format),
        Column("", align="left", bar=_BAR),
    )
    rows = [(point.step, point.loss, point.loss / most, point.score, point.score) for point in evenly(points, _ROWS)]
    return Table(columns, tuple(rows), notes=notes)


@shown(Evaluation)
def evaluation_page(evaluation: Evaluation) -> Page:
    """Return the page of the model's scores, and of the alignment error rate of each head and of their mean."""
    e = evaluation
    number = counted(e.sentences, "held-out sentence" if e.held_out else "sentence")
    title = f"{e.source.model}, {number}: {e.score_name} {e.score:.3f}, perplexity {e.perplexity:,.3f}"
    blocks: list[Text | Table] = [Text((_alignment_text(e),), "subtitle")]
    if e.alignment is not None:
        heads = sorted(enumerate(e.alignment.heads), key=itemgetter(1))  # the best first, with the longest bar
        # The last is the error rate of the averaged weights, not the mean of the heads' error rates.
        rates = [*((head_name(0, i), rate) for i, rate in heads), ("heads averaged", e.alignment.mean)]
        columns = (
            Column("weights of", align="left", is_key=True),
            Column("error rate", "{:.3f}".format, is_key=True),
            Column("1 − error rate", align="left", bar=_BAR),
        )
        blocks.append(Table(columns, tuple((name, rate, 1 - rate) for name, rate in rates)))
    return Page(title, tuple(blocks), e.source.footnote)


def _alignment_text(evaluation: Evaluation) -> str:
    """Return what an alignment error rate is, or why there is none."""
    if evaluation.alignment is not None:
        return "alignment error rate of source-target attention: 0 if each word's largest weight is on its translation"
    return "no alignment error rate: none of these pairs has a gold alignment, a third column of i-j links"


def evenly(things: Sequence[_T], most: int) -> list[_T]:
    """Return at most ``most`` of these things, about evenly spaced, always with the last."""
    if len(things) <= most:
        return list(things)
    return [things[-1 - place * (len(things) - 1) // (most - 1)] for place in reversed(range(most))]
