"""Training of a checkpoint: Adam on the cross-entropy of the next word.

Adam's β and ε are those of Vaswani et al. 2017, section 5.3. The learning rate rises and falls linearly.

The plan and the number of a step alone determine its sentences and its dropout. So a training that was interrupted and
resumed ends with the same weights as one that was not, if the plan stays the same.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mhaviz.devices import one_thread
from mhaviz.errors import ArgumentError, MhavizError, counted, parameter
from mhaviz.layer.tokens import Vocabulary
from mhaviz.results.training import LearningPoint
from mhaviz.training.checkpoint import AVERAGES, SCORED, Checkpoint, vocabularies
from mhaviz.training.corpus import Corpus, Pair, PairBatch
from mhaviz.training.evaluation import held_out_score, next_word_logits

MILESTONES, MOST_STEPS_BETWEEN = 20, 250
"""Least number of milestones in a training, at which the held-out score is measured, and most steps between them."""

_WARM_UP = 0.1  # of the steps


@dataclass(frozen=True)
class Progress:
    """A step that has been done; ``milestone``: the measurement, if one was due."""

    step: int
    loss: float
    milestone: LearningPoint | None = None


class Trainer:
    """Trains a checkpoint's model in place.

    Args:
        checkpoint: where to begin. It is updated at every milestone.
        corpus: the corpus that the checkpoint was made for.
        device: where to compute. The checkpoint's model is moved there. On the CPU one thread computes: a small model
            is fastest so if the machine has other work, and its result does not depend on the number of cores.

    Raises:
        ArgumentError: the corpus is another one, or the checkpoint cannot be resumed, or has no steps left.
        MhavizError: the checkpoint's words are not those of the corpus.
    """

    def __init__(self, checkpoint: Checkpoint, corpus: Corpus, device: torch.device) -> None:
        _check(checkpoint, corpus)
        self.checkpoint, self._corpus, self._device = checkpoint, corpus, device
        self._order = _Order(len(corpus.training), checkpoint.plan.batch_size, checkpoint.plan.seed)
        self._parameters = dict(checkpoint.model.to(device).named_parameters())
        self._adam = torch.optim.Adam(
            self._parameters.values(), betas=(0.9, 0.98), eps=1e-9, fused=device.type in ("cpu", "cuda")
        )
        if checkpoint.optimizer:
            taken = torch.tensor(float(checkpoint.step), device=device)
            for name, tensor in self._parameters.items():
                averages = {key: checkpoint.optimizer[f"{key}.{name}"].to(device) for key in AVERAGES}
                self._adam.state[tensor] = {"step": taken.clone(), **averages}

    def steps(self) -> Iterator[Progress]:
        """Take the steps that are left, one at a time. At a milestone, ``checkpoint`` is up to date and can be saved.

        Raises:
            MhavizError: the loss is no longer a number.
        """
        total = self.checkpoint.plan.steps
        every = min(math.ceil(total / MILESTONES), MOST_STEPS_BETWEEN)
        since_last: list[float] = []
        for step in range(self.checkpoint.step + 1, total + 1):
            loss = self._take(step)
            milestone_is_due = step % every == 0 or step == total
            if not math.isfinite(loss) or (milestone_is_due and not self._is_finite()):
                raise MhavizError(
                    f"the loss is no longer a number at step {step:,}: training has diverged; use a learning rate "
                    f"smaller than {self.checkpoint.plan.learning_rate:g}"
                )
            since_last.append(loss)
            if not milestone_is_due:
                yield Progress(step, loss)
                continue
            with one_thread():
                score = held_out_score(self.checkpoint, self._corpus.held_out[:SCORED], self._device)
            milestone = LearningPoint(step, sum(since_last) / len(since_last), score)
            since_last = []
            self.checkpoint.milestones += (milestone,)
            self.checkpoint.optimizer = self._averages()
            yield Progress(step, loss, milestone)

    def _take(self, step: int) -> float:
        """Take one step, and return its loss."""
        self.checkpoint.model.train()
        for group in self._adam.param_groups:
            group["lr"] = self._learning_rate(step)
        pairs = [self._corpus.training[i] for i in self._order.at(step)]
        gpus = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus), one_thread():
            torch.manual_seed(self.checkpoint.plan.seed + step)
            loss = self._loss(pairs)
            self._adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()
            return loss.item()

    def _loss(self, pairs: Sequence[Pair]) -> Tensor:
        """Mean cross-entropy of each word given those before it, in nats, without padding."""
        checkpoint = self.checkpoint
        batch = PairBatch(pairs, checkpoint.source_vocabulary, checkpoint.target_vocabulary, self._device)
        logits = next_word_logits(checkpoint, batch)
        return nnf.cross_entropy(logits.flatten(0, 1), batch.expected_ids.flatten(), ignore_index=Vocabulary.PADDING)

    def _is_finite(self) -> bool:
        """Return whether all weights are finite. The loss shows it only a step later."""
        return all(bool(parameter.isfinite().all()) for parameter in self._parameters.values())

    def _learning_rate(self, step: int) -> float:
        """Return the learning rate, which rises linearly to its maximum, and then falls linearly to nearly 0."""
        total = self.checkpoint.plan.steps
        warm_up = max(total * _WARM_UP, 1)
        return self.checkpoint.plan.learning_rate * min(step / warm_up, (total + 1 - step) / (total + 1 - warm_up))

    def _averages(self) -> dict[str, Tensor]:
        states = {name: self._adam.state[parameter] for name, parameter in self._parameters.items()}
        return {f"{key}.{name}": state[key].clone() for name, state in states.items() for key in AVERAGES}


class _Order:
    """The sentences of each step: all of them once in each epoch, each epoch in another order."""

    def __init__(self, sentences: int, batch_size: int, seed: int) -> None:
        self._sentences, self._size, self._seed = sentences, min(batch_size, sentences), seed
        self._epoch, self._shuffled = -1, [0]

    def at(self, step: int) -> list[int]:
        """Return the numbers of the sentences of a step, counted from 1."""
        epoch, place = divmod(step - 1, math.ceil(self._sentences / self._size))
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            self._epoch, self._shuffled = epoch, torch.randperm(self._sentences, generator=generator).tolist()
        return self._shuffled[place * self._size : (place + 1) * self._size]


def _check(checkpoint: Checkpoint, corpus: Corpus) -> None:
    if corpus.fingerprint != checkpoint.fingerprint:
        raise ArgumentError(
            f"this checkpoint was trained on {checkpoint.corpus}, whose sentences differ from those of {corpus.name} "
            f"now; resume with the same sentences, or train anew"
        )
    ours = checkpoint.source_vocabulary, checkpoint.target_vocabulary
    for side, own, there in zip(("source", "target"), ours, vocabularies(corpus), strict=True):
        if own.words != there.words:
            raise MhavizError(
                f"expected the {counted(len(there.words), 'word')} of {corpus.name} as the checkpoint's {side} words, "
                f"got others; take another copy of the checkpoint, or train anew"
            )
    if checkpoint.step and not checkpoint.optimizer:
        raise ArgumentError("this checkpoint holds no state of its optimizer, so it cannot be resumed; train anew")
    if checkpoint.step >= checkpoint.plan.steps:
        raise ArgumentError(
            f"expected more steps than the {checkpoint.step:,} that this checkpoint has taken, got "
            f"{checkpoint.plan.steps:,}; ask for more with {parameter('steps')}"
        )
