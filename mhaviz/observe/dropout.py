"""Compute what a program's weights would be without dropout: those that a picture shows.

Each function that a program applies to weights after dropout is applied to the same weights without it, too.

A random mask of the program's own is dropout if it has a number for each weight, and the weights are divided by its
expectation. Any other has changed the weights that are drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor

from mhaviz.observe.functions import COPIES, DROPOUTS, MULTIPLIES, VIEWS, draws, functions, writes
from mhaviz.observe.handlers import Done
from mhaviz.observe.readable import is_readable, version_of


@dataclass(frozen=True)
class Undropped:
    """What a tensor would hold without dropout.

    Attributes:
        x: these numbers; None: not known.
        version: of the tensor when it was marked. If it is another, the tensor has been changed since.
        own_version: of ``x``, which may be a tensor of the program.
    """

    x: Tensor | None
    version: int | None = None
    own_version: int | None = None

    @classmethod
    def of(cls, made: Tensor, x: Tensor | None) -> "Undropped":
        """Return what ``made`` would hold: ``x``, which is kept."""
        return cls(x, version_of(made), None if x is None else version_of(x))

    def viewed(self, made: Tensor, view: Callable[[Tensor], Tensor], result: Tensor) -> "Undropped":
        """Return what ``result``, a view of ``made``, would hold."""
        x = self.numbers(made)
        return Undropped.of(result, None if x is None else view(x))

    def numbers(self, made: Tensor) -> Tensor | None:
        """Return the numbers, for the marked tensor; None: not known."""
        is_same = self.x is not None and (version_of(made), version_of(self.x)) == (self.version, self.own_version)
        return self.x if is_same else None


@dataclass(frozen=True)
class Noise:
    """Mark of numbers that are no weights, and depend on dropout.

    Attributes:
        undropped: what they would be without dropout.
        is_mask: whether they are a mask, so that most functions of what it would be would mean nothing.
    """

    undropped: Undropped
    is_mask: bool = False

    def may_be_after(self, done: Done, made: Tensor) -> bool:
        """Return whether a function of ``undropped`` is what its result, ``made``, would be without dropout."""
        is_linear = done.func in _LINEAR and (made.is_floating_point() or made.dtype == done.first.dtype)
        return is_linear or not self.is_mask


@dataclass(frozen=True)
class Random:
    """Mark of random numbers of the program, or of a mask that it has made of them.

    Attributes:
        version: of the tensor when it was marked. If it is another, nothing is known of its numbers.
        low: they are uniform from here to 1 above; nan: they are not.
        mean: they are a mask, possibly scaled, and this is the expectation of each; nan: not known, or they are none.
    """

    version: int | None
    low: float = nan
    mean: float = nan

    @classmethod
    def of(cls, made: Tensor, low: float = nan, mean: float = nan) -> "Random":
        """Return the mark of ``made``."""
        return cls(version_of(made), low, mean)

    def mean_of(self, marked: Tensor) -> float:
        """Return the expectation of each number of the marked tensor; nan: see ``mean``."""
        return self.mean if version_of(marked) == self.version else nan

    def after(self, done: Done, source: Tensor, made: Tensor) -> "Random | None":
        """Return the mark of ``made``, which a call has made of the marked tensor, ``source``; None: no such mark."""
        func, low, mean = done.func, nan, nan
        is_number = isnan(self.mean) and source.is_floating_point() and func not in COPIES and func not in VIEWS
        others = [x for x in done.each() if isinstance(x, Tensor) and x is not source and x.ndim] if is_number else []
        if func not in _FOLLOWED or others:
            return Random.of(made) if made is source else None  # such as hidden states of random inputs
        version = version_of(source)
        if version is not None and made is source and writes(func):
            version -= 1
        if version != self.version:
            return Random.of(made)
        if func in COPIES or func in _MOVES:
            if made.is_floating_point() or source.dtype in (torch.bool, made.dtype):
                low, mean = self.low, self.mean
        elif func in _NOT and source.dtype == torch.bool:
            mean = 1 - self.mean
        elif func in _FLOORS and 0 <= self.low <= 1:
            mean = self.low
        elif (factor := scale(done, source)) is not None:
            mean = self.mean * factor
        elif len(done.args) == 2 and not done.kwargs:
            other = _number(done.args[1] if done.first is source else done.first)
            if func in COMPARISONS and done.first is source:
                below = other - self.low
                below = below if isnan(below) else min(max(below, 0.0), 1.0)
                mean = below if func in _LESS else 1 - below
            elif func in _ADDS:
                low = self.low + other
            elif func in _SUBTRACTS and done.first is source:
                low = self.low - other
            elif func in _SUBTRACTS_FROM and done.first is source:
                low, mean = other - 1 - self.low, 1 - self.mean if other == 1 else nan
        return Random.of(made, low, mean)


def drops(done: Done) -> bool:
    """Return whether a dropout changes anything."""
    return bool(done.named("p")) and done.named("training", done.named("train")) is not False


def kept(x: Tensor) -> Tensor:
    """Return the numbers of a tensor: the tensor itself, unless nothing would tell that it is changed."""
    return x.clone() if x.is_inference() else x.detach()


def again(done: Done, args: Sequence[Any]) -> Tensor | None:
    """Run a function again with other arguments. Change none of them. None: its result is not known."""
    if draws(done.func):
        return None
    kwargs = {name: x for name, x in done.kwargs.items() if name != "out"}
    try:
        if done.first is done.result or writes(done.func):
            args = [args[0].clone(), *args[1:]]
        result = done.func(*args, **kwargs)
        result = args[0] if result is None else result
    except Exception:  # such as an index by numbers that are none without dropout
        return None
    result = result[0] if isinstance(result, tuple) and result else result
    return result if isinstance(result, Tensor) else None


def chance(done: Done) -> float:
    """Return the expectation of each number of a mask that a function has drawn; nan: they are different."""
    p = done.named("p", None if done.func in _FROM_PROBABILITIES else 0.5)
    p = done.first if p is None else p
    if isinstance(p, Tensor):
        return float(p.min()) if _is_readable(p) and p.numel() and not bool((p != p.min()).any()) else nan
    return float(p)


def scale(done: Done, source: Tensor) -> float | None:
    """Return the number by which a call multiplies ``source``; None: it does not."""
    if len(done.args) != 2 or done.kwargs:
        return None
    x, other = done.args
    if done.func in MULTIPLIES:
        factor = _number(other if x is source else x)
    elif done.func in _DIVIDES and x is source:
        divisor = _number(other)
        factor = 1 / divisor if divisor else nan
    else:
        return None
    return None if isnan(factor) else factor


def share(done: Done, A: Tensor, mask: Tensor, mean: float) -> float:
    """Return the expectation of the factors by which a call multiplies weights with a mask; nan: not known.

    Args:
        done: the call.
        A: the weights.
        mask: random numbers.
        mean: their expectation.
    """
    func, args = done.func, done.args
    if A.shape != mask.shape or done.kwargs:
        return nan
    if func in MULTIPLIES and len(args) == 2:
        return mean
    if mask.dtype != torch.bool or len(args) != 3:
        return nan
    if func in _WHERES:
        chooses, x, other = args if func is torch.where else (args[1], args[0], args[2])
    elif func in _MASKING:
        other, chooses, x = args
    else:
        return nan
    if chooses is not mask or not ((x is A and _is_zero(other)) or (other is A and _is_zero(x))):
        return nan
    return mean if x is A else 1 - mean


def stays_open(done: Done) -> bool:
    """Return whether weights that a random mask has changed may still be rescaled after a call."""
    return done.func in _KEEPING_OPEN or (done.func in DROPOUTS and not drops(done))


def _is_zero(x: Any) -> bool:
    return _is_readable(x) and not bool(x.any()) if isinstance(x, Tensor) else x == 0


def _number(x: Any) -> float:
    """Return a number, or that of a tensor of no axes which no device has to be waited for; nan: it is neither."""
    is_number = isinstance(x, Tensor) and x.ndim == 0 and x.device.type == "cpu" and _is_readable(x)
    return float(x.detach() if is_number else x) if is_number or isinstance(x, int | float) else nan


def _is_readable(x: Tensor) -> bool:
    return type(x) in (Tensor, torch.nn.Parameter) and is_readable(x)


UNIFORM, DRAWN = functions("rand rand_like uniform"), functions("bernoulli")
OTHERS_DRAWN = functions("randn randn_like randint randint_like")
_FROM_PROBABILITIES = frozenset([torch.bernoulli, Tensor.bernoulli])
_LESS = frozenset(functions("lt le less less_equal"))
COMPARISONS = _LESS | frozenset(functions("gt ge greater greater_equal"))
_NOT, _FLOORS = frozenset(functions("logical_not bitwise_not invert")), frozenset(functions("floor"))
_ADDS, _SUBTRACTS_FROM = frozenset(functions("add")), frozenset([Tensor.__rsub__, torch.rsub])
_SUBTRACTS = frozenset(functions("sub subtract")) - _SUBTRACTS_FROM
_DIVIDES = frozenset(functions("div divide true_divide truediv")) - {Tensor.__rtruediv__, Tensor.__rdiv__}
_WHERES, _MASKING = frozenset(functions("where")), frozenset([*functions("masked_fill"), Tensor.__setitem__])
_KEEPING_OPEN = COPIES | MULTIPLIES | _WHERES | _MASKING
_MOVES = frozenset(
    functions(
        "view reshape view_as reshape_as flatten unflatten ravel transpose swapaxes swapdims permute movedim moveaxis "
        "t unsqueeze squeeze"
    )
)
"""Views that leave all numbers once."""
_LINEAR = frozenset([*COPIES, *VIEWS, *MULTIPLIES, *_NOT, *_ADDS, *_SUBTRACTS, *_SUBTRACTS_FROM, *_DIVIDES])
_FOLLOWED = _LINEAR | COMPARISONS | _FLOORS | _WHERES | _MASKING | frozenset(functions("eq ne logical_and logical_or"))
"""Functions of random numbers whose results are random masks, or may become some."""
