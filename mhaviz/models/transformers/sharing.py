"""Tensor parallelism as transformers implements it: each of several processes computes a part of a model's heads.

Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3. The heads are gathered here, so that every process has
the whole attention. ``torchrun`` starts the processes.
"""

import re
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import PreTrainedModel

from mhaviz.attention.call import AttentionWeights
from mhaviz.observe.observed import ObservedCall

_BY_HEADS = "rowwise"
"""Style of the output projection in a plan that gives each process a part of the heads. Other plans gather the heads
before, and split only the projections."""


def options() -> dict[str, Any]:
    """Return the arguments of ``from_pretrained``."""
    from transformers.distributed.configuration_utils import DistributedConfig

    return {"distributed_config": DistributedConfig(tp_plan="auto")}


def shared_attentions(model: PreTrainedModel) -> frozenset[nn.Module]:
    """Return the modules whose heads are split among the processes, if there are several."""
    rules = [(_pattern(rule), style) for rule, style in (model.tp_plan or {}).items()]

    def is_by_heads(name: str) -> bool:
        inner = [(rule, style) for rule, style in rules if rule.startswith(f"{_pattern(name)}.")]
        return bool(name) and any(style == _BY_HEADS for _, style in inner)

    return frozenset(module for name, module in model.named_modules() if is_by_heads(name))


def gather_heads(observed: ObservedCall) -> ObservedCall:
    """Return the call with the heads of all processes. Every process must call this function."""
    call = observed.call
    output = None if observed.output is None else _gathered(observed.output, 1)
    if isinstance(call, AttentionWeights):
        return ObservedCall(replace(call, given=_gathered(call.given, 1), seen=None), output, place=observed.place)
    mask = call.mask
    gathered = replace(
        call,
        query=_gathered(call.query, 1),
        key=_gathered(call.key, 1),
        value=_gathered(call.value, 1),
        mask=_gathered(mask, 1) if mask is not None and mask.shape[1] > 1 else mask,
        sinks=None if call.sinks is None else _gathered(call.sinks, 0),
    )
    return ObservedCall(gathered, output, place=observed.place)


def whole_weight(weight: Tensor) -> Tensor:
    """Return a parameter with the parts of all processes. Every process must call this function."""
    from torch.distributed.tensor import DTensor

    return weight.full_tensor() if isinstance(weight, DTensor) else weight


def _gathered(x: Tensor, axis: int) -> Tensor:
    """Return the parts of all processes, concatenated along an axis."""
    sent = x.detach().contiguous()
    sent = sent.view(torch.uint8) if sent.dtype == torch.bool else sent
    parts = [torch.empty_like(sent) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, sent)
    return torch.cat(parts, dim=axis).view(x.dtype)


def _pattern(name: str) -> str:
    """Return the name of a module with * for the number of its layer, as in plans."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
