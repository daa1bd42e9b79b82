"""Finding the folder of a checkpoint: on this machine, in the local cache of the Hugging Face hub, or on the hub."""

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from mhaviz.errors import ArgumentError, MhavizError, ProgramError, as_one_line, parameter, quoted, shortened
from mhaviz.files.errors import reading, require_regular
from mhaviz.files.texts import parse_json, read_text
from mhaviz.memory import OF_TEXT, free_main_memory, shortage

_WEIGHTS = "*.safetensors"
_WANTED = ("*.json", _WEIGHTS, "*.model", "*.txt", "*.tiktoken", "*.spm", "bpe.codes", "*.tokenizer")
_TEMPLATES = "additional_chat_templates"
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_OF_IMAGES = frozenset({"image_processor_type", "image_processor", "image_mean"})
"""Fields by one of which a file of a processor is about images, not about sound."""

_MOST_SIDE = 2**13  # pixels of a model's image

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


is_file, is_folder = os.path.isfile, os.path.isdir  # Path's methods raise an error if the name is too long


def find_folder(name: str, revision: str | None = None) -> Path:
    """Return the folder of a model, which holds a config.json and weights as safetensors.

    Args:
        name: a folder, or a hub id such as "openai-community/gpt2", which is looked up in the local cache first.
        revision: branch, tag or commit of a hub id; None: the default branch.

    Raises:
        ArgumentError: a revision was given for a folder.
        MhavizError: the model does not exist, the hub cannot be reached, or the folder holds no model.
    """
    if is_folder(name):
        if revision is not None:
            raise ArgumentError(
                f"{parameter('revision')} is for a model on the hub, and {name} is a folder; leave it out"
            )
        check_folder(Path(name), name)
        return Path(name)
    return _from_hub(name, revision)


def check_folder(folder: Path, name: str) -> None:
    """Raise MhavizError unless the folder has a config.json and all weights as safetensors, and no adapter.

    Anything in it that transformers could wait for, or read forever, is refused.
    """
    _require_files(folder)
    weights = [path.with_suffix(".safetensors") for path in weight_files(folder)] or [folder / "model.safetensors"]
    absent = [path.name for path in (folder / "config.json", *weights) if not path.is_file()]
    if (folder / "adapter_config.json").exists():  # transformers would apply it where peft happens to be installed
        where = "without its model" if absent else "beside its weights"
        without = "" if absent else ", or remove adapter_config.json to see it without"
        raise MhavizError(
            f"{name} holds an adapter {where}: load it with peft, and save what merge_and_unload() returns with "
            f"save_pretrained{without}"
        )
    if absent:
        patterns = ("adapter_*", "*.gguf", *_PICKLES)  # no complete models, or files that could run code
        others = sorted({quoted(path.name) for pattern in patterns for path in folder.glob(pattern)})
        got = f", got {', '.join(others[:2])}; save the whole model with save_pretrained" if others else ""
        raise MhavizError(f"{name} lacks {quoted(absent[0])}: expected a config.json and weights as safetensors{got}")


def _require_files(folder: Path) -> None:
    """Raise MhavizError unless what is in a folder are files and folders, of which the texts fit into memory."""
    for path in chain(folder.iterdir(), folder.glob(f"{_TEMPLATES}/*")):
        if path.is_dir() or not path.exists():  # a link may lead nowhere
            continue
        with reading(path):
            require_regular(path)
        is_read_whole = path.parent == folder and any(path.match(name) for name in _WANTED if name != _WEIGHTS)
        if is_read_whole and (short := shortage(OF_TEXT * path.stat().st_size, free_main_memory())):
            raise MhavizError(f"{path} is too large: reading it needs {short}; take another copy of it")


def read_fields(folder: Path, name: str) -> dict[str, Any]:
    """Read the fields of the config.json. Raises MhavizError if it is not a JSON object."""
    with as_one_line(f"{name}: its config.json cannot be read", "take another copy of it"):
        fields = parse_json(read_text(folder / "config.json"))
    if not isinstance(fields, dict):
        raise MhavizError(f"{name}: expected an object in its config.json, got {type(fields).__name__}")
    weights = fields.get("transformers_weights")
    if weights is not None and not str(weights).endswith((".safetensors", ".safetensors.index.json")):
        raise MhavizError(f"{name}: expected safetensors as its transformers_weights, got {quoted(weights)}; remove it")
    return fields


def has_image_processor(folder: Path) -> bool:
    """Return whether a folder says how an image becomes pixels for its model."""
    for name in _PROCESSORS:
        try:
            fields = parse_json(read_text(folder / name))
        except (MhavizError, ValueError, RecursionError):
            continue
        if isinstance(fields, dict) and not _OF_IMAGES.isdisjoint(fields):
            return True
    return False


def image_program(name: str, folder: Path, photo: str = "photo.png", text: str | None = None) -> str:
    """Return a program of six lines that runs a model on a photo, for ``mhaviz record --image``.

    Args:
        name: name of the model, as the user gave it.
        folder: its folder, with the size of its images in its config.json; else it is 224.
        photo: file of the photo.
        text: a text that the model reads beside the photo; None: it reads the photo alone.
    """
    named = f"transformers.{{}}.from_pretrained({name!a})"
    if text is not None:
        return "\n".join(
            (
                "import PIL.Image, torch, transformers",
                f"processor = {named.format('AutoProcessor')}",
                f"model = {named.format('AutoModel')}.eval()",
                f'inputs = processor(images=PIL.Image.open({photo!a}).convert("RGB"), text={text!a},',
                '                   return_tensors="pt")  # the text may have to hold the image token, such as <image>',
                "with torch.no_grad(): model(**inputs)",
            )
        )
    side = _image_side(read_fields(folder, name))
    return "\n".join(
        (
            "import numpy, PIL.Image, torch, transformers",
            f"model = {named.format('AutoModel')}.eval()",
            f'photo = PIL.Image.open({photo!a}).convert("RGB").resize(({side}, {side}))',
            "pixels = torch.tensor(numpy.array(photo)).permute(2, 0, 1)[None] / 255",
            "pixels = (pixels - 0.5) / 0.5  # mean and standard deviation of its training",
            "with torch.no_grad(): model(pixel_values=pixels)",
        )
    )


def without_processor(name: str, folder: Path, photo: str = "photo.png") -> ProgramError:
    """Return the error for a folder without an image processor, with a program that does without."""
    return ProgramError(
        f"{name} has no image processor (preprocessor_config.json), which says how a photo becomes pixels; save these "
        f"lines as look.py, with the numbers of its training, and run mhaviz record --image {photo} look.py:",
        image_program(name, folder, photo),
    )


def _image_side(fields: dict[str, Any]) -> int:
    """Return the width of a model's images, by the fields of its config.json; 224 where it is not known."""
    vision = fields.get("vision_config")
    for part in (fields, vision if isinstance(vision, dict) else {}):
        if isinstance(side := part.get("image_size"), int) and 0 < side <= _MOST_SIDE:
            return side
    return 224


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files of the model, as safetensors. Those that an index names may not exist."""
    single = folder / "model.safetensors"
    if single.is_file():  # as in transformers, which then ignores an index
        return [single]
    try:
        index = parse_json(read_text(folder / "model.safetensors.index.json"))
        return [folder / name for name in sorted(set(index["weight_map"].values()))]
    except (MhavizError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return sorted(folder.glob("*.safetensors"))


def _from_hub(name: str, revision: str | None) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    reach = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub cannot be reached"
    short: dict[type[Exception], str] = {
        LocalEntryNotFoundError: f"it is not in the local cache, and {reach}",
        RepositoryNotFoundError: "there is no such model, or it is private",  # a subclass says that it is gated
    }
    advice = "check the name and the network"
    with as_one_line(f"{shortened(name)} is not a folder, and cannot be fetched from the Hugging Face hub", advice):
        try:
            with suppress(*() if constants.HF_HUB_OFFLINE else (LocalEntryNotFoundError, MhavizError)):
                cached = Path(snapshot_download(name, revision=revision, local_files_only=True))
                check_folder(cached, name)
                return cached
            wanted = list(_WANTED)
            fetched = Path(snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns=["*/*"]))
        except tuple(short) as error:
            raise OSError(short.get(type(error), str(error))) from error
    check_folder(fetched, name)
    return fetched
