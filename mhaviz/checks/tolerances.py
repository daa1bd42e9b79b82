"""How far numbers may differ that are meant to be the same, by the type that they were computed in."""

import math

import torch
from torch import Tensor

_SAME_SUM = 2e-6
_OTHER_ORDER = 1e-4
_LAYERS = 1e-3


def changes(before: Tensor, after: Tensor) -> Tensor:
    """Return which numbers differ, between two runs of the same kernels: bool, in their shape. NaN equals NaN.

    A kernel computes a number of the output from the same inputs in the same order, whatever its neighbours are, so
    that a number that does not depend on a change stays the same to the last digits. Of half precision that is a digit.
    """
    differs = (after - before).abs() > max(_SAME_SUM, _eps(before)) * _size(before).clamp(min=1e-3)
    return differs | (before.isnan() != after.isnan()) | (before.isinf() != after.isinf())


def are_close(a: Tensor, b: Tensor) -> bool:
    """Return whether outputs of the same shape are the same, where kernels may have summed in another order."""
    return bool(close(a, b).all())


def close(a: Tensor, b: Tensor) -> Tensor:
    """As ``are_close``, for each number: bool, in their shape."""
    tolerance = max(_OTHER_ORDER, 32 * _eps(b)) * float(_size(b))
    return torch.isclose(a.float(), b.float(), rtol=0, atol=tolerance, equal_nan=True)


def relative(x: Tensor) -> float:
    """Return how far features may differ, as a share of the largest, that were computed by other steps, such as the
    rotations of other positions."""
    return max(_LAYERS, 64 * _eps(x))


def _eps(x: Tensor) -> float:
    return torch.finfo(x.dtype).eps


def _size(x: Tensor) -> Tensor:
    """Return the largest absolute number that is finite; 1 if none is."""
    finite = x[x.isfinite()]
    return finite.abs().amax() if finite.numel() else x.new_tensor(1.0)


def is_factor(a: float, b: float) -> bool:
    """Return whether two factors of q·k are the same, as far as a regression of rounded logarithms tells."""
    return math.isclose(a, b, rel_tol=5e-3)
