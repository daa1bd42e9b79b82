"""Runs a checkpoint of transformers on the texts of a probe, which are made of tokens, not of words: "101 2023 102"."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from mhaviz.attention.model import CorpusModel, Inputs
from mhaviz.errors import ArgumentError, parameter
from mhaviz.models.corpus_batches import Sentence
from mhaviz.models.pretrained.model import PretrainedModel
from mhaviz.models.pretrained.probe_texts import needle_ids, random_repeats, with_needle
from mhaviz.models.pretrained.reading import special_of
from mhaviz.models.pretrained.texts import Texts
from mhaviz.records.given import Given
from mhaviz.records.probes import Needle, Probe, RandomRepeats
from mhaviz.records.tokens import Text, Tokens


@dataclass(frozen=True)
class Probing:
    """What is run for a probe.

    Attributes:
        model: reads the sentences, which are the numbers of tokens.
        sentences: one after the other.
        needle: ids of the needle, if there is one.
        texts_apart: so many sentences, one after the other, are made of the same text.
    """

    model: CorpusModel
    sentences: Iterator[Sentence]
    needle: tuple[int, ...] = ()
    texts_apart: int = 1


def probing(model: CorpusModel, probe: Probe, texts: Iterable[Sentence]) -> Probing:
    """Find what is to be run.

    Args:
        model: whose heads are looked for.
        probe: what its texts are made for.
        texts: what a needle is put into.

    Raises:
        ArgumentError: a model that is not of transformers, or that the probe says nothing of; sizes that cannot be.
    """
    name = parameter("random_repeat" if isinstance(probe, RandomRepeats) else "needle")
    if not isinstance(model, PretrainedModel):
        raise ArgumentError(f"{name} goes with a model of transformers; name one by {parameter('model')}")
    if isinstance(probe, RandomRepeats):
        return Probing(IdModel.of(model), _of_repeats(model, probe))
    kinds = {site.kind for site in model.all_sites}
    if kinds != {"masked"}:
        raise ArgumentError(
            f"{name}: expected a model that writes on after a text, as GPT-2 does, got {model.loaded.name} with "
            f"attention of kind {', '.join(sorted(kinds))}"
        )
    tokenizer = model.loaded.tokenizer
    return Probing(
        IdModel.of(model), _of_needles(model, probe, texts), tuple(needle_ids(tokenizer, probe)), len(probe.depths)
    )


def _of_repeats(model: PretrainedModel, probe: RandomRepeats) -> Iterator[Sentence]:
    made = random_repeats(model.loaded.tokenizer, probe.n_tokens, probe.sequences, probe.seed, model.n_embeddings)
    length, most = len(made[0]), model.max_length
    if most is not None and length > most:
        room = probe.n_tokens - (length - most + 1) // 2
        raise ArgumentError(
            f"{parameter('random_repeat')}: expected at most {room:,} tokens, as the model can read {most:,}, got "
            f"{probe.n_tokens:,}"
        )
    for number, ids in enumerate(made, start=1):
        yield Sentence(_text_of(ids), number / len(made))


def _of_needles(model: PretrainedModel, probe: Needle, texts: Iterable[Sentence]) -> Iterator[Sentence]:
    for text in texts:
        for ids in with_needle(model.loaded.tokenizer, text.text, probe, model.max_length):
            yield Sentence(_text_of(ids), text.done)


def _text_of(ids: Iterable[int]) -> str:
    """Ids as such a text."""
    return " ".join(map(str, ids))


def _ids_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


class _IdTexts(Texts):
    """Reads such texts."""

    def read_unnamed(self, sentences: Sequence[str], any_length: bool = False) -> list[Tokens]:
        """See ``Texts.read_unnamed``."""
        readings = []
        for ids in map(_ids_of, sentences):
            self._require_embeddings(ids)
            self._require_positions(len(ids))
            readings.append(Tokens(("",) * len(ids), special_of(self.loaded.tokenizer, ids), ids))
        return readings


@dataclass(frozen=True)
class IdModel(PretrainedModel):
    """A model that reads such texts."""

    @classmethod
    def of(cls, model: PretrainedModel) -> "IdModel":
        """Of a model, with the attentions of it that are looked at."""
        return cls(*(getattr(model, field.name) for field in fields(model))).select(model.layers, model.kind)

    def encode(self, sentences: Sequence[str], target: str | None = None) -> Inputs:
        """See ``Model.encode``."""
        return self.read(Given(ids=tuple(map(_ids_of, sentences)), target=target))

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """See ``CorpusModel.lengths``."""
        return [len(_ids_of(text)) for text in texts]

    def cut(self, text: str, most: int, overlap: int | None = None) -> list[Text]:
        """Nothing: what is made to be read at once means nothing in pieces."""
        return []

    @cached_property
    def _reader(self) -> Texts:
        return _IdTexts(self.loaded, self.generate, self.languages)
