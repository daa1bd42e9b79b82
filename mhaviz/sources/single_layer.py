"""One attention layer as a source, whatever its weights are and whatever it is given: from X to attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from mhaviz.devices import require_memory, resolve_device
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.layer.seeding import seeded
from mhaviz.layer.steps import Step, untraced
from mhaviz.records import (
    Attention,
    AttentionMap,
    HeadInputs,
    LayerInputs,
    MapInputs,
    MapOutline,
    QueriesAndKeys,
    ShapeTrace,
    Source,
)
from mhaviz.sources import batch as batches
from mhaviz.sources.batch import Batch, Encoder, visible_keys
from mhaviz.sources.embedded_sentences import SentenceBatch
from mhaviz.sources.finite import require_scores, require_weights
from mhaviz.sources.recorder import StepRecorder

VALUES_UP_TO = 512
"""A traced tensor with more numbers than this is not printed; the largest of the worked example has 432."""


class SingleLayer(ABC):
    """What layers with weights of any origin have in common. A layer is made anew from its seed for each batch.

    Attributes:
        n_heads: of the attention.
        seed: of all that is drawn. It is drawn on the CPU, the same for every device.
        device: see ``resolve_device``.
        causal: hide later keys from a query.
    """

    n_heads: int
    seed: int
    device: str
    causal: bool

    @property
    @abstractmethod
    def d_model(self) -> int:
        """Features of the queries and of the output."""

    @abstractmethod
    def _attention(self) -> MultiHeadAttention:
        """A layer with its weights, for the caller to move."""

    @abstractmethod
    def _origin(self) -> tuple[str, dict[str, object]]:
        """Where the weights and X come from: a few words for the footnote, and details."""

    def _shapes_origin(self) -> str:
        """The same, where only the sizes of the weights matter."""
        return self._origin()[0]

    def _batch(self, sentences: Sequence[str], target: str | None) -> Batch:
        return SentenceBatch(sentences, target, self.causal)

    @cached_property
    def _device(self) -> torch.device:
        return resolve_device(self.device)

    @property
    def attentions(self) -> int:
        """How many maps ``attend`` gives of each sentence."""
        return 1

    def longest(self, sentences: Sequence[str], target: str | None = None) -> int:
        """Tokens of the longest input."""
        return self._batch(sentences, target).max_length

    def attend(self, sentences: Sequence[str], target: str | None = None) -> Attention:
        """The attention weights of each sentence to itself, or of ``target`` to the one sentence there is.

        Raises:
            ArgumentError: a sentence without words, or ``target`` with several sentences or with a causal mask.
            MhavizError: the input does not fit into memory.
        """
        batch = self._batch(sentences, target)
        require_memory(self._bytes_needed(batch, self._scores(batch)), self._device, "the layer")
        with torch.no_grad():
            _, weights = self._model(batch).to(self._device)(batch, self._device)
        require_weights(weights, self._origin()[0])
        weights = weights.float().cpu().numpy()
        maps = tuple(
            AttentionMap(
                queries, keys, weights[i, :, : len(queries), : len(keys)], batch.kind, sentence=batch.number(i)
            )
            for i, (queries, keys) in enumerate(batch.pairs)
        )
        return Attention(self._source(batch), maps)

    def head_inputs(
        self, sentences: Sequence[str], target: str | None = None, studied_heads: int | None = None
    ) -> LayerInputs:
        """The queries, keys and values of every head, for studies of what is made of them. Raises as ``attend`` does.

        ``studied_heads``: of how many heads a study will make scores, so that it fits into memory too.
        """
        batch = self._batch(sentences, target)
        matrices = 8 * batch.q_length * batch.k_length * (studied_heads or self.n_heads)  # scores, weights, pictures
        require_memory(self._bytes_needed(batch, matrices), self._device, "the study")
        with torch.no_grad():
            Q, K, V = (
                heads.float().cpu().numpy() for heads in self._model(batch).to(self._device).project(self._device)
            )
        for query, key, value in zip(Q, K, V, strict=True):
            require_scores(query, key, self._origin()[0], value)
        inputs = tuple(
            HeadInputs(
                queries,
                keys,
                Q[i, :, : len(queries)],
                K[i, :, : len(keys)],
                V[i, :, : len(keys)],
                visible_keys(batch.kind, len(queries), len(keys)),
                batch.kind,
                batch.number(i),
            )
            for i, (queries, keys) in enumerate(batch.pairs)
        )
        return LayerInputs(self._source(batch), inputs)

    def queries_and_keys(
        self, sentences: Sequence[str], target: str | None = None, heads: Sequence[int] | None = None
    ) -> MapInputs:
        """The queries and keys of these heads, or of all, for maps of any length. Raises as ``attend`` does."""
        batch = self._batch(sentences, target)
        chosen = tuple(range(self.n_heads)) if heads is None else tuple(heads)
        require_memory(self._bytes_of_queries_and_keys(batch, len(chosen)), self._device, "the input")
        # Of the table of positions nothing is needed: they are worked out piece by piece.
        model = self._model(batch, max_length=1).to(self._device)
        Wq, Wk = model.attention.Wq, model.attention.Wk

        def visit(seen: Callable[[QueriesAndKeys], None]) -> None:
            for i, (queries, keys) in enumerate(batch.pairs):
                key_pieces = model.encoder.pieces(i, False, self._device)
                with torch.no_grad():
                    if batch.kind == "cross":
                        query_pieces = model.encoder.pieces(i, True, self._device)
                        (K,) = model.project_in_pieces((Wk,), key_pieces, len(keys), chosen)
                        (Q,) = model.project_in_pieces((Wq,), query_pieces, len(queries), chosen)
                    else:
                        Q, K = model.project_in_pieces((Wq, Wk), key_pieces, len(keys), chosen)
                require_scores(Q.numpy(), K.numpy(), self._origin()[0])
                seen(QueriesAndKeys(queries, keys, Q.numpy(), K.numpy(), chosen, batch.kind, batch.number(i)))

        d_key = self.d_model // self.n_heads
        outlines = tuple(
            MapOutline(batch.kind, len(chosen), len(queries), len(keys), d_key, batch.number(i))
            for i, (queries, keys) in enumerate(batch.pairs)
        )
        return MapInputs(self._source(batch), outlines, visit)

    def trace(self, sentences: Sequence[str], target: str | None = None, values: bool = False) -> ShapeTrace:
        """Every step of the sentences' way through the layer; with ``values``, the numbers of small tensors too.

        Without ``values`` nothing is computed. Raises as ``attend`` does.
        """
        batch = self._batch(sentences, target)
        self._check_countable(len(batch.pairs), batch.max_length)
        tokens = tuple(queries for queries, _ in batch.pairs)
        if values:
            require_memory(self._bytes_needed(batch, 3 * self._scores(batch)), self._device, "the traced layer")
            model, device = self._model(batch).to(self._device), self._device
        else:
            device = torch.device("meta")
            with device:
                model = self._model(batch).to(device)
        recorder = StepRecorder(model, VALUES_UP_TO if values else 0)
        with torch.no_grad(), recorder:
            model(batch, device, recorder)
        source = self._source(batch) if values else self._size_source(sentences=list(sentences) or None, target=target)
        return ShapeTrace(source, tuple(recorder.steps), tokens)

    def _check_countable(self, batch_size: int, seq_length: int) -> None:
        largest = max(batch_size * seq_length * max(self.n_heads * seq_length, self.d_model), self.d_model**2) * 4
        if largest >= 2**63:
            raise ArgumentError(
                f"expected tensors below 2^63 bytes, got batch_size {batch_size}, length {seq_length}, d_model "
                f"{self.d_model} and {self.n_heads} heads; use smaller sizes"
            )

    def _model(self, batch: Batch, max_length: int | None = None) -> "Model":
        # The layer's weights are drawn first, so that they do not depend on how many words there are.
        with seeded(self.seed):
            return Model(self._attention(), batch.encoder(self.d_model, max_length or batch.max_length)).eval()

    def _scores(self, batch: Batch) -> int:
        return len(batch.pairs) * self.n_heads * batch.q_length * batch.k_length

    def _bytes_needed(self, batch: Batch, matrices: int) -> int:
        """At the peak, with so many numbers in matrices of queries × keys."""
        float32 = 4
        parameters = 4 * self.d_model * (self.d_model + 1) + batch.n_words * self.d_model
        positions = 5 * batch.max_length * self.d_model  # the table, and its making in float64
        features = 8 * len(batch.pairs) * batch.max_length * self.d_model
        masks = 10 * len(batch.pairs) * batch.q_length * batch.k_length  # of bytes, with what is worked out from them
        return float32 * (parameters + positions + features + matrices) + masks

    def _bytes_of_queries_and_keys(self, batch: Batch, heads: int) -> int:
        float32 = 4
        parameters = 4 * self.d_model * (self.d_model + 1) + batch.n_words * self.d_model
        longest = max(len(queries) + len(keys) for queries, keys in batch.pairs)
        piece = 12 * min(batches.PIECE, batch.max_length) * self.d_model  # with positions in float64
        return float32 * (parameters + piece + longest * heads * self.d_model // self.n_heads)

    def _source(self, batch: Batch) -> Source:
        origin, details = self._origin()
        footnote = f"{origin}, {self._size_text}, {self._device}"
        details |= {"device": str(self._device)}
        return Source(footnote, details | self._sizes(sentences=list(batch.sentences) or None, target=batch.target))

    def _size_source(self, **given: object) -> Source:
        footnote = f"{self._shapes_origin()}, {self._size_text}; shapes only, nothing was computed"
        return Source(footnote, {"kind": "shapes only"} | self._sizes(**given))

    @property
    def _size_text(self) -> str:
        return f"d_model {self.d_model}, {self.n_heads} head{'s' * (self.n_heads != 1)}"

    def _sizes(self, **given: object) -> dict[str, object]:
        mask = "causal" if self.causal else "none"
        sizes = {"d_model": self.d_model, "n_heads": self.n_heads, "mask": mask}
        return sizes | {name: value for name, value in given.items() if value is not None}


class Model(nn.Module):
    """What makes X and one attention layer, as one module."""

    def __init__(self, attention: MultiHeadAttention, encoder: Encoder) -> None:
        super().__init__()
        self.attention, self.encoder = attention, encoder

    def forward(self, batch: Batch, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor]:
        """The output, (batch_size, q_length, d_model), and the weights of every head."""
        query, key, value = self.encoder(device, step)
        output, weights = self.attention(query, key, value, batch.mask(device), step=step)
        return output, weights

    def project(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of every head, (batch_size, n_heads, length, d_key)."""
        return self.attention.project(*self.encoder(device))

    def project_in_pieces(
        self, projections: Sequence[nn.Linear], pieces: Iterator[Tensor], length: int, heads: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """Each projection of one sentence, X in pieces, for some heads: (n_heads, length, d_key), on the CPU."""
        n_heads, d_key = self.attention.n_heads, self.attention.d_key
        results = tuple(torch.empty(len(heads), length, d_key) for _ in projections)
        start = 0
        for X in pieces:
            for projection, result in zip(projections, results, strict=True):
                of_heads = projection(X).view(len(X), n_heads, d_key)[:, list(heads)]
                result[:, start : start + len(X)] = of_heads.transpose(0, 1)
            start += len(X)
        return results
