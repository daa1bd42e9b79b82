"""Records as data: JSON for people and scripts, safetensors for arrays; ``formats`` writes them to files."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import singledispatch
from typing import IO, Any

import numpy as np
import orjson

from mhaviz.errors import MhavizError
from mhaviz.pages.timings import skip_text
from mhaviz.records.ablation import EFFECT_COLUMNS, EFFECTS, Ablation
from mhaviz.records.attention import Attention
from mhaviz.records.complexity import Complexity
from mhaviz.records.corpus_difference import CorpusDifference
from mhaviz.records.difference import Difference
from mhaviz.records.embeddings import SINUSOIDS, EmbeddedText, PositionTable
from mhaviz.records.explanation import Explanation
from mhaviz.records.head_statistics import EDGES, HEAD_COLUMNS, STATISTICS, HeadStatistics
from mhaviz.records.image import ImageAttention
from mhaviz.records.implementations import ImplementationComparison
from mhaviz.records.masking import Masking
from mhaviz.records.matrices import LayerMatrices
from mhaviz.records.probes import probe_to_json
from mhaviz.records.projections import ProjectionComparison
from mhaviz.records.report import Report
from mhaviz.records.saved_form import METADATA, METADATA_FILE, describe, describe_source, tensor_names
from mhaviz.records.scaling import ScalingComparison, ScalingSweep
from mhaviz.records.timing import Timing
from mhaviz.records.trace import ShapeTrace
from mhaviz.records.training import Evaluation, Training


def document(record: Any) -> dict[str, Any]:
    """The record as one JSON document. Arrays and dataclasses stay what they are: ``write_json`` writes them."""
    found = _found(record)
    return describe_source(record.source) | found


@singledispatch
def _found(record: object) -> dict[str, Any]:
    """What a document says after its source."""
    raise MhavizError(f"expected a record that has a JSON form, got {type(record).__name__}")


@_found.register
def _(record: Attention) -> dict[str, Any]:
    return {"maps": [describe(m) | {"weights": m.weights} for m in record.maps]}


@_found.register
def _(record: ShapeTrace) -> dict[str, Any]:
    steps = [_without(step, "values") if step.values is None else step for step in record.steps]
    return {"tokens": record.tokens, "steps": steps}


@_found.register
def _(record: ScalingComparison) -> dict[str, Any]:
    heads = [
        {
            "head": head,
            **{
                name: vars(scaling.statistics[i]) | {"scores": scaling.scores[i], "weights": scaling.weights[i]}
                for name, scaling in (("unscaled", record.unscaled), ("scaled", record.scaled))
            },
        }
        for i, head in enumerate(record.heads)
    ]
    about = {"kind": record.kind, "d_key": record.d_key, "queries": record.queries, "keys": record.keys}
    return _layer(record) | about | {"heads": heads}


@_found.register
def _(record: ScalingSweep) -> dict[str, Any]:
    sizes = [
        {"d_key": d_key, "theory": theory, "unscaled": unscaled, "scaled": scaled}
        for d_key, theory, unscaled, scaled in zip(
            record.d_keys, record.theory, record.unscaled, record.scaled, strict=True
        )
    ]
    return {"tokens": record.tokens, "draws": record.draws, "sweep": sizes}


@_found.register
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
    about = {"reference": record.reference, "most_seconds": record.most_seconds, "lengths": record.lengths}
    return about | {"implementations": ways}


@_found.register
def _(record: Complexity) -> dict[str, Any]:
    measured = {"projections": record.projections, "attention": record.attention, "whole": record.whole}
    return {
        "lengths": record.lengths,
        "terms": record.terms,
        "parameter_bytes": record.parameter_bytes,
        "measured": {name: [_timing(timing) for timing in timings] for name, timings in measured.items()},
        "crossover": {
            "terms": record.equal_terms,
            "operations": record.equal_operations,
            "times": record.equal_times,
            "seconds": record.equal_seconds,
        },
        "longest": record.longest,
        "most_seconds": record.most_seconds,
    }


@_found.register
def _(record: Report) -> dict[str, Any]:
    return _found(record.attention) | {"trace": _found(record.trace), "scaling": _found(record.scaling)}


@_found.register
def _(record: Training | Evaluation) -> dict[str, Any]:
    return _without(record, "source")


@_found.register
def _(record: ProjectionComparison) -> dict[str, Any]:
    pair = record.pair and {"positions": record.pair, "tokens": [record.tokens[i] for i in record.pair]}
    about = {"tokens": record.tokens, "d_model": record.d_model, "include_self": record.include_self}
    heads = {"heads": record.heads, "divergence": record.divergence, "mean_divergence": record.mean_divergence}
    return about | {"pair": pair, "stages": record.stages} | heads | {"unit": "bits", "bound": 1}


@_found.register
def _(record: Difference) -> dict[str, Any]:
    differences = [
        describe(m.change)
        | {
            "divergence": m.divergence,
            "worst_row": m.worst,
            "zero_rows": m.zero_rows,
            "largest": m.largest,
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
    only = {"only_first": record.only_before, "only_second": record.only_after}
    return {"unit": "bits", "bound": 1, "differences": differences, "ranking": ranking} | only


@_found.register
def _(record: CorpusDifference) -> dict[str, Any]:
    above = {(head.kind, head.layer, head.head) for head in record.above}
    ranking = [
        vars(head) | ({"above": (head.kind, head.layer, head.head) in above} if record.limits.are_given else {})
        for head in record.ranking
    ]
    limits = {"fail_above": record.limits.mean, "fail_above_row": record.limits.row}
    about = {"unit": "bits", "bound": 1, "limits": limits, "too_long": record.too_long}
    return about | {"kinds": record.kinds, "ranking": ranking}


@_found.register
def _(record: HeadStatistics) -> dict[str, Any]:
    kinds = [
        {
            "kind": kind.kind,
            "layers": kind.layers,
            "sentences": kind.sentences,
            "queries": kind.queries,
            "sink_rate": kind.sink_rate,
            "statistics": {name: kind.average(name) for name in STATISTICS},
        }
        for kind in record.kinds
    ]
    return {
        "quantity": record.quantity,
        "too_long": record.too_long,
        "probe": probe_to_json(record.probe),
        "bootstrap": {"replicates": record.replicates, "seed": record.seed, "level": 0.95},
        "edges": EDGES,
        "kinds": kinds,
    }


@_found.register
def _(record: Ablation) -> dict[str, Any]:
    kinds = [
        {"kind": kind.kind, "layers": kind.layers, **{name: kind.effect(name) for name in EFFECTS}}
        for kind in record.kinds
    ]
    about = {name: getattr(record, name) for name in ("prediction", "sentences", "loss", "too_long")}
    bootstrap = {"replicates": record.replicates, "seed": record.seed, "level": 0.95}
    return about | {"probe": probe_to_json(record.probe), "bootstrap": bootstrap, "kinds": kinds}


@_found.register
def _(record: EmbeddedText) -> dict[str, Any]:
    tokens = {"tokens": record.tokens.texts, "special": record.tokens.special, "ids": record.tokens.ids}
    about = {"added": record.added, "within": record.within, "difference": record.difference}
    parts = [vars(part) | {"norms": part.norms, "cosines": part.cosines} for part in record.parts]
    return tokens | about | {"is_target": record.is_target, "parts": parts}


@_found.register
def _(record: PositionTable) -> dict[str, Any]:
    return {"equation": SINUSOIDS, "values": record.values, "cosines": record.cosines}


@_found.register
def _(record: Explanation) -> dict[str, Any]:
    return {"token": record.token, "d_key": record.d_key} | _without(record, "source")


@_found.register
def _(record: LayerMatrices) -> dict[str, Any]:
    about = {
        "kind": record.kind,
        "queries": record.queries.texts,
        "keys": record.keys.texts,
        "n_heads": record.n_heads,
        "n_key_heads": record.n_key_heads,
        "rule": record.rule,
        "left_out": record.left_out or None,
        "heads": record.heads,
    }
    named = ("input", "memory", "query", "key", "value", "joined", "output")
    return _layer(record) | about | {name: getattr(record, name) for name in named}


@_found.register
def _(record: Masking) -> dict[str, Any]:
    about = {"kind": record.kind, "rule": record.rule, "heads": record.heads}
    dropout = {"dropout": record.dropout, "dropout_seed": None if record.dropout is None else record.seed}
    sentences = [
        vars(one) | {"queries": one.queries.texts, "keys": one.keys.texts, "padding": one.padding}
        for one in record.sentences
    ]
    return _layer(record) | about | dropout | {"sentences": sentences}


@_found.register
def _(record: ImageAttention) -> dict[str, Any]:
    height, width = record.image.shape[:2]
    maps = [
        {
            "layer": m.layer,
            "heads": m.heads,
            "grid": m.grid,
            "query_patch": m.patch,
            "special": {"tokens": m.special_texts, "weights": m.special},
            "weights": m.weights,
        }
        | ({} if m.sentence is None else {"sentence": m.sentence})
        | ({"module": m.module} if m.module else {})
        | ({} if m.pass_number is None else {"pass": m.pass_number})
        for m in record.maps
    ]
    image = {"name": record.image_name or None, "width": width, "height": height}
    return {"image": image, "query": record.query or None, "quantity": record.quantity.key, "maps": maps}


def write_json(document: dict[str, Any], stream: IO[str]) -> None:
    """Write the document with its arrays as nested lists, a row at a time: large maps need no second copy.

    A number that JSON does not have, such as a hidden score, becomes null. Numbers have as few digits as tell them from
    all others of their precision: 0.1, not 0.10000000149011612.
    """
    for piece in _pieces(document):
        stream.write(piece)
    stream.write("\n")


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        # Not of texts: orjson neither escapes what a terminal obeys nor takes half characters.
        yield orjson.dumps(np.ascontiguousarray(value), option=orjson.OPT_SERIALIZE_NUMPY).decode()
    elif isinstance(value, dict) or is_dataclass(value):
        yield "{"
        for i, (key, item) in enumerate((value if isinstance(value, dict) else vars(value)).items()):
            yield f"{', ' if i else ''}{json.dumps(key)}: "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, (list, tuple, np.ndarray)):
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

    tensors, metadata = _tensors(attention)
    return save(tensors, {METADATA: metadata})


def npz_bytes(attention: Attention) -> bytes:
    """The same arrays by the same names as a .npz file, with the metadata as a text file among them."""
    arrays, metadata = _tensors(attention)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(METADATA_FILE, "w") as member:
        member.write(metadata.encode())  # ``writestr`` would write the time too
    return stream.getvalue()


def _tensors(attention: Attention) -> tuple[dict[str, Any], str]:
    """The weights of each map by the name of its tensor, and all else as JSON."""
    maps = [describe(m) for m in attention.maps]
    arrays = dict(zip(tensor_names(maps), (np.ascontiguousarray(m.weights) for m in attention.maps), strict=True))
    return arrays, "".join(_pieces(describe_source(attention.source) | {"maps": maps}))


def write_csv(attention: Attention, stream: IO[str]) -> None:
    """All numbers in long form, a line each, with the columns of ``Attention.to_dataframe``; a head at a time."""
    lines = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")  # a lone \r would tear a line
    for number, m in enumerate(attention.maps):
        for head in m.heads:
            columns = m.select((head,)).columns_of_weights(attention.recorded_columns)
            if not number and head == m.heads[0]:
                lines.writerow(columns)
            short = columns["weight"].astype(str)  # in as few digits as tell it from all others
            columns["weight"] = short.astype(float)
            lines.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def write_head_csv(record: HeadStatistics | Ablation, stream: IO[str]) -> None:
    """A line a head and number, with the columns of the record's ``to_dataframe``."""
    lines = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    lines.writerow(EFFECT_COLUMNS if isinstance(record, Ablation) else HEAD_COLUMNS)
    lines.writerows(
        ["" if isinstance(value, float) and math.isnan(value) else value for value in row] for row in record.rows()
    )


def _layer(record: ScalingComparison | LayerMatrices | Masking) -> dict[str, Any]:
    return {} if record.layer is None else {"layer": record.layer}


def _without(record: object, name: str) -> dict[str, Any]:
    return {field: value for field, value in vars(record).items() if field != name}


def _timing(timing: Timing) -> dict[str, Any]:
    return vars(timing) | {"skipped": skip_text(timing) or None}
