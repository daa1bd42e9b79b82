"""Finds the folder of a checkpoint: one on this machine, or one of the Hugging Face hub, in its local cache or fetched.

What is no model is told from what is one by its files, before anything is loaded: transformers' own messages are many
lines long, and speak of functions that our users never called.
"""

import json
import os
import re
from pathlib import Path

from mhaviz.errors import ArgumentError, MhavizError

_WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.tiktoken", "*.spm", "bpe.codes", "*.tokenizer")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def find_folder(name: str, revision: str | None = None) -> Path:
    """The folder of a model, which has a config.json and safetensors.

    Args:
        name: a folder, or a hub id such as "openai-community/gpt2". The hub's local cache comes first.
        revision: of a hub id: a branch, a tag or a commit.

    Raises:
        ArgumentError: a revision of a folder.
        MhavizError: there is no such model, the hub cannot be reached, or there is no model in the folder.
    """
    try:
        is_folder = Path(name).is_dir()
    except (OSError, ValueError):
        is_folder = False
    if is_folder:
        if revision is not None:
            raise ArgumentError(f"--revision is of a model on the hub, and {name} is a folder; leave it out")
        check_folder(Path(name), name)
        return Path(name)
    if Path(name).is_file():
        raise MhavizError(f"{name} is a file: expected the folder of a model, with its config.json, or a hub id")
    if not _ID.fullmatch(name) or name.startswith("."):
        raise MhavizError(f"there is no folder {name}: expected the folder of a model, or a hub id such as gpt2")
    return _from_hub(name, revision)


def check_folder(folder: Path, name: str) -> None:
    """Raise MhavizError unless there are a config.json that can be read and weights as safetensors."""
    config = folder / "config.json"
    if not config.is_file():
        if (folder / "adapter_config.json").is_file():
            raise MhavizError(f"{name} holds an adapter alone: merge it into its model, save that, and give its folder")
        inner = sorted(str(path.parent) for path in folder.glob("*/config.json"))
        hint = f"; there is one in {', '.join(inner[:3])}" if inner else ""
        raise MhavizError(f"{name} is no model: expected a folder with a config.json and safetensors{hint}")
    try:
        fields = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MhavizError(f"{name}: its config.json cannot be read ({error}); take another copy of it") from error
    if not isinstance(fields, dict):
        raise MhavizError(f"{name}: expected an object in its config.json, got {type(fields).__name__}")
    if not any(folder.glob("*.safetensors")):
        if pickles := [path.name for pattern in _PICKLES for path in sorted(folder.glob(pattern))]:
            raise MhavizError(
                f"{name} has pickled weights alone ({pickles[0]}), which could run code when they are read: expected "
                f"safetensors; save it with save_pretrained, which writes them"
            )
        raise MhavizError(f"{name} has no weights: expected *.safetensors beside its config.json")
    files = weight_files(folder)
    if absent := [path.name for path in files if not path.is_file()]:
        raise MhavizError(
            f"{name} lacks {len(absent)} of its {len(files)} weight files, such as {absent[0]}; take another copy of it"
        )


def weight_files(folder: Path) -> list[Path]:
    """Those that make up the model; some may be absent, and others, in another format, may be there."""
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        return [folder / name for name in sorted(set(index["weight_map"].values()))]
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        single = folder / "model.safetensors"
        return [single] if single.is_file() else sorted(folder.glob("*.safetensors"))


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
