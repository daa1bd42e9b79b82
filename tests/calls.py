"""Calls of every function of PyTorch that tensors may override, with arguments of many forms."""

import itertools
import math
import re

import torch
from torch import overrides

B, H, T, D = 2, 3, 6, 4
SHAPES = {"heads": (B, H, T, D), "states": (B, T, H * D)}
TOKENS = {"heads": 2, "states": 1}

FORMS = """
f(x) | f(x, y) | f(y.clone(), x) | f(x, y, y) | f(y.clone(), x, y) | f(y.clone(), y, x) | f(x, 2) | f(x, 0.5)
f(x, 0.2, 0.8) | f(2, x) | f(x, y, 0.5) | f(x, mask) | f(x, mask, 0.5) | f(x, mask, y) | f(y.clone(), mask, x)
f(mask, x, y) | f(x, feature_mask, 0.5) | f(feature_mask, x, y) | f(x, [order], y[order]) | f(x, order)
f(x, slice(1, 4), y[1:4]) | f(x, (slice(None), slice(1, 4))) | f(x, (..., slice(1, 4), slice(None)))
f(x, ..., 0.5) | f(x, matrix) | f(matrix.clone(), x) | f(x, features) | f(x, features, y) | f(x, wide)
f(x, kernel) | f(x, x.shape) | f(x, *x.shape) | f(x, x.shape[-1:]) | f(x, (0, 0, 1, 0)) | f(x, (0, 0, 1, -1))
f(x, (0, 0, 1, 1), 'circular') | f(x, (0, 0, 1, 1), 'reflect') | f(x, (1, 0)) | f([x, y]) | f([x])
f(x, torch.float32) | f(x, x.shape, x.stride()) | f(x, x.stride(), x.shape) | f(x, *reversed(range(x.ndim)))
f(x, (*range(x.ndim),)) | f(x.sigmoid()) | f(matrix.expand(B, T, T), x) | f(y.clone(), matrix.expand(B, T, T), x)
f(x.movedim(AXIS, 0).contiguous(), (order,), y.movedim(AXIS, 0)).movedim(0, AXIS)
f(x, 0, 1).unflatten(0, x.shape[:2]) | f(x, AXIS, (3, 2)).transpose(AXIS, AXIS + 1).flatten(AXIS, AXIS + 1)
f(x.mT).mT | f(x.mT, 1).mT | f(x.mT, 2, 1, 1).mT | f(x, [1] * x.ndim) | f(x, 1, 1) | f(x, 3, 1) | f(x, 3, 1, 1)
f(x, 'replicate') | f('...->...', x) | f('b...td->b...td', x) | f('b...td,ts->b...sd', x, matrix) | f(x, pixels)
f(x, zeros, zeros + 1) | f(x, shifted) | f(x, shifted, y) | f(x, x, x) | f(x, y, x) | f(x, x, y) | f(x, matrix, y)
"""
FORMS_OF_AN_AXIS = """
f(x, A) | f(x, dim=A) | f(x, [A]) | f(x, A, True) | f(x, 1, A) | f(x, -1, A) | f(x, 2, A) | f(x, A, 0) | f(x, A, 2)
f(x, A, 1, 2) | f(x, [1], [A]) | f(x, 1, dims=A) | f(x, A, order) | f(x, A, order, y) | f(x, A, order, x)
f(x, A, order, 0.5) | f(x, A, index) | f(x, A, index, x) | f(x, A, index, y) | f(x, A, index, 0.5)
f(x, A, index, y, 'sum') | f(x, index, A) | f([x, y], A) | f([y, x], A) | f([x], A) | f(x, y, A) | f(x, [2, 4], A)
f(x, y.narrow(A, 0, 1), A, 2, 3) | f(x, x.narrow(A, 0, 2), A, 3, 5) | f(x, x.select(A, 0), A, 1)
f(x, y.select(A, 0), A, 1) | f(x, 2, 1, A) | f(x, None, A) | f(x, ones(A)) | f(x, twice(A)) | f(x, 3, A, 1)
f(x, A, (x.shape[A], 1)) | f(x, (1, A), (A, 1)) | f(x, A, order, y, 'mean') | f(x, 2, A, 0.5) | f(x, x.shape[A], A)
f(x, A)[0].unsqueeze(A) | f(x, A)[-1].unsqueeze(A) | f(x, A, 0).unsqueeze(A) | f(x, A).squeeze(A)
f(x, A, 2, 1)[..., 1] | f(x, A, (x.shape[A], 1)).squeeze(A + 1) | f(x, 2, A)[-1] | f(x, [2, 4], A)[-1]
f(x, A, keepdim=True) | f(x, 0.5, A, True)
"""
FORMS_OF_TWO_AXES = "f(x, A, E) | f(x, [A, E]) | f(x, [A, E], [E, A]) | f(x, [1, 2], [A, E]) | f(x, 1, [A, E])"

NO_TRUTH = {
    "memory that was not written": "empty_like new_empty new_empty_strided resize resize_as resize_ resize_as_ set_",
    "threads, files, gradients": "backward share_memory_ register_hook storage module_load retain_grad detach_",
    "types that no attention takes": "to_sparse to_mkldnn half bfloat16 rename rename_ refine_names align_to",
    "random numbers, of some features or without end": "rrelu rrelu_ binomial poisson bernoulli_",
}
LEFT_OUT = set(" ".join(NO_TRUTH.values()).split())
PRIVATE = re.compile("_[^_]|__(set|del|reduce|get)__|__(set|reduce)|.*polynomial")  # the last are 1 for small orders


def functions():
    """Names of the functions that tensors may override, with the functions."""
    found = {}
    for namespace, members in overrides.get_overridable_functions().items():
        for function in members if hasattr(namespace, "__name__") else ():
            name = getattr(function, "__name__", "_")
            if callable(function) and name not in LEFT_OUT and not PRIVATE.match(name):
                found[f"{namespace.__name__.removeprefix('torch.')}.{name}"] = function
    return found


FUNCTIONS = functions()


def operands(shape, axis):
    """What the forms of calls name, beside the keys."""
    g = torch.Generator().manual_seed(0)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    size = [1] * len(shape)
    size[axis] = T
    ones = {a: [2 if a == i else 1 for i in range(len(shape))] for a in range(len(shape))}
    return {
        "torch": torch, "B": B, "T": T, "AXIS": axis, "y": torch.randn(shape, generator=g), "order": order,
        "index": order.view(size).expand(shape).contiguous(), "mask": (order < 3).view([*size[:-1], 1]).expand(shape),
        "feature_mask": torch.arange(shape[-1]) % 2 == 0, "matrix": torch.randn(T, T, generator=g),
        "features": torch.randn(shape[-1], shape[-1], generator=g), "wide": torch.randn(shape[-1], generator=g),
        "pixels": torch.randn(H, H, 1, 1, generator=g), "zeros": torch.zeros(shape[1]),
        "shifted": torch.arange(math.prod(shape)).view(shape).roll(1, axis),
        "kernel": torch.randn(T, T, 1, generator=g), "ones": ones.get,
        "twice": lambda a: torch.tensor([2] * shape[a]),
    }  # fmt: skip


NAMES = {where: operands(shape, TOKENS[where]) for where, shape in SHAPES.items()}


def written(form, letters, axes):
    """A form with an axis for each letter."""
    return re.sub(r"\b[AE]\b", lambda m: str(axes[letters.index(m[0])]), form)


def calls(where):
    """Forms, with the calls of ``f`` with ``x`` that each stands for, as text and as code."""
    axes = range(len(SHAPES[where]))
    choices = {"": [()], "A": [(a,) for a in axes], "AE": list(itertools.permutations(axes, 2))}
    found = {}
    for letters, text in {"": FORMS, "A": FORMS_OF_AN_AXIS, "AE": FORMS_OF_TWO_AXES}.items():
        for form in filter(None, (part.strip() for part in text.replace("\n", "|").split("|"))):
            texts = [written(form, letters, choice) for choice in choices[letters]]
            found[form] = {text: eval(f"lambda f, x: {text}", NAMES[where]) for text in texts}
    return found


CALLS = {where: calls(where) for where in SHAPES}


def applied(name, call):
    """What keys are replaced by: the first tensor that a call returns, as real numbers."""
    function, writes = FUNCTIONS[name], re.search(r"[a-z]_$|\.__i", name)

    def moved(x):
        torch.default_generator.manual_seed(0)
        y = call(function, x.clone() if writes else x)
        while isinstance(y, (tuple, list)):
            y = y[0]
        return y if y.dtype == x.dtype else (y.real if y.is_complex() else y).to(x.dtype)

    return moved


def forms(name):
    """The calls of a function after which keys can be attended to, no two of which give the same."""
    refused, allowed = set(), {}
    for where, shape in SHAPES.items():
        NAMES[where].update(operands(shape, TOKENS[where]))  # some functions write into their arguments
        x, results = torch.randn(shape, generator=torch.Generator().manual_seed(2)), []
        for form, texts in CALLS[where].items():
            for text, call in texts.items() if form not in refused else ():
                moved = applied(name, call)
                try:
                    y = moved(x.clone())
                except TypeError:  # for other axes too
                    refused.add(form)
                    break
                except Exception:  # the function takes no such arguments
                    continue
                if is_new(y, results, shape, TOKENS[where]):
                    results.append(y)
                    allowed[where, text] = moved
    return allowed


def is_new(y, results, shape, axis):
    """Whether a result can be attended to, and is no other's."""
    fits = isinstance(y, torch.Tensor) and y.ndim == len(shape) and y.shape[axis] and y.layout == torch.strided
    if not fits or any(y.shape[i] != n for i, n in enumerate(shape) if i != axis) or not y.isfinite().all():
        return False
    return not any(y.shape == z.shape and bool((y == z).all()) for z in results)
