"""A model saved by mhaviz train, or the bundled translator: its attention on sentences of the words that it knows."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Inputs, Model, OnAttention, Site, SiteCall, heads_of, require_one_target, show
from mhaviz.attention.norms import gram_matrices, heads_of_projection, value_norms
from mhaviz.attention.soundness import require_traced
from mhaviz.devices import require_memory
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Text, Tokens
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.layer.steps import Step, only, untraced
from mhaviz.layer.tokens import Vocabulary
from mhaviz.layer.transformer import Translator
from mhaviz.limits import require_comparable
from mhaviz.models.layer_inputs import embedded_parts, words_of
from mhaviz.models.step_recorder import StepRecorder
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.embeddings import EmbeddedText
from mhaviz.results.result import Source
from mhaviz.results.trace import VALUES_UP_TO, ShapeTrace
from mhaviz.training.checkpoint import Checkpoint
from mhaviz.training.corpus import Pair, PairBatch
from mhaviz.training.evaluation import AT_ONCE, require_known, translate

KINDS: tuple[Kind, ...] = ("self", "masked", "cross")
"""The attentions of the encoder, of the decoder, and between both, in the order in which a sentence meets them."""


@dataclass(frozen=True)
class PairInputs(Inputs):
    """The inputs of a trained model: sentences and translations. ``target_given``: the translation is the user's."""

    pairs: tuple[Pair, ...]
    target_given: bool


@dataclass(frozen=True)
class TrainedModel(Model):
    """The model of a checkpoint.

    Where no target is given, it writes one, greedily. Its decoder reads the start mark and the target, and
    produces the target and the end mark: the rows of source-target attention are named after the word that is being
    produced, those of masked self-attention after the word that is read.

    Attributes:
        checkpoint: what has been learnt.
        device_name: see ``resolve_device``.

    Raises:
        ArgumentError: a device that has no name.
        MhavizError: a device that is not there.
    """

    checkpoint: Checkpoint
    device_name: str = "auto"

    def __post_init__(self) -> None:
        _ = self.device

    @property
    def all_sites(self) -> tuple[Site, ...]:
        """As in ``KINDS``."""
        sizes = self.checkpoint.sizes
        return tuple(Site(kind, 0, sizes.n_heads, sizes.d_model // sizes.n_heads, i) for i, kind in enumerate(KINDS))

    def encode(self, sentences: Sequence[str], target: str | None = None) -> PairInputs:
        """The words of each sentence, with those of its target, given or written by the model.

        Raises:
            ArgumentError: a sentence without words, with too many, or with words that the model does not know; a
                target with several sentences.
        """
        require_one_target(sentences, target)
        sources = [tuple(words_of(sentence)) for sentence in sentences]
        for words in sources:
            require_known(words, self.checkpoint.source_vocabulary, "source")
        if target is None:
            _ = self._model
            return self.inputs_of(translate(self.checkpoint, sources, self.device))
        words = tuple(words_of(target))
        require_known(words, self.checkpoint.target_vocabulary, "target")
        return self.inputs_of([Pair(sources[0], words)], target_given=True)

    def inputs_of(self, pairs: Sequence[Pair], target_given: bool = False) -> PairInputs:
        """Pairs of known words."""
        source, target = self.checkpoint.source_vocabulary, self.checkpoint.target_vocabulary

        def tokens(words: Sequence[str], vocabulary: Vocabulary) -> Tokens:
            return Tokens(tuple(words), (), tuple(vocabulary.ids(words)))

        texts = tuple(
            Text(tokens(pair.source, source), tokens(pair.read, target), tokens(pair.produced, target))
            for pair in pairs
        )
        return PairInputs(texts, tuple(pairs), target_given)

    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """Run the encoder and the decoder; see ``Model.run``."""
        assert isinstance(inputs, PairInputs)
        numbers, at_once = range(len(inputs.pairs)), AT_ONCE if batched else 1
        for first in numbers[::at_once]:
            self._run_batch(inputs, numbers[first : first + at_once], on_attention, heads)

    def _run_batch(
        self, inputs: PairInputs, group: Sequence[int], on_attention: OnAttention, heads: Sequence[int] | None
    ) -> None:
        batch = self._batch([inputs.pairs[i] for i in group], self.device)
        self._require_memory(batch, 1)
        made: dict[str, Tensor] = {}  # "cross Q heads": (batch_size, n_heads, length, d_key)

        def keep(definition: str, tensor: Tensor, axes: str) -> Tensor:
            made[definition.partition(" = ")[0]] = tensor
            return tensor

        self._forward(batch, keep)
        for site in self.sites():
            queries, keys = zip(*(inputs.texts[i].sides(site.kind) for i in group), strict=True)
            Q, K, V = (made[f"{site.kind} {name} heads"] for name in "QKV")
            is_masked = site.kind == "masked"  # padding at the end of a target is later than all of it
            mask = None if is_masked else batch.source_mask
            call = AttentionCall(Q, K, V, 1 / math.sqrt(site.d_key), is_masked, mask)
            if self.norms:
                W_out = heads_of_projection(self._attention(site.kind).Wo.weight, site.n_heads)
                call = replace(call, value_norms=value_norms(V, gram_matrices(W_out)))
            every = heads_of(site, None)
            seen = SiteCall(site, call, every, queries, keys, None, inputs.sentence(group[0]))
            show(on_attention, seen, *_in_messages(site.kind), heads)

    def trace(self, inputs: Inputs, values: bool = False, most_values: int = VALUES_UP_TO) -> ShapeTrace:
        """Every step of the way through one attention, with what leads to it; see ``SingleLayer.trace``."""
        assert isinstance(inputs, PairInputs)
        kind = self.sites()[-1].kind
        device = self.device if values else torch.device("meta")
        batch = self._batch(inputs.pairs, device)
        if values:
            self._require_memory(batch, 3)
        model = self._model if values else copy.deepcopy(self._model).to(device)
        recorder = StepRecorder(model, most_values if values else 0)
        with recorder:
            weights = self._forward(batch, only(kind, recorder), model)[kind]
        sides = [text.sides(kind) for text in inputs.texts]
        if values:
            require_traced(weights, sides, *_in_messages(kind))
        tokens = tuple(queries.texts for queries, _ in sides)
        return ShapeTrace(self.describe(inputs), tuple(recorder.steps), tokens)

    def describe(self, inputs: Inputs | None = None) -> Source:
        """What it has learnt, and what it has made of the sentences."""
        if not isinstance(inputs, PairInputs):
            return self.checkpoint.source(self.device)
        return self.checkpoint.source(self.device, inputs.pairs, inputs.target_given)

    def embed(self, text: str, target: str | None = None) -> EmbeddedText:
        """See ``Model.embed``; the decoder reads the start mark before a target."""
        if target is None:
            words = words_of(text)
            require_known(words, self.checkpoint.source_vocabulary, "source")
            tokens = Tokens(tuple(words), (), tuple(self.checkpoint.source_vocabulary.ids(words)))
        else:
            read = self.encode([text], target).texts[0].target
            assert read is not None
            tokens = read
        require_comparable(len(tokens), "tokens")
        model = self._model
        embeddings = model.source_embeddings if target is None else model.target_embeddings
        parts = embedded_parts(embeddings, model.position, torch.tensor([tokens.ids], device=self.device))
        source = self.checkpoint.source(self.device)
        return EmbeddedText(source, tokens, parts, "sinusoids", (), 0.0, target is not None)

    @property
    def _model(self) -> Translator:
        return self.checkpoint.model.to(self.device).eval()

    def _attention(self, kind: Kind) -> MultiHeadAttention:
        """The layer of this kind."""
        model = self._model
        return {"self": model.encoder_self, "masked": model.decoder_self, "cross": model.decoder_source}[kind].attention

    def _batch(self, pairs: Sequence[Pair], device: torch.device) -> PairBatch:
        c = self.checkpoint
        return PairBatch(pairs, c.source_vocabulary, c.target_vocabulary, device)

    def _require_memory(self, batch: PairBatch, kinds: int) -> None:
        float32, copies = 4, 4  # scores, weights, their cut-outs and pictures
        longest = max(batch.source_ids.shape[1], batch.read_ids.shape[1])
        weights = copies * kinds * self.n_heads * longest
        numbers = (
            len(batch.read_ids)
            * longest
            * (weights + self.checkpoint.sizes.d_ff + len(self.checkpoint.target_vocabulary))
        )
        require_memory(float32 * numbers, self.device, "the model")

    def _forward(self, batch: PairBatch, step: Step = untraced, model: Translator | None = None) -> dict[Kind, Tensor]:
        """The textbook's weights of each attention, (batch_size, n_heads, q_length, k_length)."""
        model = model or self._model
        with torch.no_grad():
            memory, encoder = model.encode(batch.source_ids, batch.source_mask, step=step)
            decoded = model.decode(batch.read_ids, memory, batch.source_mask, step=step)
        return {"self": encoder, "masked": decoded.masked, "cross": decoded.cross}


def source_target_maps(model: TrainedModel, pairs: Sequence[Pair]) -> tuple[AttentionMap, ...]:
    """Each pair's source-target attention while its own target is read; a row a word, none for the end mark."""
    maps: list[AttentionMap] = []

    def on_attention(seen: SiteCall) -> None:
        for A in seen.call.weights().cpu().numpy():  # n_heads q_length k_length
            pair = pairs[len(maps)]
            cut = A[:, : len(pair.target), : len(pair.source)]
            maps.append(AttentionMap(cut, Axis.of(pair.target), Axis.of(pair.source), "cross", sentence=len(maps)))

    model.select(kind="cross").run(model.inputs_of(pairs), on_attention, batched=True)
    return tuple(maps)


def _in_messages(kind: Kind) -> tuple[str, str]:
    """What a message says of an attention, and of what can be done if it gives no numbers."""
    return f"the trained model: {KIND_NAMES[kind]}", "train it anew, with a smaller learning rate"
