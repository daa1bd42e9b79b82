"""Sentences as the input of a layer: their words, the numbers of these, their embeddings and their positions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.errors import ArgumentError
from mhaviz.layer.embedding import Embeddings, PositionalEncoding, sinusoids
from mhaviz.layer.steps import Step, untraced
from mhaviz.layer.tokens import Vocabulary
from mhaviz.models import layer_inputs
from mhaviz.models.layer_inputs import Encoder, LayerInputs, Side, require_no_mask, words_of
from mhaviz.records import Kind, Text, Tokens


@dataclass(frozen=True)
class SentenceInputs(LayerInputs):
    """Sentences by their words, each of which has a random embedding; ``vocabulary``: these words."""

    vocabulary: Vocabulary

    @classmethod
    def of(cls, sentences: Sequence[str], target: str | None, causal: bool) -> "SentenceInputs":
        """The words of each sentence, and those of the target as queries.

        Raises:
            ArgumentError: a sentence without words, none at all, or ``target`` with several or with a causal mask.
        """
        if not sentences:
            raise ArgumentError("expected at least one sentence, got none")
        if target is not None and len(sentences) > 1:
            raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")
        if target is not None:
            require_no_mask(causal, "a target")
        keys = [words_of(sentence) for sentence in sentences]
        queries = keys if target is None else [words_of(target)]
        vocabulary = Vocabulary(keys + queries)

        def tokens(words: Sequence[str]) -> Tokens:
            return Tokens(tuple(words), (), tuple(vocabulary.ids(words)))

        pairs = zip(queries, keys, strict=True)
        texts = tuple(Text(tokens(k), None if target is None else tokens(q)) for q, k in pairs)
        kind: Kind = "cross" if target is not None else "masked" if causal else "self"
        return cls(texts, kind, tuple(sentences), target, vocabulary)

    @property
    def n_words(self) -> int:
        """How many words have embeddings."""
        return len(self.vocabulary)

    def encoder(self, d_model: int, max_length: int) -> "SentenceEncoder":
        """Random embeddings of the words, and the positions."""
        return SentenceEncoder(self, d_model, max_length)


class SentenceEncoder(Encoder):
    """Embeddings with positions: X = dropout(E + PE). Vaswani et al. 2017, sections 3.4 and 3.5."""

    def __init__(self, inputs: SentenceInputs, d_model: int, max_length: int) -> None:
        super().__init__()
        self.inputs, self.d_model = inputs, d_model
        self.embeddings = Embeddings(inputs.n_words, d_model)
        self.position = PositionalEncoding(d_model, max_length=max_length)

    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """X of the target and, twice, of the source; the three are one but for source-target attention."""
        sources = [text.source for text in self.inputs.texts]
        if self.inputs.target is None:
            source = target = self._encode(sources, device, step)
        else:
            targets = [text.target for text in self.inputs.texts if text.target is not None]
            target = self._encode(targets, device, _of_side("target", "q_length", step))
            source = self._encode(sources, device, _of_side("source", "k_length", step))
        return target, source, source

    def pieces(self, i: int, side: Side, device: torch.device) -> Iterator[Tensor]:
        """As ``forward``, but neither embeddings nor positions of a long input exist all at once."""
        queries, keys = self.inputs.texts[i].sides(self.inputs.kind)
        ids = torch.tensor((queries if side == "query" else keys).ids).to(device)
        for start in range(0, len(ids), layer_inputs.PIECE):
            E = self.embeddings(ids[None, start : start + layer_inputs.PIECE])[0]  # length d_model
            yield E + sinusoids(len(E), self.d_model, start).to(E)

    def _encode(self, sentences: Sequence[Tokens], device: torch.device, step: Step) -> Tensor:
        """The embeddings with positions, (batch_size, length, d_model)."""
        longest = max(map(len, sentences))
        ids = torch.tensor([[*s.ids, *[Vocabulary.PADDING] * (longest - len(s))] for s in sentences]).to(device)
        X: Tensor = self.position(self.embeddings(ids, step=step), step=step)
        return X


def _of_side(side: str, length: str, step: Step) -> Step:
    """In source-target attention two sentences are embedded: tell their steps and their axes apart."""

    def named(definition: str, tensor: Tensor, axes: str) -> Tensor:
        name, equation = definition.split(" = ", 1)
        return step(f"{name} {side} = {equation}", tensor, axes.replace("seq_length", length))

    return named
