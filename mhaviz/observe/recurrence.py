"""Find which runs of an attention go on from one another: the query of each is made of what the run before gave.

A decoder of recurrent layers reads all keys again for each token that it writes. Its query comes from its state, into
which the run before went (Bahdanau et al. 2015, arXiv 1409.0473, section 3.1; Luong et al. 2015, arXiv 1508.04025,
section 3.3), or which the same recurrent layer has made from the state that gave the query before. Queries that only
meet the same keys, such as those of several inputs over one memory, come from neither.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor

from mhaviz.observe.functions import functions, writes
from mhaviz.observe.handlers import Done, each_of
from mhaviz.observe.marks import Marks

_MOST = 8
"""Number of moments that a tensor is known to be made of, the latest."""


class Moments(NamedTuple):
    """The moments that a tensor is made of: outputs of attentions and states of recurrent layers, numbered in order.

    Attributes:
        of: those that it is made of directly.
        before: those that its states were made of.
        moved: the latest moment after which rows were chosen by indices, as for the beams of a search; 0: none.
    """

    of: frozenset[int] = frozenset()
    before: frozenset[int] = frozenset()
    moved: int = 0


_NOTHING = Moments()


@dataclass(eq=False)
class Run:
    """A run of an attention.

    Attributes:
        number: of its output, as a moment.
        made: moments of its query and its keys.
        state: moments of its query alone.
        is_followed: whether what is made of its output is followed.
    """

    number: int = 0
    made: Moments = _NOTHING
    state: frozenset[int] = frozenset()
    is_followed: bool = False

    def goes_on_from(self, before: "Run") -> bool:
        """Return whether its query is known to be made of an earlier run."""
        return before.number in self.made.of | self.made.before or not before.state.isdisjoint(self.made.before)

    def has_moved_since(self, before: "Run") -> bool:
        """Return whether the examples of its batch may have changed their places since an earlier run."""
        return self.made.moved > before.number


class Recurrence:
    """Follows the outputs of attentions with a single query, and the states of recurrent layers."""

    def __init__(self) -> None:
        self._marks, self._numbers = Marks[Moments](), count(1)
        self._has_marks, self._here = False, threading.local()

    def run(self, given: Sequence[Tensor]) -> Run:
        """Return the run of an attention that is shown now; ``given``: its queries, keys and values, or its weights."""
        made, *others = map(self._made, given)
        run = Run(next(self._numbers), made, made.of - _union(others).of)
        self._here.shown = run, ref(given[0])
        return run

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may make a state, or go on from one. Most programs have none."""
        return func in _RECURRENT or (self._has_marks and self._marks.may_hold(args))

    def follow(self, done: Done) -> None:
        """Follow a finished call."""
        if done.attention is not None and (shown := self._here.shown)[0].is_followed:
            run, given = shown[0], shown[1]()
            run.state -= _union(self._made(x) for x in done.args if x is not given).of
            self._set(done, Moments(frozenset([run.number])))
            return
        made = _union(map(self._made, done.each()))
        if done.func in _RECURRENT:
            made = Moments(frozenset([next(self._numbers)]), made.of, made.moved)
        elif done.func in _CHOOSING and self._made(done.first).of and any(map(_are_indices, done.each())):
            made = made._replace(moved=next(self._numbers))
        if made.of:
            self._set(done, made)

    def take(self, result: Any, seen: Any) -> None:
        """Mark ``result``, which was computed unseen, as ``seen``, the same tensors computed again."""
        for x, observed in zip(each_of(result), each_of(seen), strict=True):
            if (made := self._marks.get(observed)) is not None:
                self._marks.set(x, made)

    def _made(self, x: object) -> Moments:
        return self._marks.get(x) or _NOTHING

    def _set(self, done: Done, made: Moments) -> None:
        result = done.first if done.result is None or writes(done.func) else done.result
        for x in each_of(result):
            if issubclass(type(x), Tensor):
                self._marks.set(x, made)
                self._has_marks = True


def _union(several: Iterable[Moments]) -> Moments:
    found = [one for one in several if one is not _NOTHING]
    if len(found) < 2:
        return found[0] if found else _NOTHING
    return Moments(
        _latest(one.of for one in found), _latest(one.before for one in found), max(one.moved for one in found)
    )


def _latest(several: Iterable[frozenset[int]]) -> frozenset[int]:
    every = frozenset[int]().union(*several)
    return every if len(every) <= _MOST else frozenset(sorted(every)[-_MOST:])


def _are_indices(x: object) -> bool:
    return issubclass(type(x), Tensor) and not x.is_floating_point()  # type: ignore[attr-defined]


_NAMES = "gru lstm rnn_tanh rnn_relu gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell"
_RECURRENT = frozenset(getattr(home, name) for home in (torch, torch._VF) for name in _NAMES.split())
_CHOOSING = frozenset(functions("getitem index_select gather take_along_dim"))
