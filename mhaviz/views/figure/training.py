"""How a model learnt, and how much it gets right, as figures."""

from functools import partial

from matplotlib.ticker import LogLocator, NullFormatter

from mhaviz.records import Evaluation, Training
from mhaviz.views.captions import AVERAGED, alignment_text, evaluation_text, score_text, training_text
from mhaviz.views.figure.sheet import ACCENT, BODY, MARGIN, QUIET, SECOND, TITLE, Sheet, text_width
from mhaviz.views.labels import cut
from mhaviz.views.look import Look


def training_figure(training: Training, look: Look | None = None) -> Sheet:
    """Loss and held-out score against the step."""
    look = look or Look()
    across, down, gap = 3.2, 2.2, 0.7
    left, top = MARGIN + 0.45, MARGIN + 0.75
    sheet = Sheet(left + 2 * across + gap + MARGIN, top + down + 0.5 + 0.35 + MARGIN, look.dpi)
    sheet.heading(MARGIN + 0.1, partial(cut, training_text(training)))
    steps = [point.step for point in training.points]
    curves = (
        ("loss: cross-entropy of the next word, in nats", ACCENT, [point.loss for point in training.points]),
        (score_text(training), SECOND, [point.score for point in training.points]),
    )
    for i, (name, colour, values) in enumerate(curves):
        axes = sheet.plot_axes(left + i * (across + gap), top, across, down, name)
        axes.plot(steps, values, "o-", color=colour, markersize=3, linewidth=1.2, clip_on=False)
        axes.set_xlabel("step", size=BODY)
        axes.set_xlim(0, training.steps)
        if i == 0 and min(values, default=0) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(0, 1)
        axes.grid(color=QUIET, alpha=0.2, linewidth=0.5)
    sheet.foot(training.source.footnote)
    return sheet


def evaluation_figure(evaluation: Evaluation, look: Look | None = None) -> Sheet:
    """The alignment error rate of each head and of their mean as bars, below what the model gets right."""
    look = look or Look()
    alignment = evaluation.alignment
    rates = [(f"head {head}", rate) for head, rate in enumerate(alignment.heads)] if alignment else []
    rates += [(AVERAGED, alignment.mean)] if alignment else []
    pitch, names = 0.24, 1.3
    width = max(7.0, text_width(evaluation_text(evaluation), TITLE, bold=True) + 2 * MARGIN)
    top = MARGIN + 0.75
    sheet = Sheet(width, top + max(len(rates) * pitch, 0.1) + 0.45 + MARGIN, look.dpi)
    sheet.heading(MARGIN + 0.1, partial(cut, evaluation_text(evaluation)))
    sheet.write(MARGIN, MARGIN + 0.42, alignment_text(evaluation), BODY, colour=QUIET)
    left, room = MARGIN + names, width - 2 * MARGIN - names - 0.5
    for i, (name, rate) in enumerate(rates):
        middle = top + (i + 0.5) * pitch
        last = i == len(rates) - 1
        sheet.write(left - 0.1, middle, name, BODY, align="right", bold=last)
        sheet.page.barh(middle, room * rate, height=0.6 * pitch, left=left, color=ACCENT if last else SECOND)
        sheet.write(left + room * rate + 0.06, middle, f"{rate:.3f}", BODY, bold=last)
    sheet.foot(evaluation.source.footnote)
    return sheet
