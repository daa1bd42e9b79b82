"""A layer with the weights of a file, run on sentences or on an input X of a file."""

from collections.abc import Sequence
from dataclasses import dataclass

from mhaviz.errors import MhavizError
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.models.given_inputs import GivenInputs, labelled_inputs
from mhaviz.models.layer_inputs import LayerInputs
from mhaviz.models.saved_attention import SavedAttention
from mhaviz.models.single_layer import SingleLayer


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
