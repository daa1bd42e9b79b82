"""Sees every function of PyTorch that a program calls, and catches attention among them.

A ``torch.overrides.TorchFunctionMode`` is called in place of each function while it is active, so a program is seen
without a line of it being changed. Every function runs with the arguments that it was given, and its result is handed
on: what the program computes is the same bit for bit.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.recording.by_hand import ByHand
from mhaviz.recording.caught import Caught, caught_call, caught_weights
from mhaviz.recording.compiled import run_uncompiled
from mhaviz.recording.flex import Flex, is_flex
from mhaviz.recording.fused import Fused, standing_in, unseen
from mhaviz.recording.inputs import SeenInputs
from mhaviz.recording.looks import VisitorError as VisitorError
from mhaviz.recording.looks import one_line
from mhaviz.recording.modules import Place, RunningModules
from mhaviz.recording.nearest import Nearest
from mhaviz.recording.operators import Operators, Read
from mhaviz.recording.threads import threads_followed

OnCaught = Callable[[Place, Caught], None]
"""Is called with each attention, while its tensors are what they were: they are the program's own."""

Wanted = Callable[[Place, int, int], bool]
"""Is asked of each attention, before it costs anything, with the numbers of its queries and keys."""


class Watch:
    """Watches a program: the mode, and what has to be replaced while it is active.

    Args:
        on_caught: is called with each attention. What it raises, the program is not told.
        model: watch its attention alone, and name it within the model; None: whatever runs.
        is_wanted: see ``Wanted``.

    Attributes:
        inputs: the numbers of tokens, and the patches of images, that were read.
        operations: how many functions were seen.
        missed: what was not seen, a line each.
    """

    def __init__(
        self,
        on_caught: OnCaught,
        model: nn.Module | None = None,
        is_wanted: Wanted = lambda place, q_length, k_length: True,
    ) -> None:
        self._on_caught, self._is_wanted = on_caught, is_wanted
        self._modules = RunningModules(model)
        self._nearest = Nearest(self._modules)
        self._by_hand = ByHand(self._caught_weights, self._nearest.softmax, self._failed)
        self._fused, self._flex = Fused(self._caught_call, self._is_passed_over), Flex(self._caught_flex)
        self._operators = Operators(self._caught_operator, self.miss)
        self.inputs = SeenInputs()
        self._process = os.getpid()
        self._is_active = False
        self.operations = 0
        self.missed: dict[str, None] = {}
        self._looks = {**self._by_hand.looks(), **self._fused.looks()}
        self._looks |= {func: _after(self._looks.get(func), look) for func, look in self.inputs.looks().items()}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs within, in this thread and in those that are started."""
        with ExitStack() as stack:
            stack.enter_context(self._modules.followed())
            stack.enter_context(standing_in())
            stack.enter_context(run_uncompiled())
            stack.enter_context(threads_followed(self._in_thread))
            self._is_active = True
            stack.callback(self._end)
            stack.enter_context(_Mode(self))
            yield

    def nearest(self) -> str:
        """What looked most like attention, of a program that had none; nothing if nothing did."""
        return self._nearest.text(self._by_hand.met_values)

    def miss(self, line: str) -> None:
        """Note what was not seen, once."""
        if len(self.missed) < _MOST_LINES:
            self.missed[line] = None

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run a function, and look at it if it may be of an attention."""
        if not self._is_active:
            return func(*args, **kwargs)
        self.operations += 1
        look = self._looks.get(func)
        if look is None:
            look = self._looks[func] = self._look_for(func)
        if look is _run:
            return func(*args, **kwargs)
        return look(func, args, kwargs)

    def _look_for(self, func: Any) -> Callable[..., Any]:
        """What runs a function that has not been seen before."""
        if is_flex(func):
            return self._flex.run
        return self._operators.look_for(func) or _run

    def _end(self) -> None:
        self._is_active = False

    def _in_thread(self) -> Callable[[], Any]:
        running = self._modules.running()

        @contextmanager
        def within() -> Iterator[None]:
            self._modules.go_on(running)
            with _Mode(self):
                yield

        return within

    def _caught_call(self, call: AttentionCall, output: Tensor | None, reads_itself: bool | None) -> None:
        def arranged(place: Place) -> Caught:
            caught = caught_call(call, output, place.n_heads, place.batch_size)
            return Caught(caught.call, caught.output, reads_itself)

        self._show((call.query, call.key), arranged, (call.query.shape[-2], call.key.shape[-2]))

    def _is_passed_over(self, q_length: int, k_length: int) -> bool:
        """Whether nobody wants the attention that is about to run, and it has been counted."""
        if torch._C._current_graph_task_id() != -1:
            return True
        place = self._modules.place()
        return place is None or not self._is_wanted(place, q_length, k_length)

    def _caught_operator(self, tensors: Sequence[Tensor], read: Read) -> None:
        def arranged(place: Place) -> Caught:
            call, output = read(place.name)
            return caught_call(call, output, place.n_heads, place.batch_size)

        self._show(tensors, arranged)

    def _failed(self, error: Exception) -> None:
        """Note what went wrong while the program was followed."""
        place = self._modules.place()
        if place is not None:
            self.miss(f"{place.name}: not followed, {one_line(error)}")

    def _caught_flex(self, call: AttentionCall | AttentionWeights, output: Tensor) -> None:
        self._show((output,), lambda place: Caught(call, output))

    def _caught_weights(self, A: Tensor, output: Tensor) -> None:
        self._show((A,), lambda place: caught_weights(A, place.n_heads, place.batch_size), A.shape[-2:])

    def _show(
        self,
        tensors: Sequence[Tensor],
        arranged: Callable[[Place], Caught],
        lengths: Sequence[int] | None = None,
    ) -> None:
        """Show an attention, unless it cannot be looked at now; never fail the program.

        ``lengths``: how many queries and keys it has, if that is known.
        """
        if torch._C._current_graph_task_id() != -1:  # a checkpoint is computed again for the backward pass
            return
        place = self._modules.place()
        if place is None or (lengths is not None and not self._is_wanted(place, *lengths)):
            return
        if (why := self._why_unseen(tensors)) is not None:
            self.miss(f"{place.name}: {why}")
            return
        device = tensors[0].device.type
        try:
            with unseen(), torch.autocast(device, enabled=False):
                self._on_caught(place, arranged(place))
        except VisitorError:
            raise
        except MhavizError as error:
            self.miss(f"{place.name}: {error}")
        except Exception as error:
            self.miss(f"{place.name}: not shown, {one_line(error)}")

    def _why_unseen(self, tensors: Sequence[Tensor]) -> str | None:
        if os.getpid() != self._process:
            return "runs in another process, and is not recorded there"
        if any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors):
            return "runs within a transform of torch.func, such as vmap, and is not recorded there"
        if torch._C._get_tracing_state() is not None:
            return "is being traced by torch.jit, and is not recorded meanwhile"
        if others := [x for x in tensors if type(x) not in (Tensor, nn.Parameter)]:
            return f"computes with a {type(others[0]).__name__}, which is no plain tensor, and is not recorded"
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return "is being captured as a CUDA graph, and is not recorded meanwhile"
        if tensors[0].is_meta or not all(x.numel() for x in tensors):
            return "computes with tensors that hold nothing"
        return None


_MOST_LINES = 1000


def _run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Of the functions that nobody looks at."""
    return func(*args, **kwargs)


_Look = Callable[[Any, Sequence[Any], dict[str, Any]], Any]


def _after(first: _Look | None, look: _Look) -> _Look:
    """Looks at a function that somebody else looks at as well."""
    if first is None:
        return look
    inner = first
    return lambda func, args, kwargs: look(lambda *given, **named: inner(func, given, named), args, kwargs)


class _Mode(TorchFunctionMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._run = watch.run

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._run(func, args, kwargs or {})
