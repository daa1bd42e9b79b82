"""The command line. Little is loaded here, so that Ctrl-C finds ``run`` in place, and no traceback is seen."""

import sys

TYPE_CHECKING = False  # as type checkers know it; typing itself takes long to load
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "run"]


def run() -> int:
    """The program as it is installed."""
    try:
        from mhaviz.cli.surroundings import run_settled

        return run_settled()
    except KeyboardInterrupt:
        print("mhaviz: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the program on these arguments and return its exit status; see ``app.main``."""
    from mhaviz.cli import app

    return app.main(arguments)
