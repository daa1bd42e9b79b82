"""Options that describe bare arrays of other tools in files of maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mhaviz.cli.command import given
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyKind
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.files.maps import SavedMaps

_T = TypeVar("_T")

array_option = partial(typer.Option, rich_help_panel="Arrays of other tools")

ArrayKind = Annotated[
    AnyKind | None,
    array_option(help="What the array is. \\[default: cross if the labels differ or the map is no square, else self]"),
]


@dataclass(frozen=True, eq=False, repr=False)
class ArrayOptions:
    """An array of a file."""

    name: Annotated[str | None, array_option(metavar="NAME", help="Name of the array, if the file holds several.")] = (
        None
    )
    queries: Annotated[
        Path | None,
        array_option(
            metavar="LABELS.txt",
            help="Labels of the rows, one a line; alone, of both sides of a square map. \\[default: positions]",
        ),
    ] = None
    keys: Annotated[Path | None, array_option(metavar="LABELS.txt", help="Labels of the columns, one a line.")] = None
    kind: ArrayKind = None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [path for path in (self.queries, self.keys) if path is not None]


@dataclass(frozen=True, eq=False, repr=False)
class TwoArrayOptions:
    """An array of each of two files."""

    name: Annotated[
        list[str] | None,
        array_option(
            metavar="NAME",
            help='Name of the array, if a file holds several; given twice for two files, "" for one that holds one.',
        ),
    ] = None
    kind: ArrayKind = None

    def read(self, paths: tuple[Path, Path], delivery: Delivery) -> "list[SavedMaps]":
        """The maps of both files; ``delivery`` tells what should be known of them.

        Raises:
            ArgumentError: what does not suit an array; there is nothing that the options could be about, as mhaviz's
                own files say it themselves.
            MhavizError: a file cannot be read.
        """
        from mhaviz.files.maps import About, read_maps

        abouts = [About(name or None, kind=self.kind) for name in of_each("--name", self.name)]
        files = [read_maps(path, about, delivery.tell) for path, about in zip(paths, abouts, strict=True)]
        if given(self) and all(saved.is_own for saved in files):
            raise ArgumentError(
                f"{' and '.join(map(str, paths))} bring their own tokens and kinds; leave out {', '.join(given(self))}"
            )
        for saved in files:
            delivery.tell(*saved.notices)
        return files


def of_each(option: str, said: Sequence[_T] | None) -> tuple[_T | None, _T | None]:
    """What an option says of each of two files: given once, it is said of both."""
    if not said:
        return None, None
    if len(said) > 2:
        raise ArgumentError(f"{option}: expected it once, or twice, for A and for B; got it {len(said)} times")
    return said[0], said[-1]
