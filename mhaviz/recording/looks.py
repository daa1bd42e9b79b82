"""How a function of PyTorch is looked at: it runs, and then something follows from it.

Whatever goes wrong in what follows is ours, and no concern of the program's.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Look = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
"""Runs a function with its arguments, and returns its result."""

Follow = Callable[[Any, Sequence[Any], dict[str, Any], Any], None]
"""Is called with a function that has run, its arguments, and its result."""


class VisitorError(Exception):
    """Carries what a visitor of the user's own has raised through the program."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(str(raised))
        self.raised = raised


def guarded(follow: Follow, on_error: Callable[[Exception], None]) -> Look:
    """What runs a function, and lets ``follow`` see it; ``on_error`` is told what that raises."""
    see = safely(follow, on_error)

    def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        see(func, args, kwargs, result)
        return result

    return run


def safely(follow: Follow, on_error: Callable[[Exception], None]) -> Follow:
    """``follow``, of which ``on_error`` is told what it raises."""

    def see(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        try:
            follow(func, args, kwargs, result)
        except VisitorError:
            raise
        except Exception as error:
            on_error(error)

    return see


@contextmanager
def unseen() -> Iterator[None]:
    """Compute what is ours: without gradients, and seen by no recording."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        yield


def one_line(error: Exception) -> str:
    """What went wrong, for a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
