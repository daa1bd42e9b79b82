"""Numbers that are none, or too large: weights that are NaN are never drawn."""

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.errors import MhavizError
from mhaviz.records import LARGEST


def require_weights(weights: Tensor, where: str) -> None:
    """Raise MhavizError if some weights, (batch_size, n_heads, q_length, k_length), are NaN: scores were too large.

    ``where``: what attention they are of.
    """
    if not math.isfinite(weights.sum().item()):
        head = int((~weights.isfinite()).nonzero()[0, 1])
        raise MhavizError(
            f"{where}: the weights of head {head} are NaN, as float32 cannot hold its scores; check the parameters"
        )


def require_scores(
    query: NDArray[np.float32], key: NDArray[np.float32], where: str, value: NDArray[np.float32] | None = None
) -> None:
    """Raise MhavizError unless all scores, and what becomes of them, can be drawn.

    Args:
        query, key, value: (n_heads, length, d_key).
        where: what attention they are of.
    """
    sides = [np.abs(x).max(axis=(1, 2), initial=0.0).astype(np.float64) for x in (query, key)]
    largest = query.shape[2] * sides[0] * sides[1]  # n_heads
    if value is not None:
        largest = np.maximum(largest, np.abs(value).max(axis=(1, 2), initial=0.0))
    wrong = ~(largest <= LARGEST)  # NaN is not
    if wrong.any():
        raise MhavizError(
            f"{where}: the queries, keys or values of head {int(wrong.argmax())} are too large, or NaN: expected "
            f"scores of at most {LARGEST:g}; check the parameters"
        )
