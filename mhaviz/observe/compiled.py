"""Run what ``torch.compile`` would compile as it is written: nothing can be observed in compiled code."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch

from mhaviz.observe.replacing import held_once, replaced

_OF_HOOKS = "Using `torch.compile.module.` when there are global hooks"
"""Beginning of PyTorch's warning that compiled code ignores global hooks. They are ours, and
no compiled code runs where they are needed."""


def run_uncompiled() -> AbstractContextManager[None]:
    """Run all code as the program has written it, whenever it is compiled, until the last recording ends.

    PyTorch's compiler takes seconds to import, so it is switched off when the program first asks for it.
    """
    return held_once("compile", _uncompiled)


@contextmanager
def _uncompiled() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(hooks_unmentioned())
        begins = [lambda: stack.enter_context(torch.compiler.set_stance("force_eager"))]

        def made(compile: Callable[..., Any]) -> Callable[..., Any]:
            def begin_and_compile(*args: Any, **kwargs: Any) -> Any:  # a program may keep it for longer
                for begin in begins[:1]:
                    begins.clear()
                    begin()  # type: ignore[no-untyped-call]
                return compile(*args, **kwargs)

            return begin_and_compile

        if "torch._dynamo" in sys.modules:
            begins.pop()()
        else:
            stack.enter_context(replaced(torch, "compile", made))
        stack.callback(begins.clear)
        yield


def hooks_unmentioned() -> AbstractContextManager[None]:
    """Leave out PyTorch's warning that compiled code ignores global hooks, until the last recording ends."""
    return held_once("hooks", _unmentioned)


@contextmanager
def _unmentioned() -> Iterator[None]:
    warnings.filterwarnings("ignore", _OF_HOOKS)
    ours = warnings.filters[0]
    try:
        yield
    finally:
        _unfilter(ours)


def _unfilter(ours: object) -> None:
    """Remove our filter of warnings, whatever others the program has added meanwhile."""
    if ours in warnings.filters:
        warnings.filters.remove(ours)  # type: ignore[attr-defined]
