"""Finds the folder of a checkpoint: on this machine, in the local cache of the Hugging Face hub, or on the hub."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter, quoted, shortened

_WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.tiktoken", "*.spm", "bpe.codes", "*.tokenizer")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


is_file, is_folder = os.path.isfile, os.path.isdir  # which take any name; those of Path raise for one that is too long


def find_folder(name: str, revision: str | None = None) -> Path:
    """The folder of a model, which has a config.json and safetensors.

    Args:
        name: a folder, or a hub id such as "openai-community/gpt2". The hub's local cache comes first.
        revision: of a hub id: a branch, a tag or a commit.

    Raises:
        ArgumentError: a revision of a folder.
        MhavizError: there is no such model, the hub cannot be reached, or there is no model in the folder.
    """
    if is_folder(name):
        if revision is not None:
            raise ArgumentError(
                f"{parameter('revision')} is of a model on the hub, and {name} is a folder; leave it out"
            )
        check_folder(Path(name), name)
        return Path(name)
    return _from_hub(name, revision)


def check_folder(folder: Path, name: str) -> None:
    """Raise MhavizError unless there are a config.json and all weights, as safetensors, and no adapter beside them."""
    weights = [path.with_suffix(".safetensors") for path in weight_files(folder)] or [folder / "model.safetensors"]
    if absent := [path.name for path in (folder / "config.json", *weights) if not path.is_file()]:
        patterns = ("adapter_*", "*.gguf", *_PICKLES)  # which are no model by themselves, or could run code
        others = sorted({quoted(path.name) for pattern in patterns for path in folder.glob(pattern)})
        got = f", got {', '.join(others[:2])}; save the whole model with save_pretrained" if others else ""
        raise MhavizError(f"{name} lacks {quoted(absent[0])}: expected a config.json and weights as safetensors{got}")
    if (folder / "adapter_config.json").exists():  # transformers would apply it where peft happens to be installed
        raise MhavizError(
            f"{name} holds an adapter beside its weights: save the model after peft's merge_and_unload, or remove "
            f"adapter_config.json to see it without"
        )


def read_fields(folder: Path, name: str) -> dict[str, Any]:
    """What stands in the config.json. Raises MhavizError if that is no JSON object."""
    with as_one_line(f"{name}: its config.json cannot be read", "take another copy of it"):
        fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(fields, dict):
        raise MhavizError(f"{name}: expected an object in its config.json, got {type(fields).__name__}")
    weights = fields.get("transformers_weights")
    if weights is not None and not str(weights).endswith((".safetensors", ".safetensors.index.json")):
        raise MhavizError(f"{name}: expected safetensors as its transformers_weights, got {quoted(weights)}; remove it")
    return fields


def weight_files(folder: Path) -> list[Path]:
    """Those that make up the model; some may be absent, and others, in another format, may be there."""
    single = folder / "model.safetensors"
    if single.is_file():  # as transformers has it: an index beside it is not looked at
        return [single]
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        return [folder / name for name in sorted(set(index["weight_map"].values()))]
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return sorted(folder.glob("*.safetensors"))


def _from_hub(name: str, revision: str | None) -> Path:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    advice = "check the name and the network"
    with as_one_line(f"{shortened(name)} is no folder, and cannot be had from the Hugging Face hub", advice):
        with suppress(*() if constants.HF_HUB_OFFLINE else (LocalEntryNotFoundError, MhavizError)):
            cached = Path(snapshot_download(name, revision=revision, local_files_only=True))
            check_folder(cached, name)
            return cached
        wanted = list(_WANTED)
        fetched = Path(snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns=["*/*"]))
    check_folder(fetched, name)
    return fetched
