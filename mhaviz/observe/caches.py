"""Observe programs that remove keys from transformers' caches, as when the tokens of a draft are rejected."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from torch import Tensor

from mhaviz.observe.handlers import Done
from mhaviz.observe.replacing import calls_followed

OnCrop = Callable[[Sequence[tuple[Tensor, Tensor]]], None]
"""Callback with the keys and values that are left in each layer, (batch_size, n_heads, k_length, features)."""

_CACHES = "transformers.cache_utils"


def may_crop() -> bool:
    """Return whether the caches are imported. A program that uses them has imported them before attention runs."""
    return _CACHES in sys.modules


def crops_followed(on_crop: OnCrop) -> AbstractContextManager[None]:
    """Call ``on_crop`` whenever a program has removed keys from a cache."""

    def follow(done: Done) -> None:
        pairs = ((getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in done.args[0].layers)
        on_crop([(keys, values) for keys, values in pairs if isinstance(keys, Tensor) and isinstance(values, Tensor)])

    return calls_followed(sys.modules[_CACHES].Cache, "crop", follow)
