"""A model that several processes share, each a part of its heads: tensor parallelism, as transformers does it.

Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3. Each process computes with its own heads; here they are
gathered, so that every process sees the whole attention. ``torchrun`` starts the processes.
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
"""How a plan shares the projection after the heads where each process has a part of them. Other plans gather the heads
before, and share nothing but the projections."""


def options() -> dict[str, Any]:
    """For ``from_pretrained``."""
    from transformers.distributed.configuration_utils import DistributedConfig

    return {"distributed_config": DistributedConfig(tp_plan="auto")}


def shared_attentions(model: PreTrainedModel) -> frozenset[nn.Module]:
    """The modules of which each process has a part of the heads, if the model is shared."""
    rules = [(_pattern(rule), style) for rule, style in (model.tp_plan or {}).items()]

    def is_by_heads(name: str) -> bool:
        inner = [(rule, style) for rule, style in rules if rule.startswith(f"{_pattern(name)}.")]
        return bool(name) and any(style == _BY_HEADS for _, style in inner)

    return frozenset(module for name, module in model.named_modules() if is_by_heads(name))


def gather_heads(observed: ObservedCall) -> ObservedCall:
    """The whole attention of which this process has a part of the heads; every process must call it."""
    call = observed.call
    output = None if observed.output is None else _gathered(observed.output, 1)
    if isinstance(call, AttentionWeights):
        return ObservedCall(replace(call, given=_gathered(call.given, 1)), output, place=observed.place)
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
    """A parameter of which this process has a part, whole; every process must call it."""
    from torch.distributed.tensor import DTensor

    return weight.full_tensor() if isinstance(weight, DTensor) else weight


def _gathered(x: Tensor, axis: int) -> Tensor:
    """The parts of all processes, one after the other."""
    sent = x.detach().contiguous()
    sent = sent.view(torch.uint8) if sent.dtype == torch.bool else sent
    parts = [torch.empty_like(sent) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, sent)
    return torch.cat(parts, dim=axis).view(x.dtype)


def _pattern(name: str) -> str:
    """The name with * for the numbers of layers, as plans have it."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
