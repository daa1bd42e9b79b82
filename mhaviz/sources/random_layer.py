"""The layer with random weights: the whole path from sentences to attention, seeded and untrained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from mhaviz.devices import require_memory, resolve_device
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import MultiHeadAttention, check_heads
from mhaviz.layer.embedding import Embeddings, PositionalEncoding, sinusoids
from mhaviz.layer.masks import causal_mask
from mhaviz.layer.seeding import check_seed, seeded
from mhaviz.layer.steps import Step, untraced
from mhaviz.records import (
    Attention,
    AttentionMap,
    HeadInputs,
    LayerInputs,
    MapInputs,
    MapOutline,
    ProjectionInputs,
    QueriesAndKeys,
    ShapeTrace,
    Source,
)
from mhaviz.sources.batch import Batch, visible_keys
from mhaviz.sources.recorder import StepRecorder

WORKED_EXAMPLE = (
    "I wonder what will come next!",
    "This is a basic example paragraph.",
    "Hello, what is a basic split?",
)
"""The sentences on which teaching texts walk through the layer, with d_model 8 and 4 heads."""

PIECE = 4096
"""So many tokens of a long input are embedded and projected at once."""

VALUES_UP_TO = 512
"""A traced tensor with more numbers than this is not printed; the largest of the worked example has 432."""


@dataclass(frozen=True)
class RandomLayer:
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

    @cached_property
    def _device(self) -> torch.device:
        return resolve_device(self.device)

    @property
    def attentions(self) -> int:
        """How many maps ``attend`` gives of each sentence."""
        return 1

    def longest(self, sentences: Sequence[str], target: str | None = None) -> int:
        """Tokens of the longest input."""
        return Batch(sentences, target, self.causal).max_length

    def attend(self, sentences: Sequence[str], target: str | None = None) -> Attention:
        """The attention weights of each sentence to itself, or of ``target`` to the one sentence there is.

        Raises:
            ArgumentError: a sentence without words, or ``target`` with several sentences or with a causal mask.
            MhavizError: the input does not fit into memory.
        """
        batch = Batch(sentences, target, self.causal)
        require_memory(self._bytes_needed(batch, self._scores(batch)), self._device, "the layer")
        with torch.no_grad():
            _, weights = self._model(batch).to(self._device)(batch, self._device)
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
        batch = Batch(sentences, target, self.causal)
        matrices = 10 * batch.q_length * batch.k_length * (studied_heads or self.n_heads)  # scores, weights, pictures
        require_memory(self._bytes_needed(batch, matrices), self._device, "the study")
        with torch.no_grad():
            Q, K, V = (
                heads.float().cpu().numpy()
                for heads in self._model(batch).to(self._device).project(batch, self._device)
            )
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
        batch = Batch(sentences, target, self.causal)
        chosen = tuple(range(self.n_heads)) if heads is None else tuple(heads)
        require_memory(self._bytes_of_queries_and_keys(batch, len(chosen)), self._device, "the input")
        with seeded(self.seed):  # of the table of positions nothing is needed: they are worked out piece by piece
            model = Model(len(batch.vocabulary), self.d_model, self.n_heads, max_length=1).eval().to(self._device)
        Wq, Wk = model.attention.Wq, model.attention.Wk

        def visit(seen: Callable[[QueriesAndKeys], None]) -> None:
            for i, (queries, keys) in enumerate(batch.pairs):
                query_ids, key_ids = (
                    torch.tensor(batch.vocabulary.ids(side)).to(self._device) for side in (queries, keys)
                )
                with torch.no_grad():
                    if target is None:
                        Q, K = model.project_in_pieces((Wq, Wk), key_ids, chosen)
                    else:
                        (K,) = model.project_in_pieces((Wk,), key_ids, chosen)
                        (Q,) = model.project_in_pieces((Wq,), query_ids, chosen)
                seen(QueriesAndKeys(queries, keys, Q.numpy(), K.numpy(), chosen, batch.kind, batch.number(i)))

        d_key = self.d_model // self.n_heads
        outlines = tuple(
            MapOutline(batch.kind, len(chosen), len(queries), len(keys), d_key, batch.number(i))
            for i, (queries, keys) in enumerate(batch.pairs)
        )
        return MapInputs(self._source(batch), outlines, visit)

    def projection_inputs(self, sentence: str) -> ProjectionInputs:
        """The embeddings of a sentence and their three projections, for studies of each. Raises as ``attend`` does.

        The weights do not depend on how many heads there are: split, the projections are those of ``head_inputs``.
        """
        batch = Batch([sentence], None, causal=False)
        stages = 4
        matrices = 10 * batch.q_length * batch.k_length * (self.n_heads + stages)  # in float64
        require_memory(self._bytes_needed(batch, matrices), self._device, "the study")
        with torch.no_grad():
            model = self._model(batch).to(self._device)
            X = model.encode(batch.key_ids.to(self._device))  # 1 length d_model
            projected = (X, model.attention.Wq(X), model.attention.Wk(X), model.attention.Wv(X))
            embedded, query, key, value = (x[0].float().cpu().numpy() for x in projected)
        ((tokens, _),) = batch.pairs
        return ProjectionInputs(self._source(batch), tokens, embedded, query, key, value, self.n_heads)

    def trace(
        self, sentences: Sequence[str] = WORKED_EXAMPLE, target: str | None = None, values: bool = False
    ) -> ShapeTrace:
        """Every step of the sentences' way through the layer; with ``values``, the numbers of small tensors too.

        Without ``values`` nothing is computed. Raises as ``attend`` does.
        """
        batch = Batch(sentences, target, self.causal)
        self._check_countable(len(batch.pairs), batch.max_length)
        tokens = tuple(queries for queries, _ in batch.pairs)
        if values:
            require_memory(self._bytes_needed(batch, 3 * self._scores(batch)), self._device, "the traced layer")
            model, device = self._model(batch).to(self._device), self._device
        else:
            device = torch.device("meta")
            with device:
                model = Model(len(batch.vocabulary), self.d_model, self.n_heads, batch.max_length).eval()
        recorder = StepRecorder(model, VALUES_UP_TO if values else 0)
        with torch.no_grad(), recorder:
            model(batch, device, recorder)
        source = self._source(batch) if values else self._size_source(sentences=list(sentences), target=target)
        return ShapeTrace(source, tuple(recorder.steps), tokens)

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
            attention = MultiHeadAttention(self.d_model, self.n_heads).eval()
            mask = causal_mask(seq_length) if self.causal else None
            with StepRecorder(attention) as recorder:
                x = torch.empty(batch_size, seq_length, self.d_model)
                x = recorder("X = embeddings with positions", x, "batch_size seq_length d_model")
                attention(x, x, x, mask, step=recorder)
        return ShapeTrace(self._size_source(batch_size=batch_size, seq_length=seq_length), tuple(recorder.steps))

    def _check_countable(self, batch_size: int, seq_length: int) -> None:
        largest = max(batch_size * seq_length * max(self.n_heads * seq_length, self.d_model), self.d_model**2) * 4
        if largest >= 2**63:
            raise ArgumentError(
                f"expected tensors below 2^63 bytes, got batch_size {batch_size}, length {seq_length}, d_model "
                f"{self.d_model} and {self.n_heads} heads; use smaller sizes"
            )

    def _model(self, batch: Batch) -> "Model":
        # The layer's weights are drawn first, so that they do not depend on how many words there are.
        with seeded(self.seed):
            return Model(len(batch.vocabulary), self.d_model, self.n_heads, batch.max_length).eval()

    def _scores(self, batch: Batch) -> int:
        return len(batch.pairs) * self.n_heads * batch.q_length * batch.k_length

    def _bytes_needed(self, batch: Batch, matrices: int) -> int:
        """At the peak, with so many numbers in matrices of queries × keys."""
        float32 = 4
        parameters = 4 * self.d_model * (self.d_model + 1) + len(batch.vocabulary) * self.d_model
        positions = 5 * batch.max_length * self.d_model  # the table, and its making in float64
        features = 8 * len(batch.pairs) * batch.max_length * self.d_model
        masks = 10 * len(batch.pairs) * batch.q_length * batch.k_length  # of bytes, with what is worked out from them
        return float32 * (parameters + positions + features + matrices) + masks

    def _bytes_of_queries_and_keys(self, batch: Batch, heads: int) -> int:
        float32 = 4
        parameters = 4 * self.d_model * (self.d_model + 1) + len(batch.vocabulary) * self.d_model
        longest = max(len(queries) + len(keys) for queries, keys in batch.pairs)
        piece = 12 * min(PIECE, batch.max_length) * self.d_model  # with positions in float64
        return float32 * (parameters + piece + longest * heads * self.d_model // self.n_heads)

    def _source(self, batch: Batch) -> Source:
        footnote = f"random weights, seed {self.seed}, {self._size_text}, {self._device}"
        details = {"kind": "random weights", "seed": self.seed, "device": str(self._device)}
        return Source(footnote, details | self._sizes(sentences=list(batch.sentences), target=batch.target))

    def _size_source(self, **given: object) -> Source:
        footnote = f"an untrained layer, {self._size_text}; shapes only, nothing was computed"
        return Source(footnote, {"kind": "shapes only"} | self._sizes(**given))

    @property
    def _size_text(self) -> str:
        return f"d_model {self.d_model}, {self.n_heads} head{'s' * (self.n_heads != 1)}"

    def _sizes(self, **given: object) -> dict[str, object]:
        mask = "causal" if self.causal else "none"
        sizes = {"d_model": self.d_model, "n_heads": self.n_heads, "mask": mask}
        return sizes | {name: value for name, value in given.items() if value is not None}


class Model(nn.Module):
    """Embeddings, positions and one attention layer: section 1 of any text on the subject, as one module."""

    def __init__(self, vocab_size: int, d_model: int, n_heads: int, max_length: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.embeddings = Embeddings(vocab_size, d_model)
        self.position = PositionalEncoding(d_model, max_length=max_length)

    def forward(self, batch: Batch, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor]:
        """Output and weights of a batch; see ``attend``."""
        key_ids = batch.key_ids.to(device)
        query_ids = key_ids if batch.query_ids is batch.key_ids else batch.query_ids.to(device)
        return self.attend(query_ids, key_ids, batch.mask(device), step)

    def project(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of every head, (batch_size, n_heads, length, d_key)."""
        key_ids, query_ids = batch.key_ids.to(device), batch.query_ids.to(device)
        source = self.encode(key_ids)
        return self.attention.project(self.encode(query_ids), source, source)

    def project_in_pieces(
        self, projections: Sequence[nn.Linear], ids: Tensor, heads: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """Each projection of one sentence, its ids (length,), for some heads: (n_heads, length, d_key), on the CPU.

        As ``encode`` and ``project``, but neither embeddings nor positions of a long input exist all at once.
        """
        n_heads, d_key = self.attention.n_heads, self.attention.d_key
        results = tuple(torch.empty(len(heads), len(ids), d_key) for _ in projections)
        for start in range(0, len(ids), PIECE):
            E = self.embeddings(ids[None, start : start + PIECE])[0]  # length d_model
            X = E + sinusoids(len(E), self.attention.d_model, start).to(E)
            for projection, result in zip(projections, results, strict=True):
                of_heads = projection(X).view(len(X), n_heads, d_key)[:, list(heads)]
                result[:, start : start + PIECE] = of_heads.transpose(0, 1)
        return results

    def attend(
        self, query_ids: Tensor, key_ids: Tensor, mask: Tensor | None, step: Step = untraced
    ) -> tuple[Tensor, Tensor]:
        """ids, (batch_size, length) → output, (batch_size, q_length, d_model), and the weights of every head."""
        if query_ids is key_ids:
            source = target = self.encode(key_ids, step)
        else:
            target = self.encode(query_ids, _of_side("target", "q_length", step))
            source = self.encode(key_ids, _of_side("source", "k_length", step))
        output, weights = self.attention(target, source, source, mask, step=step)
        return output, weights

    def encode(self, ids: Tensor, step: Step = untraced) -> Tensor:
        """ids, (batch_size, length) → X, the embeddings with positions, (batch_size, length, d_model)."""
        x: Tensor = self.position(self.embeddings(ids, step=step), step=step)
        return x


def _of_side(side: str, length: str, step: Step) -> Step:
    """In source-target attention two sentences are embedded: tell their steps and their axes apart."""

    def named(definition: str, tensor: Tensor, axes: str) -> Tensor:
        name, equation = definition.split(" = ", 1)
        return step(f"{name} {side} = {equation}", tensor, axes.replace("seq_length", length))

    return named
