"""What becomes of a result: files first, then the terminal or JSON."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.cli.console import print_view, say
from mhaviz.cli.progress import working
from mhaviz.units import readable_bytes
from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs, save_all

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


_MANY_NUMBERS = 10**7  # which take some ten seconds to write as text
_JSON_NUMBER = 14  # bytes, of a number in as few digits as tell it from others


@dataclass(frozen=True)
class Delivery:
    """Where the user wants a result. Made before the work starts, so that it fails before the work starts.

    ``inputs``: files that are read, and must not be written over.

    Raises:
        ArgumentError, MhavizError: an output that cannot be written; see ``check_outputs``.
    """

    paths: Sequence[Path]
    quiet: bool
    json: bool
    suffixes: Sequence[str] = (*FIGURE_SUFFIXES, ".json")
    inputs: Sequence[Path] = ()

    def __post_init__(self) -> None:
        check_outputs(self.paths, self.suffixes, self.inputs)

    def tell(self, notices: Iterable[str]) -> None:
        """Print what the user should be told, a line each, unless nothing is to be shown."""
        if not self.quiet:
            for line in notices:
                say(line)

    def working(self, what: str) -> AbstractContextManager[None]:
        """Say on a terminal what is being done, if it takes long."""
        return working(what, self.quiet)

    def deliver(
        self,
        record: object,
        draw: "Callable[[], Sheet]",
        view: "Callable[[], RenderableType]",
        document: dict[str, Any] | None = None,
        notice: str | None = None,
    ) -> None:
        """Save what is to be saved, then print the record: as JSON, or as its view in the terminal.

        ``document``: the JSON, if it is more than the record's own. ``notice``: what the user should be told.
        """
        if self.json or any(path.suffix.lower() == ".json" for path in self.paths):
            from mhaviz.views.data import count_numbers
            from mhaviz.views.data import document as document_of

            document = document or document_of(record)
            if (numbers := count_numbers(document)) > _MANY_NUMBERS:
                size = readable_bytes(_JSON_NUMBER * numbers)
                self.tell([f"the JSON holds {numbers:,} numbers, about {size}; Ctrl-C stops it"])
        with self.working("writing"):
            notices = save_all(self.paths, record, draw, document)
        saved = [f"saved {path}" for path in self.paths]
        self.tell(filter(None, [notice, *notices, *saved]))
        if self.json:
            from mhaviz.views.data import write_json

            assert document is not None
            with nullcontext() if sys.stdout.isatty() else self.working("writing JSON"):
                write_json(document, sys.stdout)
        elif not self.quiet:
            print_view(view())
