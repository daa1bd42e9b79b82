"""Conversion of attention maps, except for their weights, to plain JSON values and back.

Both directions are kept together, so that files that are written can be read: ``views.data`` writes them, and
``files.maps`` reads them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from mhaviz._version import __version__
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Kind, Ranges, Tokens
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.means import AVERAGED, Averaged, MeanOver, averages_texts
from mhaviz.results.quantity import MEANS, QUANTITIES, WEIGHT, Quantity, Reduction
from mhaviz.results.result import Source
from mhaviz.results.span_numbers import ApartKey
from mhaviz.results.summary import HeadSummary, MapSummary

METADATA, METADATA_FILE = "mhaviz", "mhaviz.json"
"""Names of the description of all maps, beside their arrays: in a .safetensors file, and in a .npz archive."""

_Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


_Token = Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # numbers of tokens in spans are sums of these
_Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Ranges = Annotated[tuple[tuple[_Token, _Token], ...], msgspec.Meta(min_length=1)]


class _Sourced(msgspec.Struct):
    source: dict[str, Any]


class _SourceText(msgspec.Struct):
    footnote: str
    remark: str = ""


class _Summary(msgspec.Struct):
    heads: list[dict[str, Any]]
    queries: _Position
    near: _Position
    strong: float


class _Description(msgspec.Struct, omit_defaults=True):
    """Fields of a map in a file, except for its quantity. Unknown fields are ignored."""

    layer: _Position | None
    kind: Kind
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    sentence: _Position | None = None
    heads: tuple[_Position, ...] = ()
    query_edges: tuple[_Position, ...] | None = None
    key_edges: tuple[_Position, ...] | None = None
    reduction: Reduction | None = None
    summary: _Summary | None = None
    special_queries: tuple[_Position, ...] = ()
    special_keys: tuple[_Position, ...] = ()
    continued_queries: tuple[_Position, ...] = ()
    continued_keys: tuple[_Position, ...] = ()
    query_token_ranges: tuple[_Ranges, ...] = ()
    key_token_ranges: tuple[_Ranges, ...] = ()
    query_images: tuple[PatchGrid, ...] = ()
    key_images: tuple[PatchGrid, ...] = ()
    query_grid: tuple[_Position, _Position] | None = None
    key_grid: tuple[_Position, _Position] | None = None
    reach: _Position | None = None
    sink: bool = False
    module: str = ""
    to_special: list[_Share] | None = None
    pass_number: _Position | None = msgspec.field(default=None, name="pass")
    chance: list[list[list[float | None]]] | None = None
    lookback: list[list[float | None]] | None = None
    apart: tuple[ApartKey, ...] | None = None
    mean_over: dict[Averaged, _Number | None] = {}


def describe_source(source: Source) -> dict[str, Any]:
    """Return the head of each document: the version of mhaviz that writes it, and the source of its numbers."""
    remark = {"remark": source.remark} if source.remark else {}
    return {"mhaviz": __version__, "source": {"footnote": source.footnote, **source.details, **remark}}


def restore_source(document: Mapping[str, Any]) -> Source:
    """Invert ``describe_source``. Raises ValueError if there is no valid source."""
    source = msgspec.convert(document, _Sourced).source
    text = msgspec.convert({name: source.pop(name) for name in ("footnote", "remark") if name in source}, _SourceText)
    return Source(text.footnote, source, text.remark)


def describe(m: AttentionMap) -> dict[str, Any]:
    """Return all of a map but its weights. Fields at their default are left out.

    ``heads`` is left out for 0, 1, 2, …, and the edges of cells are left out where the map is whole. ``queries`` and
    ``keys`` are all tokens from the first edge to the last.
    """
    queries, keys = m.rows.tokens, m.columns.tokens
    edges = {} if m.is_whole else {"query_edges": m.rows.edges.tolist(), "key_edges": m.columns.edges.tolist()}
    saved = _Description(
        layer=m.layer,
        kind=m.kind,
        queries=queries.texts,
        keys=keys.texts,
        sentence=m.sentence,
        heads=() if m.heads == tuple(range(len(m.heads))) else m.heads,
        **edges,
        reduction=None if m.is_whole else m.quantity.reduction,
        summary=m.summary and asdict(m.summary),  # type: ignore[arg-type]
        special_queries=queries.special,
        special_keys=keys.special,
        continued_queries=queries.continued,
        continued_keys=keys.continued,
        query_token_ranges=queries.ranges,
        key_token_ranges=keys.ranges,
        query_images=_saved(queries.images),
        key_images=_saved(keys.images),
        reach=m.reach,
        sink=m.sink,
        module=m.module,
        to_special=None if m.to_special is None else m.to_special.tolist(),
        pass_number=m.pass_number,
        mean_over=dict(m.mean_over),
        apart=m.apart,
    )
    quantity = {} if m.quantity.key == WEIGHT.key else {m.quantity.key: True}
    of_spans = {"chance": m.chance, "lookback": m.lookback}
    return {**msgspec.to_builtins(saved), **quantity, **{name: x for name, x in of_spans.items() if x is not None}}


def restore(description: Mapping[str, Any], weights: NDArray[np.float32]) -> AttentionMap:
    """Invert ``describe``.

    Args:
        description: description from a file, which is not trusted.
        weights: (n_heads, rows, columns).

    Raises:
        ValueError: a field is missing, is invalid, or contradicts the weights; also as its subclass ArgumentError.
    """
    if weights.ndim == 3 and not weights.size:
        raise ValueError(f"expected at least one weight, got none, of shape {weights.shape}")
    saved = msgspec.convert(description, _Description)
    flags = msgspec.convert({q.key: description.get(q.key, False) for q in QUANTITIES}, dict[str, bool])
    quantity = next(q for q in QUANTITIES if q is WEIGHT or flags[q.key])
    if len(set(saved.heads)) < len(saved.heads):
        raise ValueError(f"heads: expected each head once, got {saved.heads!s:.60}")
    if len({part is None for part in (saved.query_edges, saved.key_edges, saved.reduction)}) > 1:
        raise ValueError("expected query_edges, key_edges and reduction, or none of them")
    images = _images(saved, "query"), _images(saved, "key")
    queries = Tokens(
        saved.queries, saved.special_queries, (), images[0], saved.continued_queries, _spans(saved, "query")
    )
    keys = Tokens(saved.keys, saved.special_keys, (), images[1], saved.continued_keys, _spans(saved, "key"))
    m = AttentionMap(
        weights,
        Axis(queries, _edges(saved.query_edges)),
        Axis(keys, _edges(saved.key_edges)),
        saved.kind,
        saved.layer,
        saved.heads,
        saved.sentence,
        replace(quantity, reduction=saved.reduction or "mass"),
        None if saved.summary is None else _restore_summary(saved.summary),
        reach=saved.reach,
        sink=saved.sink,
        to_special=None if saved.to_special is None else np.array(saved.to_special, np.float32),
        module=saved.module,
        pass_number=saved.pass_number,
        chance=None if saved.chance is None else np.array(saved.chance, np.float32),
        lookback=None if saved.lookback is None else np.array(saved.lookback, np.float32),
        mean_over=_mean_over(saved, quantity),
        apart=saved.apart,
    )
    if m.apart is not None and (m.chance is None or {one.column for one in m.apart} - {*range(len(m.keys))}):
        raise ValueError(f"apart: expected columns of {len(m.keys)}, of a map with chance, got {m.apart!s:.60}")
    if m.chance is not None and (m.chance < 0).any():
        raise ValueError(f"chance: expected weights from 0 on, got {np.nanmin(m.chance):g}")
    if quantity.of_all_heads and len(m.heads) > 1:
        raise ValueError(f"{quantity.key}: expected one matrix for all heads, got {len(m.heads)}")
    if m.summary and len(m.summary.heads) != len(m.heads):
        raise ValueError(f"summary: expected {len(m.heads)} heads, as in the map, got {len(m.summary.heads)}")
    if m.summary and not m.summary.queries and any(head.sinks for head in m.summary.heads):
        raise ValueError("summary: expected no keys that get weight from 0 queries")
    if m.summary and any(len(head.entropies) not in (0, len(m.rows)) for head in m.summary.heads):
        raise ValueError(f"entropies: expected {len(m.rows)} for each head, one for each row, or none")
    return m


def _mean_over(saved: _Description, quantity: Quantity) -> MeanOver:
    """Return what a map is the mean over. A file of an older mhaviz says it only of heads, by the quantity."""
    numbers, are_means = dict(saved.mean_over), quantity in MEANS.values()
    if not numbers and are_means:
        numbers["heads"] = None
    if ("heads" in numbers) != are_means or ("layers" in numbers) != (saved.layer is None):
        raise ValueError(
            f"mean_over: expected heads with a mean, and layers in place of a layer, got {list(numbers)}, "
            f"{quantity.key}, layer {saved.layer}"
        )
    if averages_texts(tuple(numbers.items())) and saved.sentence is not None:
        raise ValueError(f"mean_over: expected no sentence of a mean over texts, got {saved.sentence}")
    if "passes" in numbers and saved.pass_number is not None:
        raise ValueError(f"mean_over: expected no pass of a mean over passes, got {saved.pass_number}")
    return tuple((name, numbers[name]) for name in AVERAGED if name in numbers)


def _edges(edges: tuple[int, ...] | None) -> NDArray[np.int64] | None:
    if edges is not None and (len(edges) < 2 or min(np.diff(edges)) <= 0):
        raise ValueError(f"edges: expected at least two increasing positions, got {edges!s:.60}")
    return None if edges is None else np.array(edges, np.int64)


def _saved(images: tuple[PatchGrid, ...]) -> tuple[PatchGrid, ...]:
    """Return views without the pictures that they are of."""
    return tuple(replace(image, seen=None) for image in images)


def _images(saved: _Description, side: Literal["query", "key"]) -> tuple[PatchGrid, ...]:
    """Return the images of a side. A file of an older mhaviz has a grid of all tokens that are not special."""
    of_sides = {
        "query": (saved.query_images, saved.query_grid, saved.queries, saved.special_queries),
        "key": (saved.key_images, saved.key_grid, saved.keys, saved.special_keys),
    }
    images, grid, texts, special = of_sides[side]
    if images or grid is None:
        return images
    return (PatchGrid(*grid, tuple(i for i in range(len(texts)) if i not in {*special})),)


def _spans(saved: _Description, side: Literal["query", "key"]) -> tuple[Ranges, ...]:
    ranges: tuple[Ranges, ...]
    of_sides = {"query": (saved.query_token_ranges, saved.queries), "key": (saved.key_token_ranges, saved.keys)}
    ranges, texts = of_sides[side]
    if ranges and len(ranges) != len(texts):
        raise ValueError(f"{side}_token_ranges: expected {len(texts)}, a span for each text, got {len(ranges)}")
    for of_span in ranges:
        ends = [end for run in of_span for end in run]
        if any(a >= b for a, b in of_span) or sorted(ends) != ends:
            raise ValueError(f"{side}_token_ranges: expected positions that go up, got {of_span!s:.60}")
    return ranges


def _restore_summary(summary: _Summary) -> MapSummary:
    """Restore a summary. An entropy of NaN is saved as null, as JSON has no NaN."""

    def number(name: str, value: Any) -> Any:
        if name == "entropies" and isinstance(value, list):
            return [number("entropy", one) for one in value]
        return math.nan if value is None and "entropy" in name else value

    heads = [{name: number(name, value) for name, value in head.items()} for head in summary.heads]
    return MapSummary(msgspec.convert(heads, tuple[HeadSummary, ...]), summary.queries, summary.near, summary.strong)


def tensor_names(descriptions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the name of each map's array: "layer.0.self", or "sentence.2.layer.0.self" with several sentences.

    That of a mean over layers is "layers.self". With several passes, "pass.100." is put before it. The name of a map of
    another quantity than weights ends in that quantity: ".rollout". Where a map is there by both reductions, the name
    of the one by "max" ends in ".max".
    """
    names: list[str] = []
    seen: set[str] = set()
    for m in descriptions:
        quantities = [f".{quantity.key}" for quantity in QUANTITIES if m.get(quantity.key) is True]
        layer = "layers" if m.get("layer") is None else f"layer.{m['layer']}"
        name = f"{layer}.{m.get('kind')}{''.join(quantities)}"
        name = name if m.get("sentence") is None else f"sentence.{m['sentence']}.{name}"
        name = name if m.get("pass") is None else f"pass.{m['pass']}.{name}"
        names.append(f"{name}.max" if name in seen and m.get("reduction") == "max" else name)
        seen.add(names[-1])
    return names
