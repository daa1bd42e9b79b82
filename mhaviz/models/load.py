"""Loads a model, whatever it is: told by looking at its name, before anything heavy is loaded."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mhaviz.errors import ArgumentError, MhavizError, shortened

if TYPE_CHECKING:
    from mhaviz.attention.model import Model
    from mhaviz.models.saved_layer import SavedLayer

RANDOM, TRANSLATION = "random", "translation"
"""Names of what is no file: a layer with random weights, and the translator that comes with mhaviz."""

ModelKind = Literal["random", "trained", "parameters", "transformers"]

_OF_PARAMETERS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")

_TAKES: Mapping[ModelKind, tuple[str, ...]] = {
    "random": ("d_model", "n_heads", "seed", "causal"),
    "trained": (),
    "parameters": ("prefix", "n_heads", "seed", "causal", "input", "input_name"),
    "transformers": ("revision", "dtype"),
}
"""What may be asked of each kind of model beside its device; all else it brings with it."""
OPTIONS = tuple(dict.fromkeys(chain.from_iterable(_TAKES.values())))

_CALLED: Mapping[ModelKind, str] = {
    "random": "a layer with random weights",
    "trained": "a trained model",
    "parameters": "a file of parameters",
    "transformers": "a model of transformers",
}
_USUAL_HEADS = 8

Notice = Callable[[str], None]


def kind_of(name: str) -> ModelKind:
    """What a model of this name is. A folder, and what is neither a file nor looks like one, is of transformers.

    Raises:
        MhavizError: a file of a kind that holds no model, or one that is not there.
    """
    path, there = Path(name), is_file(name)
    if name == RANDOM and not there:
        return "random"
    if name == TRANSLATION and not there:
        return "trained"
    suffix = path.suffix.lower()
    if there and suffix not in _OF_PARAMETERS:
        if suffix == ".gguf":
            return "transformers"  # which says what to do about it
        raise MhavizError(
            f"cannot tell what model {shortened(name)} is: expected a file saved by mhaviz train, one of the "
            f"parameters of an attention ({', '.join(_OF_PARAMETERS)}), a folder of transformers, or a hub id"
        )
    if there:
        return "trained" if suffix == ".safetensors" and _is_checkpoint(path) else "parameters"
    if suffix in _OF_PARAMETERS and not path.is_dir():
        raise MhavizError(f"cannot read {shortened(name)}: No such file or directory")
    return "transformers"


def is_file(name: str) -> bool:
    """Whether there is such a file; a name that is too long, or holds NUL, is none."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _is_checkpoint(path: Path) -> bool:
    """Whether mhaviz has written it, as a checkpoint or as anything else: its reader then says what it is."""
    from mhaviz.files.safetensors_files import read_safetensors

    try:
        _, metadata = read_safetensors(path)
    except MhavizError:
        return False
    return "mhaviz" in metadata


def load_model(
    name: str, device: str = "auto", writes: bool = False, on_notice: Notice = lambda notice: None, **asked: Any
) -> "Model":
    """The model of this name.

    Args:
        name: "random", "translation", a file saved by mhaviz train, a file with the parameters of an attention
            (.safetensors, or of torch.save), a folder of transformers, or a hub id.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        writes: whether it must be able to continue a text.
        on_notice: is told what has been assumed.
        asked: ``d_model``, ``n_heads``, ``seed``, ``causal``, ``prefix``, ``input``, ``input_name``, ``revision``,
            ``dtype``, as far as the kind of model takes them; None: as usual.

    Raises:
        ArgumentError: what the model brings with it, or sizes that cannot be.
        MhavizError: it cannot be read, or told what it is; a device that is not there.
    """
    kind = kind_of(name)
    given = {key: value for key, value in asked.items() if value is not None and value is not False}
    _refuse_settled(name, kind, given)
    if kind == "random":
        from mhaviz.models.single_layer import RandomLayer

        return RandomLayer(device_name=device, **given)
    if kind == "trained":
        from mhaviz.models.trained_model import TrainedModel
        from mhaviz.training.loading import load_checkpoint

        return TrainedModel(load_checkpoint(name), device)
    if kind == "parameters":
        return _load_layer(Path(name), device, on_notice, **given)
    return _load_pretrained(name, device, writes, on_notice, **given)


def _refuse_settled(name: str, kind: ModelKind, given: Mapping[str, Any]) -> None:
    others = [key for key in given if key not in _TAKES[kind]]
    if not others:
        return
    takers = [_CALLED[other] for other, keys in _TAKES.items() if others[0] in keys and other != kind]
    listed = ", ".join(f"`{key}`" for key in others)
    if kind == "random":
        raise ArgumentError(f"{listed} goes with {' or '.join(takers)}; name one by `model`")
    raise ArgumentError(f"{name} is {_CALLED[kind]}, which brings its own sizes, weights and masks; leave out {listed}")


def _load_layer(
    path: Path,
    device: str,
    on_notice: Notice,
    prefix: str | None = None,
    n_heads: int | None = None,
    seed: int | None = None,
    causal: bool = False,
    input: str | Path | None = None,
    input_name: str | None = None,
) -> "SavedLayer":
    from mhaviz.models.given_inputs import read_inputs
    from mhaviz.models.saved_attention import read_attention
    from mhaviz.models.saved_layer import SavedLayer

    if input is not None and seed is not None:
        raise ArgumentError("`input` takes the place of random embeddings; leave out `seed`")
    if input_name is not None and input is None:
        raise ArgumentError("`input_name` chooses among the tensors of a file; add `input`")
    saved = read_attention(path, prefix)
    inputs = None if input is None else read_inputs(Path(input), input_name)
    if n_heads is None:
        on_notice(f"parameters do not tell how many heads they are for; took {_USUAL_HEADS}, see `n_heads`")
    heads = _USUAL_HEADS if n_heads is None else n_heads
    return SavedLayer(saved, heads, seed or 0, device, causal, inputs, assumed=n_heads is None)


def _load_pretrained(
    name: str, device: str, writes: bool, on_notice: Notice, revision: str | None = None, dtype: Any = "auto"
) -> "Model":
    if find_spec("transformers") is None:
        raise MhavizError(f'{name} needs transformers; install it with pip install "mhaviz[hf]"')
    from mhaviz.models.pretrained.folder import find_folder

    folder = find_folder(name, revision)  # before all that takes seconds to load
    from mhaviz.devices import resolve_device

    where = resolve_device(device)
    from mhaviz.models.pretrained.loading import load_pretrained
    from mhaviz.models.pretrained.model import PretrainedModel
    from mhaviz.models.pretrained.silence import silence
    from mhaviz.models.pretrained.sites import find_sites

    with silence(1, 2):
        loaded = load_pretrained(name, where, revision, dtype, writes, folder)
    for remark in loaded.remarks:
        on_notice(remark)
    return PretrainedModel(*find_sites(loaded))
