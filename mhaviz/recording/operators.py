"""Reads the attention operators of other libraries: flash-attn, xformers, and PyTorch's own for packed sequences."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from mhaviz.attention.call import AttentionCall

OnCall = Callable[[AttentionCall, Tensor | None, bool | None], None]


class UnseenOperators:
    """Runs the operators that are attention, shows those that are known, and says of the others that they are not."""

    def __init__(self, on_call: OnCall, miss: Callable[[str], None]) -> None:
        self._on_call, self._miss = on_call, miss

    def look_for(self, func: Any) -> Callable[..., Any] | None:
        """What runs this function; None: it is no such operator."""
        return None
