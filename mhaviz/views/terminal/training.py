"""How a model learnt, and how much it gets right, in the terminal."""

from mhaviz.pages.training import evaluation_page, training_page
from mhaviz.records import Evaluation, Training
from mhaviz.views.terminal.page import PageView


def TrainingView(training: Training) -> PageView:
    """Loss and held-out score after every so many steps, as numbers and as bars."""
    return PageView(training_page(training))


def EvaluationView(evaluation: Evaluation) -> PageView:
    """The score, and the alignment error of each head."""
    return PageView(evaluation_page(evaluation))
