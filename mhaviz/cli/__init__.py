"""The command line. Little is imported here, so that even an early Ctrl-C ends in ``run``, without a traceback."""

import sys

TYPE_CHECKING = False  # as type checkers know it; typing itself takes long to load
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "run"]


def run() -> int:
    """Entry point of the installed program: run it, and return its exit status."""
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
