"""What the program settles before it starts, so that its results depend on nothing around it.

Somebody who imports mhaviz has settled these things; nothing in here is for them.
"""

import logging
import os
import signal
from pathlib import Path

from mhaviz.files.writing import clean_up_on


def settle_surroundings() -> None:
    """No half-written files when the program is ended, and pictures as matplotlib makes them by itself."""
    names = ("SIGTERM", "SIGHUP")
    clean_up_on([getattr(signal, name) for name in names if hasattr(signal, name)])
    _set_matplotlib_apart()


def _set_matplotlib_apart() -> None:
    """Let matplotlib read no matplotlibrc, broken or not, and say nothing of what else it finds of the user's."""
    os.environ |= {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "agg"}
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    here = Path("matplotlibrc")
    if here.is_file():  # in the working directory it comes before all others: it is imported from elsewhere
        folder = Path.cwd()
        os.chdir(folder.anchor)
        try:
            import matplotlib as matplotlib
        finally:
            os.chdir(folder)
