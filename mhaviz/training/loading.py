"""Reads checkpoints safely, whoever made them: nothing in a file is run, and every size is checked before use."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from mhaviz._version import __version__
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameters_named, quoted
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.files.saved_array import require_room
from mhaviz.layer.seeding import seeded
from mhaviz.layer.tokens import END, START, Vocabulary
from mhaviz.training import TRANSLATION
from mhaviz.training.checkpoint import AVERAGES, FORMAT, TASK, Checkpoint, Milestone, Plan, Sizes, build, checksum

_LANGUAGE = "language"
"""The task of earlier versions that is no more."""


def load_checkpoint(name: str) -> Checkpoint:
    """Read a checkpoint: a file, or one of those that come with mhaviz. The model is in eval mode, on the CPU.

    Raises:
        MhavizError: there is none of this name, or the file is no checkpoint, cut off, altered, or of a later format.
    """
    path = _find(name)
    try:
        arrays, metadata = read_safetensors(path)
    except MhavizError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise MhavizError(
            f"{path} is no checkpoint, or is cut off: expected a whole .safetensors file; make one with mhaviz train"
        ) from error
    about = _parse(path, metadata.get("mhaviz"))
    for array in arrays.values():
        if array.dtype != "float32":
            raise MhavizError(f"{path}: {array.name:.80}: expected numbers of type float32, got {array.dtype}")
    require_room(arrays.values())
    tensors = {name: torch.from_numpy(array.read()) for name, array in arrays.items()}
    if about.pop("sha256", None) != checksum(about, tensors):
        raise MhavizError(f"{path} has been altered or damaged: its checksum does not fit; take another copy of it")
    with as_one_line(f"{path} is not understood: its parts do not fit together", "take another copy of it"):
        try:
            with parameters_named(str):  # it is the file that is wrong, not the command line
                return _restore(about, tensors)
        except ArgumentError as error:
            raise ValueError(str(error)) from error


def _find(name: str) -> Path:
    path = Path(name)
    try:
        there = path.exists()
    except OSError:  # a name that is too long, a folder that nobody may look into
        there = False
    if name == TRANSLATION and not (there and path.is_file()):
        return Path(str(resources.files("mhaviz.training") / f"{name}.safetensors"))
    if not there:
        raise MhavizError(
            f"there is no checkpoint {name:.200}: expected a file made by mhaviz train, or one that comes with mhaviz "
            f"({TRANSLATION})"
        )
    return path


def _parse(path: Path, metadata: str | None) -> dict[str, Any]:
    try:
        about = json.loads(metadata or "null")
    except (ValueError, RecursionError):
        about = None
    if isinstance(about, dict) and "maps" in about:
        raise MhavizError(f"{path} holds attention maps, not a checkpoint; make one with mhaviz train")
    if not isinstance(about, dict) or "checkpoint" not in about:
        raise MhavizError(f"{path} is no checkpoint of mhaviz, as its metadata would say; make one with mhaviz train")
    if about["checkpoint"] != FORMAT:
        raise MhavizError(
            f"{path} is a checkpoint of format {about['checkpoint']!s:.20}, written by mhaviz "
            f"{about.get('mhaviz')!s:.20}; this is mhaviz {__version__}, which reads format {FORMAT}: use the other or "
            f"train again"
        )
    if about.get("task") == _LANGUAGE:
        raise MhavizError(
            f"{path} is a language model of an earlier mhaviz; this is mhaviz {__version__}, which reads translators: "
            f"train one with mhaviz train"
        )
    return about


class _Corpus(msgspec.Struct):
    """``sentences``: how many were trained on, and how many held out."""

    name: str
    fingerprint: str
    sentences: tuple[int, int]


class _Description(msgspec.Struct):
    """What a file says of a checkpoint."""

    task: str
    sizes: Sizes
    plan: Plan
    source_words: list[str]
    target_words: list[str]
    milestones: tuple[Milestone, ...]
    corpus: _Corpus


def _restore(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Checkpoint:
    saved = msgspec.convert(about, _Description)
    if saved.task != TASK:
        raise ValueError(f"task: expected {TASK}, got {quoted(saved.task)}")
    sizes, plan = saved.sizes, saved.plan
    for name, expected in (("sizes", asdict(sizes)), ("plan", asdict(plan))):
        if about[name].keys() != expected.keys():  # nothing stands in for what is missing
            raise ValueError(f"{name}: expected {', '.join(expected)}, got {', '.join(about[name])}")
    source, target = Vocabulary([saved.source_words]), Vocabulary([saved.target_words])
    target.ids([START, END])
    weights, optimizer = _under("model.", tensors), _under("adam.", tensors)
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("some weights are no numbers")
    _check_sizes(sizes, len(source), len(target), weights)
    with seeded(plan.seed):
        model = build(sizes, len(source), len(target)).eval()
    model.load_state_dict(weights)
    shapes = {f"{key}.{name}": p.shape for key in AVERAGES for name, p in model.named_parameters()}
    if optimizer and {name: tensor.shape for name, tensor in optimizer.items()} != shapes:
        raise ValueError("the averages of Adam are not those of the weights")
    if [m.step for m in saved.milestones] != sorted({m.step for m in saved.milestones}):
        raise ValueError("the milestones are not in order")
    return Checkpoint(
        sizes=sizes,
        plan=plan,
        source_vocabulary=source,
        target_vocabulary=target,
        corpus=saved.corpus.name,
        fingerprint=saved.corpus.fingerprint,
        sentences=saved.corpus.sentences,
        model=model,
        milestones=saved.milestones,
        optimizer=optimizer,
    )


def _check_sizes(sizes: Sizes, source_size: int, target_size: int, weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless the file has tensors of these sizes, so that no more is allocated than they take."""
    expected = {
        "source_embeddings.lookup.weight": (source_size, sizes.d_model),
        "decoder_self.attention.Wq.weight": (sizes.d_model, sizes.d_model),
        "decoder_forward.W1.weight": (sizes.d_ff, sizes.d_model),
        "output.weight": (target_size, sizes.d_model),
    }
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} is {tuple(weights[name].shape)}, not {shape}")


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
