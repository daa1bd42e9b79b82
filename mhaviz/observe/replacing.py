"""Replace functions of PyTorch while programs are recorded, also by several recordings at a time.

``torch.jit.script`` reads the source of what it compiles, and a replacement is no TorchScript. So it is shown the
original functions.
"""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import torch

from mhaviz.observe.handlers import Done, Follow


class _Replaced(NamedTuple):
    owner: Any
    name: str
    before: Any
    ours: Any


_lock = threading.RLock()
_held: dict[Hashable, tuple[int, ExitStack]] = {}
_replaced: dict[Hashable, _Replaced] = {}
_followers: dict[Hashable, list[Any]] = {}


@contextmanager
def held_once(key: Hashable, make: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Enter the context manager of ``make`` once for several recordings, and exit it when the last of them ends."""
    with _lock:
        n, stack = _held.get(key, (0, ExitStack()))
        if not n:
            stack.enter_context(make())
        _held[key] = n + 1, stack
    try:
        yield
    finally:
        with _lock:
            n, stack = _held.pop(key)
            if n > 1:
                _held[key] = n - 1, stack
            else:
                stack.close()


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """Replace the attribute ``name`` of ``owner`` by the result of ``make``, until the last recording ends."""
    key = id(owner), name
    return held_once(key, lambda: _replacement(key, owner, name, make))


@contextmanager
def _replacement(key: Hashable, owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(owner, name)
    one = _replaced[key] = _Replaced(owner, name, before, make(before))
    setattr(owner, name, one.ours)
    try:
        yield
    finally:
        del _replaced[key]
        if getattr(owner, name) is one.ours:  # otherwise the program has replaced it as well
            setattr(owner, name, before)


@contextmanager
def followed(owner: Any, name: str, make: Callable[[Any, list[Any]], Any], follower: Any) -> Iterator[None]:
    """Replace an attribute by what ``make`` makes of it and of a list of followers, to which each recording adds
    one."""
    followers = _followers.setdefault((id(owner), name), [])
    with replaced(owner, name, lambda before: make(before, followers)):
        followers.append(follower)
        try:
            yield
        finally:
            followers.remove(follower)


def calls_followed(owner: Any, name: str, follow: Follow) -> AbstractContextManager[None]:
    """Call ``follow`` after each call of the function ``name`` of ``owner``."""
    return followed(owner, name, _called, follow)


def _called(func: Callable[..., Any], followers: list[Follow]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        for follow in list(followers):
            follow(Done.of(func, args, kwargs, result))
        return result

    return run


@contextmanager
def scripted_as_written() -> Iterator[None]:
    """Show ``torch.jit.script`` the original functions."""
    with replaced(torch.jit, "script", _as_written):
        yield


def _as_written(script: Callable[..., Any]) -> Callable[..., Any]:
    def script_as_written(obj: Any, optimize: None = None, _frames_up: int = 0, *args: Any, **kwargs: Any) -> Any:
        with _lock:
            ours = [one for one in _replaced.values() if getattr(one.owner, one.name) is one.ours]
            for one in ours:
                setattr(one.owner, one.name, one.before)
            try:
                return script(obj, optimize, _frames_up + 1, *args, **kwargs)
            finally:
                for one in ours:
                    setattr(one.owner, one.name, one.ours)

    return script_as_written
