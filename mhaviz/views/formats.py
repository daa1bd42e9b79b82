"""Output files: checks before the work starts, and writing in the format of each suffix."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.writing import write_whole
from mhaviz.pages.labels import visible
from mhaviz.pages.registry import CHECK_SUFFIXES, FIGURE_SUFFIXES, MAP_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.views.style import Style


def check_outputs(paths: Iterable[Path], suffixes: Sequence[str], inputs: Sequence[Path] = ()) -> None:
    """Check before the work starts that its results can be written.

    Raises:
        ArgumentError: no name, a suffix that is not among ``suffixes``, a file named twice, or one of the ``inputs``.
        MhavizError: a folder that is missing or may not be written to, or a name that cannot be that of a file.
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
    """Return whether both paths lead to one file, also through links."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def save_all(paths: Sequence[Path], result: object, style: "Style", **details: Any) -> tuple[list[str], list[Path]]:
    """Write the result in the format of each path's suffix: all files, or none.

    Args:
        paths: files to write, checked by ``check_outputs``.
        result: the result.
        style: style of figures and of a page for the browser.
        details: further arguments of the function that makes its page.

    Returns:
        Notices about the figure, such as fewer pixels than asked for, and the files: a picture that a room divides has
        several for each path, named after it, name.png and name-2.png; a PDF has pages instead.

    Raises:
        MhavizError: a file could not be written; nothing is left behind.
    """
    from mhaviz.views.showing import figures_of

    by_suffix = [(path, path.suffix.lower()) for path in paths]
    sheets = figures_of(result, style, **details) if any(suffix in FIGURE_SUFFIXES for _, suffix in by_suffix) else []

    def writers(path: Path, suffix: str) -> Iterator[tuple[Path, Callable[[BinaryIO], object]]]:
        if suffix == ".pdf":
            from mhaviz.views.figure.sheet import save_pdf

            yield path, partial(save_pdf, sheets)
        elif suffix in FIGURE_SUFFIXES:
            for number, sheet in enumerate(sheets, 1):
                numbered = path.with_stem(f"{path.stem}-{number}") if number > 1 else path
                yield numbered, partial(sheet.save, suffix=suffix[1:])
        elif suffix == ".html":
            from mhaviz.views.html.page import write_html

            yield path, partial(write_html, result, style, **details)
        else:
            from mhaviz.views.data import write_data

            yield path, partial(write_data, result, suffix)

    contents = [one for path, suffix in by_suffix for one in writers(path, suffix)]
    files = [path for path, _ in contents]
    if len(sheets) > 1:
        check_outputs(files, (*MAP_SUFFIXES, *CHECK_SUFFIXES))
    write_whole(contents)
    return list(dict.fromkeys(notice for sheet in sheets for notice in sheet.notices)), files
