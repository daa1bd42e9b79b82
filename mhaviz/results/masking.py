"""Scores before the mask, the weights after it, and the weights that dropout drops."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.result import Result, ShortRepr, Source, of_layer


@dataclass(frozen=True)
class MaskedSentence(ShortRepr):
    """One sentence of a padded batch. ``q_length`` and ``k_length`` are lengths of the batch, padding included.

    Attributes:
        queries, keys: tokens of the sentence, without padding.
        scores: float32, (n_heads, q_length, k_length), S before any key is hidden; NaN where a mask that also adds a
            bias hides a key, as the bias is not known there.
        hidden: bool, of the same shape: True where the mask sets −∞, padded keys included.
        weights: float32, of the same shape: A, the softmax of the masked scores; 0 where hidden.
        dropped: bool, of the same shape: True for weights that dropout sets to 0; None: no dropout.
        kept: float32, of the same shape: weights after dropout, where those kept are multiplied by 1 / (1 − p); None:
            no dropout.
    """

    queries: Tokens
    keys: Tokens
    scores: NDArray[np.float32]
    hidden: NDArray[np.bool_]
    weights: NDArray[np.float32]
    dropped: NDArray[np.bool_] | None = None
    kept: NDArray[np.float32] | None = None

    @property
    def padding(self) -> NDArray[np.bool_]:
        """Rows of padded queries and columns of padded keys, bool, (q_length, k_length)."""
        q_length, k_length = self.scores.shape[1:]
        is_query, is_key = np.arange(q_length) < len(self.queries), np.arange(k_length) < len(self.keys)
        return np.asarray(~(is_query[:, None] & is_key))

    @property
    def is_padded(self) -> bool:
        """Whether the sentence is shorter than the batch."""
        return bool(self.padding.any())

    @property
    def masked(self) -> NDArray[np.bool_]:
        """Scores that the mask hides between tokens, bool, (n_heads, q_length, k_length)."""
        return self.hidden & ~self.padding


class ScoreCounts(NamedTuple):
    """Numbers of scores of all heads and sentences: all that are drawn, those between tokens that the mask hides, and
    those that padding leaves out."""

    scores: int
    masked: int
    padding: int


@dataclass(frozen=True)
class Masking(Result):
    """Effect of the mask and of dropout on the scores of some heads, for each sentence of a batch.

    Attributes:
        kind, rule, layer: as in ``Explanation``.
        heads: indices of the heads.
        sentences: the sentences of the batch, in order.
        dropout: p, the probability that a weight is dropped in training; None: no dropout.
        seed: seed of the random numbers of dropout.
    """

    source: Source
    kind: Kind
    rule: str
    heads: tuple[int, ...]
    sentences: tuple[MaskedSentence, ...]
    dropout: float | None = None
    seed: int = 0
    layer: int | None = None

    @property
    def counts(self) -> ScoreCounts:
        """Numbers of scores, of those that the mask hides, and of those that padding leaves out."""
        return ScoreCounts(
            sum(one.scores.size for one in self.sentences),
            sum(int(one.masked.sum()) for one in self.sentences),
            sum(int(one.padding.sum()) for one in self.sentences) * len(self.heads),
        )

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; gives tokens by their texts, and includes the padding."""
        about = {"kind": self.kind, "rule": self.rule, "heads": self.heads}
        dropout = {"dropout": self.dropout, "dropout_seed": None if self.dropout is None else self.seed}
        sentences = [
            vars(one) | {"queries": one.queries.texts, "keys": one.keys.texts, "padding": one.padding}
            for one in self.sentences
        ]
        return of_layer(self.layer) | about | {"counts": self.counts._asdict()} | dropout | {"sentences": sentences}
