"""Which keys a query may see. True shows, False hides; every mask broadcasts to the shape of the scores."""

from collections.abc import Sequence

import torch
from torch import Tensor


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """(1, 1, q_length, k_length): a query sees itself and what came before. Vaswani et al. 2017, section 3.2.3."""
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()


def padding_mask(lengths: Sequence[int], device: torch.device | str | None = None) -> Tensor:
    """(batch_size, 1, 1, k_length): sentence b of a padded batch is ``lengths[b]`` tokens long."""
    positions = torch.arange(max(lengths), device=device)
    return (positions < torch.tensor(lengths, device=device)[:, None])[:, None, None, :]
