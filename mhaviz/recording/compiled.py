"""Lets ``torch.compile`` run what it would compile as it is: in compiled code there is nothing to be seen."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

STANCE = "force_eager"


@contextmanager
def run_uncompiled() -> Iterator[None]:
    """Run all that is compiled, before or within, as the program has written it.

    PyTorch's compiler takes seconds to import, so it is told when the program first asks for it.
    """
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance(STANCE))
            yield
            return
        compile_ = torch.compile
        told: list[bool] = []

        def compile_told(*args: Any, **kwargs: Any) -> Any:
            if not told:
                told.append(True)
                stack.enter_context(torch.compiler.set_stance(STANCE))
            return compile_(*args, **kwargs)

        def put_back() -> None:
            torch.compile = compile_

        torch.compile = compile_told
        stack.callback(put_back)
        yield
