"""Products of matrices, however they are written: which axes of their factors are summed over, and which are not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """A product of two tensors as letters for their axes, as in ``torch.einsum``: "bhqd,bhkd->bhqk".

    Attributes:
        factors: the two tensors.
        axes: the letters of each.
        result: those of what it makes.
    """

    factors: tuple[Tensor, Tensor]
    axes: tuple[str, str]
    result: str

    def summed_over(self, axis: int, which: int) -> bool:
        """Whether this axis of this factor, counted from 0, is what is summed over."""
        letter, other = self.axes[which][axis], self.axes[1 - which]
        return letter in other and letter not in self.result

    def keeps_axes(self, axis: int, which: int) -> bool:
        """Whether the result has this factor's axes in their order, this one among them, but for one other."""
        letters = self.axes[which]
        changed = [place for place, pair in enumerate(zip(letters, self.result, strict=False)) if pair[0] != pair[1]]
        return len(letters) == len(self.result) and len(changed) == 1 and axis not in changed

    def as_weights(self, A: Tensor, key_axis: int, which: int) -> Tensor:
        """The factor as weights, (…, q_length, k_length): its axes in their order, but for the queries and the keys.

        Args:
            A: what has the axes of the factor.
            key_axis: of the keys, counted from 0.
            which: factor.
        """
        letters, other = self.axes[which], self.axes[1 - which]
        own = [place for place, letter in enumerate(letters) if letter not in other and letter in self.result]
        queries = own[-1:]
        rest = [place for place in range(len(letters)) if place != key_axis and place not in queries]
        if not queries:  # one query, which has no axis
            return A.permute(*rest, key_axis).unsqueeze(-2)
        return A.permute(*rest, *queries, key_axis)


_BATCH = "ABCDEFGHIJKLMNOP"
_ROW, _SHARED, _COLUMN = "x", "y", "z"


def _of_matrices(a: Tensor, b: Tensor) -> Product | None:
    if a.ndim < 2 or b.ndim < 2:
        return None
    batch = _BATCH[: max(a.ndim, b.ndim) - 2]
    axes = (f"{batch[len(batch) - x.ndim + 2 :]}{end}" for x, end in ((a, _ROW + _SHARED), (b, _SHARED + _COLUMN)))
    first, second = axes
    return Product((a, b), (first, second), f"{batch}{_ROW}{_COLUMN}")


def _matmul(args: Sequence[Any], kwargs: dict[str, Any]) -> Product | None:
    factors = [*args, *(kwargs[name] for name in ("input", "other", "mat2", "tensor2") if name in kwargs)][:2]
    return _of_matrices(*factors) if len(factors) == 2 and all(isinstance(x, Tensor) for x in factors) else None


def _reversed_matmul(args: Sequence[Any], kwargs: dict[str, Any]) -> Product | None:
    return _matmul(args[:2][::-1], kwargs)


def _baddbmm(args: Sequence[Any], kwargs: dict[str, Any]) -> Product | None:
    factors = [*args[1:], *(kwargs[name] for name in ("batch1", "batch2") if name in kwargs)][:2]
    if not args:
        factors = [kwargs["batch1"], kwargs["batch2"]]
    return _of_matrices(*factors) if len(factors) == 2 and all(isinstance(x, Tensor) for x in factors) else None


def _einsum(args: Sequence[Any], kwargs: dict[str, Any]) -> Product | None:
    equation, *factors = args
    if len(factors) == 1 and isinstance(factors[0], list | tuple):
        factors = list(factors[0])
    if not isinstance(equation, str) or len(factors) != 2 or not all(isinstance(x, Tensor) for x in factors):
        return None
    given, arrow, result = equation.replace(" ", "").partition("->")
    parts = given.split(",")
    if len(parts) != 2:
        return None
    n_dots = [
        x.ndim - len(part.replace("...", "")) if "..." in part else 0 for part, x in zip(parts, factors, strict=True)
    ]
    taken = [letter for letter in _DOTS if letter not in equation]
    letters = taken[: max(n_dots)]
    first, second = (
        part.replace("...", "".join(letters[len(letters) - n :])) for part, n in zip(parts, n_dots, strict=True)
    )
    if not arrow:
        named = sorted(letter for letter in set(first + second) - set(letters) if (first + second).count(letter) == 1)
        result = "".join(letters + named)
    result = result.replace("...", "".join(letters))
    if any(len(set(axes)) < len(axes) for axes in (first, second)):
        return None
    if len(first) != factors[0].ndim or len(second) != factors[1].ndim:
        return None
    return Product((factors[0], factors[1]), (first, second), result)


_DOTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

PRODUCTS: dict[Any, Callable[[Sequence[Any], dict[str, Any]], Product | None]] = {
    torch.matmul: _matmul,
    torch.bmm: _matmul,
    torch.mm: _matmul,
    torch.baddbmm: _baddbmm,
    torch.einsum: _einsum,
    Tensor.matmul: _matmul,
    Tensor.bmm: _matmul,
    Tensor.mm: _matmul,
    Tensor.baddbmm: _baddbmm,
    Tensor.baddbmm_: _baddbmm,
    Tensor.__matmul__: _matmul,
    Tensor.__rmatmul__: _reversed_matmul,
}
"""The functions of PyTorch that multiply matrices, with what reads their arguments; None: of no matrices."""
