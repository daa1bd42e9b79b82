"""PyTorch's functions by name, and where a view puts an axis."""

from collections.abc import Callable
from functools import wraps
from types import MethodWrapperType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

_HOMES = (torch, Tensor, F)


def functions(names: str) -> list[Any]:
    """Return the functions and methods of PyTorch that have these names, with in-place and operator variants."""
    every = [name for one in names.split() for name in (one, f"{one}_", f"__{one}__", f"__r{one}__", f"__i{one}__")]
    return [getattr(home, name) for home in _HOMES for name in every if hasattr(home, name)]


def is_of_pytorch(func: Any) -> bool:
    """Return whether a function is PyTorch's own, which lives as long as the process."""
    of = func.__self__ if type(func) is MethodWrapperType else func  # such as Tensor.T.__get__
    home = getattr(getattr(of, "__objclass__", of), "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] == "torch"


T = TypeVar("T")
_MOST = 4096
"""Number of results that are kept of a function of functions."""


def kept_for_pytorch(compute: Callable[..., T]) -> Callable[..., T]:
    """Keep the results for PyTorch's own functions, the first argument, and for other hashable arguments.

    Nothing is kept for a function of a program, which would live on with all that it closes over, such as models.
    """
    known: dict[tuple[Any, ...], T] = {}

    @wraps(compute)
    def result_for(func: Any, *others: Any) -> T:
        key = func, *others
        if key in known:
            return known[key]
        result = compute(func, *others)
        if len(known) < _MOST and is_of_pytorch(func):
            known[key] = result
        return result

    return result_for


MULTIPLIES = frozenset(functions("mul multiply"))
_DROPOUTS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout"
DROPOUTS = frozenset(functions(f"{_DROPOUTS} native_dropout _fused_dropout"))

COPIES = frozenset(
    [
        *functions("to type float half bfloat16 double type_as contiguous clone detach cpu cuda requires_grad_ alias"),
        Tensor.data.__get__,  # type: ignore[attr-defined]
    ]
)
"""Functions that keep all numbers, possibly in another precision."""

RESHAPES = frozenset(functions("view reshape view_as reshape_as flatten unflatten expand expand_as ravel"))
VIEWS = RESHAPES | frozenset(
    [
        *functions("transpose swapaxes swapdims permute movedim moveaxis t adjoint unsqueeze squeeze"),
        *functions("getitem iter select narrow unbind chunk split split_with_sizes tensor_split index_select"),
        Tensor.mT.__get__,  # type: ignore[attr-defined]
        Tensor.T.__get__,  # type: ignore[attr-defined]
    ]
)
"""Functions that keep all numbers or some of them, unchanged, in other axes."""


_KEEPING = (
    "to type float half bfloat16 double int long bool type_as contiguous clone detach cpu cuda requires_grad alias "
    "data grad real imag conj resolve_conj complex polar and or xor invert truediv floordiv floor_divide multiply "
    "subtract divide negative absolute softsign tanhshrink hardswish logsigmoid prelu index_fill tril triu fill zero "
    "layer_norm group_norm "
    "instance_norm batch_norm rms_norm normalize softmax log_softmax softmin gumbel_softmax sum nansum mean nanmean "
    f"amax amin max min argmax argmin prod norm linalg_vector_norm std var any all logsumexp flex_attention {_DROPOUTS}"
)
"""Further functions that keep places: not tagged as pointwise by PyTorch, or without an operator of that name."""


@kept_for_pytorch
def keeps_places(func: Any) -> bool:
    """Return whether a function is known to leave each number in its place, or to sum an axis away."""
    name, tags = _name_and_tags(func)
    return name in _KEEPING.split() or any(torch.Tag.pointwise in several for several in tags)


@kept_for_pytorch
def draws(func: Any) -> bool:
    """Return whether a function may draw random numbers."""
    name, tags = _name_and_tags(func)
    is_known = bool(tags) or func in VIEWS or name == "setitem" or name in _KEEPING.split()
    return not is_known or name in _DRAWING or any(torch.Tag.nondeterministic_seeded in several for several in tags)


_DRAWING = (*_DROPOUTS.split(), "gumbel_softmax")
"""Functions that draw random numbers, and have no operator of that name."""


def _name_and_tags(func: Any) -> tuple[str, list[Any]]:
    """Return the name of a function, and the tags of each overload of its operators."""
    name = getattr(func, "__name__", "")
    name = getattr(func.__self__ if name == "__get__" else func, "__name__", "").partition(".")[0].strip("_")
    names = (name, name[1:]) if name[:1] in ("i", "r") else (name,)  # __iadd__, __radd__
    found = (getattr(torch.ops.aten, one, None) for one in names)
    packets: list[Any] = [one for one in found if hasattr(one, "overloads")]
    return name, [getattr(packet, overload).tags for packet in packets for overload in packet.overloads()]


def writes(func: Any) -> bool:
    """Return whether a function writes into its first argument, by its name."""
    name = getattr(func, "__name__", "")
    return name.endswith("_") and (name[:2] != "__" or name in _WRITING)


_WRITING = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"}


def axis_after(func: Any, view: Callable[[Tensor], Tensor], source: Tensor, result: Tensor, axis: int) -> int | None:
    """Return where a view has put an axis, or what it has left of it. Both axes are counted from the end.

    None: the axis is gone or joined with others, or its place is not known.
    """
    if func in RESHAPES:
        n, size = source.shape[axis], source.shape[axis:].numel()
        found = [at for at in range(-result.ndim, 0) if (result.shape[at], result.shape[at:].numel()) == (n, size)]
        return axis if axis in found else found[0] if len(found) == 1 else None
    sizes, strides = list(source.shape), [0] * source.ndim
    sizes[axis], strides[axis] = max(sizes[axis], 2), 1  # an axis of length 1 would look like a new one
    with torch.inference_mode(False):  # in inference mode no tensor says that it is a view
        probe = torch.empty_strided(sizes, strides, device="meta")
        try:
            after = view(probe)
        except Exception:  # such as an index by a tensor of another device
            after = None
    if after is not None and after.ndim != result.ndim:  # it had length 1, and is gone
        return None
    if after is not None and after._is_view():
        found = [place - after.ndim for place, stride in enumerate(after.stride()) if stride and after.shape[place] > 1]
        return found[0] if len(found) == 1 else None
    return axis if result.ndim == source.ndim else None  # some rows were copied
