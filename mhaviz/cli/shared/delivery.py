"""What becomes of a result: files first, then the terminal or JSON."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.shared.console import print_view, printing, progress, say
from mhaviz.errors import MhavizError
from mhaviz.pages.registry import FIGURE_SUFFIXES, RESULT_SUFFIXES
from mhaviz.processes import this_process
from mhaviz.views.formats import check_outputs, save_all

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.style import Style

MOST_MAPS = 4_000
"""No more of them are drawn; a picture has room for fewer, and says so."""


@dataclass(frozen=True, eq=False, repr=False)
class Delivery:
    """Where the user wants a result."""

    output: Annotated[
        list[Path] | None, typer.Option("-o", "--output", help="Save; the suffix picks the format. Repeatable.")
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing in the terminal but errors.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False

    @property
    def paths(self) -> list[Path]:
        """Files to write."""
        return self.output or []

    @property
    def suffixes(self) -> set[str]:
        """Of these files, by which their formats are told."""
        return {path.suffix.lower() for path in self.paths}

    def check(self, inputs: Sequence[Path] = (), suffixes: Sequence[str] = RESULT_SUFFIXES) -> None:
        """Find out before the work starts whether its results can be written; see ``check_outputs``.

        ``inputs``: files that are read, and must not be written over.
        """
        this_process()  # whose environment may contradict itself
        check_outputs(self.paths, suffixes, inputs)

    def tell(self, *lines: str) -> None:
        """Print what the user should be told, unless nothing is to be shown."""
        if not self.quiet and this_process().is_first:
            for line in lines:
                say(line)

    def working(self, what: str) -> AbstractContextManager[object]:
        """Say on a terminal what is being done, if it takes long."""
        return progress(self.quiet, what, is_counted=False)

    def deliver(
        self,
        result: object,
        style: "Style | None" = None,
        notice: str | None = None,
        **details: Any,
    ) -> None:
        """Save what is to be saved, then print the result: as JSON, or as its view in the terminal.

        Of several processes that ``torchrun`` has started the first alone does so.

        Args:
            result: what was found.
            style: of its picture; None: the usual one.
            details: what its page takes beside it.
            notice: what the user should be told.

        Raises:
            MhavizError: as ``save_all``; more maps than can be drawn.
        """
        if not this_process().is_first:
            return
        self.require_drawable(len(getattr(result, "maps", ())))
        from mhaviz.views.showing import view_of
        from mhaviz.views.style import Style

        style = style or Style()
        with self.working("writing"):
            notices = save_all(self.paths, result, style, **details)
        saved = [f"saved {path}" for path in self.paths]
        self.tell(*filter(None, [notice, *notices, *saved]))
        if self.json:
            from mhaviz.views.data import document, write_json

            with printing(), nullcontext() if sys.stdout.isatty() else self.working("writing JSON"):
                write_json(document(result), sys.stdout)
        elif not self.quiet:
            self._show(view_of(result, style, **details))

    def _show(self, view: "RenderableType") -> None:
        """Print a view: the first screens of its pictures, or none where they are long and have been saved."""
        from mhaviz.views.terminal.page import PageView
        from mhaviz.views.terminal.screen import SCREENS_BESIDE_FILES as MOST

        if not self.paths:
            print_view(view)
        elif not print_view(view, MOST):
            words = view.without_pictures() if isinstance(view, PageView) else None
            if words != view:
                self.tell(f"what takes more than {MOST} screens of the terminal is not shown; without -o it is")
            if words:
                print_view(words)

    def require_drawable(self, n_maps: int) -> None:
        """Raise MhavizError if a picture is to be drawn of more maps than can be; data may be of any number."""
        if n_maps > MOST_MAPS and not self.suffixes.isdisjoint(FIGURE_SUFFIXES):
            raise MhavizError(
                f"expected at most {MOST_MAPS:,} maps to draw, got {n_maps:,}; draw fewer sentences, or a layer alone, "
                f"with --layer, or take all as data, in a .json file or with --json"
            )
