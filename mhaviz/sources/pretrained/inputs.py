"""What an attention was called with, as records: for maps of any length, and for studies of one layer."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.maps.attention_call import AttentionCall
from mhaviz.records import HeadInputs, QueriesAndKeys
from mhaviz.sources.pretrained.slots import Slot
from mhaviz.sources.pretrained.texts import Text


def queries_and_keys(
    slot: Slot,
    call: AttentionCall,
    text: Text,
    sentence: int | None,
    heads: Sequence[int],
    output: Tensor | None = None,
) -> QueriesAndKeys:
    """Of these heads of the one input of a batch.

    ``output``: (1, n_heads, q_length, d_value): what the model has made of them; with it, their values are kept too.
    """
    queries, keys = text.sides(slot.kind)
    chosen = list(heads)
    mask, reach = _mask(slot, call)
    if mask is not None and mask.shape[0] > 1:
        mask = mask[chosen]
    groups = _groups(call, heads)
    return QueriesAndKeys(
        queries.tokens,
        keys.tokens,
        _array(call.query[0, chosen]),
        _array(call.key[0, groups]),
        tuple(heads),
        slot.kind,
        sentence,
        slot.layer,
        queries.special,
        keys.special,
        reach,
        call.scale,
        None if mask is None else mask.cpu().contiguous().numpy(),
        call.softcap,
        None if call.sinks is None else _array(call.sinks[chosen]),
        None if output is None else _array(call.value[0, groups]),
        None if output is None else _array(output[0, chosen]),
    )


def head_inputs(slot: Slot, call: AttentionCall, text: Text, sentence: int | None) -> HeadInputs:
    """Of every head of the one input of a batch; heads that share keys and values have copies of them."""
    queries, keys = text.sides(slot.kind)
    visible = call.visible()
    shown = torch.ones(1, 1, 1, 1, dtype=torch.bool) if visible is None else visible
    bias = call.mask if call.mask is not None and call.mask.dtype != torch.bool else None
    return HeadInputs(
        queries.tokens,
        keys.tokens,
        _array(call.query[0]),
        _array(call.key[0].repeat_interleave(call.group, dim=0)),
        _array(call.value[0].repeat_interleave(call.group, dim=0)),
        shown[0, 0].expand(len(queries), len(keys)).cpu().contiguous().numpy(),
        slot.kind,
        sentence,
        slot.layer,
        queries.special,
        keys.special,
        scale=call.scale,
        bias=None if bias is None else _array(bias[0]),
        softcap=call.softcap,
        sinks=None if call.sinks is None else _array(call.sinks),
    )


def _groups(call: AttentionCall, heads: Sequence[int]) -> list[int]:
    """Which keys and values are those of these heads: all groups once, if all heads are there in their order."""
    if list(heads) == list(range(call.query.shape[1])):
        return list(range(call.key.shape[1]))
    return [h // call.group for h in heads]


def _mask(slot: Slot, call: AttentionCall) -> tuple[Tensor | None, int | None]:
    """The mask of one input, (n_heads or 1, q_length or 1, k_length or 1), where it hides more than later keys.

    Also how far a query sees, if the mask is a band along the diagonal.
    """
    if call.mask is None:
        return None, None
    if call.mask.dtype != torch.bool:
        return call.mask[0].float(), None
    mask = call.mask[0]
    q_length, k_length = call.query.shape[2], call.key.shape[2]
    if mask.shape[1:] == (q_length, k_length) and mask.shape[0] == 1 and q_length == k_length:
        seen = mask[0]
        reach = k_length - 1 - int(seen[-1].to(torch.uint8).argmax())
        last = seen.new_ones(q_length, k_length).triu_(-reach).tril_(0 if slot.kind == "masked" else reach)
        if torch.equal(seen, last):
            everything = reach == k_length - 1
            return (None if everything else mask), (None if everything else reach)
    return (None if bool(mask.all()) else mask), None


def _array(x: Tensor) -> NDArray[np.float32]:
    return np.asarray(x.float().cpu().contiguous().numpy())
