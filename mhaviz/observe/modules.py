"""Follow which module of a program runs, what it is called, and in which forward pass."""

import inspect
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
from torch.utils.hooks import RemovableHandle

from mhaviz.observe.marks import Marks

_NOT_OF_PROGRAMS = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parent.parent}/", "<")
"""Beginnings of the paths of files that are not a program's own."""

_THAT_RUN = str(Path(__file__).parent.parent / "checks")
"""Where probes run a layer: what called them is no part of it."""

_MOST_NAMES = 4096
"""Number of module names that are told apart."""


@dataclass(frozen=True)
class Place:
    """Where in a program an attention runs.

    Attributes:
        name: the module's qualified name, "blocks.0.attn", or "model 2.blocks.0.attn" if two models have modules of the
            same name; without a module, the line, "train.py:12, attend".
        module: the innermost module that has a name; None: no module runs.
        root: number of the module at which the name begins.
        forward: number of the forward pass, counted over all outermost modules; 0: no module runs.
        batch_size: first length of the first tensor that a module around it was called with; None: not known.
        length: number of positions in the input of the innermost module, along all axes between the first and the last;
            None: not known.
        call: number of the innermost module's call, counted over all modules; 0: no module runs.
        read: the tensor that the innermost module was called with, and its version; None: not known.
    """

    name: str = ""
    module: nn.Module | None = None
    root: int = -1
    forward: int = 0
    batch_size: int | None = None
    length: int | None = None
    call: int = 0
    read: "tuple[ref[Tensor], int] | None" = None

    @property
    def is_module(self) -> bool:
        """Whether ``name`` is a module's."""
        return self.module is not None


class _Running(NamedTuple):  # made for each call of a module: a frozen dataclass would take thrice as long
    module: nn.Module
    read: Tensor | None
    call: int

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.read is None else tuple(self.read.shape)


class RunningModules:
    """The modules that run in each thread, the outermost first, while ``followed``.

    Args:
        model: the module at which names begin; outside of it there are no places. None: names begin at the outermost
            module.
        on_input: called with each tensor that an outermost module is called with.
        on_begin: called with each module that begins, and with the arguments that it is called with by position.

    Attributes:
        kept_hooks: where hooks are put in place of being removed, while PyTorch goes through all of them; None: they
            are removed.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        on_input: Callable[[Tensor], object] = lambda x: None,
        on_begin: Callable[[nn.Module, Sequence[Any]], None] = lambda module, args: None,
    ) -> None:
        self._model, self._on_input, self._on_begin = model, on_input, on_begin
        self.kept_hooks: list[RemovableHandle] | None = None
        self._local = threading.local()
        self._forwards, self._calls = count(1), count(1)
        self._names = Marks[_Names]()
        self._models = Marks[ref[nn.Module]]()
        self._serials, self._names_called = count(), dict[tuple[str, int], str]()
        self._naming = threading.Lock()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow all modules in all threads, without changing them."""
        hooks = (
            register_module_forward_pre_hook(self._begins),
            register_module_forward_hook(self._ends, always_call=True),
        )
        try:
            yield
        finally:
            if self.kept_hooks is not None:
                self.kept_hooks += hooks
            else:
                for hook in hooks:
                    hook.remove()

    def is_running(self) -> bool:
        """Return whether any module runs in this thread."""
        return bool(getattr(self._local, "stack", None))

    def running(self) -> tuple[tuple[_Running, ...], int]:
        """Return what runs in this thread, for the ``go_on`` of a thread that it starts."""
        return tuple(self._stack()), getattr(self._local, "forward", 0)

    def go_on(self, running: tuple[tuple[_Running, ...], int]) -> None:
        """Let this thread run within the modules that ran where it was started."""
        self._local.stack, self._local.forward = list(running[0]), running[1]

    def place(self) -> Place | None:
        """Return where the program is; None: outside the model that is observed."""
        stack = self._stack()
        if not stack:
            return None if self._model is not None else Place(self.line())
        known = self._known(stack)
        if known is None:
            return None
        name, module, root = known
        read, shape = stack[-1].read, stack[-1].shape
        return Place(
            name,
            module,
            root,
            self._local.forward,
            next((one.shape[0] for one in stack if one.shape), None),
            math.prod(shape[1:-1]) if len(shape) > 2 else None,
            call=stack[-1].call,
            read=None if read is None or read.is_inference() else (ref(read), read._version),
        )

    def line(self) -> str:
        """Return the line of the program that runs, "train.py:12, attend"."""
        frame = _frame_of_program()
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
        self.begin(module, args, () if self._stack() else values_by_name(sys._getframe(1)))

    def begin(self, module: nn.Module, args: Sequence[Any], by_name: Sequence[Any] = ()) -> None:
        """Note that a module begins; ``by_name``: the arguments of an outermost module that are given by name."""
        stack = self._stack()
        if not stack:
            self._local.forward = next(self._forwards)
        read = None
        if torch._C._get_tracing_state() is None:
            with torch._C.DisableTorchFunction():  # recordings need not see this
                if args and isinstance(args[0], Tensor) and not args[0].is_nested:
                    read = args[0]
                if not stack:
                    for x in (*args, *by_name):
                        if type(x) is Tensor and not x.is_nested:
                            self._on_input(x)
        stack.append(_Running(module, read, next(self._calls)))
        self._on_begin(module, args)

    def _ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.end(module)

    def end(self, module: nn.Module) -> None:
        """Note that a module has ended."""
        stack = self._stack()
        for place in range(len(stack) - 1, -1, -1):  # those above it that raised an error have not ended by themselves
            if stack[place].module is module:
                del stack[place:]
                return

    def _known(self, stack: Sequence[_Running]) -> tuple[str, nn.Module, int] | None:
        """Return the name of the innermost module that has one, this module, and the number of the root of the name."""
        if self._model is not None:
            roots, modules = [self._model], [one.module for one in reversed(stack)]
        else:
            roots, modules = [self._model_of(stack[0].module), *(one.module for one in stack)], [stack[-1].module]
        for root in roots:
            names = self._names_of(root)
            for module in modules:
                if (name := names.of(module)) is not None:
                    return self._called(name or type(module).__name__, names.serial), module, names.serial
        return None

    def _called(self, name: str, root: int) -> str:
        """Return the name, after the number of its root if modules of several roots have one name, this or another."""
        if (called := self._names_called.get((name, root))) is None:
            several = list(self._names_called.items())  # other threads may add names
            roots = [*dict.fromkeys([*(one for (_, one), _ in several), root])]
            own = [text != one for (one, of), text in several if of == root]  # a model keeps its number, or none
            is_told = any(own) or any((text if own else one) == name for (one, _), text in several)
            called = f"model {roots.index(root) + 1}.{name}" if is_told else name
            if len(several) < _MOST_NAMES:  # modules may be made anew in each pass
                self._names_called[name, root] = called
        return called

    def _model_of(self, outermost: nn.Module) -> nn.Module:
        """Return the model that the outermost module is a part of.

        Its method calls the module, as ``generate`` calls the encoder, or it is a variable of a script, as in
        ``model.encoder(x)``.
        """
        known = self._models.get(outermost)
        if known is not None and (found := known()) is not None:
            return found
        whole = outermost
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            owners = [one for one in _owners(frame) if issubclass(type(one), nn.Module)]
            if any(one is whole for one in owners):  # it has a name of its own there
                owners = []
            for one in owners:
                if one is not whole and self._names_of(one).of(whole) is not None:
                    whole = one
            frame = frame.f_back
        self._models.set(outermost, ref(whole))
        return whole

    def _names_of(self, root: nn.Module) -> "_Names":
        if (names := self._names.get(root)) is not None:
            return names
        with self._naming:  # threads that meet a model at once would each give it a number
            if (names := self._names.get(root)) is None:
                # Copies that DataParallel makes for each pass count as one model.
                serial = -2 if getattr(root, "_is_replica", False) else next(self._serials)
                names = _Names(root, serial)
                self._names.set(root, names)
        return names


def values_by_name(frame: FrameType) -> Sequence[Any]:
    """Return the arguments that a module is called with by name. PyTorch does not pass them to global hooks; ``frame``:
    what has called the hook."""
    named = frame.f_locals.get("kwargs")
    return tuple(named.values()) if type(named) is dict else ()


def is_of_program(file: str) -> bool:
    """Return whether a file of code is a program's own, not PyTorch's or ours."""
    return not file.startswith(_NOT_OF_PROGRAMS)


def _frame_of_program() -> FrameType | None:
    """Return the innermost frame of the program; None: it has none, or all that runs it is ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_of_program(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_THAT_RUN):
            return None
        frame = frame.f_back
    return frame


def line_of_program() -> tuple[str, int]:
    """Return the file and the line of the program that runs; "" and 0: not known."""
    frame = _frame_of_program()
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _owners(frame: FrameType) -> list[Any]:
    """Return the object of a method, or the variables of a script.

    The variables of other functions are not read, as this would keep them alive.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return list(frame.f_locals.values())
    is_method = code.co_varnames[:1] == ("self",) and code.co_argcount
    return [frame.f_locals.get("self")] if is_method else []


class _Names:
    """The qualified names of the modules within a module."""

    def __init__(self, root: nn.Module, serial: int) -> None:
        self._root, self.serial = ref(root), serial
        self._names, self._foreign = Marks[str](), Marks[bool]()
        self._read()

    def of(self, module: nn.Module) -> str | None:
        """Return the name of a module; None: it is not within the root."""
        if self._names.get(module) is None and not self._foreign.get(module):
            self._read()  # it may have been added since
            self._foreign.set(module, self._names.get(module) is None)
        return self._names.get(module)

    def _read(self) -> None:
        for name, module in () if (root := self._root()) is None else root.named_modules():
            self._names.set(module, ".".join(part for part in name.split(".") if part != "_orig_mod"))
