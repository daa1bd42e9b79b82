"""The formats that mhaviz writes, by the suffixes of files: a new one is a function and a row of ``FORMATS``.

Pictures are drawn in ``figure``, all else is made in ``data``.
"""

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.writing import write_whole
from mhaviz.views.labels import visible

if TYPE_CHECKING:
    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.style import Style


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
            raise ArgumentError(f"expected the name of a file to save, ending in {', '.join(suffixes)}, got none")
        if path.suffix.lower() not in suffixes:
            raise ArgumentError(f"cannot tell the format of {shown}: expected a name ending in {', '.join(suffixes)}")
        if not folder.is_dir():
            raise MhavizError(f"cannot write {shown}: there is no folder {visible(str(folder))}; make it first")
        try:
            path.stat()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:  # a name that is too long, links that go round, NUL
            raise MhavizError(f"cannot write {shown}: {getattr(error, 'strerror', None) or error}") from error
        if path.resolve() in seen:
            raise ArgumentError(f"{shown} is named twice as an output; name each file once")
        seen.add(path.resolve())
        if any(_are_one(path, other) for other in inputs):
            raise ArgumentError(f"{shown} is read, and cannot be written at the same time; give another name")
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
    """What is written.

    Attributes:
        record: what was found.
        sheet: its figure, where a picture is asked for.
        style: how it looks in the browser.
        document: its JSON document, where that is more than its own.
        details: what its page takes beside it.
    """

    record: object
    sheet: "Sheet | None" = None
    style: "Style | None" = None
    document: dict[str, object] | None = None
    details: Mapping[str, object] = field(default_factory=dict)


def _write_picture(result: Result, suffix: str, stream: BinaryIO) -> None:
    assert result.sheet is not None
    result.sheet.save(stream, suffix[1:])


def _write_json(result: Result, _: str, stream: BinaryIO) -> None:
    from mhaviz.views.data import document, write_json

    text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
    write_json(result.document or document(result.record), text)
    text.flush()
    text.detach()


def _write_tensors(result: Result, suffix: str, stream: BinaryIO) -> None:
    from mhaviz.records.attention import Attention
    from mhaviz.views.data import npz_bytes, safetensors_bytes

    assert isinstance(result.record, Attention)
    stream.write((npz_bytes if suffix == ".npz" else safetensors_bytes)(result.record))


def _write_csv(result: Result, _: str, stream: BinaryIO) -> None:
    from mhaviz.records.ablation import Ablation
    from mhaviz.records.attention import Attention
    from mhaviz.records.head_statistics import HeadStatistics
    from mhaviz.views.data import write_csv, write_head_csv

    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")  # of half characters
    if isinstance(result.record, HeadStatistics | Ablation):
        write_head_csv(result.record, text)
    else:
        assert isinstance(result.record, Attention)
        write_csv(result.record, text)
    text.flush()
    text.detach()


def _write_html(result: Result, _: str, stream: BinaryIO) -> None:
    from mhaviz.views.html.page import write_html
    from mhaviz.views.style import Style

    write_html(result.record, result.style or Style(), stream, **result.details)


FORMATS: dict[str, Callable[[Result, str, BinaryIO], None]] = {
    ".png": _write_picture,
    ".svg": _write_picture,
    ".pdf": _write_picture,
    ".json": _write_json,
    ".safetensors": _write_tensors,
    ".npz": _write_tensors,
    ".csv": _write_csv,
    ".html": _write_html,
}
"""How each format that mhaviz writes is written."""

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
RECORD_SUFFIXES = (*FIGURE_SUFFIXES, ".json")
PAGE_SUFFIXES = (*RECORD_SUFFIXES, ".html")
HEAD_SUFFIXES = (*PAGE_SUFFIXES, ".csv")
ABLATION_SUFFIXES = (*RECORD_SUFFIXES, ".csv")
MAP_SUFFIXES = tuple(FORMATS)
_OF_RECORDS = {
    "Ablation": ABLATION_SUFFIXES,
    "Attention": MAP_SUFFIXES,
    "Difference": PAGE_SUFFIXES,
    "HeadStatistics": HEAD_SUFFIXES,
    "Report": PAGE_SUFFIXES,
}
"""Of records that are more than a picture: tables, or maps that a browser can show."""


def suffixes_of(record: object) -> tuple[str, ...]:
    """Those of the formats that a record can be saved in."""
    return _OF_RECORDS.get(type(record).__name__, RECORD_SUFFIXES)


def save_all(
    paths: Sequence[Path],
    record: object,
    draw: Callable[[], "Sheet"],
    whole: dict[str, object] | None = None,
    style: "Style | None" = None,
    details: Mapping[str, object] | None = None,
) -> list[str]:
    """Write the record in the format of each path's suffix: all files, or none.

    Args:
        paths: checked by ``check_outputs``.
        record: what is saved.
        draw: makes the figure; called only if a picture is among the paths.
        whole: the JSON document, if it is more than the record's own.
        style, details: of a page for the browser: how it looks, and what it takes beside the record.

    Returns:
        Notices that the figure came with.

    Raises:
        MhavizError: a file could not be written; nothing is left behind.
    """
    suffixes = [path.suffix.lower() for path in paths]
    sheet = draw() if any(suffix in FIGURE_SUFFIXES for suffix in suffixes) else None
    result = Result(record, sheet, style, whole, details or {})
    write_whole(
        [(path, partial(FORMATS[suffix], result, suffix)) for path, suffix in zip(paths, suffixes, strict=True)]
    )
    return sheet.notices if sheet else []
