"""Whether the numbers of a tensor can be read while a program runs, and whether they are those that were read."""

import torch
from torch import Tensor


def is_readable(x: Tensor) -> bool:
    """Return whether the numbers of a tensor can be read."""
    is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    return not (x.is_meta or x.is_nested or is_captured or torch._C._functorch.is_functorch_wrapped_tensor(x))


def version_of(x: Tensor) -> int | None:
    """Return how often a tensor, or what shares its memory, was written into; None: not known, as in inference mode."""
    return None if x.is_inference() else x._version
