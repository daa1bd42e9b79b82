"""What keys get from a block of queries, by which sinks are found."""

import torch
from torch import Tensor


def key_sums(A: Tensor, sees: Tensor) -> Tensor:
    """Sum a block of weights for each key, as ``KeySums.add_sums`` takes them.

    A query sees a key if it does in any head, as in maps of all tokens.

    Args:
        A: weights, (batch_size, n_heads, queries, k_length); 0 in padding.
        sees: bool, (batch_size, n_heads or 1, queries, k_length), which keys queries see.

    Returns:
        float64, on the CPU, (3, batch_size, k_length): ratios, weights and readers.
    """
    of_heads, reads = A.sum(dim=1), sees.any(dim=1).to(A.dtype)  # batch_size queries k_length
    ratios = reads.sum(dim=2)[:, None] @ of_heads
    return torch.stack([ratios[:, 0], of_heads.sum(dim=1), reads.sum(dim=1)]).cpu().double()
