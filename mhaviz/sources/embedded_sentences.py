"""Sentences as the input of a layer: their words, the numbers of these, their embeddings and their positions."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from mhaviz.errors import ArgumentError
from mhaviz.layer.embedding import Embeddings, PositionalEncoding, sinusoids
from mhaviz.layer.steps import Step, untraced
from mhaviz.layer.tokens import Vocabulary
from mhaviz.sources import batch as batches
from mhaviz.sources.batch import Batch, Encoder, require_no_mask, words_of


class SentenceBatch(Batch):
    """Sentences as one padded batch.

    Raises:
        ArgumentError: a sentence without words, none at all, or ``target`` with several or with a causal mask.
    """

    def __init__(self, sentences: Sequence[str], target: str | None, causal: bool) -> None:
        if not sentences:
            raise ArgumentError("expected at least one sentence, got none")
        if target is not None and len(sentences) > 1:
            raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")
        if target is not None:
            require_no_mask(causal, "a target")
        self.sentences, self.target = tuple(sentences), target
        keys = [words_of(sentence) for sentence in sentences]
        queries = keys if target is None else [words_of(target)]
        self.vocabulary = Vocabulary(keys + queries)
        self.n_words = len(self.vocabulary)
        super().__init__(
            list(zip(queries, keys, strict=True)), "cross" if target is not None else "masked" if causal else "self"
        )

    @cached_property
    def key_ids(self) -> Tensor:
        """(batch_size, k_length), padded."""
        return torch.tensor([self.vocabulary.ids(keys, self.k_length) for _, keys in self.pairs])

    @cached_property
    def query_ids(self) -> Tensor:
        """(batch_size, q_length), padded; ``key_ids`` itself but for source-target attention."""
        if self.target is None:
            return self.key_ids
        return torch.tensor([self.vocabulary.ids(queries) for queries, _ in self.pairs])

    def encoder(self, d_model: int, max_length: int) -> "SentenceEncoder":
        """Random embeddings of the words, and the positions."""
        return SentenceEncoder(self, d_model, max_length)


class SentenceEncoder(Encoder):
    """Embeddings with positions: X = dropout(E + PE). Vaswani et al. 2017, sections 3.4 and 3.5."""

    def __init__(self, batch: SentenceBatch, d_model: int, max_length: int) -> None:
        super().__init__()
        self.batch, self.d_model = batch, d_model
        self.embeddings = Embeddings(batch.n_words, d_model)
        self.position = PositionalEncoding(d_model, max_length=max_length)

    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """X of the target and, twice, of the source; the three are one but for source-target attention."""
        key_ids = self.batch.key_ids.to(device)
        if self.batch.query_ids is self.batch.key_ids:
            source = target = self._encode(key_ids, step)
        else:
            target = self._encode(self.batch.query_ids.to(device), _of_side("target", "q_length", step))
            source = self._encode(key_ids, _of_side("source", "k_length", step))
        return target, source, source

    def pieces(self, i: int, of_queries: bool, device: torch.device) -> Iterator[Tensor]:
        """As ``forward``, but neither embeddings nor positions of a long input exist all at once."""
        queries, keys = self.batch.pairs[i]
        ids = torch.tensor(self.batch.vocabulary.ids(queries if of_queries else keys)).to(device)
        for start in range(0, len(ids), batches.PIECE):
            E = self.embeddings(ids[None, start : start + batches.PIECE])[0]  # length d_model
            yield E + sinusoids(len(E), self.d_model, start).to(E)

    def _encode(self, ids: Tensor, step: Step) -> Tensor:
        """ids, (batch_size, length) → X, the embeddings with positions, (batch_size, length, d_model)."""
        x: Tensor = self.position(self.embeddings(ids, step=step), step=step)
        return x


def _of_side(side: str, length: str, step: Step) -> Step:
    """In source-target attention two sentences are embedded: tell their steps and their axes apart."""

    def named(definition: str, tensor: Tensor, axes: str) -> Tensor:
        name, equation = definition.split(" = ", 1)
        return step(f"{name} {side} = {equation}", tensor, axes.replace("seq_length", length))

    return named
