"""A checkpoint of transformers as a source of attention: what it attends to on anybody's sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.maps.attention_call import AttentionCall
from mhaviz.maps.map_of_inputs import weights_of_inputs
from mhaviz.maps.soundness import require_numbers
from mhaviz.maps.weighed_batch import Side, WeighedBatch
from mhaviz.records import (
    Attention,
    AttentionMap,
    HeadInputs,
    Kind,
    LayerInputs,
    MapInputs,
    MapOutline,
    QueriesAndKeys,
    ShapeTrace,
    Source,
)
from mhaviz.sources.pretrained import inputs as records_of
from mhaviz.sources.pretrained.description import describe
from mhaviz.sources.pretrained.loading import Loaded
from mhaviz.sources.pretrained.reading import read_without_names
from mhaviz.sources.pretrained.slots import Slot, field_of, hear
from mhaviz.sources.pretrained.texts import Text, Texts, side_of
from mhaviz.sources.pretrained.tracing import trace_attention
from mhaviz.sources.recorder import StepRecorder
from mhaviz.sources.single_layer import VALUES_UP_TO

_OF_WINDOWS = ("sliding_window", "local_attention")
"""Fields of the configuration of models that make masks."""


@dataclass(frozen=True)
class PretrainedModel:
    """A model that somebody has trained, in place of a layer with random weights.

    Each sentence is read by itself, without padding.

    Attributes:
        loaded, slots: the model and its attentions; see ``find_slots``.
        layers: which are looked at; None: all.
        kind: which kind of attention; None: all that there are.
        hide_special: leave out tokens that are not of the text; weights are then shares of the others.
        generate: so many tokens a decoder goes on writing; its map covers prompt and continuation.

    Raises:
        ArgumentError: the model has no such layer or kind of attention; it cannot write.
    """

    loaded: Loaded
    slots: tuple[Slot, ...]
    layers: tuple[int, ...] | None = None
    kind: Kind | None = None
    hide_special: bool = False
    generate: int = 0

    def __post_init__(self) -> None:
        kinds = tuple(dict.fromkeys(slot.kind for slot in self.slots))
        if self.kind is not None and self.kind not in kinds:
            raise ArgumentError(
                f"--kind: expected a kind of attention that {self.loaded.name} has, {', '.join(kinds)}, got {self.kind}"
            )
        if self.generate < 0:
            raise ArgumentError(f"--generate: expected a number of tokens from 0 on, got {self.generate}")
        if self.generate and kinds == ("self",):
            raise ArgumentError(
                f"--generate: {self.loaded.name} sees later tokens, so that it cannot write; leave it out"
            )

    @property
    def n_heads(self) -> int:
        """Of the attention that has most."""
        return max(slot.n_heads for slot in self._chosen)

    @property
    def attentions(self) -> int:
        """How many maps ``attend`` gives of each sentence."""
        return len(self._chosen)

    def longest(self, sentences: Sequence[str], target: str | None = None) -> int:
        """Tokens of the longest input."""
        return max(max(map(len, text.sides("cross"))) for text in self._texts(sentences, target))

    def attend(self, sentences: Sequence[str], target: str | None = None) -> Attention:
        """The weights of every chosen attention, for each sentence.

        Raises:
            ArgumentError: a text without tokens, or with more than the model has positions; a target that cannot be.
            MhavizError: the input does not fit into memory.
        """
        inputs = self.queries_and_keys(sentences, target)
        maps: list[AttentionMap] = []
        inputs.visit(lambda one: maps.append(one.map(weights_of_inputs(one).numpy())))
        return Attention(inputs.source, tuple(maps))

    def queries_and_keys(
        self,
        sentences: Sequence[str],
        target: str | None = None,
        heads: Sequence[int] | None = None,
        with_outputs: bool = False,
    ) -> MapInputs:
        """The queries and keys of these heads, or of all, layer by layer while the model runs. Raises as ``attend``.

        ``with_outputs``: their values, and what the model itself has made of them, too.
        """
        texts = self._texts(sentences, target)
        if with_outputs and not self.loaded.captured:
            raise MhavizError(f"{self.loaded.type} shows its weights alone, and no values: leave out --verify")
        if with_outputs and self.hide_special:
            raise ArgumentError("--verify compares with all tokens; leave out --hide-special")
        outlines = [
            self._outline(slot, text, number, heads) for number, text in _numbered(texts) for slot in self._chosen
        ]

        def visit(seen: Callable[[QueriesAndKeys], None]) -> None:
            def seen_call(
                slot: Slot, call: AttentionCall, output: Tensor | None, text: Text, number: int | None
            ) -> None:
                shown = output if with_outputs else None
                one = records_of.queries_and_keys(slot, call, text, number, _heads(slot, heads), shown)
                seen(one.without_special() if self.hide_special else one)

            self._visit(texts, seen_call)

        return MapInputs(self._source(texts), tuple(outlines), visit)

    def head_inputs(
        self, sentences: Sequence[str], target: str | None = None, studied_heads: int | None = None
    ) -> LayerInputs:
        """The queries, keys and values of every head of one attention. Raises as ``attend`` does.

        ``studied_heads`` is not looked at: the model itself needs more.

        Raises:
            ArgumentError: several attentions are chosen.
            MhavizError: a model that shows its weights alone.
        """
        self._require_one()
        self._require_captured()
        texts = self._texts(sentences, target)
        inputs: list[HeadInputs] = []

        def seen(slot: Slot, call: AttentionCall, output: Tensor | None, text: Text, number: int | None) -> None:
            inputs.append(records_of.head_inputs(slot, call, text, number))

        self._visit(texts, seen)
        return LayerInputs(self._source(texts), tuple(inputs))

    def trace(self, sentences: Sequence[str], target: str | None = None, values: bool = False) -> ShapeTrace:
        """The tensors on the way through one attention, named after the model's own modules. Raises as ``head_inputs``.

        The queries, keys and values are those after rotary positions; scores and weights are computed for the trace,
        where the model itself has run a kernel that never holds them.
        """
        self._require_one()
        self._require_captured()
        texts = self._texts(sentences, target)
        (slot,) = self._chosen
        recorder = StepRecorder(self.loaded.model, VALUES_UP_TO if values else 0)
        self._hear(texts, lambda slot, call, output: None)
        trace_attention(self.loaded, slot.number, slot.kind, *self._reader.batch(texts), recorder)
        tokens = tuple(text.sides(slot.kind)[0].tokens for text in texts)
        return ShapeTrace(self._source(texts), tuple(recorder.steps), tokens)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, special ones included; 0 if there are no others."""
        return [len(reading) for reading in read_without_names(self.loaded.tokenizer, texts)]

    def weigh(self, texts: Sequence[str], seen: Callable[[WeighedBatch], None]) -> None:
        """The weights of every chosen attention for a padded batch of texts, one attention after the other.

        A decoder beside an encoder writes its targets itself, greedily.
        """
        batch = self._reader.read_without_names(texts)
        for together in [[text] for text in batch] if self._reader.padding_is_seen else [batch]:
            self._weigh(together, seen)

    def _weigh(self, batch: Sequence[Text], seen: Callable[[WeighedBatch], None]) -> None:
        sides = _sides(batch)

        def seen_call(slot: Slot, call: AttentionCall, output: Tensor | None) -> None:
            weights = call.weights().float().cpu()
            seen(WeighedBatch(slot.kind, slot.layer, weights.nan_to_num_(nan=0.0), *sides[slot.kind]))  # of padding

        self._hear(batch, seen_call)

    @property
    def max_length(self) -> int | None:
        """The most tokens that the model can read; None: there is no such limit."""
        return self._reader.max_length

    @property
    def source(self) -> Source:
        """Where the weights come from."""
        return self._source([])

    def _require_captured(self) -> None:
        if not self.loaded.captured:
            raise MhavizError(
                f"{self.loaded.name}, {self.loaded.type}, shows its weights alone, and no queries and "
                f"keys: only heatmap and heads can draw it"
            )

    def _require_one(self) -> None:
        if len(self._chosen) > 1:
            layers = sorted({slot.layer for slot in self._chosen})
            kinds = list(dict.fromkeys(slot.kind for slot in self._chosen))
            choose = (
                f"--layer, from {layers[0]} to {layers[-1]}" if len(layers) > 1 else f"--kind, of {', '.join(kinds)}"
            )
            raise ArgumentError(
                f"this looks into one attention, and {self.loaded.name} has several; choose by {choose}"
            )

    @cached_property
    def _chosen(self) -> tuple[Slot, ...]:
        return tuple(
            slot
            for slot in self.slots
            if (self.layers is None or slot.layer in self.layers) and self.kind in (None, slot.kind)
        )

    @cached_property
    def _last(self) -> int:
        """The number of the last attention that is looked at."""
        return max(slot.number for slot in self._chosen)

    def _visit(
        self, texts: Sequence[Text], seen: Callable[[Slot, AttentionCall, Tensor | None, Text, int | None], None]
    ) -> None:
        """Run the model on each text, and show every chosen attention with its output and the text's number."""
        for number, text in _numbered(texts):

            def seen_call(
                slot: Slot,
                call: AttentionCall,
                output: Tensor | None,
                text: Text = text,
                number: int | None = number,
            ) -> None:
                seen(slot, call, output, text, number)

            self._hear([text], seen_call)

    def _hear(self, batch: Sequence[Text], seen: Callable[[Slot, AttentionCall, Tensor | None], None]) -> None:
        """Run the model on a batch of texts, and show every chosen attention with its output.

        Raises:
            MhavizError: NaN or infinity, in an attention that is looked at or in one before it.
        """
        sides, slots = _sides(batch), {slot.number: slot for slot in self.slots}
        half = self.loaded.model.dtype in (torch.float16, torch.bfloat16)
        advice = "try --dtype float32, or take another copy of it" if half else "take another copy of it"

        def heard(number: int, call: AttentionCall, output: Tensor | None, module: nn.Module | None) -> None:
            slot = slots[number]
            queries, keys = (side.is_token.to(call.query.device) for side in sides[slot.kind])
            of = f"{self.loaded.name}: layer {slot.layer}, {slot.kind}"
            require_numbers(call, of, advice, output, queries, keys)
            if slot in self._chosen:
                seen(slot, call, output)

        hear(self.loaded, *self._reader.batch(batch), heard, self._last, slots)

    def through(self, layers: tuple[int, ...]) -> "PretrainedModel":
        """The same, looking at these layers; what it has read, and perhaps written, is not read again."""
        other = replace(self, layers=layers)
        other.__dict__.update(_reader=self._reader, _read=self._read)
        return other

    @cached_property
    def _reader(self) -> Texts:
        return Texts(self.loaded, self.generate)

    @cached_property
    def _read(self) -> dict[tuple[tuple[str, ...], str | None], list[Text]]:
        return {}

    def _texts(self, sentences: Sequence[str], target: str | None) -> list[Text]:
        """What the model reads; the last is remembered, as the model may have had to write it."""
        asked = tuple(sentences), target
        if asked not in self._read:
            self._read.clear()
            self._read[asked] = self._reader.read(sentences, target)
            self._require_memory(self._read[asked])
        return self._read[asked]

    def _require_memory(self, texts: Sequence[Text]) -> None:
        longest = max(max(map(len, text.sides("cross"))) for text in texts)
        config = self.loaded.config
        width = field_of(config, "hidden_size") or 1024
        needed = 4 * longest * width * 24  # hidden states, projections, the layer between them
        if not self.loaded.captured:
            needed += 3 * 4 * longest**2 * sum(slot.n_heads for slot in self.slots)
        elif field_of(config, "relative_attention_num_buckets") is not None:
            needed += 3 * 4 * longest**2 * self.n_heads  # the position bias, with the mask in it
        elif not self.loaded.model._supports_sdpa or any(field_of(config, name) for name in _OF_WINDOWS):
            needed += 2 * longest**2  # the mask
        require_memory(needed, self.loaded.device, self.loaded.name)

    def _outline(self, slot: Slot, text: Text, sentence: int | None, heads: Sequence[int] | None) -> MapOutline:
        queries, keys = text.sides(slot.kind)
        lengths = [len(side) - len(side.special) * self.hide_special for side in (queries, keys)]
        q_length, k_length = lengths
        return MapOutline(slot.kind, len(_heads(slot, heads)), q_length, k_length, slot.d_key, sentence)

    def _source(self, texts: Sequence[Text]) -> Source:
        return describe(self.loaded, self.slots, self._chosen, texts, self.hide_special)


def _numbered(texts: Sequence[Text]) -> list[tuple[int | None, Text]]:
    """Each with which of several sentences it is; None if there is one."""
    return [(i if len(texts) > 1 else None, text) for i, text in enumerate(texts)]


def _heads(slot: Slot, heads: Sequence[int] | None) -> tuple[int, ...]:
    """Those that the attention has."""
    return tuple(h for h in (range(slot.n_heads) if heads is None else heads) if h < slot.n_heads)


def _sides(batch: Sequence[Text]) -> dict[Kind, tuple[Side, Side]]:
    """The queries and keys of each kind of attention; what is the same is one object."""
    source = side_of([text.source for text in batch])
    targets = [text.target for text in batch if text.target is not None]
    if not targets:
        return {"self": (source, source), "masked": (source, source)}
    target = side_of(targets)
    produced = side_of([text.produced for text in batch if text.produced is not None])
    return {"self": (source, source), "masked": (target, target), "cross": (produced, source)}
