"""What is set up before a command runs: streams, signals, matplotlib."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mhaviz.views.plain_text import PLAIN

_KERNELS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_SETTINGS = {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "agg", _KERNELS: "64"}
"""matplotlib reads no matplotlibrc, broken or not, and opens no window. PyTorch keeps few kernels of sizes of batches,
which over a corpus would be a thousand, of up to 40 KiB each; so many are more than a batch has.
"""
_STREAMS = "stdout", "stderr"


def run_settled() -> int:
    """Run the program, and return its exit status.

    The garbage collector runs more rarely: a short run mostly imports torch and matplotlib, whose objects stay.
    """
    global _users
    _users = _Surroundings.now()
    gc.set_threshold(100_000, 50, 50)
    _open_streams()
    settle_surroundings()

    from mhaviz.cli import app

    status = app.main()
    _leave_group()
    gc.freeze()
    return status


def _leave_group() -> None:
    """Tell PyTorch that this process is done, if it is one of several, or it would warn of it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def settle_surroundings() -> None:
    """Remove half-written files when a signal ends the program, and keep matplotlib from reading the user's settings.

    This is for the command line alone: a Python program that imports mhaviz makes its own settings.
    """
    from mhaviz.files.writing import clean_up_on

    names = ("SIGTERM", "SIGHUP")
    clean_up_on([getattr(signal, name) for name in names if hasattr(signal, name)])
    os.environ |= _SETTINGS | {_KERNELS: os.environ.get(_KERNELS, _SETTINGS[_KERNELS])}
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    if Path("matplotlibrc").is_file():  # here it comes before all others: matplotlib is imported from elsewhere
        folder = Path.cwd()
        os.chdir(folder.anchor)
        try:
            import matplotlib as matplotlib
        finally:
            os.chdir(folder)


@dataclass(frozen=True)
class _Surroundings:
    """What ``run`` sets for itself, and a program of the user's must find as it was."""

    environment: dict[str, str | None]
    thresholds: tuple[int, int, int]
    log_level: int
    errors: dict[str, str]

    @classmethod
    def now(cls) -> "_Surroundings":
        return cls(
            {name: os.environ.get(name) for name in _SETTINGS},
            gc.get_threshold(),
            logging.getLogger("matplotlib").level,
            {name: getattr(getattr(sys, name), "errors", "strict") for name in _STREAMS},
        )

    def put_in_place(self) -> None:
        for name, value in self.environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        gc.set_threshold(*self.thresholds)
        logging.getLogger("matplotlib").setLevel(self.log_level)
        for name, errors in self.errors.items():
            stream = getattr(sys, name)
            if hasattr(stream, "reconfigure") and not stream.closed:
                stream.reconfigure(errors=errors)


_users: _Surroundings | None = None


def owns_process() -> bool:
    """Whether this process is the command line's own, and not that of a Python program that calls ``main``."""
    return _users is not None


@contextmanager
def surroundings_put_back() -> Iterator[None]:
    """Let what runs within, a program of the user's own, find what it would find without us."""
    if _users is None:  # nothing is settled: somebody calls ``main``
        yield
        return
    ours = _Surroundings.now()
    _users.put_in_place()
    try:
        yield
    finally:
        ours.put_in_place()


def _open_streams() -> None:
    """Let what a narrow encoding lacks be written in ASCII, and stand in for streams that the caller has closed."""
    for name in _STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors=PLAIN)
