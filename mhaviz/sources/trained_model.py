"""A model that has learnt something: its attention on sentences of the words that it knows."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mhaviz.devices import require_memory, resolve_device
from mhaviz.errors import ArgumentError
from mhaviz.layer.steps import Step, only, untraced
from mhaviz.layer.transformer import Decoded, LanguageModel, Translator
from mhaviz.maps.soundness import require_weights, sound_inputs, sound_queries_and_keys
from mhaviz.records import (
    Attention,
    AttentionMap,
    HeadInputs,
    Kind,
    LayerInputs,
    MapInputs,
    QueriesAndKeys,
    ShapeTrace,
)
from mhaviz.sources.batch import visible_keys, words_of
from mhaviz.sources.known_words import require_known
from mhaviz.sources.learning import checkpoint_source
from mhaviz.sources.recorder import StepRecorder
from mhaviz.sources.single_layer import VALUES_UP_TO
from mhaviz.training.batch import PairBatch, in_batches
from mhaviz.training.checkpoint import Checkpoint
from mhaviz.training.corpus import Pair, Task
from mhaviz.training.evaluation import translate, words_at_once

KINDS: dict[Task, tuple[Kind, ...]] = {"translation": ("self", "masked", "cross"), "language": ("masked",)}
"""The attentions of a model for each task, in the order in which a sentence meets them."""


@dataclass(frozen=True)
class TrainedModel:
    """The model of a checkpoint, in place of a layer with random weights.

    Where no target is given, a translator writes one, greedily. Its decoder reads the start mark and the target, and
    produces the target and the end mark: the rows of source-target attention are named after the word that is being
    produced, those of masked self-attention after the word that is read.

    Attributes:
        checkpoint: what has been learnt.
        device: see ``resolve_device``.
        kind: which attention ``head_inputs`` and ``trace`` look at, and ``attend`` if it is given; None: the last for
            the former, all for the latter.

    Raises:
        ArgumentError: the model has no attention of this kind, a device that has no name.
        MhavizError: a device that is not there.
    """

    checkpoint: Checkpoint
    device: str = "auto"
    kind: Kind | None = None

    def __post_init__(self) -> None:
        kinds = KINDS[self.checkpoint.task]
        if self.kind is not None and self.kind not in kinds:
            raise ArgumentError(
                f"expected a kind of attention that a {self.checkpoint.task} model has, {', '.join(kinds)}, "
                f"got {self.kind}"
            )
        _ = self._device

    @property
    def n_heads(self) -> int:
        """Of each attention."""
        return self.checkpoint.sizes.n_heads

    @property
    def attentions(self) -> int:
        """How many maps ``attend`` gives of each sentence."""
        return len(KINDS[self.checkpoint.task]) if self.kind is None else 1

    def longest(self, sentences: Sequence[str], target: str | None = None) -> int:
        """Words of the longest of the inputs that are given."""
        return max(len(words_of(text)) for text in (*sentences, *([target] if target else [])))

    def attend(self, sentences: Sequence[str], target: str | None = None) -> Attention:
        """The weights of every attention of the model, or of the one kind, for each sentence.

        Raises:
            ArgumentError: a sentence without words, with too many, or with words that the model does not know; a
                target with several sentences, or for a model of a language.
            MhavizError: the input does not fit into memory.
        """
        return self.attend_pairs(self._pairs(sentences, target), target is not None)

    def attend_pairs(self, pairs: Sequence[Pair], target_given: bool = True) -> Attention:
        """The same for sentences and targets of known words."""
        kinds = KINDS[self.checkpoint.task] if self.kind is None else (self.kind,)
        batch = self._batch(pairs)
        self._require_memory(batch, len(kinds))
        weights = self._run(batch)
        maps = []
        for i, pair in enumerate(pairs):
            for kind in kinds:
                queries, keys = _tokens(pair, kind)
                cut = weights[kind][i, :, : len(queries), : len(keys)].float().cpu()
                require_weights(cut, *_in_messages(kind))
                maps.append(AttentionMap(queries, keys, cut.numpy(), kind, sentence=i if len(pairs) > 1 else None))
        return Attention(checkpoint_source(self.checkpoint, self._device, pairs, target_given), tuple(maps))

    def head_inputs(
        self, sentences: Sequence[str], target: str | None = None, studied_heads: int | None = None
    ) -> LayerInputs:
        """The queries, keys and values of every head of one attention. Raises as ``attend`` does.

        ``studied_heads`` is not looked at: what a trained model takes in is short.
        """
        pairs, kind = self._pairs(sentences, target), self._studied_kind
        batch = self._batch(pairs)
        self._require_memory(batch, 1)
        heads: dict[str, Tensor] = {}

        def keep(definition: str, tensor: Tensor, axes: str) -> Tensor:
            name, _, _ = definition.partition(" = ")
            if name in ("Q heads", "K heads", "V heads"):
                heads[name] = tensor.float().cpu()
            return tensor

        self._run(batch, only(kind, keep))
        inputs = []
        for i, pair in enumerate(pairs):
            queries, keys = _tokens(pair, kind)
            one = HeadInputs(
                queries,
                keys,
                heads["Q heads"][i, :, : len(queries)].numpy(),
                heads["K heads"][i, :, : len(keys)].numpy(),
                heads["V heads"][i, :, : len(keys)].numpy(),
                visible_keys(kind, len(queries), len(keys)),
                kind,
                i if len(pairs) > 1 else None,
            )
            inputs.append(sound_inputs(one, *_in_messages(kind)))
        return LayerInputs(checkpoint_source(self.checkpoint, self._device, pairs, target is not None), tuple(inputs))

    def queries_and_keys(
        self, sentences: Sequence[str], target: str | None = None, heads: Sequence[int] | None = None
    ) -> MapInputs:
        """The queries and keys of these heads, or of all, of every attention or the one kind. Raises as ``attend``."""
        chosen = tuple(range(self.n_heads)) if heads is None else tuple(heads)
        kinds = KINDS[self.checkpoint.task] if self.kind is None else (self.kind,)
        pairs = self._pairs(sentences, target)
        batch = self._batch(pairs)
        self._require_memory(batch, len(kinds))
        found: dict[tuple[str, str], Tensor] = {}

        def keep(definition: str, tensor: Tensor, axes: str) -> Tensor:
            kind, _, step = definition.partition(" ")
            name, _, _ = step.partition(" = ")
            if name in ("Q heads", "K heads"):
                found[kind, name] = tensor[:, list(chosen)].float().cpu()
            return tensor

        self._run(batch, keep)
        inputs = []
        for i, pair in enumerate(pairs):
            for kind in kinds:
                queries, keys = _tokens(pair, kind)
                Q = found[kind, "Q heads"][i, :, : len(queries)].contiguous().numpy()
                K = found[kind, "K heads"][i, :, : len(keys)].contiguous().numpy()
                sentence = i if len(pairs) > 1 else None
                one = QueriesAndKeys(queries, keys, Q, K, chosen, kind, sentence)
                inputs.append(sound_queries_and_keys(one, *_in_messages(kind)))
        return MapInputs.of(checkpoint_source(self.checkpoint, self._device, pairs, target is not None), inputs)

    def trace(self, sentences: Sequence[str], target: str | None = None, values: bool = False) -> ShapeTrace:
        """Every step of the way through one attention, with what leads to it; see ``RandomLayer.trace``."""
        pairs, kind = self._pairs(sentences, target), self._studied_kind
        device = self._device if values else torch.device("meta")
        batch = self._batch(pairs, device)
        if values:
            self._require_memory(batch, 3)
        model = self._model if values else copy.deepcopy(self._model).to(device)
        recorder = StepRecorder(model, VALUES_UP_TO if values else 0)
        with recorder:
            weights = self._run(batch, only(kind, recorder), model)
        if values:
            for i, pair in enumerate(pairs):
                queries, keys = _tokens(pair, kind)
                require_weights(weights[kind][i, :, : len(queries), : len(keys)], *_in_messages(kind))
        tokens = tuple(_tokens(pair, kind)[0] for pair in pairs)
        return ShapeTrace(
            checkpoint_source(self.checkpoint, self._device, pairs, target is not None), tuple(recorder.steps), tokens
        )

    def source_target_maps(self, pairs: Sequence[Pair]) -> tuple[AttentionMap, ...]:
        """Each pair's source-target attention while its own target is read; a row a word, none for the end mark."""
        maps: list[AttentionMap] = []
        for some in in_batches(pairs, lambda pair: len(pair.read), words_at_once(self.checkpoint)):
            weights = self._run(self._batch(some))["cross"]
            for p, a in zip(some, weights.float().cpu().numpy(), strict=True):
                cut = a[:, : len(p.target), : len(p.source)]
                maps.append(AttentionMap(p.target, p.source, cut, "cross", sentence=len(maps)))
        return tuple(maps)

    @cached_property
    def _device(self) -> torch.device:
        return resolve_device(self.device)

    @property
    def _model(self) -> Translator | LanguageModel:
        return self.checkpoint.model.to(self._device).eval()

    @property
    def _studied_kind(self) -> Kind:
        return self.kind or KINDS[self.checkpoint.task][-1]

    def _pairs(self, sentences: Sequence[str], target: str | None) -> list[Pair]:
        """The words of each sentence, with those of its target, given or written by the model."""
        if not sentences:
            raise ArgumentError("expected at least one sentence, got none")
        if target is not None and len(sentences) > 1:
            raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")
        texts = [tuple(words_of(sentence)) for sentence in sentences]
        c, translator = self.checkpoint, self.checkpoint.task == "translation"
        for words in texts:
            require_known(words, c.source_vocabulary if translator else c.target_vocabulary, "source " * translator)
        if not translator:
            if target is not None:
                raise ArgumentError("a model of a language attends to one sentence, got a target as well; leave it out")
            return [Pair((), words) for words in texts]
        if target is not None:
            words = tuple(words_of(target))
            require_known(words, c.target_vocabulary, "target ")
            return [Pair(texts[0], words)]
        self._model.eval()
        return translate(c, texts, self._device)

    def _batch(self, pairs: Sequence[Pair], device: torch.device | None = None) -> PairBatch:
        c = self.checkpoint
        return PairBatch(pairs, c.source_vocabulary, c.target_vocabulary, device or self._device)

    def _require_memory(self, batch: PairBatch, kinds: int) -> None:
        float32, copies = 4, 4  # scores, weights, their cut-outs and pictures
        longest = max(batch.source_ids.shape[1], batch.read_ids.shape[1])
        weights = copies * kinds * self.n_heads * longest
        numbers = (
            len(batch.read_ids)
            * longest
            * (weights + self.checkpoint.sizes.d_ff + len(self.checkpoint.target_vocabulary))
        )
        require_memory(float32 * numbers, self._device, "the model")

    def _run(
        self, batch: PairBatch, step: Step = untraced, model: Translator | LanguageModel | None = None
    ) -> dict[Kind, Tensor]:
        """The weights of each attention, (batch_size, n_heads, q_length, k_length)."""
        model = model or self._model
        with torch.no_grad():
            if isinstance(model, LanguageModel):
                return {"masked": model.decode(batch.read_ids, step=step).masked}
            memory, encoder = model.encode(batch.source_ids, batch.source_mask, step=step)
            decoded: Decoded = model.decode(batch.read_ids, memory, batch.source_mask, step=step)
        assert decoded.cross is not None
        return {"self": encoder, "masked": decoded.masked, "cross": decoded.cross}


def _in_messages(kind: Kind) -> tuple[str, str]:
    """What a message says of an attention, and of what can be done if it gives no numbers."""
    return f"the trained model: {kind} attention", "train it anew, with a smaller learning rate"


def _tokens(pair: Pair, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of an attention's rows and columns."""
    if kind == "self":
        return pair.source, pair.source
    return (pair.read, pair.read) if kind == "masked" else (pair.produced, pair.source)
