"""One attention layer as a model, whatever its weights are and whatever it is given: from X to attention."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Inputs, Model, OnAttention, SiteCall, heads_of, show
from mhaviz.attention.soundness import require_weights
from mhaviz.devices import require_memory, resolve_device
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.layer.seeding import seeded
from mhaviz.layer.steps import Step, untraced
from mhaviz.models import layer_inputs
from mhaviz.models.layer_inputs import Encoder, LayerInputs, Side
from mhaviz.models.sentence_inputs import SentenceInputs
from mhaviz.models.step_recorder import StepRecorder
from mhaviz.records import ShapeTrace, Site, Source

VALUES_UP_TO = 512
"""A traced tensor with more numbers than this is not printed; the largest of the worked example has 432."""

_FLOAT32 = 4  # bytes


class SingleLayer(Model):
    """What layers with weights of any origin have in common. A layer is made anew from its seed for each input.

    Attributes:
        seed: of all that is drawn. It is drawn on the CPU, the same for every device.
        device_name: see ``resolve_device``.
        causal: hide later keys from a query.
    """

    layers = kind = None
    seed: int
    device_name: str
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

    @cached_property
    def device(self) -> torch.device:
        """Where it runs."""
        return resolve_device(self.device_name)

    @property
    def all_sites(self) -> tuple[Site, ...]:
        """Its one attention, to the sentence itself."""
        return (Site("masked" if self.causal else "self", 0, self.n_heads, self.d_model // self.n_heads),)

    def sites(self, inputs: Inputs | None = None) -> tuple[Site, ...]:
        """Its one attention."""
        kind = inputs.kind if isinstance(inputs, LayerInputs) else self.all_sites[0].kind
        return (Site(kind, 0, self.n_heads, self.d_model // self.n_heads),)

    def encode(self, sentences: Sequence[str], target: str | None = None) -> LayerInputs:
        """The words of each sentence, and those of the target as the queries of source-target attention.

        Raises:
            ArgumentError: a sentence without words, or ``target`` with several sentences or with a causal mask.
        """
        return SentenceInputs.of(sentences, target, self.causal)

    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """Project X of one sentence after the other, a piece at a time; see ``Model.run``."""
        assert isinstance(inputs, LayerInputs)
        (site,) = self.sites(inputs)
        chosen = heads_of(site, heads)
        numbers = 3 * inputs.longest * len(chosen) * site.d_key
        require_memory(self._bytes_of_layer(inputs) + _FLOAT32 * numbers, self.device, "the input")
        layer = self._layer(inputs, 1).to(self.device)  # positions are worked out piece by piece
        for i, text in enumerate(inputs.texts):
            queries, keys = text.sides(inputs.kind)
            with torch.no_grad():
                Q, K, V = layer.project(i, len(queries), len(keys), chosen, self.device)
            call = AttentionCall(Q[None], K[None], V[None], 1 / math.sqrt(site.d_key), inputs.kind == "masked")
            seen = SiteCall(site, call, chosen, (queries,), (keys,), None, inputs.sentence(i))
            show(on_attention, seen, *self._in_messages)

    def trace(self, inputs: Inputs, values: bool = False) -> ShapeTrace:
        """Every step of the sentences' way through the layer; with ``values``, the numbers of small tensors too.

        Without ``values`` nothing is computed.

        Raises:
            ArgumentError: tensors that would be too large to be counted.
            MhavizError: the layer does not fit into memory.
        """
        assert isinstance(inputs, LayerInputs)
        q_lengths, k_lengths = inputs.lengths
        self._check_countable(len(inputs.texts), inputs.longest)
        if values:
            scores = len(inputs.texts) * self.n_heads * max(q_lengths) * max(k_lengths)
            features = 13 * len(inputs.texts) * inputs.longest * self.d_model
            needed = self._bytes_of_layer(inputs) + _FLOAT32 * (features + 3 * scores)
            require_memory(needed, self.device, "the traced layer")
            layer, device = self._layer(inputs, inputs.longest).to(self.device), self.device
        else:
            device = torch.device("meta")
            with device:
                layer = self._layer(inputs, inputs.longest).to(device)
        recorder = StepRecorder(layer, VALUES_UP_TO if values else 0)
        with torch.no_grad(), recorder:
            weights = layer(inputs, device, recorder)
        if values:
            for i, (q_length, k_length) in enumerate(zip(q_lengths, k_lengths, strict=True)):
                require_weights(weights[i : i + 1, :, :q_length, :k_length], *self._in_messages)
        given = {"sentences": list(inputs.sentences) or None, "target": inputs.target}
        source = self.describe(inputs) if values else self._size_source(**given)
        tokens = tuple(text.sides(inputs.kind)[0].texts for text in inputs.texts)
        return ShapeTrace(source, tuple(recorder.steps), tokens)

    def describe(self, inputs: Inputs | None = None, hide_special: bool = False) -> Source:
        """Where the weights and X come from, and the sizes."""
        assert isinstance(inputs, LayerInputs)
        origin, details = self._origin()
        footnote = f"{origin}, {self._size_text}, {self.device}"
        details |= {"device": str(self.device)}
        return Source(footnote, details | self._sizes(sentences=list(inputs.sentences) or None, target=inputs.target))

    @property
    def _in_messages(self) -> tuple[str, str]:
        """What a message says of the layer, and of what can be done if it gives no numbers."""
        return self._origin()[0], "make the weights, or the input, smaller"

    def _check_countable(self, batch_size: int, seq_length: int) -> None:
        largest = max(batch_size * seq_length * max(self.n_heads * seq_length, self.d_model), self.d_model**2) * 4
        if largest >= 2**63:
            raise ArgumentError(
                f"expected tensors below 2^63 bytes, got batch_size {batch_size}, length {seq_length}, d_model "
                f"{self.d_model} and {self.n_heads} heads; use smaller sizes"
            )

    def _layer(self, inputs: LayerInputs, max_length: int) -> "Layer":
        # The layer's weights are drawn first, so that they do not depend on how many words there are.
        with seeded(self.seed):
            return Layer(self._attention(), inputs.encoder(self.d_model, max_length)).eval()

    def _bytes_of_layer(self, inputs: LayerInputs) -> int:
        """The parameters, and a piece of X while it is made."""
        parameters = 4 * self.d_model * (self.d_model + 1) + inputs.n_words * self.d_model
        piece = 12 * min(layer_inputs.PIECE, inputs.longest) * self.d_model  # with positions in float64
        return _FLOAT32 * (parameters + piece)

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


class Layer(nn.Module):
    """What makes X and one attention layer, as one module."""

    def __init__(self, attention: MultiHeadAttention, encoder: Encoder) -> None:
        super().__init__()
        self.attention, self.encoder = attention, encoder

    def forward(self, inputs: LayerInputs, device: torch.device, step: Step = untraced) -> Tensor:
        """The textbook's way through the layer, of all sentences at once; the weights of every head."""
        query, key, value = self.encoder(device, step)
        weights: Tensor = self.attention(query, key, value, inputs.mask(device), step=step)[1]
        return weights

    def project(
        self, i: int, q_length: int, k_length: int, heads: Sequence[int], device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V of some heads of one sentence, (n_heads, length, d_key): of a long input X is never whole."""
        of_side: dict[Side, tuple[nn.Linear, int]] = {
            "query": (self.attention.Wq, q_length),
            "key": (self.attention.Wk, k_length),
            "value": (self.attention.Wv, k_length),
        }
        Q, K, V = (
            self._in_pieces(projection, self.encoder.pieces(i, side, device), length, heads)
            for side, (projection, length) in of_side.items()
        )
        return Q, K, V

    def _in_pieces(self, projection: nn.Linear, pieces: Iterator[Tensor], length: int, heads: Sequence[int]) -> Tensor:
        n_heads, d_key = self.attention.n_heads, self.attention.d_key
        projected = projection.weight.new_empty(len(heads), length, d_key)
        start = 0
        for X in pieces:
            of_heads = projection(X).view(len(X), n_heads, d_key)[:, list(heads)]
            projected[:, start : start + len(X)] = of_heads.transpose(0, 1)
            start += len(X)
        return projected
