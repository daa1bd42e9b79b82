"""A function mode that sees every PyTorch function that a program calls, and finds attention among them.

While a ``torch.overrides.TorchFunctionMode`` is active, it is called in place of each function, so no line of the
program has to change. Every function runs with its own arguments and its result is returned, so what the program
computes is the same bit for bit.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError, counted, parameter
from mhaviz.observe.by_hand import ByHand
from mhaviz.observe.compiled import run_uncompiled
from mhaviz.observe.descent import FixedRows, FixedSides
from mhaviz.observe.fast_path import beside_fast_path
from mhaviz.observe.flex import follow_flex, is_flex
from mhaviz.observe.functions import COPIES, DROPOUTS, is_of_pytorch, writes
from mhaviz.observe.fused import Fused
from mhaviz.observe.handlers import Done, Handler, VisitorError, guarded, one_line, safely, unseen
from mhaviz.observe.inputs import SeenInputs
from mhaviz.observe.layouts import Layouts
from mhaviz.observe.log import MOST_LINES, Log, SoftmaxNote
from mhaviz.observe.merging import Merging
from mhaviz.observe.modules import Place, RunningModules, line_of_program
from mhaviz.observe.observed import ObservedCall, order_by_sizes
from mhaviz.observe.operators import Operators
from mhaviz.observe.order import OWN_KEYS, Order, order_of, place_of_queries
from mhaviz.observe.places import SeenPlaces
from mhaviz.observe.recurrence import Recurrence
from mhaviz.observe.replacing import calls_followed, scripted_as_written
from mhaviz.observe.sides import sides_of_call, sides_of_layer
from mhaviz.observe.steps import OnStep, Step, no_steps
from mhaviz.observe.threads import threads_followed
from mhaviz.observe.token_regions import Sides
from mhaviz.observe.tracing import Tracer
from mhaviz.observe.weights import WeightsByHand

OnObserved = Callable[[ObservedCall], int | None]
"""Callback for each attention. The tensors are the program's own, and only valid during the call. The result is the
number by which ``Observer.log`` refers to the attention."""

Wanted = Callable[[Place, int, int], bool]
"""Callback that decides whether an attention is wanted, by its place and its numbers of queries and keys."""


class Observer:
    """Observes a program: holds the mode, and the replacements of functions while it is active.

    Args:
        on_observed: called with each attention. Its exceptions do not reach the program, except ``VisitorError``.
        model: model whose attention is observed, and within which it is named; None: every attention that runs.
        is_wanted: see ``Wanted``.
        is_asked: returns whether the weighted sums of a module are shown even if they are no attention.
        on_refused: called with the place of an attention that cannot be shown, and its numbers of queries and keys.
        on_weighed: called with the number of an attention whose output is multiplied by a number for each of its heads.
        on_step: called with each step of an attention; None: steps are not told. Its exceptions do not reach the
            program.
        log, inputs: see below; None: new ones.

    Attributes:
        inputs: token ids that the program has looked up.
        log: what was not seen, is not known, or is left out.
        operations: how many calls were seen.
        handlers: handler of each of PyTorch's functions that has been seen; None: its calls are not observed.
        followers: followers of the program's tensors, each with a quick test that a call does not concern it.
        is_active: whether calls are observed.
        has_forked: whether the program has forked while it was observed.
        until_last: closed when the last thread stops watching.
        here: of each thread, whether its calls are seen, and the number of the attention that has just been shown.
    """

    def __init__(
        self,
        on_observed: OnObserved,
        model: nn.Module | None = None,
        is_wanted: Wanted = lambda place, q_length, k_length: True,
        is_asked: Callable[[Place], bool] = lambda place: False,
        on_weighed: Callable[[int], None] = lambda attention: None,
        on_refused: Callable[[Place, Sequence[int]], None] = lambda place, lengths: None,
        on_step: OnStep | None = None,
        log: Log | None = None,
        inputs: SeenInputs | None = None,
    ) -> None:
        self._on_observed, self._is_wanted, self._is_asked = on_observed, is_wanted, is_asked
        self._on_refused = on_refused
        self._has_model, self.inputs, self.log = model is not None, inputs or SeenInputs(), log or Log()
        reads, begins = safely(self._reads, self._failed), safely(self._begins, self._failed)
        self._modules = RunningModules(model, reads, begins)
        self.fixed = FixedRows(self._modules.is_running)
        self._axes, self._tracer = (
            Layouts(self.fixed),
            Tracer(self.fixed, self.inputs, lambda x: self._axes.are_made(x)),
        )
        self._places = SeenPlaces(self._tracer.sequences)
        self._merging = Merging(self.log, on_weighed, self._axes)
        self._recurrence = Recurrence()
        step = no_steps if on_step is None else partial(self._take_step, on_step)
        weights = WeightsByHand(
            self._show,
            self._unmet,
            self.log.meet,
            self._unseen,
            self.fixed,
            self._axes,
            self._tracer,
            self._module,
            self._refuse_unless_asked,
            step,
        )
        self._by_hand = ByHand(weights, self._merging.add_sums, self._failed, step, self._follow_view)
        self._fused = Fused(self._observed_call, self._is_passed_over, self._failed, step)
        self._flex = guarded(partial(follow_flex, self._observed_call), self._failed)
        self._operators = Operators(self._observed_call, self.log.miss, self._unseen, self._failed)
        self.followers = [
            (one.may_follow, safely(one.follow, self._failed))
            for one in (self.fixed, self._axes, self._tracer, self._merging, self._recurrence)
        ]
        self._lock, self._n_active, self.until_last = threading.RLock(), 0, ExitStack()
        self.here = threading.local()
        self.is_active = self.has_forked = False
        self.operations = 0
        self._outside: dict[str, None] = {}
        self.handlers: dict[Any, Handler | None] = {**self._by_hand.handlers(), **self._fused.handlers()}
        _observers.add(self)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe what runs within, in this thread and in those that it starts. The block may be nested."""
        with self._lock:
            if not self._n_active:
                self._begin()
            self._n_active += 1
        try:
            with self._seeing():
                yield
        finally:
            with self._lock:
                self._n_active -= 1
                if not self._n_active:
                    self.until_last.close()

    @contextmanager
    def watching_pass(self, module: nn.Module, args: Sequence[Any], by_name: Sequence[Any]) -> Iterator[None]:
        """Observe the rest of the call of an outermost module that has just begun, and whose hooks run."""
        with self.watching():
            self._modules.begin(module, args, by_name)
            try:
                yield
            finally:
                self._modules.end(module)

    @contextmanager
    def keeping_hooks(self, hooks: list[RemovableHandle] | None) -> Iterator[None]:
        """Put the hooks of an observation that ends in the block into a list, and do not remove them; None: do so."""
        self._modules.kept_hooks = hooks
        try:
            yield
        finally:
            self._modules.kept_hooks = None

    def _begin(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(scripted_as_written())
            stack.enter_context(self._modules.followed())
            stack.enter_context(beside_fast_path(lambda mode: isinstance(mode, _Mode), self.log.miss, self._take))
            stack.enter_context(run_uncompiled())
            scripted = safely(self._scripted, self._failed)
            stack.enter_context(calls_followed(torch.jit.ScriptFunction, "__call__", scripted))
            stack.enter_context(threads_followed(self._in_thread))
            stack.callback(self.end)
            self.until_last = stack.pop_all()
        self.is_active = True

    @contextmanager
    def _seeing(self) -> Iterator[None]:
        """Activate the mode in this thread, unless it is active there."""
        if getattr(self.here, "is_seen", False):
            yield
            return
        self.here.is_seen = True
        try:
            with _Mode(self):
                yield
        finally:
            self.here.is_seen = False

    @property
    def missed(self) -> list[str]:
        """See ``Log.missed``."""
        return self.log.missed

    @property
    def outside(self) -> list[str]:
        """Message about attention that runs outside of the model; empty: none has. Of the model, nothing is missed."""
        if not self._outside:
            return []
        first, *others = self._outside
        more = f" and {counted(len(others), 'other line')}" if others else ""
        return [f"{first}{more}: attention runs outside of the recorded model, and is not drawn"]

    def handler_for(self, func: Any) -> Handler | None:
        """Find the handler of a function that is not in ``handlers``, and store it there if the function is PyTorch's.

        None: its calls are not observed.
        """
        try:
            handler = (
                self._flex if is_flex(func) else self._operators.handler_for(func) or self._by_hand.handler_for(func)
            )
        except Exception as error:  # func may be anything that a program passes to PyTorch's protocol
            self._failed(error)
            handler = None
        if is_of_pytorch(func):  # others would live on with all that they close over
            self.handlers[func] = handler
        return handler

    def end(self) -> None:
        """Stop observing, in every thread."""
        self.is_active = False

    def _in_thread(self) -> Callable[[], Any]:
        running = self._modules.running()

        @contextmanager
        def within() -> Iterator[None]:
            self._modules.go_on(running)
            with self._seeing():
                yield

        return within

    def _begins(self, module: nn.Module, args: Sequence[Any]) -> None:
        self.fixed.begins(module)
        self._tracer.begins(module, args)
        if not hasattr(self.here, "is_seen") and torch._C._current_graph_task_id() == -1:  # see ``_place_to_show``
            self._note_thread(module)
        if isinstance(module, torch.jit.ScriptModule) and (place := self._modules.place()) is not None:
            self.log.miss(f"{place.name}: runs compiled by torch.jit, and is not seen")

    def _note_thread(self, module: nn.Module) -> None:
        """Note once that an unseen thread runs a module that may hold attention: of the model, or with parameters."""
        place = self._modules.place()
        if place is not None and (self._has_model or next(module.parameters(), None) is not None):
            self.log.miss(f"{place.name}: runs in a thread that was started before the recording, and is not seen")
            self.here.is_seen = False

    def _scripted(self, done: Done) -> None:
        function = done.args[0]
        graph = function.inlined_graph if getattr(self.here, "is_seen", False) else None
        for name in ("softmax", "scaled_dot_product_attention"):
            if graph is not None and graph.findNode(f"aten::{name}") is not None:
                self._unseen(f"{name} in {function.name}, a function compiled by torch.jit")

    def _reads(self, x: Tensor) -> None:
        """Note a tensor that the program's model is given."""
        self._axes.of(x, is_input=True)
        self._tracer.read(x)

    def _take(self, result: Any, seen: Any) -> None:
        self._axes.take(result, seen)
        self._tracer.take(result, seen)
        self._recurrence.take(result, seen)

    def _follow_view(self, done: Done) -> None:
        """Follow a view of weights or values that was made here, and not by the program."""
        self._tracer.follow(done)
        self._recurrence.follow(done)

    def _take_step(self, on_step: OnStep, *args: Any, **kwargs: Any) -> None:
        file, line = line_of_program()
        on_step(replace(Step(*args, **kwargs), module=self._module(), file=file, line=line))

    def _module(self) -> str:
        place = self._modules.place()
        return place.name if place is not None and place.is_module else ""

    def _unseen(self, what: str) -> None:
        """Note once that something looks like attention and is not shown."""
        if torch._C._current_graph_task_id() == -1 and (place := self._modules.place()) is not None:
            self.log.miss(f"{place.name}: {what}, which looks like attention and is not drawn")

    def _observed_call(
        self, given: Sequence[Tensor], read: Callable[[str], ObservedCall], lengths: tuple[int, int] | None
    ) -> None:
        def arranged(place: Place) -> ObservedCall:
            ran = read(place.name)
            order = self._order_of_call(ran.call, place, given)
            return replace(ran.in_order(order), sides=self._sides_of_call(ran.call, given, order))

        self._show(given, arranged, lengths, self.fixed.sides(*given))

    def _is_passed_over(self, tensors: Sequence[Tensor], q_length: int, k_length: int) -> bool:
        """Return whether to skip the attention: it is not wanted and has been counted, or it cannot be read."""
        self._note_if_outside()
        return self._place_to_show(tensors, (q_length, k_length)) is None

    def _order_of_call(self, call: AttentionCall | AttentionWeights, place: Place, given: Sequence[Tensor]) -> Order:
        """Return the order of the axes, as the program has made its queries and keys, or as PyTorch documents SDPA: (…,
        heads, length, features)."""
        query, key = (call.query, call.key) if isinstance(call, AttentionCall) else given[:2]
        features = [self._axes.of(x).axes[-1] for x in given[:2]]
        has_layers = given[0] is not query  # layers of its own make the features
        order = self._order_of_axes(query, key, place)
        return order.of_tokens(features, has_layers=has_layers)

    def _sides_of_call(self, call: AttentionCall | AttentionWeights, given: Sequence[Tensor], order: Order) -> Sides:
        query, key = given[:2]
        of = [self._tracer.get(x) for x in (query, key)]
        asked = call.query if isinstance(call, AttentionCall) else query  # flex_attention has weights of its own
        if asked is query or (asked.shape, asked.stride()) == (query.shape, query.stride()):
            return sides_of_call(order, query, key, of)
        if query.ndim == 4:  # (batch_size, length, n_heads, features), as operators are given
            turned = [traced and traced.moved(lambda numbers: numbers.transpose(1, 2)) for traced in of]
            return sides_of_call(order, query.transpose(1, 2), key.transpose(1, 2), turned)
        if query.shape[-1] != call.shape[1] * asked.shape[-1]:  # (length of all texts, n_heads, features)
            return None, None
        queries, keys = sides_of_layer(of, (query, key))
        return queries, keys and keys.extended(call.shape[3])

    def _order_of_axes(self, query: Tensor, key: Tensor, place: Place) -> Order:
        if query.ndim == key.ndim > 3 and key.shape[-3] not in (1, query.shape[-3]):  # grouped-query attention
            order = None
        else:
            layout, ndim = self._axes.of_call(query, key), query.ndim
            order = order_of(layout, range(ndim))
            by_key = dict(enumerate(zip(key.shape, key.stride(), strict=True), ndim - key.ndim))
            there = [axis for axis in range(ndim - 2) if min(by_key.get(axis, (0,))) and by_key[axis][0] > 1]
            alone = [axis for axis in range(ndim - 1) if axis not in there and query.shape[axis] > 1]
            if layout is not None and place_of_queries(layout, alone, ndim - 2, ndim - 1) != ndim - 2:
                raise MhavizError(
                    "its axis of queries holds heads, and an axis before it queries, whose keys are repeated; not shown"
                )
        if order is None and query.ndim > 4 and query.shape[-2] == 1:
            raise MhavizError(OWN_KEYS)
        if order is None and query.ndim > 3:
            return Order(tuple(((n, axis == query.ndim - 3),) for axis, n in enumerate(query.shape[:-2])))
        return order or order_by_sizes(query.shape[:-2], place.batch_size)

    def _failed(self, error: Exception) -> None:
        """Note an error that was raised while the program was followed."""
        try:
            place = self._modules.place()
        except Exception:  # finding the place may be what failed
            self.log.miss(f"{self._modules.line()}: not followed, {one_line(error)}")
            return
        if place is not None:
            self.log.miss(f"{place.name}: not followed, {one_line(error)}")

    def _unmet(self, why: str) -> tuple[SoftmaxNote, ...]:
        """Note why the weights of a softmax are not drawn, if they never meet values."""
        place = self._modules.place()
        if place is None or torch._C._current_graph_task_id() != -1:  # see ``_place_to_show``
            return ()
        return (self.log.begin(f"{place.name}: {why}"),)

    def _show(
        self,
        tensors: Sequence[Tensor],
        arranged: Callable[[Place], ObservedCall],
        lengths: Sequence[int] | None,
        sides: FixedSides,
    ) -> None:
        """Show an attention, unless it cannot be read now, or it is no attention and nobody asked for it.

        Errors are noted, and do not reach the program. ``lengths``: the numbers of queries and keys; None: not known.
        """
        if not sides.why:
            self._note_if_outside()
        place = self._place_to_show(tensors, lengths)
        if place is None:
            return
        device = tensors[0].device.type
        try:
            with unseen(), torch.autocast(device, enabled=False):
                if sides.why:
                    self._refuse_unless_asked(place, sides.why)
                observed = self._with_places(arranged(place))
                run = self._recurrence.run(tensors)
                observed = replace(observed, are_fixed=sides.are_fixed, place=place, run=run)
                self._axes.note_queries(observed.order.tokens.features)
                self.here.attention = self._on_observed(observed)
        except VisitorError:
            raise
        except MhavizError as error:
            self.log.miss(f"{place.name}: {error}")
            self._on_refused(place, lengths or ())
        except Exception as error:
            self.log.miss(f"{place.name}: not shown, {one_line(error)}")

    def _with_places(self, observed: ObservedCall) -> ObservedCall:
        """Return the call with the tokens that its queries and keys are."""
        places = self._places.of(observed.sides)
        tokens = replace(observed.order.tokens, places=places)
        return replace(observed, order=replace(observed.order, tokens=tokens))

    def _note_if_outside(self) -> None:
        """Note where an attention runs that is not within the model."""
        is_outside = self._has_model and torch._C._current_graph_task_id() == -1 and self._modules.place() is None
        if is_outside and len(self._outside) < MOST_LINES:
            self._outside[self._modules.line()] = None

    def _refuse_unless_asked(self, place: Place, why: str) -> None:
        if not self._is_asked(place):
            raise MhavizError(f"{why}; not drawn unless {parameter('module')} names it")
        self.log.miss(f"{place.name}: {why}")

    def _place_to_show(self, tensors: Sequence[Tensor], lengths: Sequence[int] | None) -> Place | None:
        """Return where the attention runs, if it is wanted and can be read; None: it is skipped."""
        if torch._C._current_graph_task_id() != -1:  # activation checkpointing computes it again in the backward pass
            return None
        place = self._modules.place()
        if place is None or (lengths is not None and not self._is_wanted(place, *lengths)):
            return None
        if (why := self._why_unseen(tensors)) is not None:
            self.log.miss(f"{place.name}: {why}")
            return None
        return place

    def _why_unseen(self, tensors: Sequence[Tensor]) -> str | None:
        if any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors):
            return "runs within a transform of torch.func, such as vmap, and is not recorded there"
        if any(x.is_nested for x in tensors):
            return "computes with nested tensors, and is not recorded"
        if others := [x for x in tensors if type(x) not in (Tensor, nn.Parameter)]:
            return f"computes with a {type(others[0]).__name__}, which is no plain tensor, and is not recorded"
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return "is being captured as a CUDA graph, and is not recorded meanwhile"
        if tensors[0].is_meta or not all(x.numel() for x in tensors):
            return "computes with tensors that hold nothing"
        return None


_NO_TENSORS = frozenset({torch.Size, int, bool, float, str, torch.device, torch.dtype})
"""Types of results that hold no tensor to follow, such as a tensor's shape."""

_frame, _tracing_state = sys._getframe, torch._C._get_tracing_state  # looked up once, not at each call

_MAY_DO_NOTHING = frozenset(func for func in COPIES | DROPOUTS if not writes(func))
"""Functions that may return their argument as it is. Within a module there is then nothing new to know of it. Outside,
it is known as an input from here on."""

_OPTIMIZERS = f"{Path(torch.optim.__file__).parent}/"
"""Where optimizers call functions, outside of any forward pass. Skipping them halves the time of recorded training."""

_observers: WeakSet[Observer] = WeakSet()


def _forked_in_child() -> None:
    for observer in list(_observers):
        observer.end()


def _forked_in_parent() -> None:
    for observer in list(_observers):
        observer.has_forked |= observer.is_active


if hasattr(os, "register_at_fork"):  # nothing would read what a forked process records
    os.register_at_fork(after_in_child=_forked_in_child, after_in_parent=_forked_in_parent)


class _Mode(TorchFunctionMode):
    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer, self._handlers, self._followers = observer, observer.handlers, observer.followers

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        observer, kwargs = self._observer, kwargs or {}
        if not observer.is_active or _tracing_state() is not None:  # torch.jit would trace ours
            return func(*args, **kwargs)
        observer.operations += 1
        if _frame(1).f_code.co_filename.startswith(_OPTIMIZERS):  # optimizers make nothing that a model reads
            return func(*args, **kwargs)
        try:
            handler = self._handlers[func]
        except KeyError:
            handler = observer.handler_for(func)
        done = None if handler is None else handler(func, args, kwargs)
        result = func(*args, **kwargs) if done is None else done.result
        if type(result) in _NO_TENSORS:
            return result
        done = done or Done.of(func, args, kwargs, result)
        is_argument = func in _MAY_DO_NOTHING and result is done.first and observer.fixed.is_within()
        if is_argument and not done.named("inplace"):
            return result
        attention = observer.here.__dict__.pop("attention", None)
        if attention is not None:
            done = done._replace(attention=attention)
        for may_follow, follow in self._followers:
            if attention is not None or may_follow(done.func, done.args, done.kwargs):
                follow(done)
        return result
