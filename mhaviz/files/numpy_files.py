"""Arrays of .npy and .npz files. Pickles in them are not read."""

import io
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.files.archives import opened
from mhaviz.files.errors import ContentError
from mhaviz.files.saved_array import SavedArray, numbers_of, require_few
from mhaviz.units import readable_bytes

_MAGIC = b"\x93NUMPY"  # first bytes of a .npy file
_MOST_TEXT, _MOST_PACKED = 2**22, 16  # bytes of a text in an archive; and more, in multiples of the archive
_MOST_HEADER = 2**17  # bytes; numpy reads no header of more than 10,000 characters


def read_npy(path: Path) -> dict[str, SavedArray]:
    """Return the array of a .npy file, under the name ""."""
    with path.open("rb") as stream:
        shape, _, dtype = _header(io.BytesIO(stream.read(_MOST_HEADER)))
    load = partial(np.lib.format.open_memmap, path, mode="r")
    return {"": SavedArray(path, "", shape, str(dtype), numbers_of(dtype), load)}


def read_npz(path: Path) -> dict[str, SavedArray]:
    """Return the arrays of a .npz file by name."""
    arrays: dict[str, SavedArray] = {}
    with opened(path) as archive:
        require_few(len(archive.infolist()))
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                start = stream.read(len(_MAGIC))
                if start != _MAGIC:
                    continue  # not an array
                shape, _, dtype = _header(io.BytesIO(start + stream.read(_MOST_HEADER)))
            arrays[name] = SavedArray(path, name, shape, str(dtype), numbers_of(dtype), partial(_member, path, name))
    return arrays


def _member(path: Path, name: str) -> NDArray[Any]:
    with np.load(path) as archive:
        array: NDArray[Any] = archive[name]
        return array


def read_text_of_npz(path: Path, name: str) -> str | None:
    """Read a text file of the archive; None: there is no such file."""
    with opened(path) as archive:
        if name not in archive.namelist():
            return None
        size = archive.getinfo(name).file_size
        if size > _MOST_TEXT + _MOST_PACKED * path.stat().st_size:
            raise ContentError(
                f"{name} in it unpacks to {readable_bytes(size)}: expected a description of maps, which is smaller"
            )
        return archive.read(name).decode()


def _header(start: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether the numbers are in Fortran order, and their type."""
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(start)
