"""Checkpoints: a trained model in one .safetensors file, with its weights, its vocabularies and its training.

The tensors are ``model.NAME``, and, to resume training, Adam's ``adam.exp_avg.NAME`` and ``adam.exp_avg_sq.NAME``. The
metadata has one key, ``mhaviz``, with JSON. ``loading`` reads such files.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import torch
from msgspec import Meta
from safetensors.torch import save
from torch import Tensor

from mhaviz._version import __version__
from mhaviz.devices import require_memory
from mhaviz.files.writing import write_whole
from mhaviz.inputs.tokens import MARKS
from mhaviz.layer.seeding import seeded
from mhaviz.layer.tokens import Vocabulary
from mhaviz.layer.transformer import Translator
from mhaviz.results.result import Source
from mhaviz.results.training import LearningPoint, Training
from mhaviz.training.corpus import Corpus, Pair
from mhaviz.units import readable_share

FORMAT = 1
TASK: Literal["translation"] = "translation"
"""The task of the model, as it is named in the file."""

SCORED = 50
"""Number of held-out sentences that the score of a milestone is measured on; ``mhaviz evaluate`` takes all of them."""

SCORE = "exact match"
"""The score: the share of translations that equal the expected ones word for word."""

AVERAGES = ("exp_avg", "exp_avg_sq")
"""What Adam stores for each parameter: running averages of its gradient and of the gradient's square."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model. ``mhaviz train`` chooses the first two; files say all.

    Attributes:
        d_model, n_heads: of each attention.
        d_ff: number of hidden features of the feed-forward blocks.
        dropout: share that is dropped in training.
    """

    d_model: int = 64
    n_heads: int = 4
    d_ff: int = 128
    dropout: float = 0.1


@dataclass(frozen=True)
class Plan:
    """Settings of a training.

    Attributes:
        steps, batch_size: number of steps, and sentences of each.
        learning_rate: its maximum, after the warm-up.
        seed: seed of weights, batches and held-out sentences.
        keep_case: whether words keep their capitals, in the corpus and in what the model reads later.
    """

    steps: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 1500
    batch_size: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 64
    learning_rate: Annotated[float, Meta(gt=0)] = 3e-3
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    keep_case: bool = False


@dataclass
class Checkpoint:
    """A model, its vocabularies, and the state of its training.

    Attributes:
        sizes: sizes of the model.
        plan: settings of its training.
        source_vocabulary, target_vocabulary: the words that it knows.
        corpus: name of the corpus that it has learned from.
        fingerprint: of the corpus.
        sentences: number of sentences for training, and number of held-out sentences.
        milestones: measurements in order, the last of the current state.
        optimizer: Adam's two averages for each parameter, by "exp_avg.NAME"; empty if training cannot be resumed.
    """

    sizes: Sizes
    plan: Plan
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    corpus: str
    fingerprint: str
    sentences: tuple[int, int]
    model: Translator
    milestones: tuple[LearningPoint, ...] = ()
    optimizer: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def untrained(cls, corpus: Corpus, sizes: Sizes, plan: Plan) -> "Checkpoint":
        """Return a new model for a corpus, with weights drawn from the plan's seed.

        Raises:
            MhavizError: its training does not fit into memory.
        """
        source, target = vocabularies(corpus)
        _require_memory(sizes, plan, corpus, len(source), len(target))
        with seeded(plan.seed):
            model = build(sizes, len(source), len(target))
        counts = len(corpus.training), len(corpus.held_out)
        return cls(sizes, plan, source, target, corpus.name, corpus.fingerprint, counts, model)

    @property
    def scored(self) -> int:
        """Number of held-out sentences that the score of a milestone is measured on."""
        return min(SCORED, self.sentences[1])

    @property
    def step(self) -> int:
        """Number of steps that the model has been trained for."""
        return self.milestones[-1].step if self.milestones else 0

    def source(self, device: torch.device, pairs: Sequence[Pair] = (), target_given: bool = False) -> Source:
        """Return the source of results of this model, with the sentences that it was given and their translations.

        The score reached in training is only given where there are sentences. Results of a training and of an
        evaluation have scores of their own.
        """
        corpus = repr(self.corpus)[1:-1]  # a footnote is one line, whatever the file is called
        scored = f"{self.scored:,} of {self.sentences[1]:,} held out"
        score = (
            f", {SCORE} {readable_share(self.milestones[-1].score)} on {scored}" if pairs and self.milestones else ""
        )
        cut_off = "" if all(pair.ended for pair in pairs) else "; a translation did not end and was cut off"
        footnote = (
            f"{TASK}, learnt in {self.step:,} steps from {corpus:.60}{score}; d_model {self.sizes.d_model}, "
            f"{self.sizes.n_heads} heads, {device}{cut_off}"
        )
        details: dict[str, object] = {
            "kind": "checkpoint",
            "task": TASK,
            "corpus": self.corpus,
            "steps": self.step,
            "seed": self.plan.seed,
            "d_model": self.sizes.d_model,
            "n_heads": self.sizes.n_heads,
            "device": str(device),
        }
        if self.plan.keep_case:
            details["keep_case"] = True
        if not pairs:
            return Source(footnote, details)
        details["sentences"] = [" ".join(pair.source) for pair in pairs]
        details |= {"translations": [" ".join(pair.target) for pair in pairs], "target_given": target_given}
        return Source(footnote, details)

    def record(self, device: torch.device) -> Training:
        """Return the course of the training as a result."""
        return Training(
            source=self.source(device),
            task=TASK,
            score_name=SCORE,
            points=self.milestones,
            steps=self.plan.steps,
            training_sentences=self.sentences[0],
            held_out_sentences=self.sentences[1],
            scored_sentences=self.scored,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
        )

    def save(self, path: Path) -> None:
        """Write the file as a whole, or not at all.

        Raises:
            MhavizError: it cannot be written.
        """
        tensors = {f"model.{name}": t.detach().cpu().contiguous() for name, t in self.model.state_dict().items()}
        tensors |= {f"adam.{name}": t.cpu().contiguous() for name, t in self.optimizer.items()}
        about = {
            "mhaviz": __version__,
            "checkpoint": FORMAT,
            "task": TASK,
            "sizes": asdict(self.sizes),
            "plan": asdict(self.plan),
            "source_words": self.source_vocabulary.words,
            "target_words": self.target_vocabulary.words,
            "corpus": {"name": self.corpus, "fingerprint": self.fingerprint, "sentences": self.sentences},
            "milestones": [asdict(milestone) for milestone in self.milestones],
        }
        contents = save(tensors, {"mhaviz": json.dumps(about)})
        write_whole([(path, lambda stream: stream.write(contents))])


def vocabularies(corpus: Corpus) -> tuple[Vocabulary, Vocabulary]:
    """Return the words of the sources and of the targets, as a model for this corpus numbers them."""
    source = Vocabulary(pair.source for pair in corpus.pairs)
    return source, Vocabulary([MARKS, *(pair.target for pair in corpus.pairs)])


def build(sizes: Sizes, source_size: int, target_size: int) -> Translator:
    """Return a new model with random weights."""
    return Translator(source_size, target_size, sizes.d_model, sizes.n_heads, sizes.d_ff, sizes.dropout)


def _require_memory(sizes: Sizes, plan: Plan, corpus: Corpus, source_size: int, target_size: int) -> None:
    """Raise MhavizError if the weights, their gradients, Adam's two averages and a step would not fit into memory."""
    float32, copies, attentions, feed_forwards = 4, 4, 3, 2
    words = source_size + 2 * target_size
    parameters = sizes.d_model * (attentions * 4 * sizes.d_model + feed_forwards * 2 * sizes.d_ff + words)
    # A step with the longest sentences: logits and features with their gradients, scores and weights likewise.
    longest = max(max(len(pair.read), len(pair.source)) for pair in corpus.training)
    a_word = 4 * target_size + 100 * sizes.d_model + 10 * sizes.d_ff + 3 * 5 * sizes.n_heads * longest
    step = min(plan.batch_size, len(corpus.training)) * longest * a_word
    require_memory(float32 * (copies * parameters + step), torch.device("cpu"), "the training")
