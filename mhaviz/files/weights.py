"""Attention weights from other tools: find the array of a file that holds them, and split it into layers."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError, counted, parameter
from mhaviz.files.arrays import read_arrays
from mhaviz.files.errors import ContentError, listed, reading
from mhaviz.files.generated_steps import are_steps, join, n_padding, of_one_text, paths, require_other_prompts
from mhaviz.files.saved_array import ArrayList, Numbers, SavedArray, require_room
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind

_EXPECTED = "expected floating-point weights, or zeros and ones"
_CROSS = "cross_attentions"  # what generate calls those whose keys are of another sentence
_MOST_HEADS, _MOST_POSITIONS = 2**15, 2**20  # of an array; each has a name, which a packed file need not hold


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer.

    Attributes:
        weights: float32, (n_heads, q_length, k_length).
        layer: index of the layer.
        sentence, reach: as in ``AttentionMap``.
        kind: kind of attention; None: the weights do not tell.
        n_before: number of tokens before these that are left out, as padding.
    """

    weights: NDArray[np.float32]
    layer: int
    sentence: int | None = None
    kind: Kind | None = None
    reach: int | None = None
    n_before: int = 0


@dataclass(frozen=True)
class SavedLayers:
    """Weights of all layers in a file, the name of their array if the file holds others, and notices about them."""

    layers: list[LayerWeights]
    name: str | None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class GeneratedSteps:
    """Arrays of each step of ``generate``, a list of layers each.

    Attributes:
        name: name of the list of steps, such as "cross_attentions".
        steps: arrays of each layer, for each step.
        beams: which beams a search has followed; see ``paths``. None: not known, or there was no search.
    """

    name: str
    steps: tuple[ArrayList, ...]
    beams: SavedArray | None = None

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.steps)


_Held = SavedArray | ArrayList | GeneratedSteps


def read_layers(path: Path, name: str | None = None) -> SavedLayers:
    """Read the weights of each layer from a file, or from its array of this name.

    An array is (q_length, k_length), (n_heads, q_length, k_length) or (n_layers, n_heads, q_length, k_length). The
    arrays of a list are one layer each, with up to four axes, (1, n_heads, q_length, k_length); so are arrays that are
    named layer_0, layer_1, …. A list of such lists may be the steps of ``generate`` of transformers, which are joined;
    see ``generated_steps``. Without a name, arrays that cannot be weights, by type or shape, are ignored. Types and
    shapes are checked before numbers are read.

    Raises:
        ArgumentError: there is no array of this name, or several are possible and no name is given.
        MhavizError: the file cannot be read, or holds no weights.
    """
    with reading(path):
        arrays, chosen = _choose(path, name)
        if isinstance(arrays, GeneratedSteps):
            layers = list(_joined(arrays))
            return SavedLayers(layers, chosen, tuple(_step_notices(arrays, layers, path)))
        several = arrays if isinstance(arrays, tuple) else (arrays,)
        for array in several:
            _check(array, is_layer=arrays is several)
        require_room(several)
        every = (layer for array in several for layer in _layers(array))
        return SavedLayers([LayerWeights(weights, number) for number, weights in enumerate(every)], chosen)


def _joined(generated: GeneratedSteps) -> Iterator[LayerWeights]:
    """Iterate over the weights of each text and layer. Raises ContentError if they are not steps of texts."""
    every = [array for layers in generated.steps for array in layers]
    for array in every:
        require_few_heads(array)
    require_room(every)
    batch_size, beams = every[0].shape[0], None
    if generated.beams is not None:
        beams = generated.beams.read().astype(np.int64)
    elif batch_size > 1:
        require_other_prompts([array.read() for array in generated.steps[0]])
    of_texts = paths(beams, len(generated), batch_size)
    joined: list[list[LayerWeights]] = [[] for _ in of_texts]
    for layer, arrays in enumerate(zip(*generated.steps, strict=True)):
        steps = [array.read() for array in arrays]
        for sentence, (path, layers) in enumerate(zip(of_texts, joined, strict=True)):
            of_text = join([step[place] for step, place in zip(steps, path, strict=False)])
            numbered = sentence if len(of_texts) > 1 else None
            layers.append(LayerWeights(of_text.weights, layer, numbered, of_text.kind, of_text.reach))
    for layers in joined:
        yield from _without_padding(layers)


def _without_padding(layers: Sequence[LayerWeights]) -> Sequence[LayerWeights]:
    """Return the layers of one text without the tokens before it that are padding."""
    of_one_sequence = all(one.kind in OF_ONE_TEXT for one in layers)
    n = n_padding([one.weights for one in layers]) if of_one_sequence else 0
    if not n:
        return layers
    whole = [np.ascontiguousarray(one.weights[:, n:, n:]) for one in layers]
    return [
        replace(one, weights=weights, kind=of_one_text(weights), n_before=n)
        for one, weights in zip(layers, whole, strict=True)
    ]


def _step_notices(generated: GeneratedSteps, layers: Sequence[LayerWeights], path: Path) -> Iterator[str]:
    """Iterate over notices on padding, and on steps whose keys may be of several texts."""
    for one in layers:
        if one.layer == 0 and one.n_before:
            tokens = counted(one.n_before, "token") + ("" if one.sentence is None else f" of sentence {one.sentence}")
            yield f"{path}: left out the first {tokens}: padding, as no later query weighs them"
    if generated.name != _CROSS and any(one.kind == "cross" for one in layers):
        yield (
            f"{path}: {counted(len(generated), 'list')} of layers are read as steps of one text with the same keys; if "
            f"they are of several texts, choose one by its number with {parameter('name')}"
        )


def _with_steps(held: Mapping[str, SavedArray | ArrayList]) -> dict[str, _Held]:
    """Return the arrays of a file with those lists joined that may be steps of one generation, under their container.

    The lists in "attentions" are named "attentions.0", "attentions.1", …; the beams beside them "beam_indices".
    """
    containers: dict[str, dict[str, SavedArray | ArrayList]] = {}
    for name, arrays in held.items():
        containers.setdefault(name.rpartition(".")[0], {})[name.rpartition(".")[2]] = arrays
    found: dict[str, _Held] = {**held}
    for container, parts in containers.items():
        steps = tuple(one for one in parts.values() if isinstance(one, tuple))
        is_list = [*parts] == list(map(str, range(len(steps))))
        if is_list and are_steps([[array.shape for array in layers] for layers in steps]):
            beams = held.get(f"{container.rpartition('.')[0]}.beam_indices".removeprefix("."))
            if not isinstance(beams, SavedArray) or beams.numbers != "whole" or len(beams.shape) != 2:
                beams = None
            for part in parts:
                del found[f"{container}.{part}".removeprefix(".")]
            found[container] = GeneratedSteps(container.rpartition(".")[2], steps, beams)
    return found


def _choose(path: Path, wanted: str | None) -> tuple[_Held, str | None]:
    """Return the array or list of weights, and its name if the file holds others."""
    held: Mapping[str, _Held] = (lists := read_arrays(path))
    if wanted not in lists:
        held = _with_steps(lists)
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


def _numbered_layers(held: Mapping[str, _Held]) -> ArrayList | None:
    """Return arrays layer_0, layer_1, … of one shape in the order of their numbers; None: these are no such arrays."""
    found: dict[int, SavedArray] = {}
    beginnings: set[str] = set()
    for name, array in held.items():
        parts = re.fullmatch(r"(.*?)([0-9]{1,6})", name, re.DOTALL)
        if parts is None or not isinstance(array, SavedArray) or int(parts[2]) in found:
            return None
        beginnings.add(parts[1])
        found[int(parts[2])] = array
    arrays = tuple(found[number] for number in sorted(found))
    has_all = sorted(found) == list(range(len(found)))
    return arrays if has_all and len(beginnings) == 1 and _alike(arrays) else None


def _could_be_weights(arrays: _Held, numbers: Numbers) -> bool:
    if isinstance(arrays, GeneratedSteps):
        return all(_could_be_weights(layers[0], numbers) for layers in arrays.steps)
    if isinstance(arrays, tuple):
        return _alike(arrays) and all(_could_be_weights(array, numbers) for array in arrays)
    return arrays.numbers == numbers and len(arrays.shape) in range(2, 5) and 0 not in arrays.shape


def _alike(arrays: ArrayList) -> bool:
    """Return whether arrays may be layers of one model. Numbers of heads may differ, as heads may be pruned."""
    return len({(len(array.shape), array.shape[-2:]) for array in arrays}) == 1


def _listed(held: Mapping[str, _Held]) -> str:
    return listed(sorted(held), lambda name: f" {_shape(held[name])}")


def _shape(arrays: _Held) -> str:
    """Return the shape for a message: "(8, 10, 10)", "6 × (1, 8, 10, 10)" for a list, "4 steps of 6 × (1, 8, 7, 7)"."""
    if isinstance(arrays, GeneratedSteps):
        return f"{counted(len(arrays), 'step')} of {_shape(arrays.steps[0])}"
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
