"""Ablation: the effect of zeroing the output of one head, by one more forward pass for each head and batch."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.bootstrap import add_numbers, head_numbers, number_shapes, poisson_weights
from mhaviz.analyses.predictions import cosine_distance, divergence, surprise
from mhaviz.analyses.sums import Sums, stacked
from mhaviz.attention.model import CorpusModel, Inputs, Site
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Text
from mhaviz.results.ablation import EFFECTS, Ablation, Effect, HeadEffects
from mhaviz.results.head_numbers import SEED
from mhaviz.results.result import Source

_MASKED_SHARE = 0.15
"""Share of a text's tokens that are masked, as in the training of BERT (Devlin et al. 2019, arXiv 1810.04805, section
3.1)."""

_MOST_PROBABILITIES = 2**25  # in a batch, 128 MiB of float32
_LEAST_TOKENS = 64  # in a batch, however large the vocabulary is


class AblationStudy:
    """Running averages of the effects of zeroing each head.

    Args:
        model: the model; heads of its selected attentions are zeroed.
        heads: indices of the heads to zero in each attention; None: all.
        texts_apart: as in ``poisson_weights``.
        are_repeats: whether each text is ``RandomRepeats``. Then only the repeat is scored, from its second token on.
    """

    def __init__(
        self,
        model: CorpusModel,
        heads: Collection[int] | None = None,
        texts_apart: int = 1,
        are_repeats: bool = False,
    ) -> None:
        self._model, self._texts_apart, self._are_repeats = model, texts_apart, are_repeats
        self._zeroed = [
            (site, head) for site in model.sites() for head in range(site.n_heads) if heads is None or head in heads
        ]
        self._sums = {site: Sums(number_shapes(site.n_heads, len(EFFECTS))) for site, _ in self._zeroed}
        self._before = Sums(dict.fromkeys(("mean", "count", "deviations"), (1,)))
        self._predictions = np.zeros(len(EFFECTS), np.int64)
        self._sentences = 0

    @property
    def n_passes(self) -> int:
        """Number of forward passes for each batch."""
        return 1 + len(self._zeroed)

    @property
    def most_tokens(self) -> int | None:
        """Largest number of tokens in a batch whose predictions fit into memory; None: predictions set no limit."""
        if self._model.predictor.prediction == "embedding":
            return None
        return max(_LEAST_TOKENS, _MOST_PROBABILITIES // self._model.predictor.vocabulary)

    def add(self, inputs: Inputs, numbers: Sequence[int], on_pass: Callable[[int], None] = lambda done: None) -> None:
        """Add these sentences in one batch.

        Args:
            inputs: the sentences.
            numbers: index of each sentence in the corpus, from 0.
            on_pass: called with the number of forward passes that are done.

        Raises:
            MhavizError: as the methods of ``Predictor``.
        """
        made, drawn = self._outputs(inputs), poisson_weights(numbers, self._texts_apart)
        before = made.of(self._model)
        self._sentences += len(inputs.texts)
        self._predictions += made.counts.sum(axis=0)
        self._before.add_values(*made.loss(before))
        on_pass(1)
        values = {site: np.zeros((len(inputs.texts), site.n_heads, len(EFFECTS))) for site in self._sums}
        for number, (site, head) in enumerate(self._zeroed, 2):
            after = made.of(self._model.zeroing([(site, head)]))
            values[site][:, head] = made.compare(before, after)
            on_pass(number)
        for site, sums in self._sums.items():
            add_numbers(sums, values[site], made.counts > 0, drawn)

    def result(self, source: Source, too_long: int = 0) -> Ablation:
        """Return the averages over all sentences so far; ``too_long``: number of sentences that could not be read."""
        there = {site.kind for site in self._sums}
        kinds = tuple(self._effects(kind) for kind in KIND_NAMES if kind in there)
        loss = float(self._before.mean()[0])
        return Ablation(source, self._model.predictor.prediction, kinds, self._sentences, loss, too_long)

    def _outputs(self, inputs: Inputs) -> "_Embeddings | _Predictions":
        if self._model.predictor.prediction == "embedding":
            return _Embeddings(inputs)
        if self._model.predictor.prediction == "next token":
            return _Predictions.of_next_tokens(inputs, self._are_repeats)
        return _Predictions.of_masked_tokens(inputs, self._model, self._are_repeats)

    def _effects(self, kind: Kind) -> HeadEffects:
        sites = sorted((site for site in self._sums if site.kind == kind), key=lambda site: site.layer)
        effects = {name: self._effect(sites, place) for place, name in enumerate(EFFECTS)}
        return HeadEffects(kind, tuple(site.layer for site in sites), **effects)

    def _effect(self, sites: Sequence[Site], place: int) -> Effect:
        """Return one number for all layers; NaN for heads that were not zeroed, and where a layer has fewer heads."""
        sums = [self._sums[site] for site in sites]
        zeroed = stacked(
            [np.array([(site, head) in self._zeroed for head in range(site.n_heads)]) for site in sites], 0
        )
        numbers = {
            name: np.where(zeroed, values, nan) for name, values in head_numbers(sums, place, self._texts_apart).items()
        }
        sentences = int(sums[0]["count"][0, place])
        return Effect(**numbers, sentences=sentences, predictions=int(self._predictions[place]))


@dataclass(frozen=True)
class _Embeddings:
    """Embedding of each text, with the interface of ``_Predictions``, as one prediction for each text."""

    inputs: Inputs

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.array([[1, 0]] * len(self.inputs.texts), np.int64)

    def of(self, model: CorpusModel) -> Tensor:
        return model.predictor.pooled(self.inputs)

    def compare(self, before: Tensor, after: Tensor) -> NDArray[np.float64]:
        return np.stack([cosine_distance(before, after), np.zeros(len(before))], axis=1)

    def loss(self, before: Tensor) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(self.inputs.texts)
        return np.zeros((n, 1)), np.zeros((n, 1), np.bool_)


@dataclass(frozen=True)
class _Predictions:
    """Positions of a batch at which tokens are predicted, and the comparison of predictions with and without a head.

    Attributes:
        inputs: the batch.
        positions: positions of the predictions in each sentence.
        expected: int64, (n_positions,), id of the true token; −1: not known.
    """

    inputs: Inputs
    positions: tuple[tuple[int, ...], ...]
    expected: NDArray[np.int64]

    @classmethod
    def of_next_tokens(cls, inputs: Inputs, are_repeats: bool) -> "_Predictions":
        """Predict the next token at each token of a text or of a decoder's input.

        With ``are_repeats``, only the tokens that are scored are predicted, each at the position before it.
        """
        following = [_following(text) for text in inputs.texts]
        positions = tuple(tuple(range(len(ids))) for ids in following)
        if are_repeats:
            positions = tuple(tuple(place - 1 for place in _repeated(text)) for text in inputs.texts)
            following = [ids[list(places)] for ids, places in zip(following, positions, strict=True)]
        return cls(inputs, positions, np.concatenate(following))

    @classmethod
    def of_masked_tokens(cls, inputs: Inputs, model: CorpusModel, are_repeats: bool) -> "_Predictions":
        """Predict some tokens of a text, which are masked; with ``are_repeats``, some of those that are scored."""
        positions = tuple(
            tuple(_masked(text, _repeated(text) if are_repeats else text.source.of_text)) for text in inputs.texts
        )
        there = [
            [text.source.ids[place] for place in places] for text, places in zip(inputs.texts, positions, strict=True)
        ]
        return cls(model.predictor.masked(inputs, positions), positions, np.concatenate(there).astype(np.int64))

    @property
    def sentences(self) -> NDArray[np.int64]:
        """Index of the sentence of each prediction, (n_positions,)."""
        return np.repeat(np.arange(len(self.positions)), list(map(len, self.positions)))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of predictions that each effect is the mean over, (batch_size, n_effects)."""
        n = len(self.positions)
        every = np.bincount(self.sentences, minlength=n)
        return np.stack([every, np.bincount(self.sentences[self.expected >= 0], minlength=n)], axis=1)

    def of(self, model: CorpusModel) -> Tensor:
        return model.predictor.logits(self.inputs, self.positions)

    def compare(self, before: Tensor, after: Tensor) -> NDArray[np.float64]:
        """Return the mean effects in each sentence, (batch_size, n_effects); undefined where it has no predictions."""
        return self._means(np.stack(divergence(before, after, self.expected), axis=1))

    def loss(self, before: Tensor) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the mean loss of each sentence, (batch_size, 1), and whether it has one."""
        losses = surprise(before, self.expected)
        return self._means(np.stack([losses, losses], axis=1))[:, 1:], self.counts[:, 1:] > 0

    def _means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average over the predictions of each sentence: (n_positions, n_effects) → (batch_size, n_effects)."""
        sums = np.zeros((len(self.positions), values.shape[1]))
        np.add.at(sums, self.sentences, values)
        return sums / np.maximum(self.counts, 1)


def _following(text: Text) -> NDArray[np.int64]:
    """Return the token that follows each token of a text, or that a decoder should produce there; −1: none."""
    if text.produced is not None:
        return np.array(text.produced.ids, np.int64)
    return np.array([*text.source.ids[1:], -1], np.int64)


def _repeated(text: Text) -> tuple[int, ...]:
    """Return the positions of ``RandomRepeats`` that are predictable: the repeat without its first token."""
    there = text.source.of_text
    return there[len(there) // 2 + 1 :]


def _masked(text: Text, there: Sequence[int]) -> Iterator[int]:
    """Return the positions of a text that are masked, in order: at least one of ``there``, chosen by its tokens."""
    random = np.random.default_rng([SEED, *text.source.ids])
    chosen = random.permutation(len(there))[: max(1, round(_MASKED_SHARE * len(there)))]
    return (there[place] for place in sorted(chosen))
