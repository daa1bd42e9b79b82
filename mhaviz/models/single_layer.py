"""A model of one attention layer, with random or saved weights, that reads sentences or X."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Inputs, Model, OnAttention, Site, SiteCall, heads_of, show
from mhaviz.attention.norms import gram_matrices, heads_of_projection, value_norms
from mhaviz.attention.soundness import require_traced
from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, as_one_line, counted, parameter
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.layer.attention import MultiHeadAttention, causal_mask, check_heads
from mhaviz.layer.seeding import check_seed, seeded
from mhaviz.layer.steps import Step, untraced
from mhaviz.limits import require_comparable
from mhaviz.models import layer_inputs
from mhaviz.models.layer_inputs import (
    Encoder,
    LayerInputs,
    SentenceEncoder,
    Side,
    changes_text,
    embedded_parts,
    sentence_inputs,
)
from mhaviz.models.step_recorder import StepRecorder
from mhaviz.results.embeddings import EmbeddedText
from mhaviz.results.projections import ProjectionInputs
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.results.trace import VALUES_UP_TO, ShapeTrace

WORKED_EXAMPLE = (
    "I wonder what will come next!",
    "This is a basic example paragraph.",
    "Hello, what is a basic split?",
)
"""Sentences of the worked example, with d_model 8 and 4 heads."""

_FLOAT32 = 4  # bytes
_countable = as_one_line("tensors of these sizes cannot be counted", "use smaller sizes")
_ADVICE = "make the weights, or the input, smaller"  # for NaN or infinity in the layer


@dataclass(frozen=True)
class SingleLayer(Model):
    """A model of one mhaviz ``MultiHeadAttention``, whose Wq, Wk and Wv project X.

    A subclass creates the layer (``_attention``), and has its sizes (``d_model``, ``n_heads``) and the origin of its
    weights (``_origin``). The layer is created again from the seed for each input.

    Attributes:
        seed: seed of random embeddings and weights. They are drawn on the CPU, so they are the same on every device.
        device_name: name of the device; see ``resolve_device``.
        causal: whether to hide later keys from each query.
        keep_case: whether words keep their capitals, with embeddings of their own; else they are in lower case.

    Raises:
        ArgumentError: sizes that are not allowed; an unknown name of a device.
        MhavizError: the device does not exist.
    """

    seed: int = field(default=0, kw_only=True)
    device_name: str = field(default="auto", kw_only=True)
    causal: bool = field(default=False, kw_only=True)
    keep_case: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_heads(self.d_model, self.n_heads)
        check_seed(self.seed)
        _ = self.device

    @property
    @abstractmethod
    def d_model(self) -> int:
        """Number of features of the queries and of the output."""

    @abstractmethod
    def _attention(self) -> MultiHeadAttention:
        """Return a layer with its weights, on the current default device."""

    @abstractmethod
    def _origin(self) -> tuple[str, dict[str, object]]:
        """Return the origin of the weights and of X: words for the footnote, and details for the source."""

    def _shapes_origin(self) -> str:
        """Return the origin for the footnote of results that show only shapes."""
        return self._origin()[0]

    @property
    def all_sites(self) -> tuple[Site, ...]:
        """The one attention, without a target."""
        return (Site("masked" if self.causal else "self", 0, self.n_heads, self.d_model // self.n_heads),)

    def select(self, layers: tuple[int, ...] | None = None, kind: Kind | None = None) -> Self:
        """See ``Model.select``. A kind of "cross" is checked later, in ``sites``, when the texts are known."""
        return replace(super().select(layers, None if kind == "cross" else kind), kind=kind)

    def sites(self, inputs: Inputs | None = None) -> tuple[Site, ...]:
        """Return the one attention. Raises ArgumentError if another kind was selected than that of these texts."""
        kind = inputs.kind if isinstance(inputs, LayerInputs) else self.all_sites[0].kind
        if inputs is not None and self.kind not in (None, kind):
            why = "as there is a target" if kind == "cross" else "as there is no target"
            raise ArgumentError(f"{parameter('kind')}: expected {kind}, {why}, got {self.kind}")
        return (Site(kind, 0, self.n_heads, self.d_model // self.n_heads),)

    def encode(self, sentences: Sequence[str], target: str | None = None) -> LayerInputs:
        """Return the words of each sentence, and those of the target as queries of source-target attention.

        Raises:
            ArgumentError: a sentence without words, or ``target`` with several sentences or with a causal mask.
        """
        return sentence_inputs(sentences, target, self.causal, self.keep_case)

    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """Project X sentence by sentence, a piece at a time, or all sentences at once; see ``Model.run``."""
        assert isinstance(inputs, LayerInputs)
        (site,) = self.sites(inputs)
        if batched and len(inputs.texts) > 1:
            self._run_batch(inputs, site, on_attention, heads)
            return
        chosen = heads_of(site, heads)
        numbers = 3 * inputs.longest * len(chosen) * site.d_key
        require_memory(self._bytes_of_layer(inputs) + _FLOAT32 * numbers, self.device, "the input")
        layer = self._layer(inputs, 1).to(self.device)  # positions are computed piece by piece
        for i, (queries, keys) in enumerate(inputs.sides):
            sides: tuple[tuple[Side, Tokens], ...] = ("query", queries), ("key", keys), ("value", keys)
            with torch.no_grad():
                Q, K, V = (layer.project(i, side, len(tokens), chosen, self.device) for side, tokens in sides)
            call = AttentionCall(Q[None], K[None], V[None], 1 / math.sqrt(site.d_key), inputs.kind == "masked")
            call = self._with_value_norms(call, layer, chosen)
            seen = SiteCall(site, call, chosen, (queries,), (keys,), None, inputs.sentence(i))
            show(on_attention, seen, self._origin()[0], _ADVICE)

    def _run_batch(
        self, inputs: LayerInputs, site: Site, on_attention: OnAttention, heads: Sequence[int] | None
    ) -> None:
        """Run all sentences at once. The shorter ones are padded, and the mask hides their padding."""
        features = 7 * len(inputs.texts) * inputs.longest * self.d_model
        require_memory(self._bytes_of_layer(inputs) + _FLOAT32 * features, self.device, "the batch")
        layer = self._layer(inputs, inputs.longest).to(self.device)
        with torch.no_grad():
            Q, K, V = layer.attention.project(*layer.encoder(self.device))
        queries, keys = zip(*inputs.sides, strict=True)
        call = AttentionCall(Q, K, V, 1 / math.sqrt(site.d_key), mask=inputs.mask(self.device))
        call = self._with_value_norms(call, layer, heads_of(site, None))
        seen = SiteCall(site, call, heads_of(site, None), queries, keys, None, inputs.sentence(0))
        show(on_attention, seen, self._origin()[0], _ADVICE, heads)

    def _with_value_norms(self, call: AttentionCall, layer: "Layer", heads: Sequence[int]) -> AttentionCall:
        """Return the call of these heads, with ``value_norms`` if ``norms`` is set."""
        if not self.norms:
            return call
        W_out = heads_of_projection(layer.attention.Wo.weight, self.n_heads)[list(heads)]
        return replace(call, value_norms=value_norms(call.value, gram_matrices(W_out)))

    @_countable
    def trace(self, inputs: Inputs, values: bool = False, most_values: int = VALUES_UP_TO) -> ShapeTrace:
        """Return all steps from the sentences to the layer's output. Without ``values`` only shapes are computed.

        Raises:
            MhavizError: tensors whose bytes cannot be counted in 63 bits; a layer that does not fit into memory.
        """
        assert isinstance(inputs, LayerInputs)
        sides = inputs.sides
        if values:
            scores = len(sides) * self.n_heads * math.prod(max(map(len, side)) for side in zip(*sides, strict=True))
            features = 13 * len(sides) * inputs.longest * self.d_model
            needed = self._bytes_of_layer(inputs) + _FLOAT32 * (features + 3 * scores)
            require_memory(needed, self.device, "the traced layer")
            layer, device = self._layer(inputs, inputs.longest).to(self.device), self.device
        else:
            device = torch.device("meta")
            with device:
                layer = self._layer(inputs, inputs.longest).to(device)
        recorder = StepRecorder(layer, most_values if values else 0)
        with torch.no_grad(), recorder:
            weights = layer(inputs, device, recorder)
        if values:
            require_traced(weights, sides, self._origin()[0], _ADVICE)
        source = self.describe(inputs) if values else self._shapes_source(self._words | inputs.details)
        return ShapeTrace(source, tuple(recorder.steps), tuple(queries.texts for queries, _ in sides))

    def describe(self, inputs: Inputs | None = None) -> Source:
        """Return the origin of the weights and of X, and the sizes."""
        assert isinstance(inputs, LayerInputs)
        origin, details = self._origin()
        details |= {"device": str(self.device)} | self._sizes | self._words | inputs.details
        texts = inputs.sentences + (() if inputs.target is None else (inputs.target,))
        remark = changes_text(texts, self.keep_case)
        return Source(f"{origin}, {self._sizes_text}, {self.device}", details, remark)

    def _layer(self, inputs: LayerInputs, max_length: int) -> "Layer":
        # The layer's weights are drawn first, so that they do not depend on the number of words.
        with seeded(self.seed):
            return Layer(self._attention(), inputs.encoder(self.d_model, max_length)).eval()

    def _bytes_of_layer(self, inputs: LayerInputs) -> int:
        """Return the bytes of the parameters, and of a piece of X while it is computed."""
        parameters = 4 * self.d_model * (self.d_model + 1) + inputs.n_words * self.d_model
        piece = 12 * min(layer_inputs.PIECE, inputs.longest) * self.d_model  # with positions in float64
        return _FLOAT32 * (parameters + piece)

    def _shapes_source(self, details: dict[str, object]) -> Source:
        footnote = f"{self._shapes_origin()}, {self._sizes_text}; shapes only, no values were computed"
        return Source(footnote, {"kind": "shapes only"} | self._sizes | details)

    @property
    def _sizes_text(self) -> str:
        return f"d_model {self.d_model}, {counted(self.n_heads, 'head')}"

    @property
    def _sizes(self) -> dict[str, object]:
        return {"d_model": self.d_model, "n_heads": self.n_heads, "mask": "causal" if self.causal else "none"}

    @property
    def _words(self) -> dict[str, object]:
        return {"keep_case": True} if self.keep_case else {}


class Layer(nn.Module):
    """The encoder that computes X, and the attention layer, as one module."""

    def __init__(self, attention: MultiHeadAttention, encoder: Encoder) -> None:
        super().__init__()
        self.attention, self.encoder = attention, encoder

    def forward(self, inputs: LayerInputs, device: torch.device, step: Step = untraced) -> Tensor:
        """Run the layer on all sentences at once; return the weights, (batch_size, n_heads, q_length, k_length)."""
        query, key, value = self.encoder(device, step)
        weights: Tensor = self.attention(query, key, value, inputs.mask(device), step=step)[1]
        return weights

    def project(self, i: int, side: Side, length: int, heads: Sequence[int], device: torch.device) -> Tensor:
        """Compute Q, K or V of some heads of sentence i, (n_heads, length, d_key), without holding all of X."""
        attention = self.attention
        projection = {"query": attention.Wq, "key": attention.Wk, "value": attention.Wv}[side]
        projected = projection.weight.new_empty(len(heads), length, attention.d_key)
        for start in range(0, length, layer_inputs.PIECE):
            X = self.encoder.piece(i, side, start, device)
            of_heads = projection(X).view(len(X), attention.n_heads, attention.d_key)[:, list(heads)]
            projected[:, start : start + len(X)] = of_heads.transpose(0, 1)
        return projected


@dataclass(frozen=True)
class RandomLayer(SingleLayer):
    """An untrained layer, created from its seed for the words of each input.

    ``d_model``, ``n_heads``: sizes; n_heads must divide d_model.
    """

    d_model: int = 512
    n_heads: int = 8

    def projection_inputs(self, sentence: str) -> ProjectionInputs:
        """Return the embeddings X of a sentence and their projections Q, K and V, before they are split into heads.

        Raises:
            ArgumentError: a sentence without words.
            MhavizError: not enough memory.
        """
        inputs = sentence_inputs([sentence], keep_case=self.keep_case)
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

    def embed(self, text: str, target: str | None = None) -> EmbeddedText:
        """See ``Model.embed``. The embeddings are random, the positions sinusoids."""
        if target is not None:
            raise ArgumentError(f"a layer with random weights has no decoder; leave out {parameter('target')}")
        inputs = sentence_inputs([text], keep_case=self.keep_case)
        tokens = inputs.texts[0].source
        require_comparable(len(tokens), "tokens")
        require_memory(self._bytes_of_layer(inputs) + 4 * _FLOAT32 * len(tokens) * self.d_model, self.device, "X")
        encoder = self._layer(inputs, len(tokens)).encoder.to(self.device)
        assert isinstance(encoder, SentenceEncoder)
        ids = torch.tensor([tokens.ids], device=self.device)
        parts = embedded_parts(encoder.embeddings, encoder.position, ids)
        details: dict[str, object] = {"kind": RANDOM_WEIGHTS, "seed": self.seed, "device": str(self.device)}
        details |= {"d_model": self.d_model, "sentences": [text]} | self._words
        footnote = f"random embeddings, seed {self.seed}, d_model {self.d_model}, {self.device}"
        return EmbeddedText(Source(footnote, details, changes_text([text], self.keep_case)), tokens, parts, "sinusoids")

    @_countable
    def trace_sizes(self, batch_size: int, seq_length: int) -> ShapeTrace:
        """As ``trace``, for sizes instead of sentences. Nothing is computed or allocated, so sizes may be very large.

        Raises:
            ArgumentError: a size is below 1.
            MhavizError: a tensor would have more bytes than can be counted in 63 bits.
        """
        for name, size in (("batch_size", batch_size), ("seq_length", seq_length)):
            if size < 1:
                raise ArgumentError(f"`{name}`: expected at least 1, got {size}")
        with torch.no_grad(), torch.device("meta"):
            attention = self._attention().eval()
            mask = causal_mask(seq_length) if self.causal else None
            with StepRecorder(attention) as recorder:
                x = torch.empty(batch_size, seq_length, self.d_model)
                x = recorder("X = embeddings with positions", x, "batch_size seq_length d_model")
                attention(x, x, x, mask, step=recorder)
        source = self._shapes_source({"batch_size": batch_size, "seq_length": seq_length})
        return ShapeTrace(source, tuple(recorder.steps))

    def _attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(self.d_model, self.n_heads)

    def _origin(self) -> tuple[str, dict[str, object]]:
        return f"random weights, seed {self.seed}", {"kind": RANDOM_WEIGHTS, "seed": self.seed}

    def _shapes_origin(self) -> str:
        return "an untrained layer"
