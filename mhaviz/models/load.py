"""Loading of a model of any kind by its name. What a kind needs is imported only when a model of it is loaded."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.errors import ArgumentError, MhavizError, parameter, shortened
from mhaviz.files.errors import reading, require_regular
from mhaviz.models.transformers.folder import find_folder, has_image_processor, is_file, is_folder
from mhaviz.processes import Process, this_process
from mhaviz.training import TRANSLATION

if TYPE_CHECKING:
    from mhaviz.attention.model import Model, Predicts

RANDOM = "random"
"""Name of the layer with random weights, which is not a file."""

OLDEST_TRANSFORMERS = (5, 15)
"""Oldest version of transformers that has all that is imported from it, as in pyproject.toml."""

_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")

Notice = Callable[[str], None]


@dataclass(frozen=True)
class ModelKind:
    """A kind of model.

    Attributes:
        called: name of such a model in messages.
        load: function that imports what the kind needs, and returns the model. It takes ``name``, ``device``,
            ``predicts`` and ``on_notice`` as ``load_model`` does, and the options as keywords.
        options: names of the options of this kind.
        name: name of a model of this kind, unless there is a file of that name; "random" is never a file.
        expected: for kinds that are files or folders, their name in messages.
        is_of_kind: for such kinds, whether there is a model of this kind at a path.
    """

    called: str
    load: "Callable[..., Model]"
    options: tuple[str, ...] = ()
    name: str | None = None
    expected: str | None = None
    is_of_kind: Callable[[str], bool] = lambda name: False


def _suffix(name: str) -> str:
    return Path(name).suffix.lower()


def _load_random(name: str, device: str, *_needs: Any, **sizes: Any) -> "Model":
    from mhaviz.models.single_layer import RandomLayer

    return RandomLayer(device_name=device, **sizes)


def _is_checkpoint(name: str) -> bool:
    """Return whether the file was written by mhaviz. If it is not a checkpoint, the reader raises an error."""
    if _suffix(name) != ".safetensors" or not is_file(name):
        return False
    from mhaviz.files.safetensors_files import read_safetensors

    try:
        _, metadata = read_safetensors(Path(name))
    except MhavizError:
        return False
    return "mhaviz" in metadata


def _load_trained(name: str, device: str, *_needs: Any, keep_case: bool = False) -> "Model":
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.loading import load_checkpoint

    checkpoint = load_checkpoint(name)
    if keep_case and not checkpoint.plan.keep_case:
        raise ArgumentError(
            f"{parameter('keep_case')}: {shortened(name)} has learnt words in lower case; leave it out, or train it "
            f"with capitals"
        )
    return TrainedModel(checkpoint, device)


def _has_parameters(name: str) -> bool:
    return _suffix(name) in _SUFFIXES and is_file(name)


def _load_parameters(
    name: str,
    device: str,
    predicts: Any,
    on_notice: Notice,
    prefix: str | None = None,
    n_heads: int | None = None,
    seed: int | None = None,
    causal: bool = False,
    keep_case: bool = False,
    input: str | Path | None = None,
    input_name: str | None = None,
) -> "Model":
    from mhaviz.models.saved_attention import read_attention
    from mhaviz.models.saved_layer import SavedLayer, read_inputs

    if input is not None and seed is not None:
        raise ArgumentError(f"{parameter('input')} takes the place of random embeddings; leave out {parameter('seed')}")
    if input_name is not None and input is None:
        raise ArgumentError(f"{parameter('input_name')} chooses among the tensors of a file; add {parameter('input')}")
    saved = read_attention(Path(name), prefix)
    inputs = None if input is None else read_inputs(Path(input), input_name)
    if n_heads is None:
        raise ArgumentError(f"a file of parameters does not hold the number of heads; add {parameter('n_heads')}")
    return SavedLayer(saved, n_heads, inputs, seed=seed or 0, device_name=device, causal=causal, keep_case=keep_case)


def _is_transformers(name: str) -> bool:
    """Return whether this is a folder, or may be a hub id."""
    return is_folder(name) or (_suffix(name) not in _SUFFIXES and not is_file(name))


def require_transformers(what: str) -> None:
    """Raise MhavizError unless transformers is installed, and not older than ``OLDEST_TRANSFORMERS``.

    ``what``: the model or function that needs it, for the message.
    """
    try:
        found = version("transformers")
    except PackageNotFoundError:
        found = "none"
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST_TRANSFORMERS:
        oldest = ".".join(map(str, OLDEST_TRANSFORMERS))
        raise MhavizError(
            f'{what} needs transformers {oldest} or newer, got {found}; install it with pip install -U "mhaviz[hf]"'
        )


def _load_transformers(
    name: str,
    device: str,
    predicts: Any,
    on_notice: Notice,
    revision: str | None = None,
    dtype: Any = "auto",
    device_map: str | None = None,
    max_memory: Any = None,
    tensor_parallel: bool = False,
    keep_case: bool = False,
) -> "Model":
    if keep_case:
        raise ArgumentError(
            f"{parameter('keep_case')}: whether {shortened(name)} reads capitals is settled by its tokenizer; leave it "
            f"out"
        )
    require_transformers(name)
    folder = find_folder(name, revision)  # before the imports below, which take seconds
    is_spread = device_map is not None or max_memory is not None
    if is_spread and device != "auto":
        raise ArgumentError(f"{parameter('device_map')} chooses the devices itself; leave out {parameter('device')}")
    process = this_process() if tensor_parallel else Process()
    from mhaviz.devices import resolve_device

    where = resolve_device(process.device(device))
    from mhaviz.models.transformers.image_model import ImageModel
    from mhaviz.models.transformers.load import load_checkpoint
    from mhaviz.models.transformers.model import TransformersModel
    from mhaviz.models.transformers.silence import silence
    from mhaviz.models.transformers.spread import Spread

    spread = Spread.of(device_map or "auto", max_memory) if is_spread else None
    loaded = load_checkpoint(name, where, dtype, predicts, folder, spread, process.count, on_notice)
    for remark in loaded.remarks:
        on_notice(remark)
    if loaded.reads_images_alone:
        return ImageModel(loaded=loaded)
    try:
        with silence(1, 2):
            return TransformersModel.of(loaded)
    except MhavizError:
        if not has_image_processor(folder):
            raise
        return ImageModel(loaded=loaded)  # which reads no text without an image


KINDS = (
    ModelKind(
        called="a layer with random weights",
        load=_load_random,
        options=("d_model", "n_heads", "seed", "causal", "keep_case"),
        name=RANDOM,
    ),
    ModelKind(
        called="a trained model",
        load=_load_trained,
        options=("keep_case",),
        name=TRANSLATION,
        expected="a file saved by mhaviz train",
        is_of_kind=_is_checkpoint,
    ),
    ModelKind(
        called="a file of parameters",
        load=_load_parameters,
        options=("prefix", "n_heads", "seed", "causal", "keep_case", "input", "input_name"),
        expected=f"one of the parameters of an attention ({', '.join(_SUFFIXES)})",
        is_of_kind=_has_parameters,
    ),
    ModelKind(
        called="a transformers model",
        load=_load_transformers,
        options=("revision", "dtype", "device_map", "max_memory", "tensor_parallel", "keep_case"),
        expected="a folder of transformers, or a hub id",
        is_of_kind=_is_transformers,
    ),
)
"""All kinds of models. The first that takes a name is used, so hub ids, which may be any name, come last."""

OPTIONS = tuple(dict.fromkeys(chain.from_iterable(kind.options for kind in KINDS)))
"""Names of the options of all kinds of models."""


def kind_of(name: str) -> ModelKind:
    """Return the kind of the model with this name.

    Raises:
        MhavizError: no such file, or a file of no known kind, a pipe or a device.
    """
    if name != RANDOM and os.path.exists(name) and not is_folder(name):  # noqa: PTH110
        with reading(Path(name)):
            require_regular(Path(name))
    for kind in KINDS:
        if name == RANDOM == kind.name or (name == kind.name and not is_file(name)) or kind.is_of_kind(name):
            return kind
    if not is_file(name):
        raise MhavizError(f"cannot read {shortened(name)}: No such file or directory")
    expected = ", ".join(kind.expected for kind in KINDS if kind.expected)
    raise MhavizError(f"cannot tell what model {shortened(name)} is: expected {expected}")


def load_model(
    name: str,
    device: str = "auto",
    predicts: "Predicts" = False,
    on_notice: Notice = lambda notice: None,
    **asked: Any,
) -> "Model":
    """Load the model of this name.

    Args:
        name: "random", "translation", a file saved by mhaviz train, a file with the parameters of an attention
            (.safetensors, or of torch.save), a folder of transformers, or a hub id.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        predicts: whether to load a model of transformers with its head; see ``Predicts``.
        on_notice: called with each notice, one line.
        asked: options of the kind; see ``KINDS``. None, or False: the default.

    Raises:
        ArgumentError: an option of another kind of model, or a size that is not allowed.
        MhavizError: the model cannot be read, or is of no known kind; the device does not exist.
    """
    kind = kind_of(name)
    given = {key: value for key, value in asked.items() if value is not None and value is not False}
    for key in given:
        if key not in kind.options:
            owners = " or ".join(other.called for other in KINDS if key in other.options)
            raise ArgumentError(f"{parameter(key)} is for {owners}; {shortened(name)} is {kind.called}")
    return kind.load(name, device, predicts, on_notice, **given)
