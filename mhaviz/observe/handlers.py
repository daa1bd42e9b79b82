"""How a function of PyTorch is looked at: it runs, and then something follows from it.

Whatever goes wrong in what follows is ours, and no concern of the program's.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

Handler = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
"""Runs a function with its arguments, and returns its result."""


class Done(NamedTuple):
    """A function of PyTorch that has run; ``attention``: the number of the one that it was, where it was shown."""

    func: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    result: Any
    attention: int | None = None

    @property
    def first(self) -> Any:
        """The first argument."""
        return self.args[0] if self.args else self.kwargs["input"]

    def given(self, *names: str) -> tuple[Any, ...]:
        """All arguments by position, and then those of these names."""
        return (*self.args, *(self.kwargs[name] for name in names if name in self.kwargs))

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """The argument at this place, or of this name."""
        return self.args[place] if len(self.args) > place else self.kwargs.get(name, default)

    def each(self) -> Iterator[Any]:
        """All arguments, and what is in lists among them."""
        for x in (*self.args, *self.kwargs.values()):
            if isinstance(x, list | tuple):
                yield from x
            else:
                yield x

    def again(self) -> Callable[[Tensor], Any]:
        """What does to other tensors what the function has done to its first argument, and does not hold that."""
        func, rest, kwargs = self.func, self.args[1:], self.kwargs
        return lambda x: func(x, *rest, **kwargs)


Follow = Callable[[Done], None]
"""Is called with a function that has run."""


class VisitorError(Exception):
    """Carries what a visitor of the user's own has raised through the program."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(str(raised))
        self.raised = raised


def guarded(follow: Follow, on_error: Callable[[Exception], None]) -> Handler:
    """What runs a function, and lets ``follow`` see it; ``on_error`` takes what that raises."""
    see = safely(follow, on_error)

    def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        see(Done(func, args, kwargs, result))
        return result

    return run


def safely(follow: Follow, on_error: Callable[[Exception], None]) -> Follow:
    """``follow``, of which ``on_error`` takes what it raises."""

    def see(done: Done) -> None:
        try:
            with below_modes():
                follow(done)
        except VisitorError:
            raise
        except Exception as error:
            on_error(error)

    return see


def below_modes() -> AbstractContextManager[Any]:
    """Hide operations that are ours from modes of the program's own, such as one that counts them; most have none."""
    return torch._C._DisableTorchDispatch() if torch._C._len_torch_dispatch_stack() else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def unseen() -> Iterator[None]:
    """Compute what is ours: without gradients, and seen by no recording, nor by a mode of the program's own."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), below_modes():
        yield


def one_line(error: Exception) -> str:
    """What went wrong, for a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
