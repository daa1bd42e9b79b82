"""The layer with random weights: the whole path from sentences to attention, seeded and untrained."""

from dataclasses import dataclass

import torch

from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import MultiHeadAttention, check_heads
from mhaviz.layer.masks import causal_mask
from mhaviz.layer.seeding import check_seed
from mhaviz.models.sentence_inputs import SentenceInputs
from mhaviz.models.single_layer import SingleLayer
from mhaviz.models.step_recorder import StepRecorder
from mhaviz.records import ProjectionInputs, ShapeTrace

WORKED_EXAMPLE = (
    "I wonder what will come next!",
    "This is a basic example paragraph.",
    "Hello, what is a basic split?",
)
"""The sentences on which teaching texts walk through the layer, with d_model 8 and 4 heads."""


@dataclass(frozen=True)
class RandomLayer(SingleLayer):
    """An untrained layer, made anew from its seed for the vocabulary of the sentences that it is given.

    Attributes:
        d_model, n_heads: sizes; n_heads must divide d_model.
        seed: of the weights. They are drawn on the CPU, the same for every device.
        device_name: see ``resolve_device``.
        causal: hide later keys from a query.

    Raises:
        ArgumentError: sizes that cannot be, a device that has no name.
        MhavizError: a device that is not there.
    """

    d_model: int = 512
    n_heads: int = 8
    seed: int = 0
    device_name: str = "auto"
    causal: bool = False

    def __post_init__(self) -> None:
        check_heads(self.d_model, self.n_heads)
        check_seed(self.seed)
        _ = self.device

    def projection_inputs(self, sentence: str) -> ProjectionInputs:
        """The embeddings of a sentence and their three projections, for studies of each.

        The weights do not depend on how many heads there are: split, the projections are those of the heads.

        Raises:
            ArgumentError: a sentence without words.
            MhavizError: the study does not fit into memory.
        """
        inputs = SentenceInputs.of([sentence], None, causal=False)
        stages = 4
        matrices = 10 * inputs.longest**2 * (self.n_heads + stages)  # in float64
        require_memory(self._bytes_of_layer(inputs) + 4 * matrices, self.device, "the study")
        with torch.no_grad():
            layer = self._layer(inputs, inputs.longest).to(self.device)
            X, _, _ = layer.encoder(self.device)  # 1 length d_model
            projected = (X, layer.attention.Wq(X), layer.attention.Wk(X), layer.attention.Wv(X))
            embedded, query, key, value = (x[0].float().cpu().numpy() for x in projected)
        tokens = inputs.texts[0].source.texts
        return ProjectionInputs(self.describe(inputs), tokens, embedded, query, key, value, self.n_heads)

    def trace_sizes(self, batch_size: int, seq_length: int) -> ShapeTrace:
        """The same for sizes without sentences, of any magnitude: nothing is computed or allocated.

        Raises:
            ArgumentError: a size is below 1, or a tensor would have more numbers than can be counted in 63 bits.
        """
        for name, size in (("batch_size", batch_size), ("seq_length", seq_length)):
            if size < 1:
                raise ArgumentError(f"{name}: expected at least 1, got {size}")
        self._check_countable(batch_size, seq_length)
        with torch.no_grad(), torch.device("meta"):
            attention = self._attention().eval()
            mask = causal_mask(seq_length) if self.causal else None
            with StepRecorder(attention) as recorder:
                x = torch.empty(batch_size, seq_length, self.d_model)
                x = recorder("X = embeddings with positions", x, "batch_size seq_length d_model")
                attention(x, x, x, mask, step=recorder)
        return ShapeTrace(self._size_source(batch_size=batch_size, seq_length=seq_length), tuple(recorder.steps))

    def _attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(self.d_model, self.n_heads)

    def _origin(self) -> tuple[str, dict[str, object]]:
        return f"random weights, seed {self.seed}", {"kind": "random weights", "seed": self.seed}

    def _shapes_origin(self) -> str:
        return "an untrained layer"
