"""From token numbers to the layer's input: an embedding, and a positional encoding that is added to it."""

import math

import torch
from torch import Tensor, nn

from mhaviz.errors import ArgumentError
from mhaviz.layer.steps import Step, untraced


class Embeddings(nn.Module):
    """A learned vector for each word of a vocabulary. Vaswani et al. 2017, section 3.4.

    The table is initialised with a standard deviation of d_model^-0.5, so that the embeddings, which are multiplied by
    √d_model, have unit variance at first.

    Examples:
        >>> mhaviz.Embeddings(vocab_size=100, d_model=8)(torch.tensor([[5, 7, 5]])).shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        table = torch.empty(vocab_size, d_model)
        if not table.is_meta:  # on the meta device, the loop over all rows would take longest of all
            for row in table:  # row by row, so that the vector of a word does not depend on how many words follow
                row.normal_(std=d_model**-0.5)
        self.lookup = nn.Embedding.from_pretrained(table, freeze=False)  # type: ignore[no-untyped-call]

    def forward(self, ids: Tensor, *, step: Step = untraced) -> Tensor:
        """Return the embeddings, (batch_size, seq_length, d_model), of ids, (batch_size, seq_length).

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
    """Positional encoding: adds sines and cosines of the position to each vector. Vaswani et al. 2017, section 3.5.

    PE[p, 2i] = sin(p / 10000^(2i/d_model)),  PE[p, 2i+1] = cos(p / 10000^(2i/d_model))

    Examples:
        >>> mhaviz.PositionalEncoding(d_model=8)(torch.zeros(1, 3, 8)).shape
        torch.Size([1, 3, 8])
    """

    pe: Tensor

    def __init__(self, d_model: int, dropout: float = 0.1, max_length: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", sinusoids(max_length, d_model), persistent=False)

    def forward(self, x: Tensor, *, step: Step = untraced) -> Tensor:
        """Return x (batch_size, seq_length, d_model) plus the positional encoding, in the same shape.

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
    """Return the table PE for positions from ``start`` on, (length, d_model).

    It is computed in float64 and rounded once.
    """
    table = torch.empty(length, d_model, dtype=torch.float64)
    if table.is_meta:  # has no numbers; to compute them, PyTorch would load its compiler
        return table.to(torch.get_default_dtype())
    position = torch.arange(start, start + length, dtype=torch.float64)[:, None]  # length 1
    even = torch.arange(0, d_model, 2, dtype=torch.float64)  # 2i
    angle = position / 10000 ** (even / d_model)  # length ⌈d_model/2⌉
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle[:, : d_model // 2])
    return table.to(torch.get_default_dtype())
