"""Read the inputs of PyTorch's own attention functions, whose fused kernels never return weights."""

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
from mhaviz.observe.handlers import Done, Handler, guarded, safely, unseen
from mhaviz.observe.observed import ObservedCall, OnRan, WeightedValues
from mhaviz.observe.replacing import calls_followed
from mhaviz.observe.steps import TakeStep, no_steps
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
    """Return the call that ``F.scaled_dot_product_attention`` computes from the same arguments.

    Its causal mask begins in the top left corner, that of ``AttentionCall`` ends in the bottom right one. They differ
    where the numbers of queries and keys do.
    """
    del dropout_p, enable_gqa  # weights are those before dropout; numbers of heads tell what is shared
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
    """Runs PyTorch's attention functions, and shows their inputs.

    Args:
        on_ran: see ``OnRan``.
        is_passed_over: returns whether to skip an attention of these tensors, and numbers of queries and keys: it is
            not wanted and has been counted, or it cannot be read.
        on_error: called with exceptions that are raised here.
        on_step: called with each step.
    """

    def __init__(
        self,
        on_ran: OnRan,
        is_passed_over: Callable[[Sequence[Tensor], int, int], bool],
        on_error: Callable[[Exception], None],
        on_step: TakeStep = no_steps,
    ) -> None:
        self._on_ran, self._is_passed_over, self._on_error, self._on_step = on_ran, is_passed_over, on_error, on_step

    def handlers(self) -> dict[Any, Handler]:
        """Return the handler of each function that is observed."""
        return {SDPA: guarded(self._sdpa, self._on_error), MULTI_HEAD: self._multi_head}

    def _sdpa(self, done: Done, within: Sequence[Tensor] = (), drops: bool = False, nan: Tensor | None = None) -> None:
        """Show a call of SDPA.

        Args:
            done: the call.
            within: the queries, keys and values of the PyTorch layer that made the call, and has projected its output
                by now.
            drops: whether that layer drops weights.
            nan: see ``ObservedCall``.
        """
        dropout, given = done.argument(4), done.args[:3]
        if done.result is not None:
            mask, scale = done.named("attn_mask"), done.named("scale")
            self._on_step(
                "fused",
                done.result,
                given if mask is None else (*given, mask),
                scale=given[0].shape[-1] ** -0.5 if scale is None else float(scale),
            )
            if dropout:
                self._on_step("dropout", done.result)

        def read(place: str) -> ObservedCall:
            zero = None if dropout or within else zero_in_output(done.result)
            call, output = call_of_sdpa(*done.args, **done.kwargs), None if dropout else done.result
            weighted = None if output is None else WeightedValues(call.value, output, lambda x: x)
            return ObservedCall(call, output, drops or bool(dropout), zero=zero, weighted=lambda: weighted, nan=nan)

        self._on_ran(within or given, read, (given[0].shape[-2], given[1].shape[-2]))

    def _multi_head(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Done:
        """Run ``F.multi_head_attention_forward``, within which no mode sees anything: it would call itself forever.

        It calls SDPA where no weights are asked for. If they are, it is called a second time without them, to read its
        inputs.
        """
        calls: list[Done] = []
        with _sdpa_followed(calls):
            done = Done.of(func, args, kwargs, func(*args, **kwargs))
        safely(partial(self._show_multi_head, calls), self._on_error)(done)
        return done

    def _show_multi_head(self, calls: list[Done], done: Done) -> None:
        given = _MULTI_HEAD_SIGNATURE.bind(*done.args, **done.kwargs)
        tensors = query, key, _ = [given.arguments[name] for name in ("query", "key", "value")]
        drops, nan = bool(given.arguments["dropout_p"] and given.arguments.get("training", True)), None
        if not calls:
            if self._is_passed_over((query, key), query.shape[0], key.shape[0]):
                return
            # PyTorch takes is_causal as a hint that it need not read the mask; where it returns weights, it reads it.
            given.arguments |= {"need_weights": False, "is_causal": False, "training": False, "dropout_p": 0.0}
            with unseen(), _sdpa_followed(calls):
                MULTI_HEAD(*given.args, **given.kwargs)
                # SDPA returns 0 for a query that sees no key, where the softmax of a layer that returns weights is NaN.
                nan = done.result[0].isnan().any(dim=-1).reshape(query.shape[0], -1).T  # batch_size q_length
        for one in calls:
            self._sdpa(one._replace(result=None) if drops else one, tensors, drops, nan)


_MULTI_HEAD_SIGNATURE = inspect.signature(MULTI_HEAD)


def _sdpa_followed(calls: list[Done]) -> AbstractContextManager[None]:
    """Append the calls of SDPA in this thread to ``calls``. PyTorch's own layers look it up by name."""
    own = threading.get_ident()
    return calls_followed(F, SDPA.__name__, lambda done: calls.append(done) if threading.get_ident() == own else None)
