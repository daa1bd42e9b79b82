"""Moves of the numbers of tokens, which are computed once for layers that are alike."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from mhaviz.observe.handlers import Done
from mhaviz.observe.regions import Traced

T = TypeVar("T")

_MOST, _MOST_NUMBERS = 64, 2**16
"""Most moves that are kept, the latest, and most numbers of what was moved: 16 MB in all."""


class KeptMoves:
    """What the latest moves have made. It holds all that it needs, and no tensor of the program."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, object], tuple[Traced, Any]] = {}
        self._counts, self._lock = Counter[int](), threading.Lock()

    def once(self, traced: Traced, move: object, compute: Callable[[], T]) -> T:
        """Return what ``compute`` makes of the numbers, which is the same for the same move of them.

        Args:
            traced: what is moved.
            move: all that tells the move, which has a hash; None: it is not known whether it is the same again.
            compute: moves the numbers.
        """
        if move is None or sum(numbers.numel() for numbers in traced.all_numbers) > _MOST_NUMBERS:
            return compute()
        key = id(traced), move  # the object is held, so that no other has its id
        if (entry := self._made.get(key)) is not None:
            return entry[1]  # type: ignore[no-any-return]
        made = compute()
        with self._lock:
            if self._made.setdefault(key, (traced, made))[1] is made:
                self._counts[key[0]] += 1
            if len(self._made) > _MOST:
                first = next(iter(self._made))
                del self._made[first]
                self._counts[first[0]] -= 1
                if not self._counts[first[0]]:
                    del self._counts[first[0]]
        return made

    def holds(self, traced: Traced) -> bool:
        """Return whether some move of these numbers is kept."""
        return id(traced) in self._counts


def move_of(done: Done) -> object:
    """Return what tells the move that a call is, apart from the numbers that it moves; None: it cannot be told.

    Tensors, arrays and objects of a program may change.
    """
    try:
        others = tuple(map(_told, done.args[1:])), tuple((name, _told(x)) for name, x in done.kwargs.items())
    except _NotToldError:
        return None
    return done.func, done.first.shape, others


class _NotToldError(Exception):
    pass


def _told(x: object) -> object:
    if x is None or x is Ellipsis:
        return x
    if type(x) in _PLAIN:
        return type(x), x  # as True is equal to 1
    if isinstance(x, slice):
        return slice, _told(x.start), _told(x.stop), _told(x.step)
    if isinstance(x, list | tuple):
        return tuple(map(_told, x))
    raise _NotToldError


_PLAIN = (bool, int, float, str, torch.dtype)
