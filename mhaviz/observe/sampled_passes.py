"""Observe every Nth forward pass of a program. The passes between them run as without us, but for one hook of a module.

A global hook of PyTorch sees each call of each module. It takes 2 µs for each, a fiftieth of the time of a small model.
So it listens only until it has seen the modules whose calls are passes, which then have hooks themselves, and again
while a pass is sampled, to find others that have come since.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from mhaviz.observe.compiled import hooks_unmentioned
from mhaviz.observe.handlers import one_line
from mhaviz.observe.marks import Marks
from mhaviz.observe.mode import Observer
from mhaviz.observe.modules import values_by_name

_CALL = nn.Module._call_impl.__code__
"""Code of each call of a module."""

_COMPILED = "_orig_mod"
"""Name of the module that ``torch.compile`` has compiled, within the module that it returns."""

_STEPS = 4
"""Number of steps of an optimizer without a pass after which other modules are looked for."""


@dataclass
class _Passes:
    """The passes of a module.

    Attributes:
        number: number of passes so far; None: it runs within others.
        hook: its hook; None: it has none.
        has_attention: whether attention was observed in one of them.
    """

    number: int | None = None
    hook: RemovableHandle | None = None
    has_attention: bool = False


@dataclass
class _Sample:
    """A pass that is observed.

    Attributes:
        module: the outermost module.
        number: number of its pass.
        is_training: whether it was in training mode.
        hook: tells its end.
        stack: ends the observation.
        depth: calls of the module within itself.
    """

    module: nn.Module
    number: int
    is_training: bool
    hook: RemovableHandle | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    depth: int = 0


class _Hook:
    """Hook of a module. A copy of the module, or a file that it is saved in, has a hook that does nothing."""

    def __init__(self, begins: Callable[[nn.Module, Sequence[Any], FrameType], None]) -> None:
        self._begins = begins

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not torch.compiler.is_compiling():  # it would become part of what is compiled
            self._begins(module, args, sys._getframe(1))

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, ({}, "get")  # which returns the second of two arguments, as a hook may


class SampledPasses:
    """Counts the forward passes of a program, and observes every Nth of them.

    A pass is a call of an outermost module, which no other module has called: in training and in evaluation, in each of
    several forward passes of a step, and for each token that a decoder writes. Each outermost module has passes of its
    own, counted from 0. A module that first runs after others is found when a pass of these is sampled, or when an
    optimizer has taken some steps without them, and is counted from the number of passes that there were by then.

    Args:
        observer: observes the passes.
        every: N.
        model: module whose calls are the passes, wherever it is called; None: all outermost modules.
        on_end: called after each observed pass with its number, and whether the module was in training mode. Returns
            whether attention was seen. Its exceptions do not reach the program.

    Attributes:
        n_passes: number of passes so far, of the outermost module with the most.
    """

    def __init__(
        self, observer: Observer, every: int, model: nn.Module | None, on_end: Callable[[int, bool], bool]
    ) -> None:
        self._observer, self._every, self._model, self._on_end = observer, every, model, on_end
        self._passes, self._local = Marks[_Passes](), threading.local()
        self._listening: RemovableHandle | None = None
        self._steps_without_pass = self._found_at = self.n_passes = 0
        self._hook, self._kept_hooks = _Hook(self._begins), list[RemovableHandle]()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count passes, and observe every Nth, in all threads."""
        with ExitStack() as stack:
            stack.enter_context(hooks_unmentioned())
            stack.callback(register_optimizer_step_post_hook(self._stepped).remove)
            stack.callback(self._end)
            self._listen(self.n_passes)
            for module in self._passes.objects():  # of which it was known before that their calls are passes
                self._count(module, self._passes.get(module) or _Passes())
            yield

    def _end(self) -> None:
        self._leave()
        self._stop_listening()
        for module in self._passes.objects():
            passes = self._passes.get(module)
            if passes is not None and passes.hook is not None:
                passes.hook.remove()
                passes.hook = None

    @property
    def sample(self) -> _Sample | None:
        """The pass that is observed in this thread; None: none is."""
        return getattr(self._local, "sample", None)

    def _listen(self, number: int) -> None:
        """Look for modules whose calls are passes, and number these from here on."""
        if self._listening is None:
            self._found_at = number
            self._listening = register_module_forward_pre_hook(_Hook(self._hears))

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.remove()
            self._listening = None

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Note a step of an optimizer: the model that it trains may be another than those that are counted."""
        self._steps_without_pass += 1
        if self._steps_without_pass > _STEPS and self._model is None:
            self._listen(self.n_passes)

    def _hears(self, module: nn.Module, args: Sequence[Any], frame: FrameType) -> None:
        passes = self._passes.get(module)
        if passes is None:
            passes = _Passes(self._found_at if self._may_be_outermost(module) else None)
            self._passes.set(module, passes)
            if passes.number is not None:
                self._count(module, passes)
                self._begins(module, args, frame)
        elif passes.number is not None and passes.hook is None:
            self._begins(module, args, frame)

    def _count(self, module: nn.Module, passes: _Passes) -> None:
        """Let the hook of a module count its passes."""
        has_fast_path = isinstance(module, nn.TransformerEncoderLayer)  # which is not taken beside hooks
        if passes.number is not None and passes.hook is None and not has_fast_path:
            passes.hook = module.register_forward_pre_hook(self._hook)

    def _begins(self, module: nn.Module, args: Sequence[Any], frame: FrameType) -> None:
        passes = self._passes.get(module)
        if passes is None or passes.number is None:
            return
        if self._is_within():
            if self.sample is not None:
                self.sample.depth += module is self.sample.module
            return
        self._leave()
        self._steps_without_pass = 0
        number, passes.number = passes.number, passes.number + 1
        self.n_passes = max(self.n_passes, passes.number)
        if number % self._every == 0:
            if passes.has_attention:
                self._listen(number)
            self._begin(_Sample(module, number, module.training), args, values_by_name(frame))
        elif passes.has_attention and passes.hook is not None:
            self._stop_listening()

    def _may_be_outermost(self, module: nn.Module) -> bool:
        """Return whether a module that has not been seen before may begin a pass."""
        if torch._C._current_graph_task_id() != -1 or getattr(module, "_is_replica", False):
            return False  # activation checkpointing runs it again, or DataParallel has copied it for this pass
        if self._model is not None:
            return module is self._model or module._modules.get(_COMPILED) is self._model
        return not self._is_within()

    def _is_within(self) -> bool:
        """Return whether the module that begins has been called by another.

        With a model, this must be the model, as what ``torch.compile`` has made of it calls the model itself.
        """
        n_calls = 0
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is _CALL:
                n_calls += 1
                if n_calls > 1 and (self._model is None or self._is_counted(frame.f_locals.get("self"))):
                    return True
            frame = frame.f_back
        return False

    def _is_counted(self, module: Any) -> bool:
        passes = self._passes.get(module)
        return passes is not None and passes.number is not None

    def _begin(self, sample: _Sample, args: Sequence[Any], by_name: Sequence[Any]) -> None:
        try:
            sample.hook = register_module_forward_hook(self._ends, always_call=True)
            sample.stack.enter_context(self._observer.watching_pass(sample.module, args, by_name))
        except Exception as error:
            self._observer.log.miss(f"pass {sample.number}: not observed, {one_line(error)}")
            self._close(sample)
        else:
            self._local.sample = sample

    def _ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        sample = self.sample
        if sample is None or module is not sample.module:
            return
        if sample.depth:
            sample.depth -= 1
            return
        # Without an output, the module may have raised an error: PyTorch then goes through all hooks as they are.
        self._leave(keeps_hooks=output is None)
        try:
            has_attention = self._on_end(sample.number, sample.is_training)
        except Exception as error:
            self._observer.log.miss(f"pass {sample.number}: not shown, {one_line(error)}")
        else:
            passes = self._passes.get(module)
            if passes is not None:
                passes.has_attention |= has_attention

    def _leave(self, keeps_hooks: bool = False) -> None:
        """End the observation in this thread. A pass that Ctrl-C has ended is observed until then.

        ``keeps_hooks``: hooks of all modules must stay until later.
        """
        if not keeps_hooks:
            for hook in self._kept_hooks:
                hook.remove()
            self._kept_hooks.clear()
        if (sample := self.sample) is not None:
            self._local.sample = None
            self._close(sample, keeps_hooks)

    def _close(self, sample: _Sample, keeps_hooks: bool = False) -> None:
        with self._observer.keeping_hooks(self._kept_hooks if keeps_hooks else None):
            sample.stack.close()
        if sample.hook is not None and keeps_hooks:
            self._kept_hooks.append(sample.hook)
        elif sample.hook is not None:
            sample.hook.remove()
