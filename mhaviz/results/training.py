"""Course of a training, and the evaluation of a trained model."""

from dataclasses import dataclass
from typing import Literal

from mhaviz.results.result import Result, Source


@dataclass(frozen=True)
class LearningPoint:
    """State of training after ``step`` steps.

    Attributes:
        loss: mean cross-entropy of the next word since the previous point, in nats.
        score: share of held-out sentences that are right.
    """

    step: int
    loss: float
    score: float


@dataclass(frozen=True)
class Training(Result):
    """Course of a training.

    Attributes:
        task: the task that was learned.
        score_name: name of the score.
        points: state at several steps, in order.
        steps: number of steps that were planned.
        training_sentences, held_out_sentences: number of sentences of each set.
        scored_sentences: number of held-out sentences that the score is computed on.
        parameters: number of learned parameters.
    """

    source: Source
    task: Literal["translation"]
    score_name: str
    points: tuple[LearningPoint, ...]
    steps: int
    training_sentences: int
    held_out_sentences: int
    scored_sentences: int
    parameters: int


@dataclass(frozen=True)
class AlignmentErrors:
    """Alignment error rate of the largest weights in source-target attention, from 0 to 1.

    Attributes:
        heads: error rate of each head.
        mean: error rate of the mean weights over the heads.
        links: number of links in the gold alignments.
    """

    heads: tuple[float, ...]
    mean: float
    links: int


@dataclass(frozen=True)
class Evaluation(Result):
    """Evaluation of a checkpoint.

    Attributes:
        task, score_name: as in ``Training``.
        score: share of the sentences that are right.
        held_out: whether it is certain that the checkpoint was trained on none of the sentences.
        perplexity: exponential of the mean cross-entropy of a word.
        sentences: number of sentences.
        alignment: alignment errors; None: there are no gold alignments.
    """

    source: Source
    task: Literal["translation"]
    score_name: str
    score: float
    perplexity: float
    sentences: int
    held_out: bool
    alignment: AlignmentErrors | None = None
