"""Find which tensors are fixed rows, and so whether scores are of tokens.

Parameters and buffers of a module are fixed, and so are constants that it makes while it runs, and whatever is computed
from these alone. Whether a plain attribute is fixed is not known: it may be a constant, or an input that was kept
there. Queries may be fixed: then they are learned, and the softmax runs over tokens. Keys may not: those of a router, a
codebook or a memory are no tokens.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from mhaviz.observe.functions import writes
from mhaviz.observe.handlers import Done, each_of
from mhaviz.observe.marks import Marks


@dataclass(frozen=True)
class FixedSides:
    """Which sides of a weighted sum are fixed rows, and whether it is attention.

    Attributes:
        are_fixed: whether its queries are, and whether its keys are; None: not known.
        why: reason why it is no attention; "" if it is.
    """

    are_fixed: tuple[bool | None, bool | None]
    why: str = ""


@dataclass(eq=False)
class Constant:
    """Root of a tensor that a module has made from no other tensor, and of tensors that are made from it.

    ``is_fixed``: False once activations are written into it. None: nothing has been written yet, as after
    ``torch.empty``, or it is random, or it holds integers.
    """

    is_fixed: bool | None


@dataclass(frozen=True)
class Kept:
    """Root of plain attributes of modules, by their numbers: constants, or inputs that were kept there before the
    call."""

    numbers: frozenset[int]


Root = int | Constant | Kept
"""Root of a fixed tensor: the number of a parameter or a buffer, a constant, or attributes that may be inputs as well.

Numbers are given once. An ``id`` is given again after its object is gone.
"""


Maker = int | bytes
"""Identity of the matrix of a layer: a number, or a digest of what it is made of; see ``FixedRows.maker``."""

WRITTEN = 0
"""Root of a buffer into which activations were written in an earlier call of its module: a cache, or a memory."""

ACTIVE = -1
"""Root of a buffer into which activations were written in this call: it is an activation itself."""


class FixedRows:
    """The fixed tensors of a program, each with its root, for as long as they live.

    What is computed from a fixed tensor and an activation is an activation. So is a buffer once activations were copied
    into it, such as a cache, until its module runs again. A buffer to which activations are added, such as a codebook
    of running means, stays fixed.

    Args:
        is_within: returns whether a module runs. What a program makes outside of modules may be their input.
    """

    def __init__(self, is_within: Callable[[], bool]) -> None:
        self.is_within = is_within
        self._roots = Marks[Root | None]()
        self._modules = Marks[list[str]]()  # the names of a module's plain tensors before it first ran
        self._numbers, self._owners, self._next = Marks[int](), WeakValueDictionary[int, Tensor](), count(1)
        self._numbering = threading.Lock()
        self._makers = Marks[Maker]()

    def __len__(self) -> int:
        return len(self._roots)

    def root(self, x: Tensor) -> Root | None:
        """Return the root of a fixed tensor; None: it is an activation, or that is not known."""
        root = self._root(x)
        return None if isinstance(root, Constant) and not root.is_fixed else root

    def _root(self, x: Tensor) -> Root | None:
        if type(x) is nn.Parameter:
            return self._number(x)
        base = x._base
        if (root := self._roots.get(x)) is not None:
            return None if ACTIVE in (root, self._roots.get(base)) else root
        return self._number(base) if type(base) is nn.Parameter else None

    def _number(self, x: Tensor) -> int:
        """Return the number of a parameter, a buffer or an attribute, which no other tensor is ever given."""
        if (number := self._numbers.get(x)) is not None:
            return number
        with self._numbering:  # threads that meet a parameter at once would each number it
            if (number := self._numbers.get(x)) is None:
                number = next(self._next)
                self._numbers.set(x, number)
                self._owners[number] = x
        return number

    def maker(self, x: Tensor) -> Maker:
        """Return what identifies the matrix of a layer.

        Matrices that are made anew at each call, such as W + B A of LoRA, are identified by the parameters, functions
        and constants that they are made of. So the same layer has the same matrix at each call, and no other has it.
        """
        if (maker := self._makers.get(x) or self._numbers.get(x)) is not None:
            return maker
        if x._base is None or type(x) is nn.Parameter:
            return self._number(x)
        try:
            return _digest(self.maker(x._base), x.storage_offset(), tuple(x.shape), x.stride())
        except (RuntimeError, NotImplementedError):  # it has no storage
            return self._number(x)

    def _note_maker(self, done: Done, made: Any) -> None:
        """Note what a call has made fixed tensors of."""
        for place, x in enumerate(each_of(made)):
            if _is_tensor(x) and self._numbers.get(x) is None and type(x) is not nn.Parameter:
                owner = getattr(getattr(done.func, "__self__", None), "__name__", "")  # of Tensor.T.__get__, T
                of = (self._described(list(done.args)), self._described(list(done.kwargs.items())))
                self._makers.set(x, _digest(owner, getattr(done.func, "__name__", ""), place, *of))

    def _described(self, x: Any) -> Any:
        """Return an argument with the makers of its tensors, and without objects whose text may hold an address."""
        if _is_tensor(x):
            return self.maker(x)
        if isinstance(x, list | tuple):
            return [len(x), *map(self._described, x[:_MOST_DESCRIBED])]
        return x if x is None or x is Ellipsis or type(x) in _PLAIN else type(x).__name__

    def parameter_of(self, x: Tensor) -> str:
        """Return the name of the parameter that a tensor is a view of, without that of its module; "" if of none."""
        root = self.root(x)
        if not isinstance(root, int):
            return ""
        named = (item for module in self._modules.objects() for item in module._parameters.items())
        name, parameter = next(((name, one) for name, one in named if self._numbers.get(one) == root), ("", None))
        is_view = parameter is not None and parameter.untyped_storage()._cdata == x.untyped_storage()._cdata
        return name if is_view else ""

    def sides(self, query: Tensor, key: Tensor, value: Tensor) -> FixedSides:
        """Return which sides of an attention are fixed."""
        roots = [self.root(x) for x in (query, key, value)]
        are_fixed = are_rows_fixed(roots[:1]), are_rows_fixed(roots[1:2])
        if roots[0] is not None and roots[0] == roots[1]:
            return FixedSides(are_fixed)
        return FixedSides(are_fixed, why_none(are_fixed[1], are_rows_fixed(roots[2:])))

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may make a fixed tensor, or write into one. Most calls do not."""
        if not args or func in MAKERS:
            return func in MAKERS
        first = args[1] if type(args[0]) is str and len(args) > 1 else args[0]  # torch.einsum
        if type(first) is list or type(first) is tuple:
            first = first[0] if first else None
        return type(first) is nn.Parameter or self._roots.get(first) is not None or "out" in kwargs

    def follow(self, done: Done) -> None:
        """Note which results of a call are fixed."""
        if done.func in MAKERS and type(done.result) is Tensor and self.is_within():
            # Integers may be token ids, unless they are consecutive. Arrays of NumPy may be the program's input.
            is_number = not _is_integer(done.result) or done.func is torch.arange
            if not is_number or done.func not in _MAY_TAKE_INPUT or _is_plain(done.args):
                self._roots.set(done.result, Constant(None if not is_number or done.func.__name__ in _UNSET else True))
                self._note_maker(done, done.result)
                return
        name = getattr(done.func, "__name__", "")
        tensors = list(filter(_is_tensor, done.read()))
        roots = [self._root(x) for x in tensors]
        first = tensors[0] if tensors else None
        written = done.kwargs.get("out", first if done.result is None or writes(done.func) else None)
        if isinstance(written, Tensor):
            self._write(name, written, [root for x, root in zip(tensors, roots, strict=True) if x is not written])
            if isinstance(self._roots.get(written), Constant):
                self._note_maker(done, written)
        elif roots and (all(map(_is_fixed, roots)) or (isinstance(roots[0], Constant) and set(roots) == {roots[0]})):
            self._set_all(done.result, _root_of_all(roots))
            self._note_maker(done, done.result)
        elif name in _CHOOSING and (fixed := list(filter(_is_fixed, roots))):
            others = [x for x, root in zip(tensors, roots, strict=True) if _is_unset(root)]
            if len(fixed) + len(others) == len(roots):
                self._set_all(done.result, WRITTEN if any(map(_is_integer, others)) else _root_of_all(fixed))
                self._note_maker(done, done.result)

    def _set_all(self, result: Any, root: Root | None) -> None:
        for x in each_of(result):
            if _is_tensor(x) and type(x) is not nn.Parameter:
                self._roots.set(x, root)

    def _write(self, name: str, written: Tensor, others: Sequence[Root | None]) -> None:
        """Note that a function has written numbers with these roots into a tensor."""
        root = self._root(written)
        are_fixed = all(map(_is_fixed, others)) and name not in _RANDOM
        if isinstance(root, Constant):
            if not are_fixed:
                root.is_fixed = False
            elif isinstance(kept := _root_of_all(others), Kept):
                self._set_all((written, written._base), kept)
            elif root.is_fixed is None and (others or name in _COPYING):
                root.is_fixed = True
        elif root is not None and not are_fixed:
            numbers = root.numbers if isinstance(root, Kept) else {root}
            if name in _COPYING or numbers != {self._numbers.get(written)}:
                found = map(self._owners.get, numbers)
                owners = [owner for owner in found if owner is not None]  # such as x of x.data
                storage = written.untyped_storage()._cdata
                same = [owner for owner in owners if owner.untyped_storage()._cdata == storage]
                self._set_all((written, written._base, *same), ACTIVE)

    def begins(self, module: nn.Module) -> None:
        """Note what is fixed in a module that begins to run, and in the modules within it."""
        for own in (module._buffers, module._parameters):
            for x in own.values():
                if x is None or type(x) is nn.Parameter:
                    continue
                if (root := self._roots.get(x)) != (number := self._number(x)):
                    self._roots.set(x, WRITTEN if root in (ACTIVE, WRITTEN) else number)
        # All modules at once: attributes that they are given later may be results of a forward pass.
        for one in _parts_of(module) if self._modules.get(module) is None else [module]:
            names = self._modules.get(one)
            if names is None:
                names = [name for name, x in vars(one).items() if type(x) is Tensor]
                self._modules.set(one, names)
            for x in map(vars(one).get, names):
                if type(x) is Tensor and self._roots.get(x) is None:
                    is_factor = x.is_floating_point() and x.numel() == 1
                    number = self._number(x)
                    self._roots.set(x, number if is_factor else Kept(frozenset({number})))


def _parts_of(module: nn.Module) -> list[nn.Module]:
    """Return the module and those within it. An error of the program's own ``modules`` must not end it."""
    try:
        return list(module.modules())
    except Exception:
        return [module]


_MOST_DESCRIBED = 64
"""Number of items of a list that tell what is made of it: a list may hold all numbers of a tensor."""

_PLAIN = (bool, int, float, complex, str, slice, torch.Size, torch.dtype, torch.device)


def _digest(*of: Any) -> bytes:
    return blake2b(repr(of).encode(), digest_size=16).digest()


def _is_plain(args: Sequence[Any]) -> bool:
    data = args[-1] if args else None
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return type(data) in (bool, int, float, complex)


def _is_tensor(x: object) -> bool:
    return issubclass(type(x), Tensor)  # isinstance() would ask lazy objects of programs


def _is_fixed(root: Root | None) -> bool:
    return root is not None and not (isinstance(root, Constant) and not root.is_fixed)


def _root_of_all(roots: Sequence[Root | None]) -> Root | None:
    """Return the root of a tensor that is made from fixed tensors with these roots."""
    kept = [root.numbers for root in roots if isinstance(root, Kept)]
    return Kept(frozenset().union(*kept)) if kept else roots[0] if roots else None


def are_rows_fixed(roots: Sequence[Root | None]) -> bool | None:
    """Return whether rows that are made of tensors with these roots are fixed; None: not known."""
    if not roots or None in roots:
        return False
    return None if any(isinstance(root, Kept) or root == WRITTEN for root in roots) else True


def _is_unset(root: Root | None) -> bool:
    return isinstance(root, Constant) and root.is_fixed is None


def _is_integer(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


_UNSET = {"empty", "empty_like", "new_empty", "rand"}
_CHOOSING = {"mul", "div", "__rmul__", "where", "masked_fill", "__getitem__", "index_select", "gather"}
"""Functions that keep fixed rows fixed: they multiply by random numbers, or choose by integers that a module has made.
Whether such integers are token ids is not known."""

_MADE = (
    "empty rand randint randperm zeros ones full eye arange range linspace logspace tensor scalar_tensor as_tensor "
    "asarray"
)
_LIKE = "empty_like zeros_like ones_like full_like new_empty new_zeros new_ones new_full new_tensor"
MAKERS = frozenset(
    getattr(home, name) for home in (torch, Tensor) for name in f"{_MADE} {_LIKE}".split() if hasattr(home, name)
)
"""Functions that make tensors of no others."""

_MAY_TAKE_INPUT = [torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor]
"""Functions that may be given the program's input."""

_COPYING = {"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "masked_scatter_", "fill_", "zero_"}
"""Functions that copy numbers into a tensor unchanged, as programs do with caches."""

_RANDOM = {"normal_", "uniform_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_"}


def why_none(keys: bool | None, values: bool | None) -> str:
    """Return why weights are no attention, or "", by whether keys and values are fixed rows; None: not known."""
    if keys is None or (values is None and not keys):
        return "weighs rows, and it is not known whether they are tokens"
    if keys:
        return "weighs a memory of fixed rows, not tokens" if values else "weighs by fixed rows, not by keys of tokens"
    return "weighs tokens whose values are fixed rows" if values else ""


@dataclass(frozen=True)
class Axes:
    """The axes of scores, counted from the end, by the factors of the product that has made the scores.

    Attributes:
        factors: for each axis, the numbers of the factors that have it, unless that is not known.
        roots: root of each factor; see ``FixedRows``.
        number: of the product, among all.
    """

    factors: dict[int, frozenset[int]]
    roots: tuple[Root | None, ...]
    number: int = -1

    @property
    def are_fixed(self) -> bool:
        """Whether a factor is fixed. Learned tokens multiplied by themselves count as any tokens."""
        return any(root is not None for root in self.roots) and len(set(self.roots)) > 1

    def over_fixed(self, axis: int) -> bool | None:
        """Return whether a softmax over this axis runs over fixed rows; None: not known."""
        return self.are_fixed_along(axis) if self.are_fixed else False

    def are_fixed_along(self, axis: int) -> bool | None:
        """Return whether the rows along an axis are fixed; None: not known."""
        holders = self.factors.get(axis)
        return None if holders is None else are_rows_fixed([self.roots[number] for number in holders])

    def are_fixed_beside(self, axis: int) -> bool | None:
        """Return whether all factors without this axis, such as queries for an axis of keys, are fixed; None: not
        known."""
        holders = self.factors.get(axis, frozenset())
        return are_rows_fixed([root for number, root in enumerate(self.roots) if number not in holders])

    def query(self, axis: int) -> int | None:
        """Return the axis of queries for one of keys, the last one whose factors all lack it; None: not known."""
        holders = self.factors.get(axis, frozenset(range(len(self.roots))))
        return max((one for one, factors in self.factors.items() if not factors & holders), default=None)

    def moved(self, place_of: Callable[[int], int | None]) -> "Axes":
        """Return the axes after a view; ``place_of`` gives where it has put each, None if nowhere or not known."""
        places = ((place_of(axis), held) for axis, held in self.factors.items())
        return replace(self, factors={place: held for place, held in places if place is not None})


UNKNOWN = Axes({}, (None, 0))
"""Axes of scores that were not seen to be a product."""
