"""Sees what programs take back from transformers' caches of keys, as of drafts that they reject."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from torch import Tensor

from mhaviz.observe.handlers import Done
from mhaviz.observe.replacing import calls_followed

OnCrop = Callable[[Sequence[tuple[Tensor, Tensor]]], None]
"""Is called with the keys and the values that are left in each layer, (batch_size, n_heads, k_length, features)."""

_CACHES = "transformers.cache_utils"


def may_crop() -> bool:
    """Whether there are caches: whoever uses them has imported them before attention runs."""
    return _CACHES in sys.modules


def crops_followed(on_crop: OnCrop) -> AbstractContextManager[None]:
    """Tell of each cache from which keys were taken back."""

    def follow(done: Done) -> None:
        pairs = ((getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in done.args[0].layers)
        on_crop([(keys, values) for keys, values in pairs if isinstance(keys, Tensor) and isinstance(values, Tensor)])

    return calls_followed(sys.modules[_CACHES].Cache, "crop", follow)
