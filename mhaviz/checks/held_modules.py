"""Modules that a callable may run: itself, its owner, or what its function closes over."""

import inspect
from functools import partial
from typing import Any

from torch import nn


def modules_of(attend: Any) -> tuple[nn.Module, ...]:
    """Return the modules that a callable may run: itself, its owner, or what its function closes over or names."""
    found: dict[int, nn.Module] = {}
    left, seen = [(attend, 0)], set()
    while left:
        one, depth = left.pop(0)
        if isinstance(one, nn.Module):
            found[id(one)] = one
        elif id(one) not in seen and depth < _DEPTH:
            seen.add(id(one))
            left += [(held, depth + 1) for held in _held_by(one)]
    return tuple(found.values())


_DEPTH = 4
"""Most functions, lists and objects that hold one another, down to a module."""


def _held_by(one: Any) -> list[Any]:
    """Return what a callable, or a list of some, may run."""
    if isinstance(one, list | tuple):
        return list(one)
    if isinstance(one, partial):
        return [one.func, *one.args, *one.keywords.values()]
    if not callable(one) or inspect.isclass(one) or str(getattr(one, "__module__", "")).startswith("torch."):
        return []
    function, owner = getattr(one, "__func__", one), getattr(one, "__self__", None)
    held = [*[owner] * isinstance(owner, nn.Module), *(getattr(function, "__defaults__", None) or ())]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # it is empty
            continue
    if (code := getattr(function, "__code__", None)) is not None:
        for names in (function.__globals__, _attributes(owner)):
            held += [names[name] for name in code.co_names if name in names]
        return held
    return held + list(_attributes(one).values())


def _attributes(one: Any) -> dict[str, Any]:
    return {} if isinstance(one, nn.Module) else getattr(one, "__dict__", {})
