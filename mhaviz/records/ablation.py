"""What changes when the output of one head of a model is zeroed, averaged over many sentences."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.records.head_statistics import LEVEL
from mhaviz.records.probes import Probe, probe_to_json
from mhaviz.records.shown import Brief, Shown, require_pandas
from mhaviz.records.source import Source
from mhaviz.records.tokens import Kind

if TYPE_CHECKING:
    import pandas

Prediction = Literal["next token", "masked token", "embedding"]
"""What a model makes at the end, that a head may matter for: a distribution over the tokens that may come next or stand
behind a mask, or the mean of the last layer over the tokens of a text."""


@dataclass(frozen=True)
class Effect(Brief):
    """One number of every head, over sentences: of each sentence, the mean over its predictions counts once.

    Attributes:
        mean: float64, (n_layers, n_heads): the mean over the sentences; NaN where a head was not zeroed, where there is
            nothing to average, and where a layer has fewer heads than another.
        spread: the same shape: the standard deviation between the sentences, √(Σ (x − mean)² / (sentences − 1)); NaN
            for fewer than two.
        low, high: the same shape: the 95 % interval of the mean, of a bootstrap over the sentences, those that a
            needle was put into; NaN for fewer than 30, of which it would hold the mean less often than it says.
        sentences: how many have a prediction that counts.
        predictions: how many count, in all sentences.
    """

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sentences: int
    predictions: int

    @property
    def is_known(self) -> bool:
        """Whether there was anything to average."""
        return bool(np.isfinite(self.mean).any())

    def of_head(self, row: int, column: int) -> tuple[float, float, float, float]:
        """Mean, spread, low and high of one head."""
        mean, spread, low, high = (float(array[row, column]) for array in (self.mean, self.spread, self.low, self.high))
        return mean, spread, low, high


@dataclass(frozen=True)
class HeadEffects(Brief):
    """What changes with each head of one kind of attention, when its output alone is zeroed before it is projected.

    Let p be the distribution that the model predicts, and q the same with the head zeroed.

    Attributes:
        kind: of attention.
        layers: their numbers, in the order of the rows of every array.
        change: KL(p ‖ q) = Σ_t p(t) log₂ (p(t) / q(t)) over the tokens t of the vocabulary, in bits: 0 where the head
            changes nothing. Of a model that makes an embedding e of a text, 1 − cos(e, e with the head zeroed): from 0
            to 2.
        loss: log₂ (p(t) / q(t)) of the token t that is there, in bits: how much less likely the model finds it without
            the head; below 0 where it finds it more likely. NaN of embeddings.
    """

    kind: Kind
    layers: tuple[int, ...]
    change: Effect
    loss: Effect

    def effect(self, name: str) -> Effect:
        """That of a name in ``EFFECTS``."""
        effect: Effect = getattr(self, name)
        return effect

    def heads(self) -> Iterator[tuple[int, int]]:
        """(row, column) of every head that was zeroed, layer by layer."""
        for row, column in np.argwhere(np.isfinite(self.change.mean)):
            yield int(row), int(column)


EFFECTS = ("change", "loss")
"""The names of the numbers, in their order."""

EFFECT_COLUMNS = (
    "kind",
    "layer",
    "head",
    "number",
    "mean",
    "spread",
    "low",
    "high",
    "sentences",
    "predictions",
)
"""Of a table with a row for each head and each of its numbers."""


@dataclass(frozen=True)
class Ablation(Shown):
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

    def rows(self) -> Iterator[tuple[object, ...]]:
        """A row of ``EFFECT_COLUMNS`` for each head that was zeroed and each number; NaN for what is not known."""
        for kind in self.kinds:
            known = [name for name in EFFECTS if kind.effect(name).is_known]
            for row, column in kind.heads():
                for name in known:
                    effect = kind.effect(name)
                    about = (effect.sentences, effect.predictions)
                    yield (kind.kind, kind.layers[row], column, name, *effect.of_head(row, column), *about)

    def to_dict(self) -> dict[str, Any]:
        """See ``Shown.to_dict``."""
        about = {name: getattr(self, name) for name in ("prediction", "sentences", "loss", "too_long", "kinds")}
        bootstrap = {"replicates": self.replicates, "seed": self.seed, "level": LEVEL}
        return about | {"probe": probe_to_json(self.probe), "bootstrap": bootstrap}

    def to_dataframe(self) -> "pandas.DataFrame":
        """The same as a table. Raises MhavizError if pandas is not installed."""
        return require_pandas().DataFrame(list(self.rows()), columns=list(EFFECT_COLUMNS))
