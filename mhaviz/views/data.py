"""Records as data: JSON for people and scripts, safetensors for arrays."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from functools import singledispatch
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz._version import __version__
from mhaviz.errors import MhavizError
from mhaviz.records import (
    Attention,
    AttentionMap,
    Complexity,
    Evaluation,
    Explanation,
    FollowedElement,
    ImplementationComparison,
    ProjectionComparison,
    Report,
    ScalingComparison,
    ScalingSweep,
    ShapeTrace,
    Source,
    Timing,
    TraceStep,
    Training,
)
from mhaviz.views.measured import skip_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@singledispatch
def document(record: object) -> dict[str, Any]:
    """The record as one JSON document. Arrays stay arrays: ``write_json`` writes them row by row."""
    raise MhavizError(f"expected a record that has a JSON form, got {type(record).__name__}")


@document.register
def _(record: Attention) -> dict[str, Any]:
    return _head(record.source) | {"maps": [_describe(m) | {"weights": m.weights} for m in record.maps]}


@document.register
def _(record: ShapeTrace) -> dict[str, Any]:
    steps = [_step(step) for step in record.steps]
    return _head(record.source) | {"tokens": [list(tokens) for tokens in record.tokens], "steps": steps}


@document.register
def _(record: FollowedElement) -> dict[str, Any]:
    return asdict(record)


@document.register
def _(record: ScalingComparison) -> dict[str, Any]:
    heads = [
        {
            "head": head,
            **{
                name: asdict(scaling.statistics[i]) | {"scores": scaling.scores[i], "weights": scaling.weights[i]}
                for name, scaling in (("unscaled", record.unscaled), ("scaled", record.scaled))
            },
        }
        for i, head in enumerate(record.heads)
    ]
    about = {"kind": record.kind, "d_key": record.d_key, "queries": list(record.queries), "keys": list(record.keys)}
    return _head(record.source) | about | {"heads": heads}


@document.register
def _(record: ScalingSweep) -> dict[str, Any]:
    sizes = [
        {"d_key": d_key, "theory": theory, "unscaled": asdict(unscaled), "scaled": asdict(scaled)}
        for d_key, theory, unscaled, scaled in zip(
            record.d_keys, record.theory, record.unscaled, record.scaled, strict=True
        )
    ]
    return _head(record.source) | {"tokens": list(record.tokens), "draws": record.draws, "sweep": sizes}


@document.register
def _(record: ImplementationComparison) -> dict[str, Any]:
    ways = [
        {
            "name": way.name,
            "code": way.code,
            "gives_weights": way.gives_weights,
            "runs": [
                {"length": length, **_timing(timing), "speedup": speedup, "difference": difference}
                for length, timing, speedup, difference in zip(
                    record.lengths, way.timings, way.speedups, way.differences, strict=True
                )
            ],
        }
        for way in record.implementations
    ]
    about = {"reference": record.reference, "most_seconds": record.most_seconds, "lengths": list(record.lengths)}
    return _head(record.source) | about | {"implementations": ways}


@document.register
def _(record: Complexity) -> dict[str, Any]:
    measured = {"projections": record.projections, "attention": record.attention, "whole": record.whole}
    return _head(record.source) | {
        "lengths": list(record.lengths),
        "terms": [asdict(term) for term in record.terms],
        "parameter_bytes": record.parameter_bytes,
        "measured": {name: [_timing(timing) for timing in timings] for name, timings in measured.items()},
        "crossover": {
            "terms": record.equal_terms,
            "operations": record.equal_operations,
            "times": record.equal_times,
            "seconds": record.equal_seconds,
        },
        "longest": [asdict(longest) for longest in record.longest],
        "most_seconds": record.most_seconds,
    }


@document.register
def _(record: Report) -> dict[str, Any]:
    parts = {"trace": record.trace, "scaling": record.scaling}
    return document(record.attention) | {name: _without_head(document(part)) for name, part in parts.items()}


@document.register
def _(record: Training) -> dict[str, Any]:
    return _head(record.source) | _without_source(record)


@document.register
def _(record: Evaluation) -> dict[str, Any]:
    return _head(record.source) | _without_source(record)


@document.register
def _(record: ProjectionComparison) -> dict[str, Any]:
    pair = record.pair and {"positions": list(record.pair), "tokens": [record.tokens[i] for i in record.pair]}
    about = {"tokens": list(record.tokens), "d_model": record.d_model, "exclude_self": record.exclude_self}
    stages = [_fields(stage) for stage in record.stages]
    heads = {"heads": record.heads, "divergence": record.divergence, "mean_divergence": record.mean_divergence}
    return _head(record.source) | about | {"pair": pair, "stages": stages} | heads


@document.register
def _(record: Explanation) -> dict[str, Any]:
    about = {"token": record.token, "d_key": record.d_key}
    return _head(record.source) | about | _without_source(record)


def write_json(document: dict[str, Any], stream: IO[str]) -> None:
    """Write the document with its arrays as nested lists, a row at a time: large maps need no second copy.

    A number that JSON does not have, such as a hidden score, becomes null.
    """
    for piece in _pieces(document):
        stream.write(piece)
    stream.write("\n")


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray) and value.ndim > 1:
        value = list(value)
    if isinstance(value, np.ndarray):
        numbers = value.tolist()
        yield json.dumps(numbers if np.isfinite(value).all() else [n if math.isfinite(n) else None for n in numbers])
    elif isinstance(value, dict):
        yield "{"
        for i, (key, item) in enumerate(value.items()):
            yield f"{', ' if i else ''}{json.dumps(key)}: "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for i, item in enumerate(value):
            yield ", " if i else ""
            yield from _pieces(item)
        yield "]"
    else:
        yield json.dumps(None if isinstance(value, float) and not math.isfinite(value) else value)


def safetensors_bytes(attention: Attention) -> bytes:
    """One float32 tensor a map; all but the weights as JSON text under the metadata key ``mhaviz``."""
    from safetensors.numpy import save

    arrays = (np.ascontiguousarray(m.weights) for m in attention.maps)
    tensors: dict[str, NDArray[Any]] = dict(zip(tensor_names(attention), arrays, strict=True))
    metadata = _head(attention.source) | {"maps": [_describe(m) for m in attention.maps]}
    return save(tensors, {"mhaviz": "".join(_pieces(metadata))})


def tensor_names(attention: Attention) -> list[str]:
    """Of each map: "layer.0.self", or "sentence.2.layer.0.self" where there are several sentences.

    Where there are maps by both reductions, that of the largest weights ends in ".max".
    """
    names: list[str] = []
    for m in attention.maps:
        name = f"layer.{m.layer}.{m.kind}"
        name = name if m.sentence is None else f"sentence.{m.sentence}.{name}"
        names.append(f"{name}.max" if name in names and m.edges.reduction == "max" else name)
    return names


def _head(source: Source) -> dict[str, Any]:
    return {"mhaviz": __version__, "source": {"footnote": source.footnote, **source.details}}


def _without_head(whole: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in whole.items() if name not in ("mhaviz", "source")}


def _describe(m: AttentionMap) -> dict[str, Any]:
    """All but the weights. ``heads`` is there only when they are not simply 0, 1, 2, …, edges only with cells.

    ``queries`` and ``keys`` are all tokens from the first edge to the last.
    """
    description: dict[str, Any] = {"layer": m.layer, "kind": m.kind, "queries": list(m.queries), "keys": list(m.keys)}
    if m.sentence is not None:
        description["sentence"] = m.sentence
    if m.heads != tuple(range(len(m.heads))):
        description["heads"] = list(m.heads)
    if m.cells is not None:
        description["query_edges"], description["key_edges"] = m.cells.query_edges.tolist(), m.cells.key_edges.tolist()
        description["reduction"] = m.cells.reduction
    if m.summary is not None:
        description["summary"] = asdict(m.summary)
    return description


def _step(step: TraceStep) -> dict[str, Any]:
    described = _fields(step)
    if step.values is None:
        del described["values"]
    return described


def _fields(record: "DataclassInstance") -> dict[str, Any]:
    """The fields of a dataclass by name; its arrays stay what they are."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _without_source(record: "DataclassInstance") -> dict[str, Any]:
    """The same, with dataclasses inside it as plain values."""
    return {name: _plain(part) for name, part in _fields(record).items() if name != "source"}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _timing(timing: Timing) -> dict[str, Any]:
    return asdict(timing) | {"skipped": skip_text(timing) or None}
