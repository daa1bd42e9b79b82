"""What is written to files: which suffix is which format, and every file whole or not at all."""

import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.writing import write_whole
from mhaviz.views.labels import visible

if TYPE_CHECKING:
    from mhaviz.views.figure.sheet import Sheet


def check_outputs(paths: Iterable[Path], suffixes: Sequence[str], inputs: Sequence[Path] = ()) -> None:
    """Find out before the work starts whether its results can be written.

    Raises:
        ArgumentError: no name, a suffix that is not among ``suffixes``, a file named twice, or one of the ``inputs``.
        MhavizError: a folder that is missing, is no folder, or may not be written to.
    """
    seen: set[Path] = set()
    for path in paths:
        shown, folder = visible(str(path)), path.absolute().parent
        if not path.name:
            raise ArgumentError(f"-o: expected the name of a file, ending in {', '.join(suffixes)}, got none")
        if path.suffix.lower() not in suffixes:
            raise ArgumentError(f"cannot tell the format of {shown}: expected a name ending in {', '.join(suffixes)}")
        if path.resolve() in seen:
            raise ArgumentError(f"{shown} is named twice as an output; name each file once")
        seen.add(path.resolve())
        if any(_are_one(path, other) for other in inputs):
            raise ArgumentError(f"{shown} is read, and cannot be written at the same time; give another name")
        if not folder.is_dir():
            raise MhavizError(f"cannot write {shown}: there is no folder {visible(str(folder))}; make it first")
        if path.is_dir():
            raise MhavizError(f"cannot write {shown}: it is a folder; give the name of a file in it")
        if path.exists() and not path.is_file():
            raise MhavizError(f"cannot write {shown}: it is a device or a pipe; give the name of a file")
        if not os.access(folder, os.W_OK):
            raise MhavizError(f"cannot write {shown}: no permission to write in {visible(str(folder))}")


def _are_one(path: Path, other: Path) -> bool:
    """Whether both names are of one file, through links too."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them is not there
        return False


@dataclass(frozen=True)
class Result:
    """A record, its figure where a picture is asked for, and its JSON document where that is more than its own."""

    record: object
    sheet: "Sheet | None" = None
    document: dict[str, object] | None = None


def _write_picture(result: Result, suffix: str, stream: BinaryIO) -> None:
    assert result.sheet is not None
    result.sheet.save(stream, suffix[1:])


def _write_json(result: Result, _: str, stream: BinaryIO) -> None:
    from mhaviz.views.data import document, write_json

    text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
    write_json(result.document or document(result.record), text)
    text.flush()
    text.detach()


def _write_safetensors(result: Result, _: str, stream: BinaryIO) -> None:
    from mhaviz.records import Attention
    from mhaviz.views.data import safetensors_bytes

    assert isinstance(result.record, Attention)
    stream.write(safetensors_bytes(result.record))


Writer = Callable[[Result, str, BinaryIO], None]
"""Writes a result in the format of a suffix."""

FORMATS: dict[str, Writer] = {
    ".png": _write_picture,
    ".svg": _write_picture,
    ".pdf": _write_picture,
    ".json": _write_json,
    ".safetensors": _write_safetensors,
}
"""Every format that mhaviz writes: a new one is a function and a row."""

FIGURE_SUFFIXES = tuple(suffix for suffix, write in FORMATS.items() if write is _write_picture)
MAP_SUFFIXES = tuple(FORMATS)
RECORD_SUFFIXES = (*FIGURE_SUFFIXES, ".json")
"""Of a record that is no maps."""


def save_all(
    paths: Sequence[Path], record: object, draw: Callable[[], "Sheet"], whole: dict[str, object] | None = None
) -> list[str]:
    """Write the record in the format of each path's suffix: all files, or none.

    Args:
        paths: checked by ``check_outputs``.
        record: what is saved.
        draw: makes the figure; called only if a picture is among the paths.
        whole: the JSON document, if it is more than the record's own.

    Returns:
        Notices that the figure came with.

    Raises:
        MhavizError: a file could not be written; nothing is left behind.
    """
    suffixes = [path.suffix.lower() for path in paths]
    sheet = draw() if any(suffix in FIGURE_SUFFIXES for suffix in suffixes) else None
    result = Result(record, sheet, whole)
    write_whole(
        [(path, partial(FORMATS[suffix], result, suffix)) for path, suffix in zip(paths, suffixes, strict=True)]
    )
    return sheet.notices if sheet else []
