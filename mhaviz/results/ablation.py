"""What changes when the output of one head of a model is zeroed, averaged over many sentences."""

from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import msgspec

from mhaviz.inputs.probes import Probe
from mhaviz.results.head_numbers import LEVEL, HeadNumbers, HeadsOfKind, HeadTable
from mhaviz.results.result import Source

Prediction = Literal["next token", "masked token", "embedding"]
"""What a model makes at the end, that a head may matter for: a distribution over the tokens that may come next or stand
behind a mask, or the mean of the last layer over the tokens of a text."""


@dataclass(frozen=True)
class Effect(HeadNumbers):
    """What changes with each head; NaN where it was not zeroed. ``predictions``: how many count, in all sentences."""

    predictions: int

    def of_head(self, row: int, column: int) -> dict[str, Any]:
        """See ``HeadNumbers``."""
        return super().of_head(row, column) | {"sentences": self.sentences, "predictions": self.predictions}


@dataclass(frozen=True)
class HeadEffects(HeadsOfKind):
    """What changes with each head of one kind of attention, when its output alone is zeroed before it is projected.

    Let p be the distribution that the model predicts, and q the same with the head zeroed.

    Attributes:
        change: KL(p ‖ q) = Σ_t p(t) log₂ (p(t) / q(t)) over the tokens t of the vocabulary, in bits: 0 where the head
            changes nothing. Of a model that makes an embedding e of a text, 1 − cos(e, e with the head zeroed): from 0
            to 2.
        loss: log₂ (p(t) / q(t)) of the token t that is there, in bits: how much less likely the model finds it without
            the head; below 0 where it finds it more likely. NaN of embeddings.
    """

    change: Effect
    loss: Effect


EFFECTS = ("change", "loss")
"""The names of the numbers, in their order."""


@dataclass(frozen=True)
class Ablation(HeadTable):
    """What changes when the output of one head at a time is zeroed: Michel et al. 2019 (arXiv 1905.10650).

    Attributes:
        prediction: what the model makes, that is compared.
        kinds: one for each kind of attention whose heads were zeroed.
        sentences: how many were read.
        loss: −log₂ p(t) of the token t that is there, in bits, of the whole model: the mean over the sentences of the
            mean over their predictions; NaN of embeddings.
        too_long: how many sentences were left out, as the model cannot read so many tokens.
        replicates, seed: of the bootstrap that the intervals are of; the seed is that of the masked tokens, too.
        probe: what the sentences were made for, if they are none of a corpus.
    """

    source: Source
    prediction: Prediction
    kinds: tuple[HeadEffects, ...]
    sentences: int
    loss: float = nan
    too_long: int = 0
    replicates: int = 0
    seed: int = 0
    probe: Probe | None = None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        about = {name: getattr(self, name) for name in ("prediction", "sentences", "loss", "too_long", "kinds")}
        bootstrap = {"replicates": self.replicates, "seed": self.seed, "level": LEVEL}
        return about | {"probe": msgspec.to_builtins(self.probe), "bootstrap": bootstrap}
