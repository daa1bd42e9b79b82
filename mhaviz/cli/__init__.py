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
    except Exception as error:
        module = module_that_failed(error)
        if module is None:
            raise
        reason = ascii(f"{type(error).__name__}: {error}")[1:-1][:300]
        print(f"mhaviz: cannot load {module} ({reason}); install it again", file=sys.stderr)  # noqa: T201
        return 1


def module_that_failed(error: Exception) -> str | None:
    """Return the name of the module that raised the error while it was imported; None: it was raised elsewhere.

    A library may be incomplete, or made for another machine, and its bytecode cut off.
    """
    module, step = None, error.__traceback__
    while step is not None:
        frame, step = step.tb_frame, step.tb_next
        if frame.f_code.co_name == "<module>":
            module = frame.f_globals.get("__name__", module)
        elif frame.f_code.co_filename.startswith("<frozen importlib"):
            module = frame.f_locals.get("name", module)
    return error.name or module if isinstance(error, ImportError) else module


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the program on these arguments and return its exit status; see ``app.main``."""
    from mhaviz.cli import app

    return app.main(arguments)
