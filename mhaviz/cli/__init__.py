"""The command line. Here: what is set up before a command runs (streams, signals, matplotlib); ``app`` runs it."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main", "run"]


def run() -> int:
    """The program as it is installed; it is loaded here, so that Ctrl-C meanwhile ends it without a traceback.

    Most of a short run goes into importing torch and matplotlib, and much of that into the garbage collector, which
    looks again and again, and once more at the end, through objects that stay: it is told to look more rarely.
    """
    try:
        gc.set_threshold(100_000, 50, 50)
        _open_streams()
        settle_surroundings()

        from mhaviz.cli import app

        status = app.main()
        gc.freeze()
        return status
    except KeyboardInterrupt:
        print("mhaviz: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program on these arguments and return its exit status; see ``app.main``."""
    from mhaviz.cli import app

    return app.main(arguments)


def settle_surroundings() -> None:
    """Remove half-written files when a signal ends the program, and keep matplotlib from reading the user's settings.

    This is for the command line alone: a Python program that imports mhaviz makes its own settings.
    """
    from mhaviz.files.writing import clean_up_on

    names = ("SIGTERM", "SIGHUP")
    clean_up_on([getattr(signal, name) for name in names if hasattr(signal, name)])
    # matplotlib reads no matplotlibrc, broken or not, and says nothing of what else it finds of the user's
    os.environ |= {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "agg"}
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    if Path("matplotlibrc").is_file():  # here it comes before all others: matplotlib is imported from elsewhere
        folder = Path.cwd()
        os.chdir(folder.anchor)
        try:
            import matplotlib as matplotlib
        finally:
            os.chdir(folder)


def _open_streams() -> None:
    """Let what a narrow encoding lacks be escaped, and stand in for streams that the caller has closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
