"""Lets ``torch.compile`` run what it would compile as it is: in compiled code there is nothing to be seen."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import RLock
from typing import Any

import torch

from mhaviz.observe.handlers import Done, Follow
from mhaviz.observe.replacing import followed

STANCE = "force_eager"

_OF_HOOKS = "Using `torch.compile.module.` when there are global hooks"
"""How PyTorch begins to say that compiled code does not heed them; here none is compiled, and they are ours."""

_lock = RLock()
_n_recordings = 0
_until_last = ExitStack()
_compile: Any = None


@contextmanager
def run_uncompiled() -> Iterator[None]:
    """Run all that is compiled, before or within, as the program has written it, until the last recording ends.

    PyTorch's compiler takes seconds to import, so it is told when the program first asks for it.
    """
    global _n_recordings
    with _lock:
        _n_recordings += 1
        if _n_recordings == 1:
            _begin()
    try:
        yield
    finally:
        with _lock:
            _n_recordings -= 1
            if not _n_recordings:
                _until_last.close()


def scripted_followed(follow: Follow) -> AbstractContextManager[None]:
    """Follow functions compiled by ``torch.jit``: nothing within them is seen."""
    return followed(torch.jit.ScriptFunction, "__call__", _scripted_followed, follow)


def _scripted_followed(call: Callable[..., Any], followers: list[Follow]) -> Callable[..., Any]:
    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(function, *args, **kwargs)
        for follow in followers:
            follow(Done(function, args, kwargs, result))
        return result

    return run


def _begin() -> None:
    global _compile
    warnings.filterwarnings("ignore", _OF_HOOKS)
    _until_last.callback(_unfilter, warnings.filters[0])
    if "torch._dynamo" in sys.modules:
        _until_last.enter_context(torch.compiler.set_stance(STANCE))
        return
    _compile, torch.compile = torch.compile, _compile_told
    _until_last.callback(_put_back)


def _compile_told(*args: Any, **kwargs: Any) -> Any:
    """``torch.compile``, which is told of the recordings that there are; a program may keep it for longer."""
    with _lock:
        if _n_recordings and torch.compile is _compile_told:
            torch.compile = _compile
            _until_last.enter_context(torch.compiler.set_stance(STANCE))
    return _compile(*args, **kwargs)


def _unfilter(ours: object) -> None:
    """Take our filter back, whatever others the program has set meanwhile."""
    if ours in warnings.filters:
        warnings.filters.remove(ours)  # type: ignore[attr-defined]


def _put_back() -> None:
    if torch.compile is _compile_told:  # else it was told, or somebody else has put something in its place
        torch.compile = _compile
