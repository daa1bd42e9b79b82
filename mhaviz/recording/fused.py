"""Reads what PyTorch's own attention functions are called with: the fused kernels never show their weights."""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.attention.call import AttentionCall

SDPA = F.scaled_dot_product_attention
MULTI_HEAD = F.multi_head_attention_forward

OnCall = Callable[[AttentionCall, Tensor | None, bool | None], None]
"""Is called with what an attention computes with, in the program's own axes (…, length, features), with its output
unless dropout has changed it, and with whether it reads itself, if that is known."""


def call_of_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionCall:
    """What ``F.scaled_dot_product_attention`` computes with, of the same arguments.

    Its causal mask begins in the top left corner, where ours ends in the bottom right one: they differ where there are
    more keys than queries, or fewer.
    """
    q_length, k_length = query.shape[-2], key.shape[-2]
    mask, causal = attn_mask, is_causal and q_length == k_length
    if is_causal and not causal:
        mask = torch.ones(q_length, k_length, dtype=torch.bool, device=query.device).tril()
    if mask is not None and mask.ndim < 2:
        mask = mask.reshape((1,) * (2 - mask.ndim) + tuple(mask.shape))
    return AttentionCall(query, key, value, query.shape[-1] ** -0.5 if scale is None else float(scale), causal, mask)


class Fused:
    """Runs PyTorch's attention functions, and shows what they are called with.

    Args:
        on_call: see ``OnCall``.
        is_passed_over: whether nobody wants an attention of so many queries and keys; it is counted then.
    """

    def __init__(self, on_call: OnCall, is_passed_over: Callable[[int, int], bool]) -> None:
        self._on_call, self._is_passed_over = on_call, is_passed_over

    def looks(self) -> dict[Any, Callable[..., Any]]:
        """Of each function that is looked at, what runs it."""
        return {SDPA: self._sdpa, MULTI_HEAD: self._multi_head}

    def _sdpa(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        self._show(args, kwargs, result, None)
        return result

    def _show(self, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor, reads_itself: bool | None) -> None:
        dropout = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
        with unseen():
            self._on_call(call_of_sdpa(*args, **kwargs), result if not dropout else None, reads_itself)

    def _multi_head(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """``F.multi_head_attention_forward``, within which no mode sees anything: it would call itself for ever.

        It calls SDPA where nobody needs weights. If they are needed, it is called a second time without, for the inputs
        alone.
        """
        given = _MULTI_HEAD_SIGNATURE.bind(*args, **kwargs)
        given.apply_defaults()
        reads_itself = given.arguments["query"] is given.arguments["key"]

        def listen(args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> None:
            self._show(args, kwargs, result, reads_itself)

        if not given.arguments["need_weights"]:
            with _listening(listen):
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if self._is_passed_over(*(given.arguments[name].shape[0] for name in ("query", "key"))):
            return result
        given.arguments |= {"need_weights": False, "training": False, "dropout_p": 0.0}
        with unseen(), _listening(listen):
            func(*given.args, **given.kwargs)
        return result


_MULTI_HEAD_SIGNATURE = inspect.signature(MULTI_HEAD)

_Listener = Callable[[Sequence[Any], dict[str, Any], Tensor], None]
_heard = threading.local()
_standing_in = threading.Lock()
_n_standing_in = 0


def _stand_in(*args: Any, **kwargs: Any) -> Any:
    """SDPA, which tells whoever listens in this thread."""
    result = SDPA(*args, **kwargs)
    for listener in getattr(_heard, "listeners", ()):
        listener(args, kwargs, result)
    return result


@contextmanager
def _listening(listener: _Listener) -> Iterator[None]:
    """Let a recording hear of SDPA in this thread, beside those that already do."""
    before: tuple[_Listener, ...] = getattr(_heard, "listeners", ())
    _heard.listeners = (*before, listener)
    try:
        yield
    finally:
        _heard.listeners = before


@contextmanager
def unseen() -> Iterator[None]:
    """Compute what is ours: without gradients, and seen by no recording."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        yield


@contextmanager
def standing_in() -> Iterator[None]:
    """Let a stand-in for SDPA be called by PyTorch's own layers; several recordings may do so at a time."""
    global _n_standing_in
    with _standing_in:
        _n_standing_in += 1
        if _n_standing_in == 1:
            F.scaled_dot_product_attention = _stand_in
    try:
        yield
    finally:
        with _standing_in:
            _n_standing_in -= 1
            if not _n_standing_in:
                F.scaled_dot_product_attention = SDPA
