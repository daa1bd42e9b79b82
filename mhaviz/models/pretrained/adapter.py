"""Merges a LoRA adapter (arXiv 2106.09685) that lies beside a whole model into its weights, by peft.

transformers would apply it without a word, and only where peft happens to be installed.
"""

import json
import os
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import PreTrainedModel

from mhaviz.errors import quoted
from mhaviz.models.pretrained.folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS

IGNORED: dict[str, Any] = {"adapter_kwargs": {"subfolder": os.devnull}}
"""For ``from_pretrained``: lets it find no adapter, so that it is we who decide."""

_INITIALISED = (True, False, None, "gaussian", "orthogonal")
"""Ways to begin that leave the model's own weights as they are: others subtract the adapter from them first."""

_REFUSED = ("layer_replication", "megatron_config")
"""Fields that make other layers, or import a module."""


def has_adapter(folder: Path) -> bool:
    """Whether there is an adapter in the folder of a model."""
    return (folder / ADAPTER_CONFIG).exists()


def merged(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The model with the adapter of its folder in its weights. What cannot be merged raises anything.

    Other types than LoRA are not read: what their configurations ask for may run code.
    """
    fields = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if (kind := fields.get("peft_type")) != "LORA":
        raise ValueError(f"expected the type 'LORA', got {quoted(kind)}")
    if (begun := fields.get("init_lora_weights", True)) not in _INITIALISED:
        raise ValueError(f"init_lora_weights {quoted(begun)} changes the model's own weights too")
    if others := [name for name in _REFUSED if fields.get(name)]:
        raise ValueError(f"expected no {others[0]}")
    tensors = load_file(folder / ADAPTER_WEIGHTS)

    from peft import LoraConfig, PeftModel, set_peft_model_state_dict

    config = LoraConfig.from_pretrained(str(folder))
    ranks = [config.r, *config.rank_pattern.values()]
    if max(ranks) > (most := max((min(tensor.shape, default=0) for tensor in tensors.values()), default=0)):
        raise ValueError(f"expected ranks of at most {most}, as its weights have, got {max(ranks)}")
    with_adapter = PeftModel(model, config, low_cpu_mem_usage=True)
    unfit: Any = set_peft_model_state_dict(with_adapter, tensors, low_cpu_mem_usage=True)
    if without := [*unfit.unexpected_keys, *(key for key in unfit.missing_keys if ".lora_" in key)]:
        raise ValueError(f"expected another tensor in place of {quoted(without[0])}")
    whole: PreTrainedModel = with_adapter.merge_and_unload()
    return whole
