"""Applies an adapter (LoRA, arXiv 2106.09685) that is beside a whole model, or says that it was not applied.

transformers applies it where peft happens to be installed, and says nothing. What an adapter's configuration may ask of
peft beside that (a module to import, a pickle to read, another model to fetch) is not done.
"""

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import PreTrainedModel

from mhaviz.errors import MhavizError, as_one_line, quoted
from mhaviz.models.pretrained.folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, PICKLED_ADAPTER

IGNORED: dict[str, Any] = {"adapter_kwargs": {"subfolder": os.devnull}}
"""For ``from_pretrained``: lets it find no adapter, so that it is we who decide."""

_KEPT = ("r", "lora_alpha", "use_rslora", "use_dora", "fan_in_fan_out", "bias", "lora_bias")
"""Of the adapter's configuration: what says how its weights are added to the model's."""

_PATTERNS = ("rank_pattern", "alpha_pattern")
"""The same, for some modules."""

_OF_TRAINING = (
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
)
"""What says how it was trained, or where: its tensors have the names of the modules that it changes."""

_INITIALISED = (True, False, None, "gaussian", "orthogonal")
"""Ways to begin that leave the model's own weights as they are: others subtract the adapter from them first."""


def apply_adapter(
    model: PreTrainedModel, folder: Path, name: str, added: tuple[str, ...]
) -> tuple[PreTrainedModel, str]:
    """The model with the adapter of its folder in its weights, and what is to be said; "" if the folder has none.

    Args:
        model: as its own weights are.
        folder, name: where it is from.
        added: parts that stand on top of a model; this one may be without them.

    Raises:
        MhavizError: the adapter does not fit the model.
    """
    if not (folder / ADAPTER_CONFIG).exists():
        return model, ""
    with as_one_line(f"{name}: its {ADAPTER_CONFIG} cannot be read", "take another copy of it, or remove the adapter"):
        fields = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        kind = fields.get("peft_type")
    if why := _why_not(fields, folder):
        return model, f"the folder holds an adapter too ({quoted(kind)}), which is not applied: {why}"
    with as_one_line(
        f"{name}: its adapter does not fit its weights", f"remove {ADAPTER_CONFIG} to see the model without it"
    ):
        merged = _merged(model, fields, folder, added)
    if merged is None:
        return model, f"the folder holds an adapter too ({quoted(kind)}), which changes nothing that is run here"
    return merged, f"the adapter of the folder ({quoted(kind)}) is applied"


def require_none(folder: Path, name: str) -> None:
    """Raise MhavizError if there is an adapter, of a model that is spread: its weights are not all at hand."""
    if (folder / ADAPTER_CONFIG).exists():
        raise MhavizError(
            f"{name} holds an adapter too, which is put into the weights of a model on one device alone: merge it, or "
            f"remove {ADAPTER_CONFIG} to see the model without it"
        )


def _why_not(fields: dict[str, Any], folder: Path) -> str:
    """Why an adapter is left out; "" if it is not."""
    merge = "merge it into the model to see it"
    if fields.get("peft_type") != "LORA":
        return f"it is of another type than {quoted('LORA')}; {merge}"
    if (folder / PICKLED_ADAPTER).is_file() and not (folder / ADAPTER_WEIGHTS).is_file():
        return f"its weights, {PICKLED_ADAPTER}, could run code when they are read; save them as {ADAPTER_WEIGHTS}"
    if not (folder / ADAPTER_WEIGHTS).is_file():
        return f"its weights, {ADAPTER_WEIGHTS}, are not there; take another copy of it, or remove {ADAPTER_CONFIG}"
    if fields.get("init_lora_weights", True) not in _INITIALISED:
        return f"it changes the model's own weights too; {merge}"
    if others := [field for field in fields if fields[field] and field not in (*_KEPT, *_PATTERNS, *_OF_TRAINING)]:
        return f"it has a {quoted(others[0])}, which is not known here; {merge}"
    if find_spec("peft") is None:
        return "install peft to see the model with it"
    return ""


def _merged(
    model: PreTrainedModel, fields: dict[str, Any], folder: Path, added: tuple[str, ...]
) -> PreTrainedModel | None:
    """The model, with the adapter in its weights; None if it changes only parts that this one is without."""
    from peft import LoraConfig, PeftModel, set_peft_model_state_dict

    parts = {name for name, _ in model.named_children()}
    tensors = {_own_name(key, model): tensor for key, tensor in load_file(folder / ADAPTER_WEIGHTS).items()}
    tensors = {
        key: tensor for key, tensor in tensors.items() if (top := key.split(".")[0]) in parts or top not in added
    }
    adapted = sorted({key.split(".lora_")[0] for key in tensors if ".lora_" in key})
    saved = [name for name in fields.get("modules_to_save") or () if name in parts or name not in added]
    if not adapted and not saved:
        return None
    kept = {key: fields[key] for key in _KEPT if key in fields}
    kept |= {
        pattern: {_own_name(key, model): value for key, value in (fields.get(pattern) or {}).items()}
        for pattern in _PATTERNS
    }
    most = max((len(tensor) for key, tensor in tensors.items() if re.search(r"\.lora_(embedding_)?A", key)), default=0)
    if isinstance(rank := max([kept.get("r", 0), *kept["rank_pattern"].values()]), int) and rank > most:
        raise ValueError(f"expected ranks of at most {most}, as its weights have, got {quoted(rank)}")
    config = LoraConfig(target_modules=adapted, modules_to_save=saved, **kept)
    with_adapter = PeftModel(model, config, low_cpu_mem_usage=True)
    unfit: Any = set_peft_model_state_dict(
        with_adapter, {f"base_model.model.{key}": tensor for key, tensor in tensors.items()}, low_cpu_mem_usage=True
    )
    if without := [*unfit.unexpected_keys, *(key for key in unfit.missing_keys if ".lora_" in key)]:
        raise ValueError(f"expected another tensor in place of {quoted(without[0])}")
    merged: PreTrainedModel = with_adapter.merge_and_unload()
    return merged


def _own_name(key: str, model: PreTrainedModel) -> str:
    """A parameter's name in this model: without what stands before it in a model that has a head too."""
    key = key.removeprefix("^").removeprefix("base_model.model.")
    return key.removeprefix(f"{model.base_model_prefix}.") if model.base_model is model else key
