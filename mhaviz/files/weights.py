"""Attention weights from other tools: find the array of a file that holds them, and split it into layers."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.files.arrays import read_arrays
from mhaviz.files.errors import ContentError, listed, reading
from mhaviz.files.saved_array import ArrayList, Numbers, SavedArray, require_room

_EXPECTED = "expected floating-point weights, or zeros and ones"
_MOST_HEADS, _MOST_POSITIONS = 2**15, 2**20  # of an array; each has a name, which a packed file need not hold


def read_layers(path: Path, name: str | None = None) -> tuple[list[NDArray[np.float32]], str | None]:
    """Read the weights of each layer from a file, or from its array of this name.

    An array is (q_length, k_length), (n_heads, q_length, k_length) or (n_layers, n_heads, q_length, k_length). The
    arrays of a list are one layer each, with up to four axes, (1, n_heads, q_length, k_length); so are arrays that are
    named layer_0, layer_1, …. Without a name, arrays that cannot be weights, by type or shape, are ignored. Types and
    shapes are checked before numbers are read.

    Returns:
        The weights of each layer, (n_heads, q_length, k_length), and the name of the array if the file holds others.

    Raises:
        ArgumentError: there is no array of this name, or several are possible and no name is given.
        MhavizError: the file cannot be read, or holds no weights.
    """
    with reading(path):
        arrays, chosen = _choose(path, name)
        several = arrays if isinstance(arrays, tuple) else (arrays,)
        for array in several:
            _check(array, is_layer=arrays is several)
        require_room(several)
        return [layer for array in several for layer in _layers(array)], chosen


def _choose(path: Path, wanted: str | None) -> tuple[SavedArray | ArrayList, str | None]:
    """Return the array or list of weights, and its name if the file holds others."""
    held = read_arrays(path)
    unnamed = held.get("")
    if isinstance(unnamed, tuple) and (wanted is not None or not _alike(unnamed)):
        held = {str(number): array for number, array in enumerate(unnamed)}
    if not held:
        raise MhavizError(f"{path} holds no array")
    if wanted is not None:
        if list(held) == [""]:
            raise ArgumentError(f"{parameter('name')}: {path} holds a single array without a name; leave it out")
        if wanted not in held:
            raise ArgumentError(
                f"{parameter('name')}: there is no array {wanted[:60]} in {path}; it has {_listed(held)}"
            )
        return held[wanted], wanted
    if len(held) == 1:
        return next(iter(held.values())), None
    fitting = {n: arrays for n, arrays in held.items() if _could_be_weights(arrays, "float")}
    fitting = fitting or {n: arrays for n, arrays in held.items() if _could_be_weights(arrays, "whole")}
    if not fitting:
        raise ContentError(f"none of its arrays could be weights; it has {_listed(held)}")
    if len(fitting) > 1 and (layers := _numbered_layers(fitting)):
        return layers, None
    if len(fitting) > 1:
        raise ArgumentError(
            f"{parameter('name')}: {path} holds {len(fitting)} arrays that could be weights; choose one of "
            f"{_listed(fitting)}; layers are read together if their names end in 0, 1, 2, …"
        )
    ((chosen, arrays),) = fitting.items()
    return arrays, chosen


def _numbered_layers(held: Mapping[str, SavedArray | ArrayList]) -> ArrayList | None:
    """Return arrays layer_0, layer_1, … of one shape in the order of their numbers; None: these are no such arrays."""
    found: dict[int, SavedArray] = {}
    beginnings: set[str] = set()
    for name, array in held.items():
        parts = re.fullmatch(r"(.*?)([0-9]{1,6})", name, re.DOTALL)
        if parts is None or isinstance(array, tuple) or int(parts[2]) in found:
            return None
        beginnings.add(parts[1])
        found[int(parts[2])] = array
    arrays = tuple(found[number] for number in sorted(found))
    has_all = sorted(found) == list(range(len(found)))
    return arrays if has_all and len(beginnings) == 1 and _alike(arrays) else None


def _could_be_weights(arrays: SavedArray | ArrayList, numbers: Numbers) -> bool:
    if isinstance(arrays, tuple):
        return _alike(arrays) and all(_could_be_weights(array, numbers) for array in arrays)
    return arrays.numbers == numbers and len(arrays.shape) in range(2, 5) and 0 not in arrays.shape


def _alike(arrays: ArrayList) -> bool:
    """Return whether arrays may be layers of one model. Numbers of heads may differ, as heads may be pruned."""
    return len({(len(array.shape), array.shape[-2:]) for array in arrays}) == 1


def _listed(held: Mapping[str, SavedArray | ArrayList]) -> str:
    return listed(sorted(held), lambda name: f" {_shape(held[name])}")


def _shape(arrays: SavedArray | ArrayList) -> str:
    """Return the shape for a message: "(8, 10, 10)", or "6 × (1, 8, 10, 10)" for a list."""
    if isinstance(arrays, tuple):
        return f"{len(arrays)} × {_shape(arrays[0])}"
    return f"({', '.join(map(str, arrays.shape))})"


def _check(array: SavedArray, is_layer: bool) -> None:
    """Raise ContentError unless type and shape are those of weights. ``is_layer``: the array must be one layer."""
    axes = len(array.shape)
    if array.numbers == "other":
        raise ContentError(f"{_EXPECTED}, got {array.dtype}")
    if axes not in range(2, 5) or 0 in array.shape or (is_layer and axes == 4 and array.shape[0] != 1):
        raise ContentError(
            "expected weights (q_length, k_length), (n_heads, q_length, k_length) or "
            f"({1 if is_layer else 'n_layers'}, n_heads, q_length, k_length), got {_shape(array)}"
        )
    require_few_heads(array)


def require_few_heads(array: SavedArray) -> None:
    """Raise ContentError if an array has more heads, in all layers, or more queries or keys than can be looked at."""
    *heads, q_length, k_length = array.shape
    if math.prod(heads) > _MOST_HEADS or max(q_length, k_length) > _MOST_POSITIONS:
        raise ContentError(
            f"expected at most {_MOST_HEADS:,} heads in all layers, and {_MOST_POSITIONS:,} queries and keys, got "
            f"{_shape(array)}; save a part of it"
        )


def _layers(array: SavedArray) -> list[NDArray[np.float32]]:
    weights = array.read()
    if array.numbers == "whole" and (others := weights[(weights != 0) & (weights != 1)]).size:
        raise ContentError(f"{_EXPECTED}, got {others[0]:g} in an array of {array.dtype}")
    return list(weights.reshape(-1, *((1, *weights.shape)[-3:])))
