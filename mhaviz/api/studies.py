"""``mhaviz.explain``, ``compare_scaling`` and others as functions of a model or of its name."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from mhaviz.analyses.positions import position_table
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.records.embeddings import PositionTable

P = ParamSpec("P")
R = TypeVar("R")

AnyModel = LoadedModel | str | Path
"""What ``mhaviz.load`` returns, or what it takes."""


def _of_model(method: Callable[Concatenate[LoadedModel, P], R], **how: Any) -> Callable[Concatenate[AnyModel, P], R]:
    """The same as a function of a model, or of its name. ``how``: options of ``load`` where a name is given."""

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
head_statistics = _of_model(LoadedModel.head_statistics)


def sinusoids(length: int = 100, d_model: int = 512) -> PositionTable:
    """The positions that are added to embeddings, without a text: Vaswani et al. 2017, section 3.5.

    PE[p, 2i] = sin(p / 10000^(2i/d_model)),  PE[p, 2i+1] = cos(p / 10000^(2i/d_model))

    Raises:
        ArgumentError: sizes below 1, or more positions than are compared with each other.
    """
    return position_table(length, d_model)
