"""Observe the inputs of each attention of a transformers model, while the model runs on its fast kernel.

transformers finds attention functions by name (``AttentionInterface``). While there is a hook, ``attend`` replaces
``sdpa``: the output is the same, and the inputs are shown. The name stays, as some models build their masks by it.
Models that SDPA cannot run, with soft-capping or sinks, find ``attend`` under ``eager``, where it calls the model's own
eager function on blocks of queries.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import unwrap
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from mhaviz.attention.call import BLOCK, AttentionCall
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall, WeightedValues
from mhaviz.observe.zeroing import zero_in_output

SDPA, EAGER = "sdpa", "eager"
"""Names of the attention function for ``attn_implementation``: in models that run on SDPA, and in others. Under another
name, some models would leave out masks that they make themselves, such as HYV4's of the keys that it has selected."""

OnObserved = Callable[[ObservedCall], object]
"""Callback for each attention that has run."""

one_at_a_time = RLock()
"""Held while a model runs: its modes and the mapping of ``AttentionInterface`` are shared by all threads."""

_hook: ContextVar[OnObserved | None] = ContextVar("hook", default=None)
_runs_eagerly: ContextVar[bool] = ContextVar("runs_eagerly", default=False)


@contextmanager
def hooked(hook: OnObserved, eagerly: bool = False) -> Iterator[None]:
    """Call ``hook`` with each attention of models that run within, in the order in which they run.

    ``eagerly``: run every attention by the model's own eager function.
    """
    functions = AttentionInterface._global_mapping
    with one_at_a_time:
        before = {name: functions[name] for name in (SDPA, EAGER) if name in functions}
        tokens = _hook.set(hook), _runs_eagerly.set(eagerly)
        functions.update(dict.fromkeys((SDPA, EAGER), attend))
        try:
            yield
        finally:
            for name in (SDPA, EAGER):
                del functions[name]
            functions.update(before)
            _hook.reset(tokens[0])
            _runs_eagerly.reset(tokens[1])


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **given: Any
) -> tuple[Tensor, Tensor | None]:
    """Attention function as ``AttentionInterface`` calls it; its output is (batch_size, q_length, n_heads, d_value).

    Args:
        module: the attention.
        query, key, value: as in ``AttentionCall``.
        attention_mask: bool, or numbers that are added to the scores; None: keys are only hidden by ``is_causal``.
        given: further arguments; see ``_call_of``.
    """
    if (hook := _hook.get()) is None:  # a model that another thread runs meanwhile
        config: Any = module.config
        own = _eager_of(module) if config._attn_implementation == EAGER else sdpa_attention_forward
        return own(module, query, key, value, attention_mask, **given)
    call = _call_of(module, query, key, value, attention_mask, **given)
    if call.softcap is None and call.sinks is None and not _runs_eagerly.get():
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **given)
    else:
        output = _by_own_rule(module, query, key, value, attention_mask, **given)
    heads = output.transpose(1, 2)
    weighted = WeightedValues(call.value, output, lambda x: x.transpose(1, 2))
    hook(ObservedCall(call, heads, zero=zero_in_output(heads), weighted=lambda: weighted, place=Place(module=module)))
    return output, None


def _call_of(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> AttentionCall:
    """Return the call that an attention computes.

    Args:
        module, query, key, value, mask: as in ``attend``.
        scaling: factor of the scores; None: 1/√d_key.
        softcap, s_aux: see ``AttentionCall``; ``s_aux`` are its sinks.
        position_bias: added to the scores, (batch_size or 1, n_heads, q_length, k_length) (T5, arXiv 1910.10683).
        is_causal: whether later keys are hidden where there is no mask; None: as the module says.
    """
    causal = (getattr(module, "is_causal", True) if is_causal is None else is_causal) and mask is None
    return AttentionCall(
        query,
        key,
        value,
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        bool(causal) and query.shape[2] > 1,
        mask if position_bias is None else _joined(mask, position_bias),
        softcap,
        None if s_aux is None else s_aux.detach(),
    )


def _by_own_rule(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **given: Any
) -> Tensor:
    """Run the model's own eager function on blocks of queries, so that it never holds all weights."""
    eager, bias = _eager_of(module), given.pop("position_bias", None)
    blocks = []
    for start in range(0, query.shape[2], BLOCK):
        rows = slice(start, start + BLOCK)
        biased = {} if bias is None else {"position_bias": _rows(bias, rows)}
        blocks.append(eager(module, query[:, :, rows], key, value, _rows(mask, rows), **given, **biased)[0])
    return torch.cat(blocks, dim=1)


def _eager_of(module: nn.Module) -> Any:
    """Return the model's own eager function, as the module's forward sees it. A subclass may inherit that forward."""
    return unwrap(type(module).forward).__globals__["eager_attention_forward"]


def _rows(x: Tensor | None, rows: slice) -> Tensor | None:
    """Return the rows of a mask or bias for these queries."""
    return x if x is None or x.shape[2] == 1 else x[:, :, rows]


def _joined(mask: Tensor | None, bias: Tensor) -> Tensor:
    """Return the numbers that are added to the scores."""
    if mask is None:
        return bias
    return bias.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else bias + mask
