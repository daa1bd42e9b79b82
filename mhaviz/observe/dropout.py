"""Compute what a program's weights would be without dropout: those that a picture shows.

Each function that a program applies to weights after dropout is applied to the same weights without it, too. So are
random masks, which a program multiplies by to drop weights itself, and their expectations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mhaviz.observe.functions import COPIES, MULTIPLIES, VIEWS, draws, functions, writes
from mhaviz.observe.handlers import Done


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
        return cls(x, _version(made), None if x is None else _version(x))

    def viewed(self, made: Tensor, view: Callable[[Tensor], Tensor], result: Tensor) -> "Undropped":
        """Return what ``result``, a view of ``made``, would hold."""
        x = self.numbers(made)
        return Undropped.of(result, None if x is None else view(x))

    def numbers(self, made: Tensor) -> Tensor | None:
        """Return the numbers, for the marked tensor; None: not known."""
        is_same = self.x is not None and (_version(made), _version(self.x)) == (self.version, self.own_version)
        return self.x if is_same else None


@dataclass(frozen=True)
class Noise:
    """Mark of numbers that are no weights, and depend on dropout or on a random mask.

    Attributes:
        undropped: what they would be without dropout, or their expectations; None: they are uniform from 0 to 1.
        is_mask: whether they are a random mask, so that most functions of their expectations would mean nothing.
    """

    undropped: Undropped | None
    is_mask: bool = False

    def may_be_after(self, done: Done, made: Tensor) -> bool:
        """Return whether a function of ``undropped`` is what its result, ``made``, would be without dropout."""
        is_linear = done.func in _LINEAR and (made.is_floating_point() or made.dtype == done.first.dtype)
        return is_linear or not self.is_mask


def drops(done: Done) -> bool:
    """Return whether a dropout changes anything."""
    return bool(done.named("p")) and done.named("training", done.named("train")) is not False


def kept(x: Tensor) -> Tensor:
    """Return the numbers of a tensor: the tensor itself, unless nothing would tell that it is changed."""
    return x.clone() if x.is_inference() else x.detach()


def again(done: Done, args: Sequence[Any]) -> Tensor | None:
    """Run a function again with other arguments, in which ``_Expected`` stand for masks. Change none of them.

    None: its result is not known.
    """
    if draws(done.func):
        return None
    kwargs = {name: x for name, x in done.kwargs.items() if name != "out"}
    try:
        result = _mixed(done.func, args) if any(isinstance(x, _Expected) for x in args) else None
        if result is None:
            if done.first is done.result or writes(done.func):
                args = [args[0].clone(), *args[1:]]
            result = done.func(*[x.x if isinstance(x, _Expected) else x for x in args], **kwargs)
            result = args[0] if result is None else result
    except Exception:  # such as a mask of expectations, which is no mask
        return None
    result = result[0] if isinstance(result, tuple) and result else result
    return result if isinstance(result, Tensor) else None


class _Expected:
    """Expectation of a mask, for ``again``."""

    def __init__(self, x: Tensor) -> None:
        self.x = x


def expected(x: Tensor, mask: Tensor) -> Any:
    """Return the argument of ``again`` for a tensor that would be ``x`` without dropout, or in the mean."""
    return _Expected(x) if mask.dtype == torch.bool and x.is_floating_point() else x


def _mixed(func: Any, args: Sequence[Any]) -> Tensor | None:
    """Return what a function that chooses by a random mask gives in the mean; None: it is another function."""
    if func in _NOT:
        return torch.rsub(args[0].x, 1)
    if func in _WHERES:
        mask, x, other = args if func is torch.where else (args[1], args[0], args[2])
    elif func in _MASKING:
        other, mask, x = args
    else:
        return None
    return torch.add(other, (x - other) * mask.x)


def chance(done: Done) -> Tensor | None:
    """Return the expectations of a mask that a function has drawn; None: they are others for each number."""
    p = done.named("p", None if done.func in _FROM_PROBABILITIES else 0.5)
    p = done.first if p is None else p
    if isinstance(p, Tensor):
        is_readable = not (p.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(p)) and p.numel()
        if not is_readable or (p.is_cuda and torch.cuda.is_current_stream_capturing()) or bool((p != p.min()).any()):
            return None
        p = p.min()
    return _everywhere(done.result, p)


def chance_below(done: Done) -> Tensor | None:
    """Return the expectations of a comparison of uniform numbers with one; None: with another tensor."""
    limit = done.argument(1)
    if not isinstance(limit, int | float):
        return None
    share = min(max(float(limit), 0.0), 1.0)
    return _everywhere(done.result, share if done.func in _LESS else 1 - share)


def _everywhere(x: Tensor, number: Any) -> Tensor:
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    return torch.as_tensor(number, dtype=dtype, device=x.device).expand(x.shape)


def _version(x: Tensor) -> int | None:
    return None if x.is_inference() else x._version


UNIFORM, DRAWN = functions("rand rand_like uniform"), functions("bernoulli")
_FROM_PROBABILITIES = frozenset([torch.bernoulli, Tensor.bernoulli])
_LESS = frozenset(functions("lt le less less_equal"))
COMPARISONS = [*_LESS, *functions("gt ge greater greater_equal")]
_NOT = frozenset(functions("logical_not bitwise_not invert"))
_LINEAR = frozenset(
    [*COPIES, *VIEWS, *MULTIPLIES, *_NOT, *functions("div divide true_divide truediv add sub subtract")]
)
_WHERES, _MASKING = frozenset(functions("where")), frozenset([*functions("masked_fill"), Tensor.__setitem__])
