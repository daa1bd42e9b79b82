"""Sees what programs take back from transformers' caches of keys, as of drafts that they reject."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from mhaviz.observe.replacing import followed

OnCrop = Callable[[Sequence[tuple[Tensor, Tensor]]], None]
"""Is called with the keys and the values that are left in each layer, (batch_size, n_heads, k_length, features)."""

_CACHES = "transformers.cache_utils"


def may_crop() -> bool:
    """Whether there are caches: whoever uses them has imported them before attention runs."""
    return _CACHES in sys.modules


def crops_followed(on_crop: OnCrop) -> AbstractContextManager[None]:
    """Tell of each cache from which keys were taken back."""
    return followed(sys.modules[_CACHES].Cache, "crop", _followed, on_crop)


def _followed(crop: Callable[..., None], followers: list[OnCrop]) -> Callable[..., None]:
    def crop_followed(cache: Any, *args: Any, **kwargs: Any) -> None:
        crop(cache, *args, **kwargs)
        pairs = ((getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in cache.layers)
        layers = [(keys, values) for keys, values in pairs if isinstance(keys, Tensor) and isinstance(values, Tensor)]
        for follower in list(followers):
            follower(layers)

    return crop_followed
