"""Puts functions in the place of PyTorch's own while programs are recorded, in several recordings at a time.

``torch.jit.script`` reads the source of what it compiles, and what stands in for a function is no TorchScript: it sees
PyTorch as it is.
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
    """Hold what ``make`` gives until the last of several recordings lets it go."""
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
    """Replace what ``owner`` has of this name by what ``make`` makes of it, until the last recording ends."""
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
        if getattr(owner, name) is one.ours:  # else the program has replaced it, too
            setattr(owner, name, before)


@contextmanager
def followed(owner: Any, name: str, make: Callable[[Any, list[Any]], Any], follower: Any) -> Iterator[None]:
    """The same by what ``make`` makes of it and of all who follow it: several recordings may at a time."""
    followers = _followers.setdefault((id(owner), name), [])
    with replaced(owner, name, lambda before: make(before, followers)):
        followers.append(follower)
        try:
            yield
        finally:
            followers.remove(follower)


def calls_followed(owner: Any, name: str, follow: Follow) -> AbstractContextManager[None]:
    """Let ``follow`` see each call of a function that ``owner`` has, once it has run."""
    return followed(owner, name, _called, follow)


def _called(func: Callable[..., Any], followers: list[Follow]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        for follow in list(followers):
            follow(Done(func, args, kwargs, result))
        return result

    return run


@contextmanager
def scripted_as_written() -> Iterator[None]:
    """Let ``torch.jit.script`` see what was there before."""
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
