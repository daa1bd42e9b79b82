"""Pickles of torch.save, looked through before PyTorch reads them.

PyTorch runs no code in them, but a few bytes can ask it for gigabytes, or keep it busy forever.
"""

from pickletools import genops, markobject, stackslice
from typing import IO, Any, NamedTuple

from mhaviz.errors import counted
from mhaviz.files.errors import ContentError

_MOST_STEPS = 2**21  # a tensor takes 25
_MOST_PARTS = 2**16  # of a tuple and the tuples in it
_MOST_MADE = 2**20  # bytes or numbers that a function makes of nothing
_MADE_OF_ALL = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "REDUCE", "NEWOBJ")
_REBUILD = ("torch._utils ", "torch._tensor ")
"""Modules whose functions make tensors of numbers in the file, with offsets and shapes as arguments."""


class _Item(NamedTuple):
    """An object on the stack. ``parts``: objects that hashing it visits; ``value``: number, or name of a function;
    ``first``: value of a tuple's first item.
    """

    parts: int = 1
    value: Any = None
    first: Any = None


_PLAIN, _MARK = _Item(), _Item(value="mark")


def require_modest(stream: IO[bytes]) -> None:
    """Raise ContentError if a pickle, which begins here in the stream, would take PyTorch long, or much memory.

    A tuple may hold another twice, which holds another twice, and so on: PyTorch hashes those that are keys. Any other
    error is raised if this is no pickle.
    """
    stack: list[_Item] = []
    memo: dict[Any, _Item] = {}
    for number, (step, argument, _) in enumerate(genops(stream)):
        if number > _MOST_STEPS:
            raise ContentError(f"it is made in more than {_MOST_STEPS:,} steps, as of as many numbers outside tensors")
        if step.name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif step.name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif step.name == "MARK":
            stack.append(_MARK)
        else:
            taken = _taken(stack, step.stack_before) if step.stack_before else ()
            made = _PLAIN if argument is None else _Item(value=argument)
            if taken and step.name in _MADE_OF_ALL:
                made = _Item(1 + sum(item.parts for item in taken), first=taken[-1].value)
                if step.name in ("REDUCE", "NEWOBJ"):
                    _require_little(*taken)
                if made.parts > _MOST_PARTS:
                    raise ContentError(f"it holds tuples within tuples of more than {_MOST_PARTS:,} parts")
            stack += [made] * len(step.stack_after)


def _taken(stack: list[_Item], before: list[Any]) -> list[_Item]:
    """Take the objects that a step uses from the stack, the last first."""
    taken: list[_Item] = []
    if stackslice in before:
        while (item := stack.pop()) is not _MARK:
            taken.append(item)
        before = before[: before.index(markobject)]
    for _ in before:
        taken.append(stack.pop())
    return taken


def _require_little(arguments: _Item, function: _Item) -> None:
    """Raise ContentError if a function, such as bytearray, would make much from a number."""
    much = isinstance(arguments.first, int) and arguments.first > _MOST_MADE
    if much and not str(function.value).startswith(_REBUILD):
        raise ContentError(f"{str(function.value).replace(' ', '.'):.60} in it asks for {counted(arguments.first)}")
