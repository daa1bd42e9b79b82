"""Marks of a program's tensors, and of its modules.

They stand in a table beside these, so that nothing of ours is ever saved with a program's tensors, and no module is
asked whether it is equal to another.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar
from weakref import ref

from torch import Tensor

T = TypeVar("T")


class Marks(Generic[T]):
    """The marks of objects, for as long as these live."""

    def __init__(self) -> None:
        self._marks: dict[int, tuple[ref[Any], T]] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def get(self, x: object) -> T | None:
        """The mark of an object, if it has one."""
        entry = self._marks.get(id(x))
        return entry[1] if entry is not None and entry[0]() is x else None

    def forget(self, x: object) -> None:
        """Take the mark of an object, and what it holds."""
        self._marks.pop(id(x), None)

    def tensor(self, number: object) -> Tensor | None:
        """The marked tensor that has this ``id``."""
        entry = self._marks.get(number) if isinstance(number, int) else None
        return None if entry is None else entry[0]()

    def of_memory(self, x: Tensor) -> list[tuple[Tensor, T]]:
        """All marked tensors that share the memory of this one, with their marks."""
        memory = _memory(x)
        there = [(ref(), mark) for ref, mark in list(self._marks.values())]
        return [(one, mark) for one, mark in there if one is not None and _memory(one) == memory]

    def may_hold(self, args: Sequence[Any]) -> bool:
        """Whether one of these may be a marked tensor, or hold one: of most functions none is, which is known soon."""
        marks = self._marks
        for x in args:  # noqa: SIM110 - any() takes twice as long
            if id(x) in marks or type(x) is list or type(x) is tuple:
                return True
        return False

    def set(self, x: object, mark: T) -> None:
        """Mark it."""
        key, marks = id(x), self._marks

        def forget(dead: "ref[Any]") -> None:
            entry = marks.get(key)
            if entry is not None and entry[0] is dead:
                del marks[key]

        marks[key] = ref(x, forget), mark


def _memory(x: Tensor) -> int | None:
    try:
        return x.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # it has none
        return None
