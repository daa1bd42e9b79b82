"""Delivery of a result: to files, and then to the terminal, as a view or JSON."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.shared.console import SCREENS_BESIDE_FILES, print_view, printing, progress, say
from mhaviz.errors import MhavizError, is_accepted, parameter
from mhaviz.pages.registry import FIGURE_SUFFIXES, RESULT_SUFFIXES
from mhaviz.processes import this_process
from mhaviz.views.formats import check_outputs, save_all

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.style import Style

MOST_MAPS = 4_000
"""Most maps that are drawn. A picture has room for fewer, and raises an error of its own."""


@dataclass(frozen=True, eq=False, repr=False)
class Delivery:
    """Options for where a result goes."""

    output: Annotated[
        list[Path] | None, typer.Option("-o", "--output", help="File to save; its suffix sets the format. Repeatable.")
    ] = None
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors, and what a picture lacks.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False

    @property
    def paths(self) -> list[Path]:
        """Files to save."""
        return self.output or []

    @property
    def suffixes(self) -> set[str]:
        """Suffixes of these files, in lower case."""
        return {path.suffix.lower() for path in self.paths}

    @property
    def paths_of_maps(self) -> list[Path]:
        """Those of the files that have maps alone, not what is made of them."""
        return [path for path in self.paths if path.suffix.lower() not in RESULT_SUFFIXES]

    def check(self, inputs: Sequence[Path] = (), suffixes: Sequence[str] = RESULT_SUFFIXES) -> None:
        """Check before the work starts that results can be written; see ``check_outputs``.

        ``inputs``: files that are read, and must not be overwritten.
        """
        this_process()  # raises an error if the environment of torchrun contradicts itself
        check_outputs(self.paths, suffixes, inputs)

    def tell(self, *lines: str, always: bool = False) -> None:
        """Print notices in the first of several processes; unless ``always``, --quiet leaves them out."""
        if (always or not self.quiet) and this_process().is_first:
            for line in lines:
                say(line)

    def working(self, what: str) -> AbstractContextManager[object]:
        """Show a progress bar with this text on a terminal."""
        return progress(self.quiet, what, is_counted=False)

    @contextmanager
    def besides(self, saved: Sequence[Path], what: str = "") -> Iterator["Delivery"]:
        """Say that some of the files have been saved; yield the delivery of the others.

        An error inside the block also says which have been saved. ``what``: text after each name.
        """
        self.tell(*(f"saved {path}{what}" for path in saved))
        try:
            yield replace(self, output=[path for path in self.paths if path not in saved])
        except MhavizError as error:
            if not saved:
                raise
            names = " and ".join(map(str, saved))
            raise type(error)(f"{error}; {names} {'are' if len(saved) > 1 else 'is'} saved") from error

    def deliver(
        self,
        result: object,
        style: "Style | None" = None,
        notice: str | None = None,
        **details: Any,
    ) -> None:
        """Save the result, then print it as JSON or as a view for the terminal.

        Of several processes that ``torchrun`` has started, only the first does so.

        Args:
            result: the result.
            style: style of its picture; None: the default.
            notice: notice to print.
            details: further arguments of the function that makes its page.

        Raises:
            MhavizError: as ``save_all``; there are more maps than can be drawn.
        """
        if not this_process().is_first:
            return
        self.require_drawable(len(getattr(result, "maps", ())))
        from mhaviz.views.showing import view_of
        from mhaviz.views.style import Style

        style = style or Style()
        with self.working("writing"):
            notices, saved = save_all(self.paths, result, style, **details)
        self.tell(*filter(None, [notice]))
        self.tell(*notices, always=True)
        self.tell(*(f"saved {path}" for path in saved))
        if self.json:
            from mhaviz.views.data import document, write_json

            with printing(), nullcontext() if sys.stdout.isatty() else self.working("writing JSON"):
                write_json(document(result), sys.stdout)
        elif not self.quiet:
            self._show(view_of(result, style, **details))

    def deliver_beside(
        self,
        maps: Callable[[], object],
        what: str,
        made: Callable[[], object],
        style: "Style",
        notice: str | None = None,
        has_page: bool = False,
    ) -> None:
        """Save maps to the files that have maps; then deliver what is made of them, to the other files.

        The maps are saved first, so that they exist even if what is made of them fails, which is then said.

        Args:
            maps: returns the maps.
            what: what they are, "the maps without the image".
            made: returns what is made of them.
            style, notice: as in ``deliver``.
            has_page: whether pages for the browser show what is made of the maps, and not the maps.
        """
        if of_maps := [path for path in self.paths_of_maps if not (has_page and path.suffix.lower() == ".html")]:
            replace(self, output=of_maps, quiet=True, json=False).deliver(maps(), style)
        with self.besides(of_maps, f", {what}") as others:
            others.deliver(made(), style, notice)

    def _show(self, view: "RenderableType") -> None:
        """Print a view; if it has been saved and takes more than a few screens, print it without its pictures."""
        from mhaviz.views.terminal.page import PageView

        if not self.paths:
            print_view(view)
        elif not print_view(view, SCREENS_BESIDE_FILES):
            words = view.without_pictures() if isinstance(view, PageView) else None
            if words != view:
                most = f"more than {SCREENS_BESIDE_FILES} screens"
                self.tell(f"pictures of {most} are not shown in the terminal; without -o they are")
            if words:
                print_view(words)

    def require_drawable(self, n_maps: int) -> None:
        """Raise MhavizError if a picture would have more than ``MOST_MAPS`` maps. Data may have any number."""
        if n_maps > MOST_MAPS and not self.suffixes.isdisjoint(FIGURE_SUFFIXES):
            one_layer = f", or one {parameter('layer')}" * is_accepted("layer")
            raise MhavizError(
                f"expected at most {MOST_MAPS:,} maps to draw, got {n_maps:,}; draw fewer sentences{one_layer}, or "
                f"save all as data, in a .json file or with --json"
            )
