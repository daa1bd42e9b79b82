"""Puts functions in the place of PyTorch's own while programs are recorded, in several recordings at a time.

``torch.jit.script`` reads the source of what it compiles, and what stands in for a function is no TorchScript: it sees
PyTorch as it is.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class _Replaced:
    owner: Any
    name: str
    before: Any
    ours: Any
    recordings: int = 1


_lock = threading.RLock()
_replaced: dict[tuple[int, str], _Replaced] = {}
_followers: dict[tuple[int, str], list[Any]] = {}


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace what ``owner`` has of this name by what ``make`` makes of it, until the last recording ends."""
    key = id(owner), name
    with _lock:
        if key in _replaced:
            _replaced[key].recordings += 1
        else:
            before = getattr(owner, name)
            one = _replaced[key] = _Replaced(owner, name, before, make(before))
            setattr(owner, name, one.ours)
    try:
        yield
    finally:
        with _lock:
            one = _replaced[key]
            one.recordings -= 1
            if not one.recordings:
                del _replaced[key]
                if getattr(owner, name) is one.ours:  # else the program has replaced it, too
                    setattr(owner, name, one.before)


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
