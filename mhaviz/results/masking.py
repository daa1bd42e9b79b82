"""Scores before and after their mask, the weights of what is left, and what dropout drops of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.result import Result, ShortRepr, Source, of_layer


@dataclass(frozen=True)
class MaskedSentence(ShortRepr):
    """One sentence of a padded batch: ``q_length`` and ``k_length`` are those of the batch, padding included.

    Attributes:
        queries, keys: its own tokens, without padding.
        scores: float32, (n_heads, q_length, k_length): S, before any key is hidden; NaN where a mask with a bias hides
            one, as the bias is not known there.
        hidden: bool, the same shape: where the mask puts −∞, padded keys among them.
        weights: float32, the same shape: A, the softmax of the masked scores; 0 where hidden.
        dropped: bool, the same shape: the weights that dropout sets to 0; None: there is no dropout.
        kept: float32, the same shape: the weights after dropout, what is left times 1 / (1 − p); None likewise.
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
        """bool, (q_length, k_length): rows of queries and columns of keys that only fill the batch up."""
        q_length, k_length = self.scores.shape[1:]
        is_query, is_key = np.arange(q_length) < len(self.queries), np.arange(k_length) < len(self.keys)
        return np.asarray(~(is_query[:, None] & is_key))

    @property
    def is_padded(self) -> bool:
        """Whether the batch is longer than the sentence."""
        return bool(self.padding.any())


@dataclass(frozen=True)
class Masking(Result):
    """What the mask and dropout do to the scores of some heads, sentence by sentence.

    Attributes:
        kind, rule, layer: as in ``Explanation``.
        heads: their numbers.
        sentences: in their order.
        dropout: p, the share of the weights that is dropped in training; None: none is.
        seed: of the random numbers that choose them.
    """

    source: Source
    kind: Kind
    rule: str
    heads: tuple[int, ...]
    sentences: tuple[MaskedSentence, ...]
    dropout: float | None = None
    seed: int = 0
    layer: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; tokens by their texts, with the padding."""
        about = {"kind": self.kind, "rule": self.rule, "heads": self.heads}
        dropout = {"dropout": self.dropout, "dropout_seed": None if self.dropout is None else self.seed}
        sentences = [
            vars(one) | {"queries": one.queries.texts, "keys": one.keys.texts, "padding": one.padding}
            for one in self.sentences
        ]
        return of_layer(self.layer) | about | dropout | {"sentences": sentences}
