"""How a model learnt, and how much of what it has not seen it gets right."""

from dataclasses import dataclass
from typing import Literal

from mhaviz.results.result import Result, Source


@dataclass(frozen=True)
class LearningPoint:
    """How far training had come after ``step`` steps.

    Attributes:
        loss: mean cross-entropy of the next word since the point before, in nats.
        score: share of held-out sentences that were right.
    """

    step: int
    loss: float
    score: float


@dataclass(frozen=True)
class Training(Result):
    """A training from its beginning.

    Attributes:
        task: what was learnt.
        score_name: what the score is the share of; ``scored_sentences``: of how many held-out ones.
        points: in order.
        steps: how many there were to be.
        training_sentences, held_out_sentences: how many.
        parameters: how many numbers the model learnt.
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
    """How well the largest weights of source-target attention find each word's translation.

    Attributes:
        heads: alignment error rate of each head.
        mean: of the heads' averaged weights.
        links: how many links there are in the gold alignments.
    """

    heads: tuple[float, ...]
    mean: float
    links: int


@dataclass(frozen=True)
class Evaluation(Result):
    """What a checkpoint gets right.

    Attributes:
        task, score_name, score: as in ``Training``.
        held_out: whether all of the sentences are surely none that it has been trained on.
        perplexity: e to the mean cross-entropy of a word.
        sentences: how many.
        alignment: where there are gold alignments.
    """

    source: Source
    task: Literal["translation"]
    score_name: str
    score: float
    perplexity: float
    sentences: int
    held_out: bool
    alignment: AlignmentErrors | None = None
