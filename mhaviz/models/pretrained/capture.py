"""Sees what every attention of a transformers model is called with, while the model runs on its fast kernel.

transformers lets a name stand for an attention function (``AttentionInterface``) and for the way masks are made for it
(``AttentionMaskInterface``; without that, padding masks silently vanish). While somebody listens, ours stands in for
``sdpa``: it computes the same and shows the inputs. It takes that name because there are models that ask for it. Layers
whose scores are capped or have a sink, which SDPA cannot compute, are of models that do not run on it: for them ours
stands in for ``eager``, and runs their own eager function, a block of queries at a time.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from mhaviz.attention.call import BLOCK, AttentionCall
from mhaviz.recording.caught import Caught
from mhaviz.recording.zeroing import zero_in_output

SDPA, EAGER = "sdpa", "eager"
"""What the attention function is called, for ``attn_implementation``: in models that run on SDPA, and in others. Under
another name some would leave out the masks that they make themselves (HYV4's of the keys that it has chosen)."""

Listener = Callable[[nn.Module, Caught], None]
"""Is called with each attention as it has run: its module, and what it computes with."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let ``listener`` see each attention of models that are run within, in the order in which they run."""
    token = _listener.set(listener)
    functions, masks = AttentionInterface._global_mapping, AttentionMaskInterface._global_mapping
    try:
        with (
            _standing_in(functions, SDPA, attend),
            _standing_in(functions, EAGER, attend),
            _standing_in(masks, EAGER, _visible),
        ):
            yield
    finally:
        _listener.reset(token)


@contextmanager
def _standing_in(registry: dict[str, Any], name: str, ours: Any) -> Iterator[None]:
    """Register ours under this name; afterwards the name stands for what it did before, or for nothing."""
    missing = object()
    before = registry.get(name, missing)
    registry[name] = ours
    try:
        yield
    finally:
        if before is missing:
            registry.pop(name, None)
        else:
            registry[name] = before


def _visible(*sizes: Any, **options: Any) -> Tensor | None:
    """A mask of bool, as for SDPA, but always there: models that expect eager attention may look into it."""
    return sdpa_mask(*sizes, **options | {"allow_is_causal_skip": False})


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function, as ``AttentionInterface`` calls it: (batch_size, q_length, n_heads, d_value).

    Args:
        module: the attention.
        query, key, value: as in ``AttentionCall``.
        attention_mask: bool, or numbers to be added; None where nothing is hidden but by ``is_causal``.
        scaling: of the scores; None: 1/√d_key.
        softcap, s_aux: see ``AttentionCall``; ``s_aux`` are its sinks.
        position_bias: added to the scores, (batch_size or 1, n_heads, q_length, k_length) (T5, arXiv 1910.10683).
        is_causal: whether later keys are hidden where there is no mask; None: what the module says.
        others: what SDPA or nobody heeds.
    """
    causal = (getattr(module, "is_causal", True) if is_causal is None else is_causal) and attention_mask is None
    call = AttentionCall(
        query,
        key,
        value,
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        bool(causal) and query.shape[2] > 1,
        _joined(attention_mask, position_bias),
        softcap,
        None if s_aux is None else s_aux.detach(),
    )
    if softcap is None and s_aux is None:
        output, _ = sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            scaling=scaling,
            is_causal=is_causal,
            position_bias=position_bias,
            **others,
        )
    else:
        output = _by_own_rule(module, call, scaling=scaling, softcap=softcap, s_aux=s_aux, **others)
    listener = _listener.get()
    if listener is not None:
        heads = output.transpose(1, 2)
        listener(module, Caught(call, heads, zero=zero_in_output(heads)))
    return output, None


def _by_own_rule(module: nn.Module, call: AttentionCall, **others: Any) -> Tensor:
    """What the model's own eager function gives, a block of queries at a time: it never holds all weights."""
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        return call.output().transpose(1, 2).contiguous()
    blocks = []
    for start in range(0, call.query.shape[2], BLOCK):
        query, end = call.query[:, :, start : start + BLOCK], start + BLOCK
        mask = call.added(start, end)
        output, _ = eager(module, query, call.key, call.value, None if mask is None else mask.to(query.dtype), **others)
        blocks.append(output)
    return torch.cat(blocks, dim=1)


def _joined(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """The numbers that are added to the scores, where there are any, else the mask."""
    if bias is None or mask is None:
        return bias if mask is None else mask
    return bias.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else bias + mask
