"""Observe every Nth forward pass of a program. The passes between them run as without us, but for one hook.

A global hook of PyTorch sees each call of a module. It costs a microsecond, of which half is PyTorch's own. Hooks of
the modules themselves would cost less, but would be saved and copied with the program's model.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from mhaviz.observe.compiled import hooks_unmentioned
from mhaviz.observe.handlers import one_line
from mhaviz.observe.marks import Marks
from mhaviz.observe.mode import Observer
from mhaviz.observe.modules import values_by_name

_CALL = nn.Module._call_impl.__code__
"""Code of each call of a module."""

_COMPILED = "_orig_mod"
"""Name of the module that ``torch.compile`` has compiled, within the module that it returns."""


@dataclass
class _Passes:
    """Number of passes of an outermost module so far; None for a module that runs within others."""

    number: int | None = 0


@dataclass
class _Sample:
    """A pass that is observed.

    Attributes:
        module: the outermost module.
        number: number of its pass.
        is_training: whether it was in training mode.
        stack: ends the observation.
        depth: calls of the module within itself.
    """

    module: nn.Module
    number: int
    is_training: bool
    stack: ExitStack = field(default_factory=ExitStack)
    depth: int = 0


class SampledPasses:
    """Counts the forward passes of a program, and observes every Nth of them.

    A pass is a call of an outermost module, which no other module has called: in training and in evaluation, in each of
    several forward passes of a step, and for each token that a decoder writes. Each outermost module has passes of its
    own, which are counted from 0.

    Args:
        observer: observes the passes.
        every: N.
        model: module whose calls are the passes, wherever it is called; None: all outermost modules.
        on_end: called after each observed pass with its number, and whether the module was in training mode. Its
            exceptions do not reach the program.

    Attributes:
        n_passes: number of passes so far, of the outermost module with the most.
    """

    def __init__(
        self, observer: Observer, every: int, model: nn.Module | None, on_end: Callable[[int, bool], None]
    ) -> None:
        self._observer, self._every, self._model, self._on_end = observer, every, model, on_end
        self._passes, self._local = Marks[_Passes](), threading.local()
        self.n_passes = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count passes, and observe every Nth, in all threads."""
        with hooks_unmentioned():
            hook = register_module_forward_pre_hook(self._begins)
            try:
                yield
            finally:
                hook.remove()
                self._leave()

    @property
    def sample(self) -> _Sample | None:
        """The pass that is observed in this thread; None: none is."""
        return getattr(self._local, "sample", None)

    def _begins(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.compiler.is_compiling():  # the hook would become part of what is compiled
            return
        passes = self._passes.get(module)
        if passes is None:
            self._passes.set(module, passes := _Passes(0 if self._may_be_outermost(module) else None))
        if passes.number is None:
            return
        if self._is_within():
            if self.sample is not None:
                self.sample.depth += module is self.sample.module
        else:
            self._leave()
            number, passes.number = passes.number, passes.number + 1
            self.n_passes = max(self.n_passes, passes.number)
            if number % self._every == 0:
                self._begin(_Sample(module, number, module.training), args, values_by_name(sys._getframe(1)))

    def _may_be_outermost(self, module: nn.Module) -> bool:
        """Return whether a module that has not run before may begin a pass."""
        if torch._C._current_graph_task_id() != -1 or getattr(module, "_is_replica", False):
            return False  # activation checkpointing runs it again, or DataParallel has copied it for this pass
        if self._model is not None:
            return module is self._model or module._modules.get(_COMPILED) is self._model
        return not self._is_within()

    def _is_within(self) -> bool:
        """Return whether the module that begins has been called by another, of which it is a part or a copy.

        With a model, this is so if the model has been called around it, as by what ``torch.compile`` has made of it.
        """
        frame, n_calls = sys._getframe(1), 0
        while frame is not None:  # type: ignore[redundant-expr]
            if frame.f_code is _CALL:
                n_calls += 1
                if n_calls > 1 and (self._model is None or self._is_counted(frame.f_locals.get("self"))):
                    return True
            frame = frame.f_back  # type: ignore[assignment]
        return False

    def _is_counted(self, module: Any) -> bool:
        passes = self._passes.get(module)
        return passes is not None and passes.number is not None

    def _begin(self, sample: _Sample, args: Sequence[Any], by_name: Sequence[Any]) -> None:
        try:
            hook = register_module_forward_hook(self._ends, always_call=True)
            sample.stack.callback(hook.remove)
            sample.stack.enter_context(self._observer.watching_pass(sample.module, args, by_name))
        except Exception as error:
            sample.stack.close()
            self._observer.log.miss(f"pass {sample.number}: not observed, {one_line(error)}")
            return
        self._local.sample = sample

    def _ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        sample = self.sample
        if sample is None or module is not sample.module:
            return
        if sample.depth:
            sample.depth -= 1
            return
        self._leave()
        try:
            self._on_end(sample.number, sample.is_training)
        except Exception as error:
            self._observer.log.miss(f"pass {sample.number}: not shown, {one_line(error)}")

    def _leave(self) -> None:
        """End the observation in this thread; a pass that Ctrl-C has ended is observed until then."""
        if (sample := self.sample) is not None:
            self._local.sample = None
            sample.stack.close()
