"""Parts of studies over corpora in .safetensors files: arrays of float64, and a description in JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from safetensors.numpy import save

from mhaviz._version import __version__
from mhaviz.errors import MhavizError, shortened
from mhaviz.files.errors import ContentError, reading, require_file
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.files.texts import memory_of
from mhaviz.files.writing import write_whole
from mhaviz.memory import free_main_memory, shortage
from mhaviz.results.corpus_part import SUFFIX, CorpusPart, ModelIdentity, Progress, Shard
from mhaviz.results.saved_form import METADATA

_MOST_OF_A_BLOCK = 2**16  # sentences that are read at once


_Short = Annotated[str, msgspec.Meta(max_length=100)]


class _Description(msgspec.Struct):
    """Description of a part in its file."""

    study: _Short
    mhaviz: _Short
    models: Annotated[tuple[ModelIdentity, ...], msgspec.Meta(min_length=1)]
    options: dict[str, Any]
    shard: Shard
    progress: Progress


def write_part(part: CorpusPart, path: Path) -> None:
    """Write a part, whole or not at all. Raises MhavizError if it cannot be written."""
    arrays = {name: np.ascontiguousarray(array) for name, array in part.arrays.items()}
    saved = _Description(part.study, part.version, part.models, dict(part.options), part.shard, part.progress)
    content = save(arrays, {METADATA: json.dumps(msgspec.to_builtins(saved))})
    write_whole([(path, lambda stream: stream.write(content))])


def read_part(path: Path) -> CorpusPart:
    """Read a part that ``write_part`` has written. Its numbers are mapped, and read from the file on use.

    Raises:
        MhavizError: there is no such file, or it is not a part, broken, or does not fit into memory.
    """
    require_file(path, [SUFFIX])
    held, metadata = read_safetensors(path)
    with reading(path):
        text = metadata.get(METADATA, "{}")
        needed = memory_of(text) + path.stat().st_size
        if short := shortage(needed, free_main_memory()):
            raise ContentError(f"its numbers need {short}")
        description = json.loads(text)
        if "study" not in description:
            raise ContentError(
                "it is not a part of a corpus; expected one that a run of heads or diff has kept to be resumed"
            )
        for name, array in held.items():
            if array.dtype != "float64":
                raise ContentError(f"{name:.60}: expected float64, got {array.dtype:.60}")
        return _restored(description, {name: np.asarray(array.load()) for name, array in held.items()})


def _restored(description: Mapping[str, Any], arrays: Mapping[str, Any]) -> CorpusPart:
    """Return the part with this description and these arrays. Raises ValueError if the description is invalid."""
    saved = msgspec.convert(description, _Description)
    progress = saved.progress
    if not 0 <= progress.read < 2**63 or not bool(progress.read) <= progress.block <= _MOST_OF_A_BLOCK:
        raise ValueError(f"progress: expected blocks of 1 to {_MOST_OF_A_BLOCK:,} sentences")
    return CorpusPart(saved.study, saved.mhaviz, saved.models, saved.options, saved.shard, progress, arrays)


def require_version(part: CorpusPart, name: str) -> None:
    """Raise MhavizError if the part was made by another version of mhaviz, which may compute something else."""
    if part.version != __version__:
        raise MhavizError(
            f"{name} was made by mhaviz {shortened(part.version)}, and this is {__version__}; begin again, or use "
            f"that version"
        )
