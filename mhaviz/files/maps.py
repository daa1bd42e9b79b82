"""Read saved attention: files of mhaviz, with all that a picture needs, or arrays of weights from other tools.

Only .pt files need torch.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError, counted, parameter, quoted
from mhaviz.files.arrays import SUFFIXES
from mhaviz.files.errors import reading, require_file
from mhaviz.files.numpy_files import read_npz, read_text_of_npz
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.files.saved_array import MOST_ARRAYS, require_room
from mhaviz.files.texts import parse_json, read_json
from mhaviz.files.weights import LayerWeights, SavedLayers, read_layers, require_few_heads
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Kind
from mhaviz.results.attention import LARGEST, ROUNDING, Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.results.saved_form import METADATA, METADATA_FILE, restore, restore_source, tensor_names

_WeightsOf = Callable[[str, dict[str, Any]], NDArray[np.float32]]


@dataclass(frozen=True)
class About:
    """The user's description of an array of weights.

    Attributes:
        name: name of the array, if the file holds several.
        queries, keys: labels of rows and columns; ``queries`` alone labels both sides of a square map.
        kind: kind of attention; None: "cross" if the two sides have different labels, else "self".
    """

    name: str | None = None
    queries: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    kind: Kind | None = None

    def __post_init__(self) -> None:
        if self.kind not in (None, *KIND_NAMES):
            raise ArgumentError(f"{parameter('kind')}: expected self, masked or cross, got {quoted(self.kind)}")


@dataclass(frozen=True)
class SavedMaps:
    """Attention from a file, with notices about it. ``is_own``: whether the file was saved by mhaviz."""

    attention: Attention
    notices: tuple[str, ...] = ()
    is_own: bool = True

    def named(self, path: Path) -> Attention:
        """Return the maps with the file's name in their source, as two runs may have the same footnote."""
        source = self.attention.source
        array = source.details.get("array")
        name = f"{path} ({source.footnote})" if self.is_own else f"{path}" if array is None else f"{path}, {array}"
        details = {**source.details, "name": path.name}
        return replace(self.attention, source=replace(source, footnote=name, details=details))


def read_maps(path: Path, about: About | None = None) -> SavedMaps:
    """Read attention maps that mhaviz has saved, or an array of weights.

    Args:
        path: a .safetensors, .npz or .json file of mhaviz; or a .npy, .npz, .safetensors or .pt file with an array of
            shape (q_length, k_length), (n_heads, q_length, k_length) or (n_layers, n_heads, q_length, k_length); see
            ``read_layers``.
        about: description of an array; not used for files of mhaviz.

    Raises:
        ArgumentError: ``about`` does not fit the array.
        MhavizError: the file cannot be read, or its numbers are not weights.
    """
    about = about or About()
    require_file(path, (".json", *SUFFIXES))
    with reading(path):
        attention = _own_maps(path)
    is_own = attention is not None
    notices: tuple[str, ...] = ()
    if attention is None:
        saved = read_layers(path, about.name)
        attention, notices = _labelled(saved, path, about), saved.notices
    for m in attention.maps:
        _require_weights(m, path)
    notices = (*notices, *_sum_notices(attention.maps, path), *_beyond_notices(attention.maps, path))
    return SavedMaps(attention, notices, is_own)


def _own_maps(path: Path) -> Attention | None:
    """Return the attention in a file of mhaviz; None: the file holds arrays of another tool."""
    if path.suffix.lower() == ".json":
        return _restored(read_json(path), path, lambda name, described: _stacked(described.get("weights")))
    if path.suffix.lower() == ".safetensors":
        arrays, of_file = read_safetensors(path)
        metadata = of_file.get(METADATA)
    elif path.suffix.lower() == ".npz":
        arrays, metadata = read_npz(path), read_text_of_npz(path, METADATA_FILE)
    else:
        return None
    if metadata is None:
        return None
    require_room(arrays.values())

    def weights_of(name: str, described: dict[str, Any]) -> NDArray[np.float32]:
        if name not in arrays:
            raise ValueError(f"there is no tensor {name:.80}")
        arrays[name].require_floats()
        require_few_heads(arrays[name])
        return arrays[name].read()

    return _restored(parse_json(metadata), path, weights_of)


def _restored(document: Any, path: Path, weights_of: _WeightsOf) -> Attention:
    """Restore the attention of a document. ``weights_of`` returns the weights for a map's name and description."""
    if not isinstance(document, dict) or "mhaviz" not in document:
        raise MhavizError(f"{path} was not saved by mhaviz; expected .npy, .npz, .safetensors or .pt from other tools")
    described = document.get("maps")
    if not isinstance(described, list) or not all(isinstance(one, dict) for one in described) or not described:
        other = next((f" but {name}" for name in ("answers", "lines") if name in document), "")
        how = " --as map" if other else ""
        raise MhavizError(f"{path} holds no attention maps{other}; save some with mhaviz heatmap{how}")
    return Attention(restore_source(document), tuple(_restored_maps(described, weights_of)))


def _restored_maps(described: Sequence[Any], weights_of: _WeightsOf) -> Iterator[AttentionMap]:
    """Iterate over the restored maps. Raises ValueError with the number of the map."""
    if len(described) > MOST_ARRAYS:
        raise ValueError(f"expected at most {MOST_ARRAYS:,} maps, got {len(described):,}")
    names = tensor_names(described)
    if twice := [name for name, number in Counter(names).items() if number > 1]:
        raise ValueError(f"expected maps of different names, got two of {twice[0]}")
    for number, (name, one) in enumerate(zip(names, described, strict=True)):
        try:
            yield restore(one, weights_of(name, one))
        except ValueError as error:
            raise ValueError(f"map {number}: {error}") from error
        one.clear()  # frees the weights in JSON


def _stacked(heads: Any) -> NDArray[np.float32]:
    """Convert nested lists of numbers to one array, (n_heads, rows, columns). Raises ValueError if they are no such."""
    weights = np.array(heads)  # raises ValueError for lists of several lengths
    if weights.ndim != 3 or 0 in weights.shape or weights.dtype.kind not in "if":
        raise ValueError(f"weights: expected n_heads × q_length × k_length numbers, got {heads!r:.40}")
    with np.errstate(over="ignore"):  # numbers that are too large become infinity, and are refused later
        return weights.astype(np.float32)


def _labelled(saved: SavedLayers, path: Path, about: About) -> Attention:
    name, layers = saved.name, saved.layers
    details = {"kind": "array", "file": path.name} | ({} if name is None else {"array": name})
    footnote = path.name if name is None else f"{path.name}, {name}"
    n_texts = len({one.sentence for one in layers})
    labels = [side for side in ("queries", "keys") if getattr(about, side) is not None]
    if n_texts > 1 and labels:
        raise ArgumentError(
            f"{parameter(labels[0])}: expected none, as labels are of one text, and {path} holds {n_texts} in a batch; "
            "save one of them, [[layer[:1] for layer in step] for step in …]"
        )
    return Attention(Source(footnote, details), tuple(_labelled_map(one, about) for one in layers))


def _labelled_map(found: LayerWeights, about: About) -> AttentionMap:
    _, q_length, k_length = found.weights.shape
    given, labels = found.kind, about.queries
    if about.kind in OF_ONE_TEXT and q_length != k_length:
        raise ArgumentError(
            f"{parameter('kind')} {about.kind}: expected as many queries as keys, got {q_length} × {k_length}"
        )
    alone = about.keys is None and labels is not None and q_length == k_length and given != "cross"
    first_query = found.n_before + (k_length - q_length) * (given == "masked")
    queries = _labels("queries", labels, q_length, first_query)
    keys = queries if alone else _labels("keys", about.keys, k_length, found.n_before)
    kind = about.kind or given or ("self" if queries == keys else "cross")
    sides = Axis.of(queries), Axis.of(keys)
    return AttentionMap(found.weights, *sides, kind, found.layer, sentence=found.sentence, reach=found.reach)


def _labels(side: str, given: tuple[str, ...] | None, length: int, start: int) -> tuple[str, ...]:
    """Return the labels that are given, or positions from ``start`` on."""
    if given is not None and len(given) != length:
        raise ArgumentError(f"{parameter(side)}: expected {length} labels, one per line, got {len(given)}")
    return tuple(map(str, range(start, start + length))) if given is None else given


def _require_weights(m: AttentionMap, path: Path) -> None:
    """Raise MhavizError unless every number is a possible weight, or of maps of both signs, a number."""
    least = -LARGEST if m.quantity.is_signed else 0.0
    for head, weights in zip(m.heads, m.weights, strict=True):
        wrong = ~((weights >= least) & (weights <= LARGEST))  # NaN is neither
        if wrong.any():
            query, key = np.argwhere(wrong)[0].tolist()
            got = f"{weights[query, key]:.3g} in row {query}, column {key}"
            raise MhavizError(f"{path}: {m.name_of(head)}: expected weights from {least:g} to {LARGEST:g}, got {got}")


def _beyond_notices(maps: tuple[AttentionMap, ...], path: Path) -> Iterable[str]:
    """Iterate over a notice on rows that give weight to keys beyond what a mask lets them see, if there are any."""
    found = [(m, m.weighed_beyond.any(axis=1)) for m in maps if m.weighed_beyond is not None and m.weighed_beyond.any()]
    if found:
        (first, rows), n_rows = found[0], sum(int(rows.sum()) for _, rows in found)
        keys = "later" if first.reach is None else "hidden"
        which = f"the first is row {int(rows.argmax())} of {first.name}"
        yield f"{path}: weight on {keys} keys, which the mask hides, in {counted(n_rows, 'row')}; {which}"


def _sum_notices(maps: tuple[AttentionMap, ...], path: Path) -> Iterable[str]:
    """Iterate over notices on rows that do not sum to 1: the farthest from it, and the number of rows of zeros.

    Maps of largest weights are skipped. Rows may sum to less than 1 in a part of a map, or if a head has a sink.
    """
    worst, text = ROUNDING, ""
    rows, zeros, first = 0, 0, ""
    for m in maps:
        if not m.quantity.has_row_sums:
            continue
        sums = m.row_sums
        away = np.where(sums == 0, 0.0, sums - 1)
        away = np.maximum(away, 0.0) if m.has_rest else np.abs(away)
        if away.max() > worst:
            worst = float(away.max())
            head, row = (int(i) for i in np.unravel_index(away.argmax(), away.shape))
            text = f"row {row} of {m.name_of(m.heads[head])} sums to {sums[head, row]:.4g}"
        if not m.has_rest:
            rows += sums.size
            if (sums == 0).any():
                head, row = (int(i) for i in np.argwhere(sums == 0)[0])
                first = first or f"row {row} of {m.name_of(m.heads[head])}"
                zeros += int((sums == 0).sum())
    if text:
        yield f"{path}: not all rows sum to 1; farthest from it, {text}"
    if zeros:
        number = "1 row has" if zeros == 1 else f"{zeros:,} rows have"
        beginning = "; the first is" if zeros > 1 else ":"
        yield f"{path}: {number} only zeros, of {rows:,}, as if no key were visible{beginning} {first}"
