"""A layer with weights from a file, run on sentences or on an input X from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.files.arrays import read_named_arrays
from mhaviz.files.errors import listed
from mhaviz.files.saved_array import SavedArray
from mhaviz.inputs.tokens import Kind, Text, Tokens
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.layer.steps import Step, untraced
from mhaviz.layer.tokens import tokenize
from mhaviz.models import layer_inputs
from mhaviz.models.layer_inputs import Encoder, LayerInputs, Side, require_no_mask
from mhaviz.models.saved_attention import SavedAttention
from mhaviz.models.single_layer import SingleLayer


@dataclass(frozen=True)
class GivenInputs:
    """X of the queries, of the keys and of the values, each float32, (batch_size, length, d_model).

    Attributes:
        path: file that they were read from.
        query, key, value: the three; the same tensor for self-attention.
        name: name of that tensor in the file; None: queries and keys have their own.
    """

    path: Path
    query: Tensor
    key: Tensor
    value: Tensor
    name: str | None = None

    @property
    def sides(self) -> dict[str, Tensor]:
        """The tensors by their names in the file."""
        return (
            {"query": self.query, "key": self.key, "value": self.value} if self.name is None else {self.name: self.key}
        )

    @property
    def names(self) -> str:
        """Names of the tensors in the file, in words."""
        if self.name is not None:
            return self.name
        return "query and key" if self.value is self.key else "query, key and value"


def read_inputs(path: Path, name: str | None = None) -> GivenInputs:
    """Read X, (length, d_model) or (batch_size, length, d_model), from a .safetensors file or a file of torch.save.

    Args:
        path: the file.
        name: name of the tensor. None: ``input``; without it, ``query``, ``key`` and optionally ``value``, for
            source-target attention; without these, the only tensor.

    Raises:
        ArgumentError: no tensor has this name, or there are several and no name is given.
        MhavizError: the file cannot be read; a tensor of another shape or type, or with NaN or infinity.
    """
    tensors = read_named_arrays(path)
    if name is None and "input" not in tensors and "query" in tensors and "key" in tensors:
        query, key = _features(tensors["query"]), _features(tensors["key"])
        value = _features(tensors["value"]) if "value" in tensors else key
        if len(key) != len(query) or value.shape[:2] != key.shape[:2]:
            raise MhavizError(
                f"{path}: expected as many sentences of query, key and value, and keys as values, got "
                f"{', '.join(str(tuple(side.shape)) for side in (query, key, value))}"
            )
        return GivenInputs(path, query, key, value)
    chosen = _choose(path, tensors, name)
    X = _features(tensors[chosen])
    return GivenInputs(path, X, X, X, chosen)


def _choose(path: Path, tensors: Mapping[str, SavedArray], name: str | None) -> str:
    usual = next(iter(tensors)) if len(tensors) == 1 else "input"
    chosen = usual if name is None else name
    if chosen not in tensors:
        there = listed(sorted(tensors)) or "none"
        raise ArgumentError(f"{parameter('input_name')}: there is no tensor {chosen:.60} in {path}; it has {there}")
    return chosen


def _features(tensor: SavedArray) -> Tensor:
    """Return X, (batch_size, length, features)."""
    tensor.require_floats()
    if len(tensor.shape) not in (2, 3) or 0 in tensor.shape:
        raise MhavizError(
            f"{tensor.path}: {tensor.name:.80}: expected (length, d_model) or (batch_size, length, d_model), got "
            f"({', '.join(map(str, tensor.shape))})"
        )
    X = torch.from_numpy(tensor.read_finite())
    return X if X.ndim == 3 else X[None]


def labelled_inputs(
    given: GivenInputs, sentences: Sequence[str], target: str | None, causal: bool, keep_case: bool = False
) -> LayerInputs:
    """Return X as inputs. Its tokens are the words of the sentences, or without sentences the positions.

    Raises:
        ArgumentError: a number of words other than that of the positions; a causal mask where queries and keys differ;
            a target where they do not, or for several inputs.
    """
    batch_size, q_length, _ = given.query.shape
    is_cross = given.name is None
    if is_cross:
        require_no_mask(causal, "queries and keys of their own")
    elif target is not None:
        raise ArgumentError(f"a target labels queries of their own, got one tensor in {given.path}; leave it out")
    if sentences and len(sentences) != batch_size:
        raise ArgumentError(f"expected a sentence for each of {batch_size} inputs, or none, got {len(sentences)}")
    if target is not None and batch_size > 1:
        raise ArgumentError(f"a target goes with one input, got {batch_size}; leave it out")
    queries = Tokens(_labels(target, q_length, keep_case)) if is_cross else None
    texts = tuple(
        Text(Tokens(_labels(sentence, given.key.shape[1], keep_case)), queries)
        for sentence in sentences or (None,) * batch_size
    )
    kind: Kind = "cross" if is_cross else "masked" if causal else "self"
    return LayerInputs(texts, kind, tuple(sentences), target, lambda d_model, max_length: GivenEncoder(given))


def _labels(sentence: str | None, length: int, keep_case: bool) -> tuple[str, ...]:
    """Return the words of a sentence, one for each position; None: the positions."""
    if sentence is None:
        return tuple(map(str, range(length)))
    words = tokenize(sentence, keep_case)
    if len(words) != length:
        raise ArgumentError(f"expected {length} words, one for each position of the input, got {len(words)}")
    return tuple(words)


class GivenEncoder(Encoder):
    """Returns the given X, without adding embeddings or positions."""

    def __init__(self, given: GivenInputs) -> None:
        super().__init__()
        self.given = given

    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """Return X of the queries, keys and values, as a step each."""
        given = self.given
        if given.name is not None:
            X = step("X = as given", given.query.to(device), "batch_size seq_length d_model")
            return X, X, X
        query = step("X query = as given", given.query.to(device), "batch_size q_length d_model")
        key = step("X key = as given", given.key.to(device), "batch_size k_length d_model")
        if given.value is given.key:
            return query, key, key
        return query, key, step("X value = as given", given.value.to(device), "batch_size k_length d_model")

    def piece(self, i: int, side: Side, start: int, device: torch.device) -> Tensor:
        """Return a part of X, which alone is copied to the device; see ``Encoder.piece``."""
        X: Tensor = getattr(self.given, side)
        return X[i, start : start + layer_inputs.PIECE].to(device)


@dataclass(frozen=True)
class SavedLayer(SingleLayer):
    """A layer with weights from a file.

    With ``inputs``, X is given, and sentences only name its positions. Without, X is computed from the sentences as for
    a layer with random weights. Its embeddings are then random, and unlike any input that the weights were trained on.

    Attributes:
        saved: weights.
        n_heads: number of heads, which must divide d_model. The weights do not determine it.
        inputs: X; None: embed the sentences.

    Raises:
        MhavizError: the features of ``inputs`` do not fit the weights.
    """

    saved: SavedAttention
    n_heads: int = 8
    inputs: GivenInputs | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs = self.inputs
        for side, X in inputs.sides.items() if inputs is not None else ():
            if inputs is not None and X.shape[2] != self.d_model:
                raise MhavizError(
                    f"{inputs.path}: {side}: expected {self.d_model} features, as {self.saved.path} has weights for, "
                    f"got {X.shape[2]}"
                )

    @property
    def d_model(self) -> int:
        """Number of features of the queries and of the output."""
        return self.saved.d_model

    def _attention(self) -> MultiHeadAttention:
        return self.saved.attention(self.n_heads)

    def encode(self, sentences: Sequence[str], target: str | None = None) -> LayerInputs:
        """Return ``inputs``, with the words of the sentences as their tokens; without ``inputs``, the sentences."""
        if self.inputs is None:
            return super().encode(sentences, target)
        return labelled_inputs(self.inputs, sentences, target, self.causal, self.keep_case)

    def _origin(self) -> tuple[str, dict[str, object]]:
        saved, inputs = self.saved, self.inputs
        details: dict[str, object] = {"kind": "saved weights", "file": saved.path.name, "prefix": saved.prefix}
        weights = f"weights of {_on_one_line(saved.path.name)}"
        if saved.prefix:
            weights += f", prefix {_on_one_line(saved.prefix)}"
        if inputs is None:
            return f"{weights}; random embeddings, seed {self.seed}", details | {"seed": self.seed}
        details |= {"input": inputs.path.name, "input_name": inputs.names}
        return f"{weights}; on {_on_one_line(inputs.names)} of {_on_one_line(inputs.path.name)}", details


def _on_one_line(name: str) -> str:
    """Return the name without line breaks and cut to 60 characters, for a footnote of one line."""
    return f"{repr(name)[1:-1]:.60}"
