"""Sentences as a model reads them: with their targets, given or written by the model, and as padded batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from mhaviz.errors import ArgumentError
from mhaviz.maps.weighed_batch import Side
from mhaviz.records import Kind
from mhaviz.sources.pretrained.loading import Loaded
from mhaviz.sources.pretrained.reading import Reading, name_tokens, read, read_without_names

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
class Texts:
    """Makes what a model reads.

    Attributes:
        loaded: the model.
        generate: so many tokens a decoder goes on writing; 0: none.
    """

    loaded: Loaded
    generate: int = 0

    def read(self, sentences: Sequence[str], target: str | None) -> list[Text]:
        """What the model reads for each sentence.

        Raises:
            ArgumentError: a text without tokens, or with more than the model has positions; a target that cannot be.
        """
        if not sentences:
            raise ArgumentError("expected at least one sentence, got none")
        if target is not None and not self.loaded.has_encoder:
            raise ArgumentError(
                f"--target is for an encoder with a decoder, and {self.loaded.name} is none; leave it out"
            )
        if target is not None and len(sentences) > 1:
            raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")
        return [self._text(sentence, target) for sentence in sentences]

    def read_without_names(self, sentences: Sequence[str]) -> list[Text]:
        """The same of many sentences, whose tokens nobody will look at; a decoder beside an encoder writes targets."""
        readings = read_without_names(self.loaded.tokenizer, sentences)
        for reading in readings:
            self._require_positions(len(reading))
        if not self.loaded.has_encoder:
            return [Text(reading) for reading in readings]
        written = self._written(readings, WRITTEN)
        return [
            Text(reading, self._unnamed(ids[:-1]), self._unnamed(ids[1:]))
            for reading, ids in zip(readings, written, strict=True)
        ]

    def batch(self, texts: Sequence[Text]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Source ids and their mask, and target ids, padded at their ends; no mask where there is no padding."""
        ids, is_token = _padded([text.source for text in texts])
        targets = [text.target for text in texts if text.target is not None]
        target_ids = _padded(targets)[0].to(self.loaded.device) if targets else None
        mask = None if bool(is_token.all()) else is_token.long().to(self.loaded.device)
        return ids.to(self.loaded.device), mask, target_ids

    @cached_property
    def max_length(self) -> int | None:
        """The most tokens that the model can read; None: there is no such limit."""
        for name, module in self.loaded.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx:
                return module.num_embeddings - module.padding_idx - 1  # RoBERTa counts from there
        most = getattr(self.loaded.config, "max_position_embeddings", None)
        return most if isinstance(most, int) and most > 0 else None

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
        ids, mask, _ = self.batch([Text(reading) for reading in readings])
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

    def _unnamed(self, ids: Sequence[int]) -> Reading:
        special = set(self.loaded.tokenizer.all_special_ids)
        return Reading(tuple(ids), ("",) * len(ids), tuple(i for i, number in enumerate(ids) if number in special))

    def _require_positions(self, length: int) -> None:
        most = self.max_length
        if most is not None and length > most:
            raise ArgumentError(
                f"expected at most {most:,} tokens, as {self.loaded.name} has positions, got {length:,}; cut the text"
            )


def _padded(readings: Sequence[Reading]) -> tuple[Tensor, Tensor]:
    """(batch_size, length): ids, and which are tokens; a model never sees what the others are."""
    longest = max(map(len, readings))
    ids = torch.tensor([[*reading.ids, *[reading.ids[0]] * (longest - len(reading))] for reading in readings])
    lengths = torch.tensor([len(reading) for reading in readings])
    return ids, torch.arange(longest) < lengths[:, None]


def side_of(readings: Sequence[Reading]) -> Side:
    """The queries or the keys of a batch."""
    ids, is_token = _padded(readings)
    is_special = ~is_token
    for row, reading in zip(is_special, readings, strict=True):
        row[list(reading.special)] = True
    return Side(ids, is_token, is_special)


def _until(ids: list[int], start: int, ends: set[int | None]) -> list[int]:
    """Those up to the first end after ``start``: what follows is padding."""
    end = next((i for i in range(start, len(ids)) if ids[i] in ends), len(ids))
    return ids[: end + 1]
