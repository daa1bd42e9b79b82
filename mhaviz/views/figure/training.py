"""How a model learnt, and how much it gets right, as figures."""

from mhaviz.pages.training import evaluation_page, training_page
from mhaviz.records import Evaluation, Training
from mhaviz.views.figure.page import draw_page
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.look import Look


def training_figure(training: Training, look: Look | None = None) -> Sheet:
    """Loss and held-out score against the step."""
    return draw_page(training_page(training), look)


def evaluation_figure(evaluation: Evaluation, look: Look | None = None) -> Sheet:
    """The alignment error rate of each head and of their mean as bars, below what the model gets right."""
    return draw_page(evaluation_page(evaluation), look)
