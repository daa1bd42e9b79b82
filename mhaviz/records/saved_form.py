"""How attention maps are saved: all but their weights as plain JSON values, and back.

Both directions stand here, so that what is written can be read: ``views.data`` writes, ``files.maps`` reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from mhaviz._version import __version__
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.quantity import QUANTITIES, WEIGHT, Quantity, Reduction
from mhaviz.records.source import Source
from mhaviz.records.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.records.tokens import Kind, Tokens

METADATA, METADATA_FILE = "mhaviz", "mhaviz.json"
"""What the description of all maps is called beside their arrays: in a .safetensors file, and in a .npz archive."""

_OF_TOKENS = ("special_queries", "special_keys", "query_grid", "key_grid")
_OF_MAPS = ("layer", "kind", "sentence", "heads", "queries", "keys", *_OF_TOKENS)
_OF_CELLS = ("query_edges", "key_edges", "reduction", "reach", "sink", "to_special", "summary")
_OF_PROGRAMS = ("module", "pass")
_OF_NUMBERS = ("weights", "change", "divergence", "worst_row", "zero_rows", "largest")
FIELDS = frozenset((*_OF_MAPS, *_OF_CELLS, *_OF_PROGRAMS, *_OF_NUMBERS))
"""What documents say of a map or of a change. A quantity's key stands beside them, and may be none of them."""


def require_own_keys(quantities: Sequence[Quantity]) -> None:
    """Fail an assertion if what a quantity is called in files stands for something else there."""
    keys = [quantity.key for quantity in quantities]
    assert not FIELDS & set(keys), f"expected keys of quantities that are no fields of a map, got {keys}"
    assert len(keys) == len(set(keys)), f"expected quantities with keys of their own, got {keys}"


require_own_keys(QUANTITIES)


def describe_source(source: Source) -> dict[str, Any]:
    """What every document begins with: who wrote it, and where its numbers come from."""
    remark = {"remark": source.remark} if source.remark else {}
    return {"mhaviz": __version__, "source": {"footnote": source.footnote, **source.details, **remark}}


def restore_source(document: Mapping[str, Any]) -> Source:
    """The reverse of ``describe_source``. Raises ValueError if there is none."""
    source = _field(document, "source", dict)
    details = {name: plain(value) for name, value in source.items() if name not in ("footnote", "remark")}
    return Source(_field(source, "footnote", str), details, _field({"remark": "", **source}, "remark", str))


def describe(m: AttentionMap) -> dict[str, Any]:
    """All but the weights. ``heads`` is there only when they are not simply 0, 1, 2, …, edges only with cells.

    ``queries`` and ``keys`` are all tokens from the first edge to the last. What few maps have stands there if they do.
    """
    description: dict[str, Any] = {"layer": m.layer, "kind": m.kind, "queries": list(m.queries), "keys": list(m.keys)}
    if m.sentence is not None:
        description["sentence"] = m.sentence
    if m.heads != tuple(range(len(m.heads))):
        description["heads"] = list(m.heads)
    if not m.is_whole:
        description["query_edges"], description["key_edges"] = m.rows.edges.tolist(), m.columns.edges.tolist()
        description["reduction"] = m.quantity.reduction
    if m.summary is not None:
        description["summary"] = asdict(m.summary)
    rare = {
        "special_queries": list(m.rows.tokens.special),
        "special_keys": list(m.columns.tokens.special),
        "query_grid": list(m.rows.tokens.grid or ()),
        "key_grid": list(m.columns.tokens.grid or ()),
        "reach": m.reach,
        "sink": m.sink,
        "module": m.module,
        "to_special": [] if m.to_special is None else m.to_special.tolist(),
        m.quantity.key: m.quantity.key != WEIGHT.key,
    }
    description |= {name: value for name, value in rare.items() if value or (name == "reach" and value == 0)}
    if m.pass_number is not None:
        description["pass"] = m.pass_number
    return description


def restore(description: Mapping[str, Any], weights: NDArray[np.float32]) -> AttentionMap:
    """The reverse of ``describe``.

    Args:
        description: what may come from anybody's file, with arrays or lists of numbers.
        weights: (n_heads, rows, columns).

    Raises:
        ValueError: something is missing, is not what it should be, or contradicts the weights; an ArgumentError is one.
    """
    if weights.ndim == 3 and not weights.size:
        raise ValueError(f"expected at least one weight, got none, of shape {weights.shape}")
    kind = _field(description, "kind", str)
    if kind not in get_args(Kind):
        raise ValueError(f"kind: expected {', '.join(get_args(Kind))}, got {kind!r:.40}")
    heads = _numbers(description, "heads") if "heads" in description else np.arange(len(weights))
    if len(set(heads.tolist())) < len(heads):
        raise ValueError(f"heads: expected each head once, got {heads.tolist()!s:.60}")
    summary = _field(description, "summary", dict) if "summary" in description else None
    queries, keys = _tokens(description, "queries"), _tokens(description, "keys")
    layer = _position(description, "layer")
    sentence = None if description.get("sentence") is None else _position(description, "sentence")
    query_edges, key_edges, reduction = _cells(description)
    special = _positions(description, "special_queries"), _positions(description, "special_keys")
    grids = _grid(description, "query_grid"), _grid(description, "key_grid")
    quantity = next(q for q in QUANTITIES if q is WEIGHT or _field({q.key: False, **description}, q.key, bool))
    m = AttentionMap(
        weights,
        Axis(Tokens(queries, special[0], grid=grids[0]), query_edges),
        Axis(Tokens(keys, special[1], grid=grids[1]), key_edges),
        kind,
        layer,
        tuple(heads.tolist()),
        sentence,
        replace(quantity, reduction=reduction),
        summary and _summary(summary),
        reach=None if description.get("reach") is None else _position(description, "reach"),
        sink=_field({"sink": False, **description}, "sink", bool),
        to_special=_shares(description["to_special"]) if description.get("to_special") is not None else None,
        module=_field({"module": "", **description}, "module", str),
        pass_number=None if description.get("pass") is None else _position(description, "pass"),
    )
    if quantity.through_layers and len(m.heads) > 1:
        raise ValueError(f"{quantity.key}: expected one matrix, of no head, got {len(m.heads)}")
    if m.summary and len(m.summary.heads) != len(m.heads):
        raise ValueError(f"summary: expected {len(m.heads)} heads, one a head of the map, got {len(m.summary.heads)}")
    return m


def _shares(shares: Any) -> NDArray[np.float32]:
    try:
        found = np.asarray(shares, np.float32)
    except (TypeError, ValueError):
        found = np.array([np.nan], np.float32)
    if not (found.size and found.min() >= 0 and found.max() <= 1):
        raise ValueError(f"to_special: expected shares from 0 to 1, one a head, got {plain(shares)!s:.40}")
    return found


def tensor_names(descriptions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each map: "layer.0.self", or "sentence.2.layer.0.self" where there are several sentences; "pass.100." before
    it where there are several passes.

    One of no weights ends in its quantity: ".rollout". Where there are maps by both reductions, that of the largest
    weights ends in ".max".
    """
    names: list[str] = []
    seen: set[str] = set()
    for m in descriptions:
        quantities = [f".{quantity.key}" for quantity in QUANTITIES if m.get(quantity.key) is True]
        name = f"layer.{m.get('layer')}.{m.get('kind')}{''.join(quantities)}"
        name = name if m.get("sentence") is None else f"sentence.{m['sentence']}.{name}"
        name = name if m.get("pass") is None else f"pass.{m['pass']}.{name}"
        names.append(f"{name}.max" if name in seen and m.get("reduction") == "max" else name)
        seen.add(names[-1])
    return names


def _cells(
    description: Mapping[str, Any],
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None, Reduction]:
    """The edges of both sides, None where a cell is a token, and how a cell takes several tokens together."""
    if not {"query_edges", "key_edges", "reduction"} & set(description):
        return None, None, "mass"
    reduction = _field(description, "reduction", str)
    if reduction not in get_args(Reduction):
        raise ValueError(f"reduction: expected {' or '.join(get_args(Reduction))}, got {reduction!r:.40}")
    return _edges(description, "query_edges"), _edges(description, "key_edges"), reduction


def _edges(description: Mapping[str, Any], name: str) -> NDArray[np.int64]:
    edges = _numbers(description, name)
    if len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ValueError(f"{name}: expected at least two positions that rise, got {edges.tolist()!s:.60}")
    return edges


def _summary(summary: Mapping[str, Any]) -> MapSummary:
    try:
        heads = tuple(
            HeadSummary(
                entropy=_number(head["entropy"]),
                uniform_entropy=_number(head["uniform_entropy"]),
                sinks=tuple(map(_sink, head["sinks"])),
                local=None if head["local"] is None else _number(head["local"]),
                strongest=_link(head["strongest"]),
                farthest=None if head["farthest"] is None else _link(head["farthest"]),
            )
            for head in summary["heads"]
        )
        near, strong = int(summary["near"]), _number(summary["strong"])
        return MapSummary(heads, int(summary["queries"]), near, strong)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"summary: expected the numbers of every head, got {error!r:.60}") from None


def _sink(sink: Mapping[str, Any]) -> Sink:
    return Sink(int(sink["key"]), str(sink["token"]), _number(sink["received"]))


def _link(link: Mapping[str, Any]) -> Link:
    return Link(
        int(link["query"]),
        str(link["query_token"]),
        int(link["key"]),
        str(link["key_token"]),
        _number(link["weight"]),
    )


def _number(value: Any) -> float:
    """JSON has no NaN: it is saved as null."""
    return float("nan") if value is None else float(value)


def _tokens(description: Mapping[str, Any], name: str) -> tuple[str, ...]:
    tokens = _field(description, name, list)
    if not all(isinstance(token, str) for token in tokens):
        raise ValueError(f"{name}: expected texts, a token each")
    return tuple(tokens)


def _position(description: Mapping[str, Any], name: str) -> int:
    number = _field(description, name, int)
    if isinstance(number, bool) or number < 0:
        raise ValueError(f"{name}: expected a number from 0 on, got {number!s:.40}")
    return int(number)


def _positions(description: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """None where nothing is said of them; an empty list has no type that could be wrong."""
    value = description.get(name, [])
    is_empty = isinstance(value, list | np.ndarray) and len(value) == 0
    return () if is_empty else tuple(_numbers(description, name).tolist())


def _grid(description: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    """Rows and columns of patches; None where nothing is said of them."""
    numbers = _positions(description, name)
    if not numbers:
        return None
    if len(numbers) != 2:
        raise ValueError(f"{name}: expected two numbers, rows and columns of patches, got {len(numbers)}")
    return numbers[0], numbers[1]


def _numbers(description: Mapping[str, Any], name: str) -> NDArray[np.int64]:
    value = description.get(name)
    try:
        numbers = np.asarray(value)
    except ValueError:
        numbers = np.array(None)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise ValueError(f"{name}: expected whole numbers from 0 on, got {plain(value)!r:.60}")
    return numbers.astype(np.int64)


def _field(description: Mapping[str, Any], name: str, expected: type) -> Any:
    if name not in description:
        raise ValueError(f"there is no {name}")
    if not isinstance(description[name], expected):
        names = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{name}: expected {names[expected]}, got {plain(description[name])!r:.40}")
    return description[name]


def plain(value: Any) -> Any:
    """A value as JSON has it, where numbers were read as arrays."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
