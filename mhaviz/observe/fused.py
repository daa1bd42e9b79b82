"""Reads what PyTorch's own attention functions are called with: the fused kernels never show their weights."""

import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.attention.call import AttentionCall
from mhaviz.observe.handlers import Done, Handler, guarded, unseen
from mhaviz.observe.observed import ObservedCall, OnRan
from mhaviz.observe.replacing import calls_followed
from mhaviz.observe.zeroing import zero_in_output

SDPA = F.scaled_dot_product_attention
MULTI_HEAD = F.multi_head_attention_forward


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
    del dropout_p, enable_gqa  # weights are those before dropout, and heads tell by their number what they share
    q_length, k_length = query.shape[-2], key.shape[-2]
    bias: Any = attn_mask if type(attn_mask).__name__ == "CausalBias" else None  # its module takes seconds to import
    is_lower_right = bias is not None and bias.variant.name == "LOWER_RIGHT" and bias.seq_len_q != bias.seq_len_kv
    is_causal = is_causal or bias is not None
    mask, causal = None if is_causal else attn_mask, is_causal and (is_lower_right or q_length == k_length)
    if is_causal and not causal:
        mask = torch.ones(q_length, k_length, dtype=torch.bool, device=query.device).tril()
    if mask is not None and mask.ndim < 2:
        mask = mask.reshape((1,) * (2 - mask.ndim) + tuple(mask.shape))
    return AttentionCall(query, key, value, query.shape[-1] ** -0.5 if scale is None else float(scale), causal, mask)


class Fused:
    """Runs PyTorch's attention functions, and shows what they are called with.

    Args:
        on_ran: see ``OnRan``.
        is_passed_over: whether nobody wants an attention of these tensors, of so many queries and keys, or it cannot be
            looked at; it is counted then.
        on_error: takes what is raised here.
    """

    def __init__(
        self,
        on_ran: OnRan,
        is_passed_over: Callable[[Sequence[Tensor], int, int], bool],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._on_ran, self._is_passed_over, self._on_error = on_ran, is_passed_over, on_error

    def handlers(self) -> dict[Any, Handler]:
        """Of each function that is looked at, what runs it."""
        return {SDPA: guarded(self._sdpa, self._on_error), MULTI_HEAD: self._multi_head}

    def _sdpa(self, done: Done, within: Sequence[Tensor] = ()) -> None:
        """``within``: the queries, keys and values of a layer of PyTorch's, which has projected its output by now."""
        dropout = done.argument(4, "dropout_p")
        given = done.given("query", "key", "value")[:3]

        def read(place: str) -> ObservedCall:
            zero = None if dropout or within else zero_in_output(done.result)
            return ObservedCall(call_of_sdpa(*done.args, **done.kwargs), None if dropout else done.result, zero=zero)

        self._on_ran(within or given, read, (given[0].shape[-2], given[1].shape[-2]))

    def _multi_head(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """``F.multi_head_attention_forward``, within which no mode sees anything: it would call itself for ever.

        It calls SDPA where nobody needs weights. If they are needed, it is called a second time without, for the inputs
        alone.
        """
        calls: list[Done] = []

        def run(*args: Any, **kwargs: Any) -> Any:
            with _sdpa_followed(calls):
                return func(*args, **kwargs)

        return guarded(partial(self._show_multi_head, calls), self._on_error)(run, args, kwargs)

    def _show_multi_head(self, calls: list[Done], done: Done) -> None:
        given = _MULTI_HEAD_SIGNATURE.bind(*done.args, **done.kwargs)
        tensors = query, key, _ = [given.arguments[name] for name in ("query", "key", "value")]
        drops = bool(given.arguments["dropout_p"] and given.arguments.get("training", True))
        if not calls:
            if self._is_passed_over((query, key), query.shape[0], key.shape[0]):
                return
            # PyTorch takes is_causal for a hint that it need not read the mask; where it gives weights, it reads it.
            given.arguments |= {"need_weights": False, "is_causal": False, "training": False, "dropout_p": 0.0}
            with unseen(), _sdpa_followed(calls):
                MULTI_HEAD(*given.args, **given.kwargs)
        for one in calls:
            self._sdpa(one._replace(result=None) if drops else one, tensors)


_MULTI_HEAD_SIGNATURE = inspect.signature(MULTI_HEAD)


def _sdpa_followed(calls: list[Done]) -> AbstractContextManager[None]:
    """Add the calls of SDPA in this thread; PyTorch's own layers find it by its name."""
    own = threading.get_ident()
    return calls_followed(F, SDPA.__name__, lambda done: calls.append(done) if threading.get_ident() == own else None)
