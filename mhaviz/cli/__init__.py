"""The command line: parse, call, show. Exit codes live in ``app``, and here the one of Ctrl-C while that is loaded."""

import sys
from collections.abc import Sequence

__all__ = ["main", "run"]


def run() -> int:
    """The program as it is installed; it is loaded here, so that Ctrl-C meanwhile ends it without a traceback."""
    try:
        from mhaviz.cli import app

        return app.run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("mhaviz: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program on these arguments and return its exit status; see ``app.main``."""
    from mhaviz.cli import app

    return app.main(arguments)
