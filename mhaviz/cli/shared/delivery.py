"""What becomes of a result: files first, then the terminal or JSON."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.cli.shared.console import print_view, say
from mhaviz.cli.shared.groups import OutputOptions
from mhaviz.cli.shared.progress import working
from mhaviz.units import readable_bytes
from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs, save_all

if TYPE_CHECKING:
    from mhaviz.views.look import Look


MAP_SUFFIXES = (*FIGURE_SUFFIXES, ".json", ".safetensors")
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

    @classmethod
    def of(
        cls, options: OutputOptions, inputs: Sequence[Path] = (), suffixes: Sequence[str] = (*FIGURE_SUFFIXES, ".json")
    ) -> "Delivery":
        """What the options ask for."""
        return cls(options.output or (), options.quiet, options.json, suffixes, inputs)

    def __post_init__(self) -> None:
        check_outputs(self.paths, self.suffixes, self.inputs)

    @property
    def draws(self) -> bool:
        """Whether a picture is to be saved."""
        return any(path.suffix.lower() in FIGURE_SUFFIXES for path in self.paths)

    def tell(self, notices: Iterable[str]) -> None:
        """Print what the user should be told, a line each, unless nothing is to be shown."""
        if not self.quiet:
            for line in notices:
                say(line)

    def notice(self, line: str) -> None:
        """Print one such line."""
        self.tell([line])

    def working(self, what: str) -> AbstractContextManager[None]:
        """Say on a terminal what is being done, if it takes long."""
        return working(what, self.quiet)

    def deliver(
        self,
        record: object,
        look: "Look",
        shown: object = None,
        document: dict[str, Any] | None = None,
        notice: str | None = None,
        **details: Any,
    ) -> None:
        """Save what is to be saved, then print the record: as JSON, or as its view in the terminal.

        Args:
            record: what was found.
            look: of its picture.
            details: what its page takes beside it.
            shown: what the terminal shows, if it is less than the record.
            document: the JSON, if it is more than the record's own.
            notice: what the user should be told.
        """
        from mhaviz.views.showing import figure_of, view_of

        if self.json or any(path.suffix.lower() == ".json" for path in self.paths):
            from mhaviz.views.data import count_numbers
            from mhaviz.views.data import document as document_of

            document = document or document_of(record)
            if (numbers := count_numbers(document)) > _MANY_NUMBERS:
                size = readable_bytes(_JSON_NUMBER * numbers)
                self.notice(f"the JSON holds {numbers:,} numbers, about {size}; Ctrl-C stops it")
        with self.working("writing"):
            notices = save_all(self.paths, record, lambda: figure_of(record, look, **details), document)
        saved = [f"saved {path}" for path in self.paths]
        self.tell(filter(None, [notice, *notices, *saved]))
        if self.json:
            from mhaviz.views.data import write_json

            assert document is not None
            with nullcontext() if sys.stdout.isatty() else self.working("writing JSON"):
                write_json(document, sys.stdout)
        elif not self.quiet:
            print_view(view_of(shown or record, look, **details))
