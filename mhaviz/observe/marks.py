"""Marks of a program's tensors and modules.

The marks are kept in a table beside the objects. So nothing of ours is saved with a program's tensors, and no module is
compared with another.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar
from weakref import ref

from torch import Tensor

T = TypeVar("T")


class Marks(Generic[T]):
    """Marks of objects, by identity, for as long as the objects live."""

    def __init__(self) -> None:
        self._marks: dict[int, tuple[ref[Any], T]] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def get(self, x: object) -> T | None:
        """Return the mark of an object; None if it has none."""
        entry = self._marks.get(id(x))
        return entry[1] if entry is not None and entry[0]() is x else None

    def forget(self, x: object) -> None:
        """Remove the mark of an object."""
        self._marks.pop(id(x), None)

    def tensor(self, number: object) -> Tensor | None:
        """Return the marked tensor that has this ``id``; None if there is none."""
        entry = self._marks.get(number) if isinstance(number, int) else None
        return None if entry is None else entry[0]()

    def of_memory(self, x: Tensor) -> list[tuple[Tensor, T]]:
        """Return all marked tensors that share the memory of ``x``, each with its mark."""
        memory = _memory(x)
        there = [(ref(), mark) for ref, mark in list(self._marks.values())]
        return [(one, mark) for one, mark in there if one is not None and _memory(one) == memory]

    def may_hold(self, args: Sequence[Any]) -> bool:
        """Return quickly whether one of ``args`` may be a marked object, or a list that holds one."""
        marks = self._marks
        for x in args:  # noqa: SIM110 - any() takes twice as long
            if id(x) in marks or type(x) is list or type(x) is tuple:
                return True
        return False

    def set(self, x: object, mark: T) -> None:
        """Mark an object."""
        key, marks = id(x), self._marks

        def forget(dead: "ref[Any]") -> None:
            entry = marks.get(key)
            if entry is not None and entry[0] is dead:
                del marks[key]

        marks[key] = ref(x, forget), mark


def _memory(x: Tensor) -> int | None:
    try:
        return x.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # it has no storage
        return None
