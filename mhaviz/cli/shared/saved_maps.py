"""Reads files of saved maps: the options that describe them, and the choice of layers, heads and kinds in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mhaviz.cli.command import given
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyKind
from mhaviz.errors import ArgumentError, MhavizError

if TYPE_CHECKING:
    from mhaviz.files.maps import SavedMaps

_Labels = tuple[str, ...] | None
_T = TypeVar("_T")

array_option = partial(typer.Option, rich_help_panel="Arrays of other tools")


@dataclass(frozen=True, eq=False, repr=False)
class ArrayOptions:
    """Options that describe bare arrays: their name in the file, and their kind."""

    name: Annotated[
        list[str] | None,
        array_option(
            metavar="NAME",
            help="Name of the array, if a file holds several; given twice for two files.",
        ),
    ] = None
    kind: Annotated[
        AnyKind | None,
        array_option(
            help="What the array is. \\[default: cross if the labels differ or the map is no square, else self]"
        ),
    ] = None

    def read(self, paths: Sequence[Path], delivery: Delivery) -> "list[SavedMaps]":
        """The maps of one or two files; ``delivery`` tells what should be known of them.

        Raises:
            ArgumentError: what does not suit an array; there is nothing that the options could be about, as mhaviz's
                own files say it themselves.
            MhavizError: a file, or labels, cannot be read.
        """
        from mhaviz.files.maps import About, read_maps

        labels = self._labels()
        abouts = [About(name, *labels, self.kind) for name in of_each("--name", self.name, len(paths))]
        files = [read_maps(path, about, delivery.tell) for path, about in zip(paths, abouts, strict=True)]
        if given(self) and all(saved.is_own for saved in files):
            named = dict.fromkeys(map(str, paths))
            bring = "brings its" if len(named) == 1 else "bring their"
            raise ArgumentError(
                f"{' and '.join(named)} {bring} own tokens and kinds; leave out {', '.join(given(self))}"
            )
        for saved in files:
            delivery.tell(*saved.notices)
        return files

    def _labels(self) -> tuple[_Labels, _Labels]:
        """Of the rows and of the columns."""
        return None, None


@dataclass(frozen=True, eq=False, repr=False)
class LabelledArrayOptions(ArrayOptions):
    """The same of one file, with labels."""

    queries: Annotated[
        Path | None,
        array_option(
            metavar="LABELS.txt",
            help="Labels of the rows, one a line; alone, of both sides of a square map. \\[default: positions]",
        ),
    ] = None
    keys: Annotated[Path | None, array_option(metavar="LABELS.txt", help="Labels of the columns, one a line.")] = None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [path for path in (self.queries, self.keys) if path is not None]

    def _labels(self) -> tuple[_Labels, _Labels]:
        return _read_labels("--queries", self.queries), _read_labels("--keys", self.keys)


def _read_labels(option: str, path: Path | None) -> _Labels:
    from mhaviz.files.texts import read_labels

    try:
        return None if path is None else read_labels(path)
    except MhavizError as error:
        raise MhavizError(f"{option}: {error}") from error


def of_each(option: str, said: Sequence[_T] | None, number: int) -> list[_T | None]:
    """What an option says of each of some files: given once, it is said of all."""
    if not said:
        return [None] * number
    if len(said) > number:
        times = "once" if number == 1 else "once, or twice, for A and for B"
        raise ArgumentError(f"{option}: expected it {times}; got it {len(said)} times")
    both: list[_T | None] = [said[0], said[-1]]
    return both[:number]
