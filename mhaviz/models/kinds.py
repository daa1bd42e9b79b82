"""What a model is, by its name: told by looking, before anything heavy is loaded."""

from pathlib import Path
from typing import Literal

from mhaviz.errors import MhavizError, shortened

RANDOM, TRANSLATION = "random", "translation"
"""Names of what is no file: a layer with random weights, and the translator that comes with mhaviz."""

ModelKind = Literal["random", "trained", "parameters", "transformers"]

_OF_PARAMETERS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


def kind_of(name: str) -> ModelKind:
    """What a model of this name is. A folder, and what is neither a file nor looks like one, is of transformers.

    Raises:
        MhavizError: a file of a kind that holds no model, or one that is not there.
    """
    path = Path(name)
    is_file = _is_file(path)
    if name == RANDOM and not is_file:
        return "random"
    if name == TRANSLATION and not is_file:
        return "trained"
    suffix = path.suffix.lower()
    if is_file and suffix not in _OF_PARAMETERS:
        if suffix == ".gguf":
            return "transformers"  # which says what to do about it
        raise MhavizError(
            f"cannot tell what model {shortened(name)} is: expected a file saved by mhaviz train, one of the "
            f"parameters of an attention ({', '.join(_OF_PARAMETERS)}), a folder of transformers, or a hub id"
        )
    if is_file:
        return "trained" if suffix == ".safetensors" and _is_checkpoint(path) else "parameters"
    if suffix in _OF_PARAMETERS and not path.is_dir():
        raise MhavizError(f"cannot read {shortened(name)}: No such file or directory")
    return "transformers"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or holds NUL
        return False


def _is_checkpoint(path: Path) -> bool:
    """Whether mhaviz has written it, as a checkpoint or as anything else: its reader then says what it is."""
    from mhaviz.files.safetensors_files import read_safetensors

    try:
        _, metadata = read_safetensors(path)
    except MhavizError:
        return False
    return "mhaviz" in metadata
