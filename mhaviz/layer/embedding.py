"""From word numbers to the layer's input: an embedding, and the position added to it."""

import math

import torch
from torch import Tensor, nn

from mhaviz.errors import ArgumentError
from mhaviz.layer.steps import Step, untraced


class Embeddings(nn.Module):
    """A learnt vector for each word of a vocabulary. Vaswani et al. 2017, section 3.4.

    The table starts with entries of standard deviation d_model^-0.5, so that the embeddings, which are multiplied
    by √d_model, start with unit variance.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        table = torch.empty(vocab_size, d_model)
        if not table.is_meta:  # where there are shapes alone, to go through all rows takes longest of all
            for row in table:  # one by one, so that a word's vector does not depend on how many words follow
                row.normal_(std=d_model**-0.5)
        self.lookup = nn.Embedding.from_pretrained(table, freeze=False)  # type: ignore[no-untyped-call]

    def forward(self, ids: Tensor, *, step: Step = untraced) -> Tensor:
        """ids (batch_size, seq_length) → embeddings (batch_size, seq_length, d_model).

        Raises:
            ArgumentError: an id is not in the vocabulary (on a GPU, PyTorch's own error).
        """
        try:
            embedded: Tensor = self.lookup(ids) * math.sqrt(self.d_model)
        except IndexError:
            highest = self.lookup.num_embeddings - 1
            raise ArgumentError(
                f"ids: expected numbers from 0 to {highest}, got {int(ids.min())} to {int(ids.max())}"
            ) from None
        return step("E = lookup(ids) · √d_model", embedded, "batch_size seq_length d_model")


class PositionalEncoding(nn.Module):
    """Adds to each vector a pattern of sines and cosines that tells its position. Ibid., section 3.5.

    PE[p, 2i] = sin(p / 10000^(2i/d_model)),  PE[p, 2i+1] = cos(p / 10000^(2i/d_model))
    """

    pe: Tensor

    def __init__(self, d_model: int, dropout: float = 0.1, max_length: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", sinusoids(max_length, d_model), persistent=False)

    def forward(self, x: Tensor, *, step: Step = untraced) -> Tensor:
        """x (batch_size, seq_length, d_model) → the same shape, with positions.

        Raises:
            ArgumentError: the input has other axes, or is longer than ``max_length``.
        """
        max_length, d_model = self.pe.shape
        if x.ndim != 3 or x.shape[2] != d_model:
            raise ArgumentError(f"x: expected (batch_size, seq_length, {d_model}), got {tuple(x.shape)}")
        length = x.shape[1]
        if length > max_length:
            raise ArgumentError(
                f"expected at most {max_length} positions, got an input of {length}; "
                f"make PositionalEncoding with max_length={length} or more"
            )
        return step("X = dropout(E + PE)", self.dropout(x + self.pe[:length]), "batch_size seq_length d_model")


def sinusoids(length: int, d_model: int, start: int = 0) -> Tensor:
    """The table PE of the positions from ``start``, (length, d_model), computed in float64 and rounded once."""
    position = torch.arange(start, start + length, dtype=torch.float64)[:, None]  # length 1
    even = torch.arange(0, d_model, 2, dtype=torch.float64)  # 2i
    angle = position / 10000 ** (even / d_model)  # length ⌈d_model/2⌉
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle[:, : d_model // 2])
    return table.to(torch.get_default_dtype())
