"""A checkpoint of transformers as a source of attention: what it attends to on anybody's sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.maps.attention_call import AttentionCall
from mhaviz.maps.map_of_inputs import weights_of_inputs
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
from mhaviz.sources.pretrained.loading import Loaded
from mhaviz.sources.pretrained.reading import Reading, name_tokens, read, read_without_names
from mhaviz.sources.pretrained.slots import Slot, hear
from mhaviz.sources.pretrained.tracing import trace_attention
from mhaviz.sources.recorder import StepRecorder
from mhaviz.sources.single_layer import VALUES_UP_TO

WRITTEN = 64
"""The most tokens that an encoder–decoder writes where no target is given."""


@dataclass(frozen=True)
class Text:
    """What a model reads for one sentence: ``source``, and for a decoder beside an encoder ``target`` and ``produced``.

    ``produced`` is what the decoder should make of ``target``: the same, a token later. Where a decoder has gone on
    writing, ``prompt`` is how many tokens it was given.
    """

    source: Reading
    target: Reading | None = None
    produced: Reading | None = None
    prompt: int = 0

    def sides(self, kind: Kind) -> tuple[Reading, Reading]:
        """The rows and columns of an attention; those of cross attention are named after what is being produced."""
        if self.target is None or self.produced is None or kind == "self":
            return self.source, self.source
        return (self.target, self.target) if kind == "masked" else (self.produced, self.source)


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

        def seen(one: QueriesAndKeys) -> None:
            maps.append(
                AttentionMap(
                    one.query_tokens,
                    one.key_tokens,
                    weights_of_inputs(one).numpy(),
                    one.kind,
                    one.layer,
                    one.heads,
                    one.sentence,
                    special_queries=one.special_queries,
                    special_keys=one.special_keys,
                    reach=one.reach,
                    sink=one.sinks is not None,
                )
            )

        inputs.visit(seen)
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
            raise MhavizError(f"--verify: a {self.loaded.config.model_type} shows its weights alone, and no values")
        if with_outputs and self.hide_special:
            raise ArgumentError("--verify compares with all tokens; leave out --hide-special")
        numbers = [None] if len(texts) == 1 else list(range(len(texts)))
        outlines = [
            self._outline(slot, text, number, heads)
            for text, number in zip(texts, numbers, strict=True)
            for slot in self._chosen
        ]

        def visit(seen: Callable[[QueriesAndKeys], None]) -> None:
            def seen_call(
                slot: Slot, call: AttentionCall, output: Tensor | None, text: Text, number: int | None
            ) -> None:
                one = _inputs(slot, call, text, number, heads)
                if with_outputs and output is not None:
                    value = _array(call.value[0, _key_heads(call, one.heads)])
                    one = replace(one, value=value, output=_array(output[0, list(one.heads)]))
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
            queries, keys = text.sides(slot.kind)
            visible = call.visible()
            shown = torch.ones(1, 1, 1, 1, dtype=torch.bool) if visible is None else visible
            bias = call.mask if call.mask is not None and call.mask.dtype != torch.bool else None
            inputs.append(
                HeadInputs(
                    queries.tokens,
                    keys.tokens,
                    _array(call.query[0]),
                    _array(call.key[0].repeat_interleave(call.group, dim=0)),
                    _array(call.value[0].repeat_interleave(call.group, dim=0)),
                    shown[0, 0].expand(len(queries), len(keys)).cpu().contiguous().numpy(),
                    slot.kind,
                    number,
                    scale=call.scale,
                    bias=None if bias is None else _array(bias[0]),
                    softcap=call.softcap,
                    sinks=None if call.sinks is None else _array(call.sinks),
                )
            )

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
        trace_attention(self.loaded, self.slots.index(slot), *self._batch(texts), recorder)
        tokens = tuple(text.sides(slot.kind)[0].tokens for text in texts)
        return ShapeTrace(self._source(texts), tuple(recorder.steps), tokens)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, special ones included; 0 if there are no others."""
        return [len(reading) for reading in read_without_names(self.loaded.tokenizer, texts)]

    def weigh(self, texts: Sequence[str], seen: Callable[[WeighedBatch], None]) -> None:
        """The weights of every chosen attention for a padded batch of texts, one attention after the other.

        A decoder beside an encoder writes its targets itself, greedily.
        """
        readings = read_without_names(self.loaded.tokenizer, texts)
        for reading in readings:
            self._require_positions(len(reading))
        batch = [Text(reading) for reading in readings]
        source = _side(readings)
        sides = {"self": (source, source), "masked": (source, source)}
        if self.loaded.has_encoder:
            written = self._written(readings, WRITTEN)
            targets, produced = ([self._unnamed(ids[part]) for ids in written] for part in (slice(-1), slice(1, None)))
            batch = [Text(*parts) for parts in zip(readings, targets, produced, strict=True)]
            target = _side(targets)
            sides |= {"masked": (target, target), "cross": (_side(produced), source)}

        def heard(i: int, call: AttentionCall, output: Tensor | None, module: nn.Module | None) -> None:
            slot = self.slots[i]
            if slot in self._chosen:
                seen(WeighedBatch(slot.kind, slot.layer, call.weights().float().cpu(), *sides[slot.kind]))

        hear(self.loaded, *self._batch(batch), heard, self._last)

    def _unnamed(self, ids: Sequence[int]) -> Reading:
        special = set(self.loaded.tokenizer.all_special_ids)
        return Reading(tuple(ids), ("",) * len(ids), tuple(i for i, number in enumerate(ids) if number in special))

    @property
    def source(self) -> Source:
        """Where the weights come from."""
        return self._source([])

    def _require_captured(self) -> None:
        if not self.loaded.captured:
            raise MhavizError(
                f"{self.loaded.name}, a {self.loaded.config.model_type}, shows its weights alone, and no queries and "
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
        return max(i for i, slot in enumerate(self.slots) if slot in self._chosen)

    def _visit(
        self, texts: Sequence[Text], seen: Callable[[Slot, AttentionCall, Tensor | None, Text, int | None], None]
    ) -> None:
        """Run the model on each text, and show every chosen attention with its output and the text's number."""
        for i, text in enumerate(texts):
            number = i if len(texts) > 1 else None

            def heard(
                i: int,
                call: AttentionCall,
                output: Tensor | None,
                module: nn.Module | None,
                text: Text = text,
                number: int | None = number,
            ) -> None:
                if self.slots[i] in self._chosen:
                    seen(self.slots[i], call, output, text, number)

            hear(self.loaded, *self._batch([text]), heard, self._last)

    def _batch(self, texts: Sequence[Text]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Source ids and their mask, and target ids, padded at their ends; no mask where there is no padding."""
        ids, is_token = _padded([text.source for text in texts])
        targets = [text.target for text in texts if text.target is not None]
        target_ids = _padded(targets)[0].to(self.loaded.device) if targets else None
        mask = None if bool(is_token.all()) else is_token.long().to(self.loaded.device)
        return ids.to(self.loaded.device), mask, target_ids

    def _texts(self, sentences: Sequence[str], target: str | None) -> list[Text]:
        if not sentences:
            raise ArgumentError("expected at least one sentence, got none")
        if target is not None and not self.loaded.has_encoder:
            raise ArgumentError(
                f"--target is for an encoder with a decoder, and {self.loaded.name} is none; leave it out"
            )
        if target is not None and len(sentences) > 1:
            raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")
        texts = [self._text(sentence, target) for sentence in sentences]
        self._require_memory(texts)
        return texts

    def _text(self, sentence: str, target: str | None) -> Text:
        tokenizer = self.loaded.tokenizer
        source = read(tokenizer, sentence)
        self._require_positions(len(source) + self.generate * (not self.loaded.has_encoder))
        if not self.loaded.has_encoder:
            return self._continued(source) if self.generate else Text(source)
        start = self.loaded.config.decoder_start_token_id
        start = tokenizer.pad_token_id if start is None else start
        if target is None:
            (written,) = self._written([source], self.generate or WRITTEN)
            return Text(source, name_tokens(tokenizer, written[:-1]), name_tokens(tokenizer, written[1:]))
        produced = read(tokenizer, target)
        self._require_positions(len(produced))
        first = name_tokens(tokenizer, [start])
        shifted = Reading(
            (*first.ids, *produced.ids[:-1]),
            (*first.tokens, *produced.tokens[:-1]),
            (0, *(i + 1 for i in produced.special if i + 1 < len(produced))),
        )
        return Text(source, shifted, produced)

    def _continued(self, prompt: Reading) -> Text:
        """The prompt and what the model writes after it. A text's last special token, such as </s>, would end it."""
        ids = list(prompt.ids)
        while len(ids) > 1 and len(ids) - 1 in prompt.special:
            ids.pop()
        kept = Reading(tuple(ids), prompt.tokens[: len(ids)], tuple(i for i in prompt.special if i < len(ids)))
        (continued,) = self._written([kept], self.generate)
        written = name_tokens(self.loaded.tokenizer, continued[len(ids) :])
        whole = Reading(
            (*kept.ids, *written.ids),
            (*kept.tokens, *written.tokens),
            (*kept.special, *(i + len(ids) for i in written.special)),
        )
        return Text(whole, prompt=len(ids))

    def _written(self, readings: Sequence[Reading], most: int) -> list[list[int]]:
        """What the model writes, greedily, after each prompt, which is at the beginning, or after its start token."""
        model = self.loaded.model
        ids, mask, _ = self._batch([Text(reading) for reading in readings])
        eos = model.generation_config.eos_token_id
        ends = set(eos if isinstance(eos, list) else [eos])
        with torch.no_grad():
            written: Tensor = model.generate(  # type: ignore[operator]
                input_ids=ids,
                attention_mask=torch.ones_like(ids) if mask is None else mask,
                max_new_tokens=most,
                do_sample=False,
                num_beams=1,
                pad_token_id=next((number for number in ends if number is not None), 0),
            )
        begun = [1 if self.loaded.has_encoder else len(reading) for reading in readings]
        return [_until(row, start, ends) for row, start in zip(written.tolist(), begun, strict=True)]

    def _require_positions(self, length: int) -> None:
        most = self.max_length
        if most is not None and length > most:
            raise ArgumentError(
                f"expected at most {most:,} tokens, as {self.loaded.name} has positions, got {length:,}; cut the text"
            )

    @cached_property
    def max_length(self) -> int | None:
        """The most tokens that the model can read; None: there is no such limit."""
        for name, module in self.loaded.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx:
                return module.num_embeddings - module.padding_idx - 1  # RoBERTa counts from there
        most = getattr(self.loaded.config, "max_position_embeddings", None)
        return most if isinstance(most, int) and most > 0 else None

    def _require_memory(self, texts: Sequence[Text]) -> None:
        longest = max(max(map(len, text.sides("cross"))) for text in texts)
        config = self.loaded.config
        width = getattr(config, "hidden_size", None) or 1024
        needed = 4 * longest * width * 24  # hidden states, projections, the layer between them
        if not self.loaded.captured:
            needed += 3 * 4 * longest**2 * sum(slot.n_heads for slot in self.slots)
        elif any(slot.kind == "self" for slot in self.slots) or getattr(config, "sliding_window", None):
            needed += 2 * longest**2
        require_memory(needed, self.loaded.device, self.loaded.name)

    def _outline(self, slot: Slot, text: Text, sentence: int | None, heads: Sequence[int] | None) -> MapOutline:
        queries, keys = text.sides(slot.kind)
        lengths = [len(side) - len(side.special) * self.hide_special for side in (queries, keys)]
        q_length, k_length = lengths
        return MapOutline(slot.kind, len(_heads(slot, heads)), q_length, k_length, slot.d_key, sentence)

    def _source(self, texts: Sequence[Text]) -> Source:
        loaded, chosen = self.loaded, self._chosen
        layers = [sum(slot.kind == kind for slot in self.slots) for kind in ("self", "masked")]
        of_layers = " + ".join(str(number) for number in layers if number) + f" layer{'s' * (sum(layers) != 1)}"
        if len(chosen) == 1 and sum(layers) > 1:
            of_layers = f"layer {chosen[0].layer} of {of_layers.removesuffix(' layers')}"
        dtype = str(loaded.model.dtype).removeprefix("torch.")
        parts = [f"{loaded.name.rstrip('/').rsplit('/')[-1]}: {type(loaded.model).__name__}"]
        parts += [f"{of_layers}, {self.n_heads} head{'s' * (self.n_heads != 1)} each"]
        parts += [dtype, str(loaded.device)]
        details: dict[str, object] = {
            "kind": "checkpoint",
            "model": loaded.name,
            "class": type(loaded.model).__name__,
            "n_layers": sum(layers),
            "n_heads": self.n_heads,
            "dtype": dtype,
            "device": str(loaded.device),
        }
        remarks = []
        if self.hide_special:
            remarks.append("special tokens left out, weights are shares of the other keys")
            details["hidden"] = "special tokens"
        if self.generate and not loaded.has_encoder:
            details["prompt_lengths"] = [text.prompt for text in texts]
            begins = f"{texts[0].prompt} on" if len(texts) == 1 else "the end of each prompt on"
            remarks.append(f"tokens from {begins} are written by the model")
        if any(slot.kind == "cross" for slot in chosen):
            remarks.append("source-target rows are named after the token that is being produced")
        return Source(", ".join(parts), details, "; ".join(remarks))


def _until(ids: list[int], start: int, ends: set[int | None]) -> list[int]:
    """Those up to the first end after ``start``: what follows is padding."""
    end = next((i for i in range(start, len(ids)) if ids[i] in ends), len(ids))
    return ids[: end + 1]


def _padded(readings: Sequence[Reading]) -> tuple[Tensor, Tensor]:
    """(batch_size, length): ids, and which are tokens; a model never sees what the others are."""
    longest = max(map(len, readings))
    ids = torch.tensor([[*reading.ids, *[reading.ids[0]] * (longest - len(reading))] for reading in readings])
    lengths = torch.tensor([len(reading) for reading in readings])
    return ids, torch.arange(longest) < lengths[:, None]


def _side(readings: Sequence[Reading]) -> Side:
    ids, is_token = _padded(readings)
    is_special = ~is_token
    for row, reading in zip(is_special, readings, strict=True):
        row[list(reading.special)] = True
    return Side(ids, is_token, is_special)


def _heads(slot: Slot, heads: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(h for h in (range(slot.n_heads) if heads is None else heads) if h < slot.n_heads)


def _key_heads(call: AttentionCall, heads: Sequence[int]) -> list[int]:
    """Which keys these heads have; all groups, if all heads are there."""
    if len(heads) == call.query.shape[1]:
        return list(range(call.key.shape[1]))
    return [h // call.group for h in heads]


def _inputs(
    slot: Slot, call: AttentionCall, text: Text, sentence: int | None, heads: Sequence[int] | None
) -> QueriesAndKeys:
    """Of the one input of a batch."""
    queries, keys = text.sides(slot.kind)
    chosen = _heads(slot, heads)
    mask, reach = _mask(slot, call)
    if mask is not None and mask.shape[0] > 1:
        mask = mask[list(chosen)]
    return QueriesAndKeys(
        queries.tokens,
        keys.tokens,
        _array(call.query[0, list(chosen)]),
        _array(call.key[0, _key_heads(call, chosen)]),
        chosen,
        slot.kind,
        sentence,
        slot.layer,
        queries.special,
        keys.special,
        reach,
        call.scale,
        None if mask is None else mask.cpu().contiguous().numpy(),
        call.softcap,
        None if call.sinks is None else _array(call.sinks[list(chosen)]),
    )


def _mask(slot: Slot, call: AttentionCall) -> tuple[Tensor | None, int | None]:
    """The mask of one input, (n_heads or 1, q_length or 1, k_length or 1), where it hides more than later keys.

    Also how far a query sees, if the mask is a band along the diagonal.
    """
    if call.mask is None:
        return None, None
    if call.mask.dtype != torch.bool:
        return call.mask[0].float(), None
    mask = call.mask[0]
    q_length, k_length = call.query.shape[2], call.key.shape[2]
    if mask.shape[1:] == (q_length, k_length) and mask.shape[0] == 1 and q_length == k_length:
        seen = mask[0]
        reach = k_length - 1 - int(seen[-1].to(torch.uint8).argmax())
        last = seen.new_ones(q_length, k_length).triu_(-reach).tril_(0 if slot.kind == "masked" else reach)
        if torch.equal(seen, last):
            everything = reach == k_length - 1
            return (None if everything else mask), (None if everything else reach)
    return (None if bool(mask.all()) else mask), None


def _array(x: Tensor) -> NDArray[np.float32]:
    return np.asarray(x.float().cpu().contiguous().numpy())
