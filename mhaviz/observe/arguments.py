"""Arguments of PyTorch's functions by position and by name, however a program has written them."""

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mhaviz.observe.functions import kept_for_pytorch


class _Parameter(NamedTuple):
    name: str
    default: Any
    by_name_only: bool


_NONE = inspect.Parameter.empty

_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"} | {
    "other": "src"  # of ``copy_``
}
"""Names of parameters that differ from those of the operator; PyTorch accepts those of NumPy as well."""


def positional(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments of a call with those that are given by name in their positions, where these are known.

    Parameters before them that are not given have their defaults. What can only be given by name stays.
    """
    try:
        moved, kept = _plan(func, len(args), tuple(kwargs))
    except Exception:  # func may be anything that a program passes to PyTorch's protocol
        return args, kwargs
    if not moved:
        return args, kwargs
    return (
        (*args, *(default if name is None else kwargs[name] for name, default in moved)),
        {name: kwargs[name] for name in kept},
    )


@kept_for_pytorch
def _plan(func: Any, n_args: int, names: tuple[str, ...]) -> tuple[tuple[tuple[str | None, Any], ...], tuple[str, ...]]:
    """Return what follows the positional arguments, each with its name or else its default, and the names that stay."""
    for parameters in _overloads(func):
        own = {parameter.name: parameter for parameter in parameters}
        given = {name if name in own else _OTHER_NAMES.get(name, name): name for name in names}
        ordered = [parameter for parameter in parameters if not parameter.by_name_only]
        last = max((place for place, parameter in enumerate(ordered) if parameter.name in given), default=-1)
        moved = ordered[n_args : last + 1]
        is_of_it = given.keys() <= own.keys() and not given.keys() & {one.name for one in ordered[:n_args]}
        if is_of_it and n_args <= len(ordered) and all(one.name in given or one.default is not _NONE for one in moved):
            kept = given.keys() - {one.name for one in moved}
            return tuple((given.get(one.name), one.default) for one in moved), tuple(given[name] for name in kept)
    return (), names


@kept_for_pytorch
def place_of(func: Any, name: str, n_args: int) -> int | None:
    """Return the position of the parameter of this name among so many positional arguments; None: it has none."""
    for parameters in _overloads(func):
        names = [parameter.name for parameter in parameters if not parameter.by_name_only]
        if name in names[:n_args]:
            return names.index(name)
    return None


def _overloads(func: Any) -> Sequence[Sequence[_Parameter]]:
    """Return the parameters of each overload of a function, in their order; empty: they are not known."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):  # it is written in C++
        parameters = None
    if parameters is not None and not any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        return [[_Parameter(one.name, one.default, one.kind is one.KEYWORD_ONLY) for one in parameters]]
    return [_of_schema(func, overload._schema) for overload in _operators(func)]


def _operators(func: Any) -> list[Any]:
    """Return the overloads of the operator that a function calls, by its name."""
    if hasattr(func, "_schema"):
        return [func]
    packet: Any = func if hasattr(func, "overloads") else getattr(torch.ops.aten, getattr(func, "__name__", ""), None)
    return [] if not hasattr(packet, "overloads") else [getattr(packet, name) for name in packet.overloads()]


def _of_schema(func: Any, schema: Any) -> list[_Parameter]:
    parameters = [
        _Parameter(one.name, one.default_value if one.has_default_value() else _NONE, one.kwarg_only)
        for one in schema.arguments
    ]
    own = next((one for one in parameters if one.name == "self"), None)
    if own is None or hasattr(func, "_schema") or hasattr(func, "overloads"):
        return parameters
    if getattr(func, "__objclass__", None) is not None and issubclass(Tensor, func.__objclass__):  # a method
        return [own, *(one for one in parameters if one is not own)]
    return [one._replace(name="input") if one is own else one for one in parameters]
