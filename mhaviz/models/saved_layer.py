"""A layer with the weights of a file, run on sentences or on an input X of a file."""

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
        path: where they are from.
        query, key, value: the same tensor thrice for self-attention.
        name: of that tensor; None where queries and keys have their own.
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
        """Of the tensors, in words."""
        if self.name is not None:
            return self.name
        return "query and key" if self.value is self.key else "query, key and value"


def read_inputs(path: Path, name: str | None = None) -> GivenInputs:
    """Read X from a .safetensors file or one of torch.save: (length, d_model) or (batch_size, length, d_model).

    The tensor of this name; else ``input``; else ``query`` and ``key``, with ``value`` unless that is the key, for
    source-target attention; else the only one.

    Raises:
        ArgumentError: there are several tensors and no name, or none of this name.
        MhavizError: the file cannot be read, or a tensor is no X.
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
    """(batch_size, length, features)"""
    tensor.require_floats()
    if len(tensor.shape) not in (2, 3) or 0 in tensor.shape:
        raise MhavizError(
            f"{tensor.path}: {tensor.name:.80}: expected (length, d_model) or (batch_size, length, d_model), got "
            f"({', '.join(map(str, tensor.shape))})"
        )
    X = torch.from_numpy(tensor.read_finite())
    return X if X.ndim == 3 else X[None]


def labelled_inputs(given: GivenInputs, sentences: Sequence[str], target: str | None, causal: bool) -> LayerInputs:
    """X as it is; its tokens are the words of the sentences, if there are some, or else positions.

    Raises:
        ArgumentError: words that are more or fewer than there are positions, or a causal mask or a target that cannot
            be.
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
    queries = Tokens(_labels(target, q_length)) if is_cross else None
    texts = tuple(
        Text(Tokens(_labels(sentence, given.key.shape[1])), queries) for sentence in sentences or (None,) * batch_size
    )
    kind: Kind = "cross" if is_cross else "masked" if causal else "self"
    return LayerInputs(texts, kind, tuple(sentences), target, lambda d_model, max_length: GivenEncoder(given))


def _labels(sentence: str | None, length: int) -> tuple[str, ...]:
    """The words of a sentence, or the positions."""
    if sentence is None:
        return tuple(map(str, range(length)))
    words = tokenize(sentence)
    if len(words) != length:
        raise ArgumentError(f"expected {length} words, one for each position of the input, got {len(words)}")
    return tuple(words)


class GivenEncoder(Encoder):
    """Gives X as it is: neither embeddings nor positions are added."""

    def __init__(self, given: GivenInputs) -> None:
        super().__init__()
        self.given = given

    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """X of the queries, keys and values."""
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
        """A part of X of one sentence, so that no more of it need be on the device."""
        X: Tensor = getattr(self.given, side)
        return X[i, start : start + layer_inputs.PIECE].to(device)


@dataclass(frozen=True)
class SavedLayer(SingleLayer):
    """A layer with weights from a file.

    With ``inputs``, these are X, as they are, and sentences only label them. Without, X is made of the sentences as for
    a layer with random weights: the embeddings are random, so that the maps show the weights on no input that they have
    learnt from.

    Attributes:
        saved: the weights.
        n_heads: it must divide d_model; the weights do not tell it.
        inputs: X.

    Raises:
        MhavizError: inputs that do not fit the weights.
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
        """Features of the queries and of the output."""
        return self.saved.d_model

    def _attention(self) -> MultiHeadAttention:
        return self.saved.attention(self.n_heads)

    def encode(self, sentences: Sequence[str], target: str | None = None) -> LayerInputs:
        """``inputs``, if there are some, labelled by the words of the sentences; else the sentences themselves."""
        if self.inputs is None:
            return super().encode(sentences, target)
        return labelled_inputs(self.inputs, sentences, target, self.causal)

    def _origin(self) -> tuple[str, dict[str, object]]:
        saved, inputs = self.saved, self.inputs
        details: dict[str, object] = {"kind": "saved weights", "file": saved.path.name, "prefix": saved.prefix}
        weights = f"weights of {_in_a_line(saved.path.name)}"
        if saved.prefix:
            weights += f", prefix {_in_a_line(saved.prefix)}"
        if inputs is None:
            return f"{weights}; random embeddings, seed {self.seed}", details | {"seed": self.seed}
        details |= {"input": inputs.path.name, "input_name": inputs.names}
        return f"{weights}; on {_in_a_line(inputs.names)} of {_in_a_line(inputs.path.name)}", details


def _in_a_line(name: str) -> str:
    """A footnote is one line, whatever files and parameters are called."""
    return f"{repr(name)[1:-1]:.60}"
