"""Finds the folder of a checkpoint: one on this machine, or one of the Hugging Face hub, in its local cache or fetched.

What is no model is told from what is one by its files, before anything is loaded: transformers' own messages are many
lines long, and speak of functions that our users never called.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter, quoted, shortened

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PICKLED_ADAPTER = "adapter_model.bin"

_WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.tiktoken", "*.spm", "bpe.codes", "*.tokenizer")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_NO_GGUF = "expected safetensors; give the model that it was made of, or save it with save_pretrained"
_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def is_file(name: str) -> bool:
    """Whether there is such a file; a name that is too long, or holds NUL, is none."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def is_folder(name: str) -> bool:
    """The same of a folder."""
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):
        return False


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
    if is_file(name):
        if name.lower().endswith(".gguf"):
            raise MhavizError(f"{name} is a GGUF file, which mhaviz does not read: {_NO_GGUF}")
        raise MhavizError(f"{name} is a file: expected the folder of a model, with its config.json, or a hub id")
    if not _ID.fullmatch(name) or name.startswith("."):
        raise MhavizError(
            f"there is no folder {shortened(name)}: expected the folder of a model, or a hub id such as gpt2"
        )
    return _from_hub(name, revision)


def check_folder(folder: Path, name: str) -> None:
    """Raise MhavizError unless there are a config.json that can be read and weights as safetensors."""
    if not (folder / "config.json").is_file():
        _refuse_adapter(folder, name)
        _refuse_other_formats(folder, name)
        inner = sorted(str(path.parent) for path in folder.glob("*/config.json"))
        hint = f"; there is one in {', '.join(inner[:3])}" if inner else ""
        raise MhavizError(f"{name} is no model: expected a folder with a config.json and safetensors{hint}")
    read_fields(folder, name)
    files = weight_files(folder)
    if not files:
        _refuse_adapter(folder, name, " beside its config.json")
        _refuse_other_formats(folder, name)
        raise MhavizError(f"{name} has no weights: expected *.safetensors beside its config.json")
    if others := [path.name for path in files if path.suffix != ".safetensors"]:
        raise MhavizError(
            f"{name}: expected safetensors alone in its model.safetensors.index.json, got {quoted(others[0])}; take "
            f"another copy of it"
        )
    if absent := [path.name for path in files if not path.is_file()]:
        raise MhavizError(
            f"{name} lacks {len(absent)} of its {len(files)} weight files, such as {quoted(absent[0])}; take another "
            f"copy of it"
        )


def read_fields(folder: Path, name: str) -> dict[str, Any]:
    """What stands in the config.json. Raises MhavizError if that is no JSON object."""
    with as_one_line(f"{name}: its config.json cannot be read", "take another copy of it"):
        fields = json.loads((folder / "config.json").read_text(encoding="utf-8"), object_hook=_as_float)
    if not isinstance(fields, dict):
        raise MhavizError(f"{name}: expected an object in its config.json, got {type(fields).__name__}")
    weights = fields.get("transformers_weights")
    if weights is not None and not str(weights).endswith((".safetensors", ".safetensors.index.json")):
        raise MhavizError(f"{name}: expected safetensors as its transformers_weights, got {quoted(weights)}; remove it")
    return fields


def _as_float(document: dict[str, Any]) -> object:
    """What stands in JSON for a number that JSON has no word for, as transformers writes it; else the object itself."""
    return float(document["__float__"]) if document.keys() == {"__float__"} else document


def weight_files(folder: Path) -> list[Path]:
    """Those that make up the model; some may be absent, and others, in another format, may be there."""
    single = folder / "model.safetensors"
    if single.is_file():  # as transformers has it: an index beside it is not looked at
        return [single]
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        return [folder / name for name in sorted(set(index["weight_map"].values()))]
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return [path for path in sorted(folder.glob("*.safetensors")) if path.name != ADAPTER_WEIGHTS]


def _refuse_adapter(folder: Path, name: str, beside: str = "") -> None:
    """Raise MhavizError if there is an adapter, which is no model without the one that it changes."""
    if any((folder / found).is_file() for found in (ADAPTER_WEIGHTS, PICKLED_ADAPTER)):
        raise MhavizError(
            f"{name} holds an adapter alone{beside}: merge it into its model, save that, and give its folder"
        )
    if (folder / ADAPTER_CONFIG).is_file() and not weight_files(folder):
        raise MhavizError(
            f"{name} holds an {ADAPTER_CONFIG} alone{beside}: expected a folder with a config.json and safetensors; "
            f"take another copy of it"
        )


def _refuse_other_formats(folder: Path, name: str) -> None:
    """Raise MhavizError if there are weights, and mhaviz does not read such files."""
    if models := sorted(path.name for path in folder.glob("*.gguf")):
        raise MhavizError(f"{name} has weights as GGUF alone ({quoted(models[0])}): {_NO_GGUF}")
    if pickles := [path.name for pattern in _PICKLES for path in sorted(folder.glob(pattern))]:
        raise MhavizError(
            f"{name} has pickled weights alone ({pickles[0]}), which could run code when they are read: expected "
            f"safetensors; save it with save_pretrained, which writes them"
        )


def _from_hub(name: str, revision: str | None) -> Path:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    of = f" at revision {revision}" if revision else ""
    try:
        cached = snapshot_download(name, revision=revision, local_files_only=True)
        check_folder(Path(cached), name)
        return Path(cached)
    except HFValidationError:
        raise MhavizError(f"{name} is neither a folder nor a hub id such as openai-community/gpt2") from None
    except (LocalEntryNotFoundError, MhavizError) as error:
        if constants.HF_HUB_OFFLINE:
            lacks = str(error) if isinstance(error, MhavizError) else f"{name}{of} is not in the local cache"
            raise MhavizError(f"{lacks}, and HF_HUB_OFFLINE is set; give a folder, or fetch it first") from None
    try:
        fetched = snapshot_download(name, revision=revision, allow_patterns=list(_WANTED), ignore_patterns=["*/*"])
    except RevisionNotFoundError:
        raise MhavizError(f"the hub has no revision {revision} of {name}") from None
    except GatedRepoError:
        raise MhavizError(f"{name} is gated: ask for access on the hub, and log in with hf auth login") from None
    except RepositoryNotFoundError:
        raise MhavizError(
            f"there is no folder {name}, and the hub has no model of this name that you may read"
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise MhavizError(
            f"{name}{of} is neither a folder nor in the local cache, and the hub cannot be reached "
            f"({_first_line(error)}); give a folder"
        ) from error
    check_folder(Path(fetched), name)
    return Path(fetched)


def _first_line(error: BaseException) -> str:
    text = str(error.__cause__ or error).strip()
    return f"{type(error.__cause__ or error).__name__}: {text.splitlines()[0]:.100}" if text else type(error).__name__
