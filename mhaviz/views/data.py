"""Records as data: JSON for people and scripts, safetensors for arrays; ``formats`` writes them to files."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from functools import singledispatch
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import MhavizError
from mhaviz.pages.timings import skip_text
from mhaviz.records import (
    EDGES,
    EFFECTS,
    SINUSOIDS,
    STATISTICS,
    Ablation,
    Attention,
    Complexity,
    CorpusDifference,
    Difference,
    EmbeddedText,
    Evaluation,
    Explanation,
    FollowedElement,
    HeadStatistics,
    ImageAttention,
    ImplementationComparison,
    LayerMatrices,
    Masking,
    PositionTable,
    ProjectionComparison,
    Report,
    ScalingComparison,
    ScalingSweep,
    ShapeTrace,
    Timing,
    TraceStep,
    Training,
    probe_to_json,
)
from mhaviz.records.ablation import EFFECT_COLUMNS
from mhaviz.records.head_statistics import HEAD_COLUMNS
from mhaviz.records.saved_form import METADATA, METADATA_FILE, describe, describe_source, tensor_names

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first date that an archive can have


@singledispatch
def document(record: object) -> dict[str, Any]:
    """The record as one JSON document. Arrays stay arrays: ``write_json`` writes them row by row."""
    raise MhavizError(f"expected a record that has a JSON form, got {type(record).__name__}")


@document.register
def _(record: Attention) -> dict[str, Any]:
    return describe_source(record.source) | {"maps": [describe(m) | {"weights": m.weights} for m in record.maps]}


@document.register
def _(record: ShapeTrace) -> dict[str, Any]:
    steps = [_step(step) for step in record.steps]
    return describe_source(record.source) | {"tokens": [list(tokens) for tokens in record.tokens], "steps": steps}


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
    layer = {} if record.layer is None else {"layer": record.layer}
    about = layer | {
        "kind": record.kind,
        "d_key": record.d_key,
        "queries": list(record.queries),
        "keys": list(record.keys),
    }
    return describe_source(record.source) | about | {"heads": heads}


@document.register
def _(record: ScalingSweep) -> dict[str, Any]:
    sizes = [
        {"d_key": d_key, "theory": theory, "unscaled": asdict(unscaled), "scaled": asdict(scaled)}
        for d_key, theory, unscaled, scaled in zip(
            record.d_keys, record.theory, record.unscaled, record.scaled, strict=True
        )
    ]
    return describe_source(record.source) | {"tokens": list(record.tokens), "draws": record.draws, "sweep": sizes}


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
    return describe_source(record.source) | about | {"implementations": ways}


@document.register
def _(record: Complexity) -> dict[str, Any]:
    measured = {"projections": record.projections, "attention": record.attention, "whole": record.whole}
    return describe_source(record.source) | {
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
    return describe_source(record.source) | _without_source(record)


@document.register
def _(record: Evaluation) -> dict[str, Any]:
    return describe_source(record.source) | _without_source(record)


@document.register
def _(record: ProjectionComparison) -> dict[str, Any]:
    pair = record.pair and {"positions": list(record.pair), "tokens": [record.tokens[i] for i in record.pair]}
    about = {"tokens": list(record.tokens), "d_model": record.d_model, "include_self": record.include_self}
    stages = [_fields(stage) for stage in record.stages]
    heads = {"heads": record.heads, "divergence": record.divergence, "mean_divergence": record.mean_divergence}
    heads |= {"unit": "bits", "bound": 1}
    return describe_source(record.source) | about | {"pair": pair, "stages": stages} | heads


@document.register
def _(record: Difference) -> dict[str, Any]:
    differences = [
        describe(m.change)
        | {
            "divergence": m.divergence,
            "worst_row": [worst and asdict(worst) for worst in m.worst],
            "zero_rows": list(m.zero_rows),
            "largest": [change and asdict(change) for change in m.largest],
            "change": m.change.weights,
        }
        for m in record.maps
    ]
    ranking = [
        {
            "map": one.map.name,
            "head": one.head,
            "divergence": one.divergence,
            "worst_row": one.worst and one.worst.divergence,
        }
        for one in record.ranking
    ]
    only = {"only_first": list(record.only_before), "only_second": list(record.only_after)}
    about = {"unit": "bits", "bound": 1, "differences": differences, "ranking": ranking}
    return describe_source(record.source) | about | only


@document.register
def _(record: CorpusDifference) -> dict[str, Any]:
    kinds = [_fields(kind) | {"layers": list(kind.layers)} for kind in record.kinds]
    above = {(head.kind, head.layer, head.head) for head in record.above}
    ranking = [
        asdict(head) | ({"above": (head.kind, head.layer, head.head) in above} if record.limits.are_given else {})
        for head in record.ranking
    ]
    limits = {"fail_above": record.limits.mean, "fail_above_row": record.limits.row}
    about = {"unit": "bits", "bound": 1, "limits": limits, "too_long": record.too_long}
    return describe_source(record.source) | about | {"kinds": kinds, "ranking": ranking}


@document.register
def _(record: HeadStatistics) -> dict[str, Any]:
    kinds = [
        {
            "kind": kind.kind,
            "layers": list(kind.layers),
            "sentences": kind.sentences,
            "queries": kind.queries,
            "sink_rate": kind.sink_rate,
            "statistics": {name: _fields(kind.average(name)) for name in STATISTICS},
        }
        for kind in record.kinds
    ]
    about = {
        "quantity": record.quantity,
        "too_long": record.too_long,
        "probe": probe_to_json(record.probe),
        "bootstrap": {"replicates": record.replicates, "seed": record.seed, "level": 0.95},
        "edges": {name: list(edges) for name, edges in EDGES.items()},
    }
    return describe_source(record.source) | about | {"kinds": kinds}


@document.register
def _(record: Ablation) -> dict[str, Any]:
    kinds = [
        {"kind": kind.kind, "layers": list(kind.layers), **{name: _fields(kind.effect(name)) for name in EFFECTS}}
        for kind in record.kinds
    ]
    about = {name: getattr(record, name) for name in ("prediction", "sentences", "loss", "too_long")}
    bootstrap = {"replicates": record.replicates, "seed": record.seed, "level": 0.95}
    about |= {"probe": probe_to_json(record.probe), "bootstrap": bootstrap}
    return describe_source(record.source) | about | {"kinds": kinds}


@document.register
def _(record: EmbeddedText) -> dict[str, Any]:
    tokens = {
        "tokens": list(record.tokens.texts),
        "special": list(record.tokens.special),
        "ids": list(record.tokens.ids),
    }
    about = {"added": record.added, "within": list(record.within), "difference": record.difference}
    parts = [_fields(part) | {"norms": part.norms, "cosines": part.cosines} for part in record.parts]
    return describe_source(record.source) | tokens | about | {"is_target": record.is_target, "parts": parts}


@document.register
def _(record: PositionTable) -> dict[str, Any]:
    return describe_source(record.source) | {"equation": SINUSOIDS, "values": record.values, "cosines": record.cosines}


@document.register
def _(record: Explanation) -> dict[str, Any]:
    about = {"token": record.token, "d_key": record.d_key}
    return describe_source(record.source) | about | _without_source(record)


@document.register
def _(record: LayerMatrices) -> dict[str, Any]:
    layer = {} if record.layer is None else {"layer": record.layer}
    about = layer | {
        "kind": record.kind,
        "queries": list(record.queries.texts),
        "keys": list(record.keys.texts),
        "n_heads": record.n_heads,
        "n_key_heads": record.n_key_heads,
        "rule": record.rule,
        "left_out": record.left_out or None,
    }
    named = ("input", "memory", "query", "key", "value", "joined", "output")
    wholes = {name: matrix and _fields(matrix) for name in named for matrix in [getattr(record, name)]}
    return describe_source(record.source) | about | {"heads": [_fields(head) for head in record.heads]} | wholes


@document.register
def _(record: Masking) -> dict[str, Any]:
    layer = {} if record.layer is None else {"layer": record.layer}
    about = layer | {"kind": record.kind, "rule": record.rule, "heads": list(record.heads)}
    dropout = {"dropout": record.dropout, "dropout_seed": None if record.dropout is None else record.seed}
    sentences = [
        _fields(one) | {"queries": list(one.queries.texts), "keys": list(one.keys.texts), "padding": one.padding}
        for one in record.sentences
    ]
    return describe_source(record.source) | about | dropout | {"sentences": sentences}


@document.register
def _(record: ImageAttention) -> dict[str, Any]:
    height, width = record.image.shape[:2]
    maps = [
        {
            "layer": m.layer,
            "heads": list(m.heads),
            "grid": list(m.grid),
            "query_patch": m.patch and list(m.patch),
            "special": {"tokens": list(m.special_texts), "weights": m.special},
            "weights": m.weights,
        }
        | ({} if m.sentence is None else {"sentence": m.sentence})
        | ({"module": m.module} if m.module else {})
        | ({} if m.pass_number is None else {"pass": m.pass_number})
        for m in record.maps
    ]
    image = {"name": record.image_name or None, "width": width, "height": height}
    about = {"image": image, "query": record.query or None, "quantity": record.quantity.key}
    return describe_source(record.source) | about | {"maps": maps}


def count_numbers(document: Any) -> int:
    """How many numbers are in the arrays of a document."""
    if isinstance(document, dict):
        return sum(map(count_numbers, document.values()))
    if isinstance(document, (list, tuple)):
        return sum(map(count_numbers, document))
    return document.size if isinstance(document, np.ndarray) else 0


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
        yield _row(value)
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


def _row(numbers: NDArray[Any]) -> str:
    """Numbers in as few digits as tell them from all others of their precision: 0.1, not 0.10000000149011612."""
    if not np.isfinite(numbers).all():
        return json.dumps([number if math.isfinite(number) else None for number in numbers.tolist()])
    if numbers.dtype == np.float32:
        return f"[{', '.join(numbers.astype(str).tolist())}]"
    return json.dumps(numbers.tolist())


def safetensors_bytes(attention: Attention) -> bytes:
    """One float32 tensor a map; all but the weights as JSON text under the metadata key ``mhaviz``."""
    from safetensors.numpy import save

    maps = [describe(m) for m in attention.maps]
    arrays = (np.ascontiguousarray(m.weights) for m in attention.maps)
    tensors: dict[str, NDArray[Any]] = dict(zip(tensor_names(maps), arrays, strict=True))
    metadata = describe_source(attention.source) | {"maps": maps}
    return save(tensors, {METADATA: "".join(_pieces(metadata))})


def npz_bytes(attention: Attention) -> bytes:
    """The same arrays by the same names as a .npz file, with the metadata as a text file among them.

    numpy's own ``savez`` writes the time into the file.
    """
    maps = [describe(m) for m in attention.maps]
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(m.weights) for name, m in zip(tensor_names(maps), attention.maps, strict=True)
    }
    metadata = "".join(_pieces(describe_source(attention.source) | {"maps": maps}))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            about = zipfile.ZipInfo(f"{name}.npy", _LONG_AGO)
            about.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(about, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        archive.writestr(zipfile.ZipInfo(METADATA_FILE, _LONG_AGO), metadata, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def write_csv(attention: Attention, stream: IO[str]) -> None:
    """All numbers in long form, a line each, with the columns of ``Attention.to_dataframe``; a head at a time."""
    lines = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")  # a lone \r would tear a line
    for number, m in enumerate(attention.maps):
        for head in m.heads:
            columns = m.select((head,)).columns_of_weights(attention.recorded_columns)
            if not number and head == m.heads[0]:
                lines.writerow(columns)
            weights = map(_ShortFloat, columns.pop("weight").astype(str))
            lines.writerows(zip(*(column.tolist() for column in columns.values()), weights, strict=True))


def write_head_csv(record: HeadStatistics | Ablation, stream: IO[str]) -> None:
    """A line a head and number, with the columns of the record's ``to_dataframe``."""
    lines = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    lines.writerow(EFFECT_COLUMNS if isinstance(record, Ablation) else HEAD_COLUMNS)
    lines.writerows(
        ["" if isinstance(value, float) and math.isnan(value) else value for value in row] for row in record.rows()
    )


class _ShortFloat(float):
    """A float32 that is written in as few digits as tell it from all others."""

    def __new__(cls, digits: str) -> "_ShortFloat":
        number = super().__new__(cls, digits)
        number.digits = digits
        return number

    digits: str

    def __repr__(self) -> str:
        return self.digits


def _without_head(whole: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in whole.items() if name not in ("mhaviz", "source")}


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
