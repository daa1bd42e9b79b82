"""Marks of a program's tensors and modules.

The marks are kept in a table beside the objects. So nothing of ours is saved with a program's tensors, and no module is
compared with another.
"""

from collections import defaultdict
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
        if self._marks.pop(id(x), None) is not None:
            self._gone(id(x))

    def _tensor(self, number: int) -> Tensor | None:
        """Return the marked tensor that has this ``id``; None if there is none."""
        entry = self._marks.get(number)
        return None if entry is None else entry[0]()

    def objects(self) -> list[Any]:
        """Return the marked objects."""
        return [x for held, _ in list(self._marks.values()) if (x := held()) is not None]

    def may_hold(self, args: Sequence[Any]) -> bool:
        """Return quickly whether one of ``args`` may be a marked object, or a list that holds one."""
        marks = self._marks
        for x in args:  # noqa: SIM110 - any() takes twice as long
            if id(x) in marks or type(x) is list or type(x) is tuple:
                return True
        return False

    def set(self, x: object, mark: T) -> None:
        """Mark an object."""
        key, marks, gone = id(x), self._marks, self._gone

        def forget(dead: "ref[Any]") -> None:
            entry = marks.get(key)
            if entry is not None and entry[0] is dead:
                del marks[key]
                gone(key)

        marks[key] = ref(x, forget), mark

    def _gone(self, key: int) -> None:
        """Note that the object of this ``id`` has no mark any more."""


class MarksByMemory(Marks[T]):
    """Marks of tensors, which are found by their memory as well.

    Each tensor is asked once for its memory, and only if it still lives when a memory is looked up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unfiled = set[int]()  # ids of marked tensors that were not asked for their memory yet
        self._memories, self._ids = dict[int, int | None](), defaultdict[int | None, set[int]](set)

    def of_memory(self, x: Tensor) -> list[tuple[Tensor, T]]:
        """Return all marked tensors that share the memory of ``x``, each with its mark."""
        while self._unfiled:
            key = self._unfiled.pop()
            if (tensor := self._tensor(key)) is not None:
                memory = self._memories[key] = _memory(tensor)
                self._ids[memory].add(key)
        there = map(self._tensor, list(self._ids.get(_memory(x), ())))
        return [(tensor, mark) for tensor in there if tensor is not None and (mark := self.get(tensor)) is not None]

    def moved(self, x: Tensor) -> None:
        """Note that a tensor may have been given other memory."""
        if self.get(x) is not None:
            self._gone(id(x))
            self._unfiled.add(id(x))

    def set(self, x: object, mark: T) -> None:
        """Mark a tensor."""
        if self.get(x) is None:
            self._unfiled.add(id(x))
        super().set(x, mark)

    def _gone(self, key: int) -> None:
        self._unfiled.discard(key)
        if key in self._memories:
            ids = self._ids[memory := self._memories.pop(key)]
            ids.discard(key)
            if not ids:
                del self._ids[memory]


def _memory(x: Tensor) -> int | None:
    try:
        return x.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # it has no storage
        return None
