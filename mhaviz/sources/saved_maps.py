"""Attention that has been saved: by mhaviz, with all that a picture needs, or by another tool, as bare weights.

Nothing in here needs torch, but for .pt files, which nobody else can read.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError, reason
from mhaviz.memory import read_all
from mhaviz.records import LARGEST, ROUNDING, Attention, AttentionMap, Kind, Source
from mhaviz.records.saved_form import plain, restore, restore_source, tensor_names
from mhaviz.sources.array_files import SUFFIXES, read_weights, require_room
from mhaviz.sources.bare_arrays import BareLayers, read_layers
from mhaviz.sources.json_rows import read_json
from mhaviz.sources.reading import NoWeightsError, require_file, told, unpacked_bytes
from mhaviz.units import readable_bytes

_LARGE = 2**28  # bytes
_MOST_MAPS = 1_000_000  # each takes a tenth of a millisecond to be read
_WeightsOf = Callable[[str, dict[str, Any]], NDArray[np.float32]]


@dataclass(frozen=True)
class About:
    """What a user says of an array that says nothing of itself.

    Attributes:
        name: of the array, where a file holds several.
        queries, keys: files with a label a line; ``queries`` alone: of both sides of a square map.
        kind: None: "cross" if the two sides have different labels, else "self".
    """

    name: str | None = None
    queries: Path | None = None
    keys: Path | None = None
    kind: Kind | None = None


@dataclass(frozen=True)
class SavedMaps:
    """What a file holds, and what should be told of it; ``is_own``: whether mhaviz has saved it."""

    attention: Attention
    notices: tuple[str, ...] = ()
    is_own: bool = True


def read_maps(
    path: Path, about: About | None = None, on_notice: Callable[[str], None] = lambda notice: None
) -> SavedMaps:
    """Read attention maps that mhaviz has saved, or an array of weights.

    Args:
        path: a .safetensors or .json file of mhaviz; or a .npy, .npz, .safetensors or .pt file with an array of shape
            (q_length, k_length), (n_heads, q_length, k_length) or with layers before; see ``read_layers``.
        about: for an array; what mhaviz has saved says itself what it is.
        on_notice: is told what a large file unpacks to, before it is read.

    Raises:
        ArgumentError: ``about`` does not suit the array.
        MhavizError: the file cannot be read, or is not understood, or its weights are none.
    """
    about = about or About()
    require_file(path, (".json", *SUFFIXES))
    with told(path):
        if (unpacked := unpacked_bytes(path)) >= _LARGE:
            on_notice(f"{path} unpacks to {readable_bytes(unpacked)}")
        attention = _own_maps(path)
    is_own = attention is not None
    if attention is None:
        attention = _labelled(read_layers(path, about.name), path, about)
    for m in attention.maps:
        _check_weights(m, path)
    return SavedMaps(attention, tuple(_sum_notices(attention.maps, path)), is_own)


def _own_maps(path: Path) -> Attention | None:
    """What mhaviz has saved; None if it is an array of another tool's."""
    if path.suffix.lower() == ".json":
        try:
            document = read_json(path)
        except NoWeightsError:
            raise
        except (ValueError, RecursionError, StopIteration) as error:
            raise MhavizError(
                f"{path} is no JSON that can be read, or is cut off ({reason(error)}); save it again"
            ) from error
        return _restored(document, path, lambda name, described: _stacked(described.get("weights")))
    if path.suffix.lower() != ".safetensors":
        return None
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        metadata = (file.metadata() or {}).get("mhaviz")
        if metadata is None:
            return None
        there = set(file.keys())
        require_room(tuple(file.get_slice(name).get_shape()) for name in there)

        def weights_of(name: str, described: dict[str, Any]) -> NDArray[np.float32]:
            if name not in there:
                raise ValueError(f"there is no tensor {name:.80}")
            return read_weights(file, path, name)

        return _restored(json.loads(metadata), path, weights_of)


def _restored(document: Any, path: Path, weights_of: _WeightsOf) -> Attention:
    """The maps of a document, each with the weights that ``weights_of`` has of its name and description."""
    if isinstance(document, dict) and "checkpoint" in document:
        raise MhavizError(f"{path} is a checkpoint, not maps; draw it with mhaviz heatmap --checkpoint")
    if not isinstance(document, dict) or "mhaviz" not in document:
        raise MhavizError(f"{path} was not saved by mhaviz; of other tools .npy, .npz, .safetensors or .pt can be read")
    described = document.get("maps")
    if not isinstance(described, list) or not described:
        raise MhavizError(f"{path} holds no attention maps; save some with mhaviz heatmap -o {path.name}")
    if len(described) > _MOST_MAPS:
        raise MhavizError(f"{path} is not understood: expected at most {_MOST_MAPS:,} maps, got {len(described):,}")
    try:
        source = restore_source(document)
    except ValueError as error:
        raise MhavizError(f"{path} is not understood: {error}") from error
    for one in described:
        if not isinstance(one, dict):
            raise MhavizError(f"{path} is not understood: maps: expected objects, got {plain(one)!r:.40}")
    names = tensor_names(described)
    maps: list[AttentionMap] = []
    seen: set[str] = set()
    for number, (name, one) in enumerate(zip(names, described, strict=True)):
        try:
            if name in seen:
                raise ValueError(f"there are two maps {name:.80}")
            seen.add(name)
            maps.append(restore(one, weights_of(name, one)))
            one.clear()  # of the weights in JSON one copy is enough
        except ValueError as error:
            raise MhavizError(f"{path} is not understood: map {number}: {error}") from error
    return Attention(source, tuple(maps))


def _stacked(rows: Any) -> NDArray[np.float32]:
    """Lists of lists of rows as one array, (n_heads, rows, columns)."""
    expected = "weights: expected n_heads × q_length × k_length numbers"
    if not (isinstance(rows, list) and rows and all(isinstance(head, list) and head for head in rows)):
        raise ValueError(expected)
    if not all(isinstance(row, np.ndarray) and row.dtype.kind in "if" for head in rows for row in head):
        raise ValueError(expected)
    shapes = {(len(head), len(row)) for head in rows for row in head}
    if len(shapes) > 1:
        raise ValueError(f"{expected}, got heads of {' and '.join(f'{q} × {k}' for q, k in sorted(shapes)[:2])}")
    weights = np.empty((len(rows), *shapes.pop()), np.float32)
    with np.errstate(over="ignore"):  # what is too large becomes infinity, which is no weight
        for i, head in enumerate(rows):
            for j, row in enumerate(head):
                weights[i, j] = row
    return weights


def _labelled(bare: BareLayers, path: Path, about: About) -> Attention:
    details = {"kind": "array", "file": path.name} | ({"array": bare.name} if bare.name is not None else {})
    footnote = path.name if bare.name is None else f"{path.name}, {bare.name}"
    maps = tuple(_labelled_map(weights, layer, about) for layer, weights in enumerate(bare.layers))
    return Attention(Source(footnote, details), maps)


def _labelled_map(weights: NDArray[np.float32], layer: int, about: About) -> AttentionMap:
    _, q_length, k_length = weights.shape
    queries = _labels(about.queries, "--queries", q_length)
    alone = about.keys is None and about.queries is not None and q_length == k_length
    keys = queries if alone else _labels(about.keys, "--keys", k_length)
    kind: Kind = about.kind or ("self" if queries == keys else "cross")
    if kind != "cross" and q_length != k_length:
        raise ArgumentError(f"--kind {kind}: expected as many queries as keys, got {q_length} × {k_length}")
    m = AttentionMap(queries, keys, weights, kind, layer)
    if (hidden := _seen_hidden(m)) is not None:
        raise ArgumentError(f"--kind masked: expected no weight on later keys, got {hidden} of layer {layer}")
    return m


def _labels(path: Path | None, option: str, length: int) -> tuple[str, ...]:
    """The lines of a file, or the positions."""
    if path is None:
        return tuple(map(str, range(length)))
    try:
        with path.open("rb") as stream:
            text = read_all(stream, str(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at {error.start:,}"
        raise MhavizError(f"{option}: {path} is not UTF-8: {byte}; convert it first, for example with iconv") from error
    except (OSError, ValueError) as error:
        raise MhavizError(f"{option}: cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    if len(lines) != length:
        raise MhavizError(f"{option}: expected {length} labels, one a line, got {len(lines)} in {path}")
    return tuple(lines)


def _check_weights(m: AttentionMap, path: Path) -> None:
    """Raise MhavizError unless every number can be a weight."""
    for head, weights in zip(m.heads, m.weights, strict=True):
        if not np.isfinite(weights).all():
            place, what = ~np.isfinite(weights), "a finite number"
        elif (weights < 0).any():
            place, what = weights < 0, "at least 0"
        elif (weights > LARGEST).any():
            place, what = weights > LARGEST, f"at most {LARGEST:g}"
        else:
            continue
        query, key = (int(i) for i in np.argwhere(place)[0])
        got = f"{weights[query, key]:g}" + (", or what float32 cannot hold," if np.isinf(weights[query, key]) else "")
        raise MhavizError(
            f"{path}: {m.name}: expected a weight that is {what}, got {got} in head {head}, row {query}, column {key}"
        )
    if (hidden := _seen_hidden(m)) is not None:
        keys = "later keys" if m.reach is None else "hidden keys"
        raise MhavizError(f"{path} is not understood: {m.name}: expected no weight on {keys}, got {hidden}")


def _seen_hidden(m: AttentionMap) -> str | None:
    """A weight where the mask hides the key."""
    hidden = m.hidden
    for head, weights in zip(m.heads, m.weights, strict=True):
        if hidden is not None and weights[hidden].any():
            row, column = (int(i) for i in np.argwhere(hidden & (weights != 0))[0])
            return f"{weights[row, column]:.3g} in head {head}, row {row}, column {column}"
    return None


def _sum_notices(maps: tuple[AttentionMap, ...], path: Path) -> Iterable[str]:
    """What to say of rows that do not sum to 1: the one that is farthest from it, and how many are zeros.

    Largest weights have no sum; a part of a map may leave some out, or all, and a head's sink gets some, or all.
    """
    worst, text = ROUNDING, ""
    rows, zeros, first = 0, 0, ""
    for m in maps:
        if m.cells is not None and m.cells.reduction == "max":
            continue
        sums = m.row_sums
        away = np.where(sums == 0, 0.0, sums - 1)
        away = np.abs(away) if m.cells is None and not m.sink else np.maximum(away, 0.0)
        if away.max() > worst:
            worst = float(away.max())
            head, row = (int(i) for i in np.unravel_index(away.argmax(), away.shape))
            text = f"row {row} of head {m.heads[head]} in {m.name} sums to {sums[head, row]:.4g}"
        if m.cells is None and not m.sink:
            rows += sums.size
            if (sums == 0).any():
                head, row = (int(i) for i in np.argwhere(sums == 0)[0])
                first = first or f"row {row} of head {m.heads[head]} in {m.name}"
                zeros += int((sums == 0).sum())
    if text:
        yield f"{path}: not all rows sum to 1; farthest from it, {text}"
    if zeros:
        number = "1 row has" if zeros == 1 else f"{zeros:,} rows have"
        beginning = "; the first is" if zeros > 1 else ":"
        yield f"{path}: {number} nothing but zeros, of {rows:,}, as if no key were seen{beginning} {first}"
