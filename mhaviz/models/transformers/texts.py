"""Reading of texts for a model: their tokens, targets that are given or generated, and padded batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mhaviz.attention.model import require_one_target
from mhaviz.errors import ArgumentError, MhavizError, TooLongError, counted, is_accepted, parameter
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import ANSWER, PROMPT, Segment, Text, Tokens
from mhaviz.models.transformers.languages import AS_IT_IS, Languages
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.read import (
    id_of,
    ids_around,
    name_tokens,
    read,
    read_without_names,
    special_of,
    usual_ids,
)
from mhaviz.models.transformers.run import field_of, run
from mhaviz.models.transformers.segments import read_chat, read_pair

WRITTEN = 64
"""Most tokens that an encoder with a decoder generates if no target is given."""

_PROBE_LENGTH = 8
"""Number of tokens on which models are tested for seeing padding."""

_MOST_EXTRA_ROWS = 4
"""Most further rows of a table of positions: OPT and BART have two, RoBERTa those up to its padding token."""

_TOLERANCE = 1e-2
"""Largest difference of hidden states in half precision, as a share of the largest. Seen padding causes more."""


@dataclass(frozen=True)
class Texts:
    """Reader of the inputs of a model.

    Attributes:
        loaded: the model.
        generate: number of tokens that the decoder generates after each text; 0: none.
        languages: languages of the texts and of the generated text.
    """

    loaded: Loaded
    generate: int = 0
    languages: Languages = AS_IT_IS

    def read(self, given: Given, writes: bool = True) -> list[Text]:
        """Return the tokens of each sentence, of a pair or a chat, or of each sequence of ids.

        Args:
            given: the texts.
            writes: whether the model generates a target if none is given, or continues the text.

        Raises:
            ArgumentError: a text without tokens, or with more than the model has positions; a target that does not fit
                the texts or the model; a pair or a chat for which the tokenizer has no template; unknown ids.
            MhavizError: a chat template that cannot be run.
        """
        if given.image is not None:
            raise ArgumentError(f"{parameter('image')} is for weights, which heatmap and attend give; leave it out")
        if not given.instead:
            require_one_target(given.sentences, given.target)
        if given.target is not None and not self.loaded.has_encoder:
            raise ArgumentError(
                f"{parameter('target')} is for an encoder with a decoder, which {self.loaded.name} is not; leave it out"
            )
        with self.languages.applied_to(self.loaded.tokenizer):
            sources = self._sources(given)
            return [self._whole(text, given) for text in sources] if writes or given.target is not None else sources

    def _sources(self, given: Given) -> list[Text]:
        tokenizer, name = self.loaded.tokenizer, self.loaded.name
        if given.chat is not None:
            texts = [read_chat(tokenizer, given.chat, name, self.generate > 0)]
        elif given.ids is not None:
            for ids in given.ids:  # before the tokenizer gets them
                self._require_embeddings(ids, ArgumentError)
            texts = [Text(name_tokens(tokenizer, ids)) for ids in given.ids]
        elif given.pair is not None:
            texts = [self._typed(read_pair(tokenizer, given.sentences[0], given.pair, name))]
        else:
            texts = [Text(read(tokenizer, sentence)) for sentence in given.sentences]
        for text in texts:
            self._require_embeddings(text.source.ids)
            self._require_positions(len(text.source) + self.generate * (not self.loaded.has_encoder))
        return texts

    def _typed(self, text: Text) -> Text:
        """Return the text without types of tokens if the model does not read them."""
        if not text.types or "token_type_ids" not in signature(self.loaded.model.base_model.forward).parameters:
            return replace(text, types=())
        return text

    @property
    def start(self) -> Tensor:
        """Start token of the decoder of an encoder with a decoder, (1, 1)."""
        return torch.tensor([[self._start]], device=self.loaded.device)

    def read_without_names(self, sentences: Sequence[str], pieces: Sequence[Text | None] = ()) -> list[Text]:
        """As ``read``, for many sentences, with empty labels of their tokens.

        The decoder of an encoder with a decoder generates the targets.

        Args:
            sentences: the sentences.
            pieces: for each sentence, the piece that is read in its place; None, or empty: all of it.
        """
        pieces = pieces or (None,) * len(sentences)
        whole = iter(self.read_unnamed([one for one, piece in zip(sentences, pieces, strict=True) if piece is None]))
        texts = [Text(next(whole)) if piece is None else piece for piece in pieces]
        for text in texts:
            self._require_embeddings(text.source.ids)
            self._require_positions(len(text.source))
        if not self.loaded.has_encoder:
            return texts
        written = self._written(texts, self._most_written)
        return [
            replace(text, target=self._unnamed(ids[:-1]), produced=self._unnamed(ids[1:]))
            for text, ids in zip(texts, written, strict=True)
        ]

    def read_unnamed(self, sentences: Sequence[str]) -> list[Tokens]:
        """Return the tokens of sentences, even if the model lacks embeddings or positions for them."""
        with self.languages.applied_to(self.loaded.tokenizer):
            return read_without_names(self.loaded.tokenizer, sentences)

    def batch(self, texts: Sequence[Text]) -> dict[str, Tensor]:
        """Return the inputs of the model for texts and their targets, padded at their ends."""
        ids, is_token = _padded([text.source for text in texts], self._padding)
        targets = [text.target for text in texts if text.target is not None]
        fields = {"input_ids": ids, "attention_mask": is_token.long()}
        if targets:
            fields["decoder_input_ids"], _ = _padded(targets, self._padding)
        if any(text.types for text in texts):
            rows = [[*text.types, *[0] * (ids.shape[1] - len(text.types))] for text in texts]
            fields["token_type_ids"] = torch.tensor(rows)
        return {name: x.to(self.loaded.device) for name, x in fields.items()}

    @cached_property
    def max_length(self) -> int | None:
        """Largest number of tokens that the model is built for; None: no limit."""
        for name, module in self.loaded.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx:
                return module.num_embeddings - module.padding_idx - 1  # RoBERTa's positions begin after it
        return self._first_length("max_position_embeddings", "max_encoder_position_embeddings")

    @cached_property
    def padding_is_seen(self) -> bool:
        """Whether the hidden states of a text depend on the padding after it, although that is masked.

        They do in models that mix tokens by convolutions or by means over segments, which ignore the mask, such as
        ConvBERT and Nyströmformer. This is tested by running a short text alone, and in a batch with a longer one.
        """
        usual = usual_ids(self.loaded.tokenizer, self.n_embeddings or 1000)
        length = min(_PROBE_LENGTH, max(1, (self.max_length or 2 * _PROBE_LENGTH) // 2))
        short, long = (
            Tokens(("",) * n, (), tuple(usual[i % len(usual)] for i in range(n))) for n in (length, 2 * length)
        )
        texts = [Text(reading, short if self.loaded.has_encoder else None) for reading in (short, long)]
        alone, padded = self._hidden(texts[:1])[0], self._hidden(texts)[0, :length]
        difference = (alone - padded).abs().max()
        return not bool(difference <= _TOLERANCE * alone.abs().max())  # True for NaN, too

    def _hidden(self, texts: Sequence[Text]) -> Tensor:
        """Return the last hidden states of the sources, in the model or its encoder, (batch_size, length, d_model)."""
        out: Any = run(self.loaded, self.batch(texts))
        name = "encoder_last_hidden_state" if self.loaded.has_encoder else "last_hidden_state"
        hidden: Tensor = out[name] if name in out else out[0]  # some models return only logits
        return hidden.float()

    def _whole(self, text: Text, given: Given) -> Text:
        """Return a source with its target, given or generated, or with its continuation."""
        tokenizer, target = self.loaded.tokenizer, given.target
        if not self.loaded.has_encoder:
            return self._continued(text, is_text=not given.instead) if self.generate else text
        if target is None:
            self._require_positions(self.generate, of_target=True)
            (written,) = self._written([text], self.generate or self._most_written)
            return replace(
                text, target=name_tokens(tokenizer, written[:-1]), produced=name_tokens(tokenizer, written[1:])
            )
        self.languages.require_target(tokenizer, self.loaded.name)
        produced = read(tokenizer, target, as_target=True)
        first = name_tokens(tokenizer, [self._start])
        self._require_embeddings((*first.ids, *produced.ids[:-1]))
        self._require_positions(len(produced), of_target=True)
        return replace(text, target=replace(first, special=(0,)) + produced[:-1], produced=produced)

    def _continued(self, text: Text, is_text: bool) -> Text:
        """Return a prompt with the tokens that the model generates after it.

        ``is_text``: whether the tokenizer added the special tokens at the end, which are then dropped, as </s> would
        end the generation.
        """
        prompt = text.source
        if is_text and (after := len(ids_around(self.loaded.tokenizer)[1])):
            prompt = prompt[:-after]
        types = text.types[: len(prompt)]
        (continued,) = self._written([replace(text, source=prompt, types=types)], self.generate)
        written = name_tokens(self.loaded.tokenizer, continued[len(prompt) :])
        types += types[-1:] * len(written)
        turns = prompt.turns or (Segment(PROMPT, 0, len(prompt)),)
        answer = Segment(ANSWER, len(prompt), len(prompt) + len(written))
        whole = replace(prompt + written, turns=(*turns, answer))
        return replace(text, source=whole, prompt=len(prompt), types=types)

    def _written(self, sources: Sequence[Text], most: int) -> list[list[int]]:
        """Generate at most ``most`` tokens for each source, greedily.

        Return the ids of the decoder: the start token, or the prompt, and then the generated tokens.
        """
        model = self.loaded.model
        if self.loaded.is_top_random:
            raise MhavizError(
                f"{self.loaded.name} cannot generate a target: its files hold no weights of its language modelling "
                f"head, which would be random; "
                + (f"give {parameter('target')}" if is_accepted("target") else "take a model that has them")
            )
        given: dict[str, Any] = dict(self.batch(sources))
        _, forced = self._first_tokens
        if forced is not None:
            given["forced_bos_token_id"] = forced
        with torch.no_grad(), self.loaded.running():
            eos = model.generation_config.eos_token_id
            ends = set(eos if isinstance(eos, list) else [eos])
            written: Tensor = model.generate(  # type: ignore[operator]
                max_new_tokens=most,
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                return_dict_in_generate=False,
                decoder_start_token_id=self._start if self.loaded.has_encoder else None,
                pad_token_id=next((number for number in ends if number is not None), 0),
                **given,
            )
        begun = [1 if self.loaded.has_encoder else len(text.source) for text in sources]
        return [_until(row, start, ends) for row, start in zip(written.tolist(), begun, strict=True)]

    def _unnamed(self, ids: Sequence[int]) -> Tokens:
        return Tokens(("",) * len(ids), special_of(self.loaded.tokenizer, ids), tuple(ids))

    @cached_property
    def _start(self) -> int:
        """Id of the decoder's start token, for an encoder with a decoder."""
        model = self.loaded.model
        if (own := self._first_tokens[0]) is not None:
            return own
        configs = [self.loaded.model.config, *([model.generation_config] if model.can_generate() else [])]
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            for start in (*(getattr(known, name, None) for known in configs), id_of(self.loaded.tokenizer, name)):
                if isinstance(start, int):
                    return start
        raise MhavizError(f"{self.loaded.name}: expected a decoder_start_token_id in its config.json, got none")

    @cached_property
    def _first_tokens(self) -> tuple[int | None, int | None]:
        """See ``Languages.first_tokens``."""
        return self.languages.first_tokens(self.loaded.tokenizer)

    @cached_property
    def _padding(self) -> int | None:
        """Id of the padding token; None: the model has none."""
        candidates = id_of(self.loaded.tokenizer, "pad_token_id"), field_of(self.loaded.model.config, "pad_token_id")
        for number in candidates:
            if isinstance(number, int) and number >= 0 and (self.n_embeddings is None or number < self.n_embeddings):
                return number
        return None

    @cached_property
    def n_embeddings(self) -> int | None:
        """Number of the model's embeddings of tokens; None: not known."""
        try:
            return getattr(self.loaded.model.get_input_embeddings(), "num_embeddings", None)
        except NotImplementedError:  # tokens that are hashed
            return None

    @cached_property
    def _max_target_length(self) -> int | None:
        """Largest number of tokens that the decoder of an encoder with a decoder can read; None: no limit."""
        return self._first_length("max_decoder_position_embeddings") or self.max_length

    def _first_length(self, *names: str) -> int | None:
        """Return the first of these fields of the configuration that is a positive integer; None: none is."""
        lengths = (field_of(self.loaded.model.config, name) for name in names)
        return next((length for length in lengths if isinstance(length, int) and length > 0), None)

    @property
    def _most_written(self) -> int:
        return min(WRITTEN, self._max_target_length or WRITTEN)

    def _require_embeddings(self, ids: Sequence[int], error: type[MhavizError] = MhavizError) -> None:
        highest = max(ids, default=0)
        if self.n_embeddings is not None and highest >= self.n_embeddings:
            raise error(
                f"{self.loaded.name}: expected tokens below {self.n_embeddings:,}, as it has embeddings, got number "
                f"{counted(highest)}"
            )

    def _require_positions(self, length: int, of_target: bool = False) -> None:
        most = self._max_target_length if of_target else self.max_length
        if most is not None and length > most and has_table(self.loaded.model, most):
            of, pieces = ("a target of ", "") if of_target else ("", ", or let mhaviz heads read it in chunks")
            raise TooLongError(
                f"expected {of}at most {most:,} tokens, as {self.loaded.name} has positions, got {length:,}; shorten it"
                f"{pieces}"
            )


def has_table(model: PreTrainedModel, length: int) -> bool:
    """Return whether a model has a table of ``length`` positions, or a few more, and so can read no later position.

    Rotary positions, ALiBi and buckets of distances are computed for any position.
    """
    lengths, vocabulary = range(length, length + _MOST_EXTRA_ROWS + 1), model.get_input_embeddings()
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module is not vocabulary and module.num_embeddings in lengths:
            return True
        kept = [x for x in vars(module).values() if isinstance(x, Tensor)]  # tensors that are not parameters
        for table in (*kept, *module.buffers(recurse=False)):
            if table.is_floating_point() and table.ndim > 1 and any(size in lengths for size in table.shape):
                return True
    return False


def _padded(readings: Sequence[Tokens], padding: int | None = None) -> tuple[Tensor, Tensor]:
    """Return padded ids, and which of them are tokens, each (batch_size, length).

    ``padding``: id of the padding. Attention never sees it, but convolutions over tokens do, and expect the model's
    own. None: the first token of each text.
    """
    longest = max(map(len, readings))
    ids = torch.tensor(
        [
            [*reading.ids, *[reading.ids[0] if padding is None else padding] * (longest - len(reading))]
            for reading in readings
        ]
    )
    lengths = torch.tensor([len(reading) for reading in readings])
    return ids, torch.arange(longest) < lengths[:, None]


def _until(ids: list[int], start: int, ends: set[int | None]) -> list[int]:
    """Return the ids up to the first end token from place ``start`` on. What follows is padding."""
    end = next((i for i in range(start, len(ids)) if ids[i] in ends), len(ids))
    return ids[: end + 1]
