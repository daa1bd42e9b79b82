"""Norms of values after the output projection, ‖v_j W_O‖, by which weights are multiplied in a map of norms.

The output of a query is O_i = Σ_h Σ_j A_ij · v_j W_O + bias, so ‖A_ij · v_j W_O‖ is the length of what one key adds to
it through one head (Kobayashi et al. 2020, arXiv 2004.10102, section 2.2).
"""

import torch
from torch import Tensor

_KEYS_AT_ONCE = 8192


def gram_matrices(W_out: Tensor) -> Tensor:
    """Compute G = W_O W_Oᵀ of every head, (n_heads, d_value, d_value), in float64 where the device has it.

    ‖v W_O‖² = v G vᵀ, so the norm of a value of d_value features needs no product with d_model columns.

    Args:
        W_out: (n_heads, d_value, d_model), the output projection of each head.
    """
    exact = _exact(W_out.device)
    return torch.stack([W.to(exact) @ W.to(exact).mT for W in W_out.detach()])


def value_norms(value: Tensor, gram: Tensor) -> Tensor:
    """Compute ‖v_j W_O‖ of every key and head, (batch_size, n_heads, k_length), in float64 or float32 as the values.

    Args:
        value: (batch_size, n_kv_heads, k_length, d_value), where n_heads is a multiple of n_kv_heads.
        gram: (n_heads, d_value, d_value), the result of ``gram_matrices``.
    """
    n_heads, n_kv_heads = len(gram), value.shape[1]
    gram = gram.to(value.device, _exact(value.device))
    norms = value.new_empty(len(value), n_heads, value.shape[2], dtype=torch.promote_types(value.dtype, torch.float32))
    for h in range(n_heads):
        for start in range(0, value.shape[2], _KEYS_AT_ONCE):
            keys = slice(start, start + _KEYS_AT_ONCE)
            V = value[:, h * n_kv_heads // n_heads, keys].to(gram.dtype)  # batch_size keys d_value
            norms[:, h, keys] = (V @ gram[h] * V).sum(dim=-1).clamp_(min=0).sqrt_()
    return norms


def heads_of_projection(weight: Tensor, n_heads: int) -> Tensor:
    """Return the weight of an output projection, (d_model, n_heads · d_value), by head: (n_heads, d_value, d_model)."""
    return weight.mT.reshape(n_heads, -1, weight.shape[0])


def _exact(device: torch.device) -> torch.dtype:
    """Return the precision of G. In float32 the norm of a value that W_O nearly maps to 0 would be inexact, but Apple's
    GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64
