"""Knows which module of a program runs, what it is called, and which forward pass this is."""

import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from mhaviz.recording.marks import Marks

_NOT_OF_PROGRAMS = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parent.parent}/", "<")
"""Where files begin that are not a program's own."""


@dataclass(frozen=True)
class Place:
    """Where in a program an attention runs.

    Attributes:
        name: the module's qualified name, "blocks.0.attn"; of no module, "train.py:12, attend".
        root: what the name begins at; two models may have modules of the same name.
        forward: counts the forward passes of outermost modules; 0: no module runs.
        batch_size: of the first tensor that a module around it was called with; None: not known.
        length: of what the innermost module was called with: of the axes between the first and the last.
        is_module: whether the name is a module's.
        call: counts the calls of all modules: that of the innermost one; 0: no module runs.
        read: the tensor that the innermost module was called with, and its version; None: not known.
    """

    name: str
    root: int
    forward: int
    batch_size: int | None = None
    length: int | None = None
    is_module: bool = True
    call: int = 0
    read: "tuple[ref[Tensor], int] | None" = None


class _Running(NamedTuple):  # one is made whenever a module begins: of a frozen dataclass it takes thrice as long
    module: nn.Module
    read: Tensor | None
    call: int

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.read is None else tuple(self.read.shape)


class RunningModules:
    """The modules that run in each thread, the outermost first, while ``followed``.

    Args:
        model: what names begin at; places outside it are None. None: names begin at the outermost module.
        on_input: is called with each tensor that the outermost module is called with.
        on_begin: is called with each module that begins.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        on_input: Callable[[Tensor], object] = lambda x: None,
        on_begin: Callable[[nn.Module], None] = lambda module: None,
    ) -> None:
        self._model, self._on_input, self._on_begin = model, on_input, on_begin
        self._local = threading.local()
        self._forwards, self._calls = count(1), count(1)
        self._names = Marks[_Names]()
        self._wholes = Marks[ref[nn.Module]]()
        self._serials = count()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow all modules of all threads: no module is changed."""
        hooks = (
            register_module_forward_pre_hook(self._begins),
            register_module_forward_hook(self._ends, always_call=True),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def running(self) -> tuple[tuple[_Running, ...], int]:
        """What runs in this thread, for one that it starts: see ``go_on``."""
        return tuple(self._stack()), getattr(self._local, "forward", 0)

    def go_on(self, running: tuple[tuple[_Running, ...], int]) -> None:
        """Let this thread run within what ran where it was started."""
        self._local.stack, self._local.forward = list(running[0]), running[1]

    def place(self) -> Place | None:
        """Where the program is; None: outside the model that is looked at."""
        stack = self._stack()
        if not stack:
            return None if self._model is not None else Place(self.line(), -1, 0, is_module=False)
        known = self._known(stack)
        if known is None:
            return None
        name, root = known
        read, shape = stack[-1].read, stack[-1].shape
        return Place(
            name,
            root,
            self._local.forward,
            next((one.shape[0] for one in stack if one.shape), None),
            math.prod(shape[1:-1]) if len(shape) > 2 else None,
            call=stack[-1].call,
            read=None if read is None or read.is_inference() else (ref(read), read._version),
        )

    def line(self) -> str:
        """The line of the program that runs, "train.py:12, attend"."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_NOT_OF_PROGRAMS):
            frame = frame.f_back
        if frame is None:
            return "?"
        function = frame.f_code.co_name
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" + (
            "" if function.startswith("<") else f", {function}"
        )

    def _stack(self) -> list[_Running]:
        stack: list[_Running] | None = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    def _begins(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        stack = self._stack()
        if not stack:
            self._local.forward = next(self._forwards)
        read = None
        if torch._C._get_tracing_state() is None:
            with torch._C.DisableTorchFunction():  # no recording need see this
                if args and isinstance(args[0], Tensor) and not args[0].is_nested:
                    read = args[0]
                if not stack:
                    named = sys._getframe(1).f_locals.get("kwargs")  # which PyTorch gives to no hook of all modules
                    for x in (*args, *(named.values() if type(named) is dict else ())):
                        if type(x) is Tensor and not x.is_nested:
                            self._on_input(x)
        stack.append(_Running(module, read, next(self._calls)))
        self._on_begin(module)

    def _ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        stack = self._stack()
        for place in range(len(stack) - 1, -1, -1):  # those above it that raised something have not ended by themselves
            if stack[place].module is module:
                del stack[place:]
                return

    def _known(self, stack: Sequence[_Running]) -> tuple[str, int] | None:
        """The name of the innermost module, and a number for what it begins at."""
        if self._model is not None:
            names = self._names_of(self._model)
            for one in reversed(stack):
                if (name := names.of(one.module)) is not None:
                    return name or type(one.module).__name__, names.serial
            return None
        innermost = stack[-1].module
        for module in (self._whole_of(stack[0].module), *(one.module for one in stack)):
            names = self._names_of(module)
            if (name := names.of(innermost)) is not None:
                return name or type(innermost).__name__, names.serial
        return None

    def _whole_of(self, outermost: nn.Module) -> nn.Module:
        """The model whose method calls the outermost module, if it is a part of it, as the encoder in ``generate``."""
        known = self._wholes.get(outermost)
        if known is not None and (found := known()) is not None:
            return found
        whole = outermost
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_varnames[:1] == ("self",) and frame.f_code.co_argcount:
                owner: Any = frame.f_locals.get("self")
                is_other = issubclass(type(owner), nn.Module) and owner is not whole
                if is_other and self._names_of(owner).of(outermost) is not None:
                    whole = owner
            frame = frame.f_back
        self._wholes.set(outermost, ref(whole))
        return whole

    def _names_of(self, root: nn.Module) -> "_Names":
        names = self._names.get(root)
        if names is None:
            # Copies that DataParallel makes for each pass are one model.
            serial = -2 if getattr(root, "_is_replica", False) else next(self._serials)
            names = _Names(root, serial)
            self._names.set(root, names)
        return names


class _Names:
    """The qualified names of the modules within a module."""

    def __init__(self, root: nn.Module, serial: int) -> None:
        self._root, self.serial = ref(root), serial
        self._names, self._strangers = Marks[str](), Marks[bool]()
        self._read()

    def of(self, module: nn.Module) -> str | None:
        """None: it is none of them."""
        if self._names.get(module) is None and not self._strangers.get(module):
            self._read()  # it may have come since
            self._strangers.set(module, self._names.get(module) is None)
        return self._names.get(module)

    def _read(self) -> None:
        for name, module in () if (root := self._root()) is None else root.named_modules():
            self._names.set(module, ".".join(part for part in name.split(".") if part != "_orig_mod"))
