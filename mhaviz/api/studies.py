"""Methods of ``LoadedModel`` as functions that take a model or its name: ``mhaviz.attend``, ``explain`` and others."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import torch

from mhaviz.api.loaded import LoadedModel, load
from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, counted
from mhaviz.layer import embedding as textbook
from mhaviz.limits import require_comparable
from mhaviz.results.embeddings import PositionTable
from mhaviz.results.result import Source

P = ParamSpec("P")
R = TypeVar("R")

_FLOAT64 = 8  # bytes

AnyModel = LoadedModel | str | Path
"""Model from ``mhaviz.load``, or a name, file or folder that it takes."""


def _of_model(method: Callable[Concatenate[LoadedModel, P], R], **how: Any) -> Callable[Concatenate[AnyModel, P], R]:
    """Return the method as a function of a model or its name. ``how``: options of ``load`` if a name is given."""

    @wraps(method)
    def study(model: AnyModel, *arguments: P.args, **options: P.kwargs) -> R:
        return method(model if isinstance(model, LoadedModel) else load(model, **how), *arguments, **options)

    own, *others = signature(method).parameters.values()
    study.__signature__ = Signature([own.replace(name="model"), *others])  # type: ignore[attr-defined]
    study.__qualname__ = method.__name__
    return study  # type: ignore[return-value]


attend = _of_model(LoadedModel.attend)
explain = _of_model(LoadedModel.explain)
matrices = _of_model(LoadedModel.matrices)
masks = _of_model(LoadedModel.masks)
embeddings = _of_model(LoadedModel.embeddings)
compare_scaling = _of_model(LoadedModel.compare_scaling)
trace_shapes = _of_model(LoadedModel.trace_shapes)
ablate = _of_model(LoadedModel.ablate, predicts=True)
budget = _of_model(LoadedModel.budget)
head_pairs = _of_model(LoadedModel.head_pairs)
head_spans = _of_model(LoadedModel.head_spans)
head_statistics = _of_model(LoadedModel.head_statistics)


def sinusoids(length: int = 100, d_model: int = 512) -> PositionTable:
    """Compute the sinusoidal positions that are added to embeddings (Vaswani et al. 2017, section 3.5).

    PE[p, 2i] = sin(p / 10000^(2i/d_model)),  PE[p, 2i+1] = cos(p / 10000^(2i/d_model))

    Raises:
        ArgumentError: a size is below 1, or there are more than 4,096 positions.
        MhavizError: the table does not fit into memory.

    Examples:
        >>> mhaviz.sinusoids(length=50, d_model=8).values.shape  # (length, d_model)
        (50, 8)
    """
    for name, size in (("length", length), ("d_model", d_model)):
        if size < 1:
            raise ArgumentError(f"`{name}`: expected at least 1, got {counted(size)}")
    require_comparable(length, "positions")
    require_memory(3 * _FLOAT64 * length * max(d_model, length), torch.device("cpu"), "the table")
    values = np.asarray(textbook.sinusoids(length, d_model).float().numpy())
    footnote = f"sinusoids of Vaswani et al. 2017, section 3.5; length {length:,}, d_model {d_model:,}"
    return PositionTable(Source(footnote, {"kind": "sinusoids", "length": length, "d_model": d_model}), values)
