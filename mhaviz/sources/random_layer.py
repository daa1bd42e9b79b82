"""The layer with random weights: the whole path from sentences to attention, seeded and untrained."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import MultiHeadAttention, check_heads
from mhaviz.layer.masks import causal_mask
from mhaviz.layer.seeding import check_seed
from mhaviz.records import ProjectionInputs, ShapeTrace
from mhaviz.sources.embedded_sentences import SentenceBatch
from mhaviz.sources.recorder import StepRecorder
from mhaviz.sources.single_layer import SingleLayer

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
        device: see ``resolve_device``.
        causal: hide later keys from a query.

    Raises:
        ArgumentError: sizes that cannot be, a device that has no name.
        MhavizError: a device that is not there.
    """

    d_model: int = 512
    n_heads: int = 8
    seed: int = 0
    device: str = "auto"
    causal: bool = False

    def __post_init__(self) -> None:
        check_heads(self.d_model, self.n_heads)
        check_seed(self.seed)
        _ = self._device

    def projection_inputs(self, sentence: str) -> ProjectionInputs:
        """The embeddings of a sentence and their three projections, for studies of each. Raises as ``attend`` does.

        The weights do not depend on how many heads there are: split, the projections are those of ``head_inputs``.
        """
        batch = SentenceBatch([sentence], None, causal=False)
        stages = 4
        matrices = 10 * batch.q_length * batch.k_length * (self.n_heads + stages)  # in float64
        require_memory(self._bytes_needed(batch, matrices), self._device, "the study")
        with torch.no_grad():
            model = self._model(batch).to(self._device)
            X, _, _ = model.encoder(self._device)  # 1 length d_model
            projected = (X, model.attention.Wq(X), model.attention.Wk(X), model.attention.Wv(X))
            embedded, query, key, value = (x[0].float().cpu().numpy() for x in projected)
        ((tokens, _),) = batch.pairs
        return ProjectionInputs(self._source(batch), tokens, embedded, query, key, value, self.n_heads)

    def trace(
        self, sentences: Sequence[str] = WORKED_EXAMPLE, target: str | None = None, values: bool = False
    ) -> ShapeTrace:
        """See ``SingleLayer.trace``."""
        return super().trace(sentences, target, values)

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
