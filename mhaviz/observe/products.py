"""Products of matrices, however they are written, and which axes of their factors they sum over."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.functions import functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.readable import is_readable


@dataclass(frozen=True)
class Product:
    """A product of two tensors or more, with letters for their axes as in ``torch.einsum``: "bhqd,bhkd->bhqk".

    Attributes:
        factors: the tensors.
        axes: the letters of each factor.
        result: the letters of the result.
        query: the letter of the queries, where other factors have it as well; "": none has.
    """

    factors: tuple[Tensor, ...]
    axes: tuple[str, ...]
    result: str
    query: str = ""

    def others(self, which: int) -> str:
        """Return the letters of the other factors, once each."""
        return "".join(dict.fromkeys("".join(self.axes[:which] + self.axes[which + 1 :])))

    def holders(self) -> dict[int, frozenset[int]]:
        """Return, for each axis of the result, counted from the end, the numbers of the factors that have it."""
        numbers = range(len(self.axes))
        return {
            place - len(self.result): frozenset(number for number in numbers if letter in self.axes[number])
            for place, letter in enumerate(self.result)
        }

    def summed_over(self, axis: int, which: int) -> bool:
        """Return whether the product sums over this axis of this factor, counted from 0."""
        letter = self.axes[which][axis]
        return letter in self.others(which) and letter not in self.result

    def axis_mixed(self, which: int) -> int | None:
        """Return the axis of a factor that a matrix alone sums over, and replaces by another; it is counted from the
        end.

        None: there is none. No axis of a tensor of three axes counts, as it may hold hidden states.
        """
        letters, ndim = self.axes[which], len(self.axes[which])
        others = [len(axes) for number, axes in enumerate(self.axes) if number != which]
        if ndim < 4 or others != [2] or ndim != len(self.result):
            return None
        changed = [place for place, letter in enumerate(letters) if letter != self.result[place]]
        return changed[0] - ndim if len(changed) == 1 and self.summed_over(changed[0], which) else None


@dataclass(frozen=True)
class Weighing:
    """A product of weights and values.

    Attributes:
        product: the product.
        which: the number of the factor that is the weights.
        axis: the axis of the keys in the weights, counted from 0.
        query: the axis of the queries in the weights, where the letters do not tell; None: they do.
    """

    product: Product
    which: int
    axis: int
    query: int | None = None

    @property
    def weights(self) -> Tensor:
        """The factor that was multiplied by the values, in the program's own axes."""
        return self.product.factors[self.which]

    def as_weights(self, x: Tensor) -> Tensor:
        """Return x, which has the axes of the weights, as (…, q_length, k_length), with other axes in their order."""
        rest, query, key = self._roles
        return _in_order(x, self._letters, rest, query, key)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the weights have the axes of ``as_weights``; −1: they have no queries."""
        rest, query, _ = self._roles
        return (*map(self._letters.index, rest), self._letters.index(query) if query else -1, self.axis)

    @property
    def alone(self) -> list[int]:
        """The axes of the weights that the values lack, in order: of queries, and of heads that share their values.

        Values lack an axis along which they have length 1, or were repeated by ``expand``.
        """
        there = {
            letter
            for number, (names, x) in enumerate(zip(self.product.axes, self.product.factors, strict=True))
            for letter, size, stride in zip(names, x.shape, x.stride(), strict=True)
            if number != self.which and size > 1 and stride
        }
        return [
            place
            for place, letter in enumerate(self._letters)
            if letter in self.product.result and letter not in there and self.weights.shape[place] > 1
        ]

    def keeps(self, axis: int) -> bool:
        """Return whether an axis of the weights is an axis of the result, or has length 1."""
        return self.weights.shape[axis] == 1 or self._letters[axis] in self.product.result

    @property
    def is_mixing(self) -> bool:
        """Whether weights are summed over an axis that the values lack, together with a factor that lacks the keys."""
        key = self._letters[self.axis]
        of_values = "".join(
            letters for n, letters in enumerate(self.product.axes) if key in letters and n != self.which
        )
        summed = {letter for axis, letter in enumerate(self._letters) if self.product.summed_over(axis, self.which)}
        return not summed <= {*of_values}

    def values(self) -> Tensor | None:
        """Return the values, (…, k_length, d_value), with the axes before the keys that ``as_weights`` has.

        None: the product sums over more than the keys, such as over heads, or has more than two factors.
        """
        if len(self.product.factors) > 2:
            return None
        rest, query, key = self._roles
        letters, factor = self.product.axes[1 - self.which], self.product.factors[1 - self.which]
        if self.query in self.alone and query in letters:
            factor, letters = factor.select(letters.index(query), 0), letters.replace(query, "")
        if set(letters) - {*rest, key, *self._features} or set(rest) - {*self.product.result}:
            return None
        V = _in_order(factor, letters, "".join(letter for letter in rest if letter in letters), key, self._features)
        for place, letter in enumerate(rest):
            V = V if letter in letters else V.unsqueeze(place)
        sizes = [self.weights.shape[self._letters.index(letter)] for letter in rest]
        fits = all(one in (1, size) for one, size in zip(V.shape, sizes, strict=False))
        return V.expand(*sizes, *V.shape[-2:]) if fits else None

    def as_result(self, x: Tensor) -> Tensor:
        """Return x, which has the axes of the result, as (…, q_length, d_value), where there are values."""
        rest, query, _ = self._roles
        return _in_order(x, self.product.result, rest, query, self._features)

    @property
    def _letters(self) -> str:
        return self.product.axes[self.which]

    @property
    def _roles(self) -> tuple[str, str, str]:
        """The letters of the weights before their queries, that of the queries, or "", and that of the keys."""
        letters, product = self._letters, self.product
        key, other = letters[self.axis], product.others(self.which)
        query = product.query or "".join(one for one in letters if one not in other and one in product.result)[-1:]
        query = query if self.query is None else letters[self.query : self.query + 1]
        return "".join(letter for letter in letters if letter not in (key, query)), query, key

    @property
    def _features(self) -> str:
        """The letters that the values alone bring into the result."""
        others, result = self.product.others(self.which), self.product.result
        return "".join(letter for letter in others if letter not in self._letters and letter in result)


def _in_order(x: Tensor, letters: str, before: str, *joined: str) -> Tensor:
    """Return x, whose axes are ``letters``, with the axes ``before`` first, and then one axis for each of ``joined``.

    Such an axis joins those of its letters. Without letters it has length 1.
    """
    x = x.permute(*(letters.index(letter) for letter in before + "".join(joined)))
    sizes = dict(zip(before + "".join(joined), x.shape, strict=True))
    return x.reshape(*(sizes[letter] for letter in before), *(math.prod(map(sizes.__getitem__, one)) for one in joined))


_BATCH = "ABCDEFGHIJKLMNOP"
_ROW, _SHARED, _COLUMN = "x", "y", "z"


def _matrix_product(a: Tensor, b: Tensor) -> Product | None:
    """Return a product of matrices, or of a matrix and a vector; None: a factor is a single number."""
    if not a.ndim or not b.ndim:
        return None
    batch = _BATCH[: max(a.ndim, b.ndim, 2) - 2]
    first, second = (batch[max(len(batch) - x.ndim + 2, 0) :] for x in (a, b))
    row, column = _ROW * (a.ndim > 1), _COLUMN * (b.ndim > 1)
    return Product((a, b), (f"{first}{row}{_SHARED}", f"{second}{_SHARED}{column}"), f"{batch}{row}{column}")


def _tensor_product(a: Tensor, b: Tensor, dims: int | tuple[Sequence[int], Sequence[int]]) -> Product | None:
    """Return a product that sums over pairs of axes.

    ``dims``: the number of the last axes of ``a`` and the first of ``b``, or the axes of each, as for
    ``torch.tensordot``.
    """
    first, second = list(_DOTS[: a.ndim]), list(_DOTS[a.ndim : a.ndim + b.ndim])
    pairs = (range(a.ndim - dims, a.ndim), range(dims)) if isinstance(dims, int) else dims
    for one, other in zip(*pairs, strict=True):
        second[other] = first[one]
    alone = [letter for letter in first + second if (first + second).count(letter) == 1]
    return Product((a, b), ("".join(first), "".join(second)), "".join(alone))


def product_of(done: Done) -> Product | None:
    """Return the product of a call of one of ``PRODUCTS`` or ``F.linear``; None: there is none, or not understood."""
    if done.func is torch.einsum:
        return _einsum_product(done.args)
    place = int(done.func in _ADDING)
    factors = done.args[place : place + 2]
    if len(factors) < 2 or not all(isinstance(x, Tensor) for x in factors):
        return None
    first, second = factors[::-1] if done.func is Tensor.__rmatmul__ else factors
    if done.func is torch.tensordot:
        dims = done.argument(2, 2)
        return None if isinstance(dims, Tensor) else _tensor_product(first, second, dims)
    if done.func in _SUM_OVER_LAST and first.ndim and second.ndim:
        return _tensor_product(first, second, ([-1], [-1]))
    return _matrix_product(first, second)


def product_by_elements(
    sizes: Sequence[int],
    factors: Sequence[Tensor],
    query: int | None,
    squeeze: Callable[[Tensor, tuple[int, ...]], Tensor],
) -> Product:
    """Return an elementwise product of this shape, which has yet to be summed over an axis.

    A factor lacks the axes along which it is repeated. Values also lack the axis of a single query; ``query``: that
    axis, counted from the end.
    """
    every = range(-len(sizes), 0)
    there = [[axis >= -x.ndim and (x.shape[axis] > 1 or sizes[axis] == 1) for axis in every] for x in factors]
    if query is not None:
        there[1][query] &= sizes[query] > 1
    letters = _DOTS[: len(sizes)]
    squeezed = (
        squeeze(x, tuple(axis for axis in every if axis >= -x.ndim and not own[axis]))
        for x, own in zip(factors, there, strict=True)
    )
    axes = ("".join(letter for letter, one in zip(letters, own, strict=True) if one) for own in there)
    return Product(tuple(squeezed), tuple(axes), letters)


Select = Callable[[Tensor, tuple[int, ...]], Tensor]
"""Returns the first part of a tensor along axes, in order and counted from the end, without these axes."""


def product_of_pairs(factors: Sequence[Tensor], axis: int, select: Select, keeps: bool) -> Product | None:
    """Return an elementwise product that is summed over an axis, as of queries and keys; None: not of both.

    A factor lacks the axes along which it is repeated.

    Args:
        factors: the two factors.
        axis: the axis that is summed over, counted from the end.
        select: see ``Select``.
        keeps: whether the result has an axis of length 1 in its place, which no factor has.
    """
    letters = _DOTS[: max(x.ndim for x in factors)]
    if not -min(x.ndim for x in factors) <= axis < 0 or len({x.shape[axis] for x in factors}) > 1:
        return None
    names, alone = _without_repeats(factors, letters, axis, select)
    return Product(alone, names, letters.replace(letters[axis], _COLUMN * keeps))


def bilinear_product(x: Tensor, other: Tensor, weight: Tensor, select: Select) -> Product | None:
    """Return the product that ``F.bilinear`` computes, x W y, of queries and keys; None: it is of rows of each."""
    letters = _DOTS[: x.ndim - 1]
    (own, beside), alone = _without_repeats((x, other), letters + _SHARED, -1, select, reads=True)
    names = own, f"{_COLUMN}{_SHARED}{_ROW}", beside.replace(_SHARED, _ROW)
    return Product((alone[0], weight, alone[1]), names, letters + _COLUMN) if {*own} != {*beside} else None


def _without_repeats(
    factors: Sequence[Tensor], letters: str, axis: int, select: Select, reads: bool = False
) -> tuple[tuple[str, ...], tuple[Tensor, ...]]:
    """Return two factors, and the letters of each, without the axes along which one of them is repeated.

    Args:
        factors: of shapes that broadcast.
        letters: of their product.
        axis: the axis that is summed over.
        select: see ``Select``.
        reads: whether to compare numbers along an axis, as a factor may have been copied after it was repeated.
    """
    shapes = [{at: x.shape[at] for at in range(-x.ndim, 0) if at != axis} for x in factors]
    long = {at for shape in shapes for at, size in shape.items() if size > 1}
    repeated = [
        {at for at in shape if at in long and _is_repeated(x, at, reads)}
        for x, shape in zip(factors, shapes, strict=True)
    ]
    both = repeated[0] & repeated[1]
    names = (
        "".join(letters[at] for at in range(-x.ndim, 0) if at not in gone - both)
        for x, gone in zip(factors, repeated, strict=True)
    )
    alone = (select(x, tuple(sorted(gone - both))) for x, gone in zip(factors, repeated, strict=True))
    return tuple(names), tuple(alone)


def _is_repeated(x: Tensor, axis: int, reads: bool) -> bool:
    """Return whether a tensor holds the same numbers along an axis, or has length 1 there."""
    if x.shape[axis] == 1 or not x.stride(axis):
        return True
    return reads and is_readable(x) and torch.equal(x.narrow(axis, 0, 1).expand_as(x), x)


def _einsum_product(args: Sequence[Any]) -> Product | None:
    """Return the product that ``torch.einsum`` computes, also of one tensor; None: a diagonal, or not understood."""
    equation, *factors = args
    if len(factors) == 1 and isinstance(factors[0], list | tuple):
        factors = list(factors[0])
    if not isinstance(equation, str) or not factors or not all(isinstance(x, Tensor) for x in factors):
        return None
    given, arrow, result = equation.replace(" ", "").partition("->")
    parts = given.split(",")
    if len(parts) != len(factors):
        return None
    n_dots = [
        x.ndim - len(part.replace("...", "")) if "..." in part else 0 for part, x in zip(parts, factors, strict=True)
    ]
    taken = [letter for letter in _DOTS if letter not in equation]
    letters = taken[: max(n_dots)]
    axes = tuple(
        part.replace("...", "".join(letters[len(letters) - n :])) for part, n in zip(parts, n_dots, strict=True)
    )
    if not arrow:
        every = "".join(axes)
        named = sorted(letter for letter in set(every) - set(letters) if every.count(letter) == 1)
        result = "".join(letters + named)
    result = result.replace("...", "".join(letters))
    if any(len(set(one)) < len(one) or len(one) != x.ndim for one, x in zip(axes, factors, strict=True)):
        return None
    return Product(tuple(factors), axes, result)


_DOTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_ADDING = frozenset(functions("addmm baddbmm"))
"""Functions that add their first argument to a product."""

_SUM_OVER_LAST = frozenset([F.linear, *functions("inner")])
"""Functions that sum over the last axis of both factors."""

PRODUCTS = frozenset(
    [*functions("matmul bmm mm mv dot vdot addmm baddbmm inner tensordot"), torch.linalg.matmul, torch.einsum]
)
"""Functions of PyTorch that multiply matrices."""
