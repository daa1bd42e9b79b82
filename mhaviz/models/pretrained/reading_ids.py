"""A checkpoint of transformers whose texts are the numbers of tokens, such as "101 2023 102": for corpora that are made
of tokens, and not of words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from mhaviz.attention.model import Inputs
from mhaviz.models.pretrained.model import PretrainedModel
from mhaviz.models.pretrained.reading import special_of
from mhaviz.models.pretrained.texts import Texts
from mhaviz.records.given import Given
from mhaviz.records.tokens import Text, Tokens


def text_of(ids: Iterable[int]) -> str:
    """Ids as such a text."""
    return " ".join(map(str, ids))


def _ids_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


class _IdTexts(Texts):
    """Reads such texts."""

    def read_unnamed(self, sentences: Sequence[str]) -> list[Tokens]:
        """See ``Texts.read_unnamed``."""
        readings = []
        for ids in map(_ids_of, sentences):
            self._require_embeddings(ids)
            self._require_positions(len(ids))
            readings.append(Tokens(("",) * len(ids), special_of(self.loaded.tokenizer, ids), ids))
        return readings


@dataclass(frozen=True)
class IdModel(PretrainedModel):
    """The same model for such texts."""

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
