"""Divergence of two predictions of tokens, the loss of one prediction, and the distance of two embeddings."""

from collections.abc import Sequence
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BLOCK = 2**22  # probabilities that are in memory at a time, in float64


def divergence(
    before: Tensor, after: Tensor, expected: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the divergence of two distributions over tokens, and the increase of the loss, in bits.

    Args:
        before, after: logits of p and of q, (rows, vocabulary).
        expected: id of the true token t, (rows,); −1: not known.

    Returns:
        KL(p ‖ q), (rows,), where tokens of probability 0 in p add nothing; and log₂ (p(t) / q(t)), (rows,), 0 where t
        is not known.
    """
    divergences, losses = [], []
    for x, y, t in zip(_blocks(before), _blocks(after), _tokens(expected, before), strict=True):
        log_p, log_q = torch.log_softmax(_exact(x), dim=-1), torch.log_softmax(_exact(y), dim=-1)
        ratio = log_p - log_q
        divergences.append((log_p.exp() * ratio.masked_fill(log_p == -torch.inf, 0.0)).sum(dim=-1))
        losses.append(_of_tokens(ratio, t))
    return _bits(divergences), _bits(losses)


def surprise(logits: Tensor, expected: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the loss −log₂ p(t), (rows,), 0 where t is not known; arguments as in ``divergence``."""
    parts = zip(_blocks(logits), _tokens(expected, logits), strict=True)
    return _bits([-_of_tokens(torch.log_softmax(_exact(x), dim=-1), t) for x, t in parts])


def cosine_distance(before: Tensor, after: Tensor) -> NDArray[np.float64]:
    """Compute 1 − cos for each pair of rows, as ½ ‖u − v‖² of unit vectors, which is accurate for equal rows, too."""
    u, v = (
        _exact(x) / _exact(x).norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny) for x in (before, after)
    )
    halves: NDArray[np.float64] = ((u - v) ** 2).sum(dim=-1).div(2).cpu().double().numpy()
    return halves


def _rows(logits: Tensor) -> int:
    """Return the number of rows to compare at a time."""
    return max(1, _BLOCK // logits.shape[1])


def _blocks(logits: Tensor) -> tuple[Tensor, ...]:
    return torch.split(logits, _rows(logits))


def _tokens(expected: NDArray[np.int64], logits: Tensor) -> tuple[Tensor, ...]:
    return torch.split(torch.from_numpy(expected).to(logits.device), _rows(logits))


def _of_tokens(x: Tensor, tokens: Tensor) -> Tensor:
    """Return the value of each row for its token; 0 where the token is −1."""
    return x.gather(1, tokens.clamp(min=0)[:, None])[:, 0].masked_fill(tokens < 0, 0.0)


def _bits(parts: Sequence[Tensor]) -> NDArray[np.float64]:
    """Join parts, and convert nats to bits."""
    nats: NDArray[np.float64] = torch.cat(list(parts)).cpu().double().numpy()
    return nats / log(2)


def _exact(x: Tensor) -> Tensor:
    """Convert to float64 where the device supports it."""
    return x if x.device.type == "mps" else x.double()
