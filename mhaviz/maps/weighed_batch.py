"""The weights of one attention for a batch of inputs, for studies that average over many."""

from dataclasses import dataclass

from torch import Tensor

from mhaviz.records import Kind


@dataclass(frozen=True)
class Side:
    """The queries, or the keys, of a batch.

    Attributes:
        ids: int64, (batch_size, length): the numbers of the tokens in the model's vocabulary.
        is_token: bool, the same shape; False for padding.
        is_special: bool, the same shape; True for tokens that are not of the text, such as [CLS], and for padding.
    """

    ids: Tensor
    is_token: Tensor
    is_special: Tensor


@dataclass(frozen=True)
class WeighedBatch:
    """The weights of one attention for a batch of inputs.

    Attributes:
        kind, layer: as in ``AttentionMap``.
        weights: float32, (batch_size, n_heads, q_length, k_length); rows and columns of padding hold anything finite.
        queries, keys: the same but for cross attention.
    """

    kind: Kind
    layer: int
    weights: Tensor
    queries: Side
    keys: Side
