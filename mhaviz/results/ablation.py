"""Effect of zeroing the output of one head of a model, averaged over many sentences."""

from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import msgspec

from mhaviz.inputs.probes import Probe
from mhaviz.results.head_numbers import BOOTSTRAP, HeadNumbers, HeadsOfKind, HeadTable
from mhaviz.results.result import Source

Prediction = Literal["next token", "masked token", "embedding"]
"""Output of a model in which the effect of a head is measured: the distribution over the next token or over a masked
token, or the embedding of a text, the mean of the last layer over its tokens."""


@dataclass(frozen=True)
class Effect(HeadNumbers):
    """Effect of each head, NaN where it was not zeroed; ``predictions``: number of predictions in all sentences."""

    predictions: int

    def of_head(self, row: int, column: int) -> dict[str, Any]:
        """See ``HeadNumbers``."""
        return super().of_head(row, column) | {"sentences": self.sentences, "predictions": self.predictions}


@dataclass(frozen=True)
class HeadEffects(HeadsOfKind):
    """Effects of the heads of one kind of attention. The output of one head at a time is zeroed before its projection.

    Let p be the distribution that the model predicts, and q its prediction with the head zeroed.

    Attributes:
        change: KL(p ‖ q) = Σ_t p(t) log₂ (p(t) / q(t)) over the tokens t of the vocabulary, in bits: 0 where the head
            changes nothing. For a model whose output is an embedding e: 1 − cos(e, e with the head zeroed), from 0 to
            2.
        loss: log₂ (p(t) / q(t)) of the true token t, in bits: the increase of the loss without the head. Negative
            where the true token becomes more likely. NaN for embeddings.
    """

    change: Effect
    loss: Effect


EFFECTS = ("change", "loss")
"""Names of the numbers of ``HeadEffects``, in order."""


@dataclass(frozen=True)
class Ablation(HeadTable):
    """Effects of zeroing the output of one head at a time: Michel et al. 2019 (arXiv 1905.10650).

    Attributes:
        prediction: the output of the model that is compared.
        kinds: one for each kind of attention whose heads were zeroed.
        sentences: number of sentences that were read.
        loss: −log₂ p(t) of the true token t, in bits, for the model with all heads. Averaged over the predictions of a
            sentence, then over the sentences; NaN for embeddings.
        too_long: number of sentences left out because they have more tokens than the model can read.
        probe: what the sentences were generated for; None: they come from a corpus.
    """

    source: Source
    prediction: Prediction
    kinds: tuple[HeadEffects, ...]
    sentences: int
    loss: float = nan
    too_long: int = 0
    probe: Probe | None = None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        about = {name: getattr(self, name) for name in ("prediction", "sentences", "loss", "too_long", "kinds")}
        return about | {"probe": msgspec.to_builtins(self.probe), "bootstrap": BOOTSTRAP}
