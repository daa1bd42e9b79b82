"""Attention layers that are right, in the many ways in which they are written: no error is to be found in any.

Each takes what its users give it: x, and what it has of ``keep``, ``causal``, a mask, a memory or a cache. Where a row
is wholly hidden, its weights are uniform or zero; they are NaN in PyTorch's modules and where a mask of −∞ is added.
"""

import checks.right_heads
import checks.right_signatures
import checks.right_softmaxes
import checks.right_transformers  # noqa: F401
from checks.right_base import RIGHT, RightLayer

__all__ = ["RIGHT", "RightLayer"]
