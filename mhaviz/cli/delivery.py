"""What becomes of a result: files first, then the terminal or JSON."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.cli.console import print_view, say
from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs, save_all

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


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
        notices = save_all(self.paths, record, draw, document)
        saved = [f"saved {path}" for path in self.paths]
        self.tell(filter(None, [notice, *notices, *saved]))
        if self.json:
            from mhaviz.views.data import document as document_of
            from mhaviz.views.data import write_json

            write_json(document or document_of(record), sys.stdout)
        elif not self.quiet:
            print_view(view())
