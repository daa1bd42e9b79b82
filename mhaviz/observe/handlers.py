"""Handlers of PyTorch's functions: a function runs, and then its call is followed.

An error in what follows is ours, and does not reach the program.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple, ParamSpec

import torch
from torch import Tensor
from torch.autograd import profiler

from mhaviz.observe.arguments import place_of, positional

P = ParamSpec("P")


class Done(NamedTuple):
    """Finished call of a PyTorch function.

    Attributes:
        func: the function.
        args, kwargs: its arguments; ``kwargs`` are those that have no position, see ``positional``.
        result: its result.
        attention: number of the attention as which it was shown; None: it was not.
        before: what was kept of the first argument before the call; see ``guarded``.
    """

    func: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    result: Any
    attention: int | None = None
    before: Tensor | None = None

    @classmethod
    def of(cls, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> "Done":
        """Return a call with these arguments as the program has written them."""
        if kwargs:
            args, kwargs = positional(func, args, kwargs)
        return cls(func, args, kwargs, result)

    @property
    def first(self) -> Any:
        """The first argument; None: it has none."""
        return self.args[0] if self.args else None

    def argument(self, place: int, default: Any = None) -> Any:
        """Return the argument at this position."""
        return self.args[place] if len(self.args) > place else default

    def named(self, name: str, default: Any = None) -> Any:
        """Return the argument of this name, at whatever position."""
        if name in self.kwargs:
            return self.kwargs[name]
        place = place_of(self.func, name, len(self.args))
        return default if place is None else self.args[place]

    def each(self) -> Iterator[Any]:
        """Iterate over all arguments, and over the items of lists in place of the lists."""
        for x in (*self.args, *self.kwargs.values()):
            if isinstance(x, list | tuple):
                yield from x
            else:
                yield x

    def read(self) -> Iterator[Any]:
        """Iterate over the arguments whose numbers the result may hold; see ``each``."""
        is_first_alone = getattr(self.func, "__name__", "") in _READ_FIRST_ALONE
        return iter(self.args[:1]) if is_first_alone else self.each()

    def again(self) -> Callable[[Tensor], Any]:
        """Return a function that repeats the call with another first argument, and does not hold the original one."""
        func, rest, kwargs = self.func, self.args[1:], self.kwargs
        return lambda x: func(x, *rest, **kwargs)


_READ_FIRST_ALONE = {"to", "type_as", "expand_as", "view_as", "reshape_as", "zeros_like", "ones_like", "full_like"}
"""Functions whose other arguments are examples of a type, a device or a shape."""


def each_of(result: Any) -> Sequence[Any]:
    """Return the items of a list or a tuple, or the single result of a function."""
    return result if isinstance(result, list | tuple) else (result,)


Handler = Callable[[Any, Sequence[Any], dict[str, Any]], Done]
"""Function that runs another one with its arguments as the program has written them, and returns the finished call."""

Follow = Callable[[Done], None]
"""Callback for a finished call."""


class VisitorError(Exception):
    """Carries an exception of the user's own visitor through the program."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(str(raised))
        self.raised = raised


Keep = Callable[[Done], Tensor | None]
"""Returns what is kept of the first argument of a call before it runs, as it may change it."""


def guarded(follow: Follow, on_error: Callable[[Exception], None], keep: Keep | None = None) -> Handler:
    """Return a handler that runs a function and then calls ``follow``; exceptions of ours go to ``on_error``.

    ``keep``: see ``Keep``; None: nothing is kept.
    """
    see = safely(follow, on_error)

    def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Done:
        done = Done.of(func, args, kwargs, func(*args, **kwargs))
        see(done)
        return done

    if keep is None:
        return run

    def keep_and_run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Done:
        done, before = Done.of(func, args, kwargs, None), None
        try:
            before = keep(done)
        except Exception as error:
            on_error(error)
        done = done._replace(result=func(*args, **kwargs), before=before)
        see(done)
        return done

    return keep_and_run


def safely(follow: Callable[P, None], on_error: Callable[[Exception], None]) -> Callable[P, None]:
    """Return ``follow`` with its exceptions passed to ``on_error``, except ``VisitorError``."""

    def see(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            if (hidden := below_modes()) is _NOTHING:  # entering it takes a tenth of what following most calls does
                follow(*args, **kwargs)
            else:
                with hidden:
                    follow(*args, **kwargs)
        except VisitorError:
            raise
        except Exception as error:
            on_error(error)

    return see


def below_modes() -> AbstractContextManager[Any]:
    """Hide our own operations from the program's modes, such as one that counts them, and from its profiler.

    Most programs have neither.
    """
    has_modes = torch._C._len_torch_dispatch_stack() > 0
    if not has_modes and not profiler._is_profiler_enabled:
        return _NOTHING
    with ExitStack() as stack:
        if has_modes:
            stack.enter_context(torch._C._DisableTorchDispatch())
        if profiler._is_profiler_enabled:
            stack.enter_context(_unprofiled())
        return stack.pop_all()


@contextmanager
def _unprofiled() -> Iterator[None]:
    """Leave operations of this thread out of the program's profile. PyTorch does not tell whether they are."""
    if getattr(_local, "is_unprofiled", False):
        yield
        return
    _local.is_unprofiled = True
    torch._C._autograd._enable_record_function(False)
    try:
        yield
    finally:
        torch._C._autograd._enable_record_function(True)
        _local.is_unprofiled = False


_NOTHING, _local = nullcontext(), threading.local()


class unseen:  # noqa: N801 - a context manager; of a generator, it would take twice as long
    """Compute without gradients, seen by no recording and by no mode of the program's own."""

    def __enter__(self) -> None:
        self._functions = torch._C.DisableTorchFunction()
        self._functions.__enter__()  # first, as a mode would see that gradients are turned off
        self._has_gradients = torch.is_grad_enabled()
        try:
            torch._C._set_grad_enabled(False)
            self._hidden = below_modes()
            self._hidden.__enter__()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *error: Any) -> None:
        try:
            self._hidden.__exit__(*error)
        finally:
            self._restore()

    def _restore(self) -> None:
        torch._C._set_grad_enabled(self._has_gradients)
        self._functions.__exit__(None, None, None)


def one_line(error: Exception, at_most: int = 200) -> str:
    """Return the type and the message of an error in one line; ``at_most``: characters of the message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:at_most]}"
