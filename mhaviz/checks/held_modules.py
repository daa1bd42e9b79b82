"""Modules that a layer runs, as a first call tells, or as what its function closes over is a guess at before."""

import inspect
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from mhaviz.checks.layers import Layer


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


def modules_run_by(layer: Layer) -> tuple[nn.Module, ...]:
    """Return the outermost modules that a call of a layer runs, and those that were guessed before."""
    found, depth = dict.fromkeys(layer.modules), [0]

    def begins(module: nn.Module, args: object) -> None:
        if not depth[0]:
            found[module] = None
        depth[0] += 1

    def ends(module: nn.Module, args: object, output: object) -> None:
        depth[0] -= 1

    hooks = register_module_forward_pre_hook(begins), register_module_forward_hook(ends, always_call=True)
    x = torch.zeros(2, 7, layer.d_model).to(layer.like)
    try:
        with torch.no_grad(), suppress(Exception):  # what it raises is said by the first pass
            layer(x, memory=x if layer.is_cross else None)
    finally:
        for one in hooks:
            one.remove()
    return tuple(found)
