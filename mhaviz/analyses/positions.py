"""The sinusoids that a Transformer adds to its embeddings, without any text: Vaswani et al. 2017, section 3.5."""

import numpy as np
import torch

from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.layer.embedding import sinusoids
from mhaviz.limits import require_comparable
from mhaviz.records.embeddings import PositionTable
from mhaviz.records.source import Source

_FLOAT64 = 8  # bytes


def position_table(length: int, d_model: int) -> PositionTable:
    """PE of the positions from 0 to length − 1, as ``PositionalEncoding`` adds it.

    Raises:
        ArgumentError: sizes below 1, or more positions than are compared with each other.
        MhavizError: they do not fit into memory.
    """
    for name, size in (("length", length), ("d_model", d_model)):
        if size < 1:
            raise ArgumentError(f"{parameter(name)}: expected at least 1, got {counted(size)}")
    require_comparable(length, "positions")
    require_memory(3 * _FLOAT64 * length * max(d_model, length), torch.device("cpu"), "the table")
    values = np.asarray(sinusoids(length, d_model).float().numpy())
    footnote = f"sinusoids of Vaswani et al. 2017, section 3.5; length {length:,}, d_model {d_model:,}"
    return PositionTable(Source(footnote, {"kind": "sinusoids", "length": length, "d_model": d_model}), values)
