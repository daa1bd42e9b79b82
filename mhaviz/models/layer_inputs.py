"""The inputs of a single layer: the tokens of its sentences, and their embeddings X."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn

from mhaviz.attention.model import Inputs, require_one_target
from mhaviz.errors import ArgumentError, quoted
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.tokens import Kind, Text, Tokens
from mhaviz.layer.attention import causal_mask, padding_mask
from mhaviz.layer.embedding import Embeddings, PositionalEncoding, sinusoids
from mhaviz.layer.steps import Step, untraced
from mhaviz.layer.tokens import Vocabulary, tokenize, word_places
from mhaviz.results.embeddings import SINUSOIDS, InputPart

PIECE = 4096
"""Number of tokens of a long input that are embedded and projected at once."""

Side = Literal["query", "key", "value"]


class Encoder(nn.Module, ABC):
    """Computes X, the features that the layer projects to queries, keys and values."""

    @abstractmethod
    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """Compute X of the queries, keys and values of all sentences, padded, each (batch_size, length, d_model)."""

    @abstractmethod
    def piece(self, i: int, side: Side, start: int, device: torch.device) -> Tensor:
        """Compute X of up to ``PIECE`` queries, keys or values from ``start`` on, (length, d_model), of sentence i."""


@dataclass(frozen=True)
class LayerInputs(Inputs):
    """The inputs of a single layer.

    Attributes:
        kind: kind of attention.
        sentences, target: the given texts.
        encoder: returns the encoder that computes X, for d_model and the most tokens that it encodes at once.
        n_words: number of words that have embeddings.
    """

    kind: Kind
    sentences: tuple[str, ...]
    target: str | None
    encoder: Callable[[int, int], Encoder]
    n_words: int = 0

    @property
    def details(self) -> dict[str, object]:
        """The given texts, for a result's source."""
        given = {"sentences": list(self.sentences) or None, "target": self.target}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def sides(self) -> list[tuple[Tokens, Tokens]]:
        """The queries and the keys of each sentence."""
        return [text.sides(self.kind) for text in self.texts]

    def mask(self, device: torch.device) -> Tensor | None:
        """Return the mask, bool, (batch_size or 1, 1, q_length or 1, k_length); None if it would hide nothing."""
        masks = []
        lengths = [len(keys) for _, keys in self.sides]
        if min(lengths) < max(lengths):
            masks.append(padding_mask(lengths, device))
        if self.kind == "masked":
            masks.append(causal_mask(max(lengths), device))
        return reduce(Tensor.logical_and, masks) if masks else None


def sentence_inputs(
    sentences: Sequence[str], target: str | None = None, causal: bool = False, keep_case: bool = False
) -> LayerInputs:
    """Return the words of sentences as inputs, with random embeddings. The words of ``target`` become the queries.

    Raises:
        ArgumentError: no sentence, one without words, or ``target`` with several sentences or with a causal mask.
    """
    require_one_target(sentences, target)
    require_no_mask(causal and target is not None, "a target")
    keys = [words_of(sentence, keep_case) for sentence in sentences]
    queries = keys if target is None else [words_of(target, keep_case)]
    vocabulary = Vocabulary(keys + queries)

    def tokens(words: Sequence[str], sentence: str) -> Tokens:
        passage = Passage.given(sentence, word_places(sentence))
        return Tokens(tuple(words), (), tuple(vocabulary.ids(words)), passage=passage)

    sides = zip(queries, keys, sentences, strict=True)
    texts = tuple(Text(tokens(k, one), None if target is None else tokens(q, target)) for q, k, one in sides)
    kind: Kind = "cross" if target is not None else "masked" if causal else "self"

    def encoder(d_model: int, max_length: int) -> SentenceEncoder:
        return SentenceEncoder(texts, len(vocabulary), d_model, max_length)

    return LayerInputs(texts, kind, tuple(sentences), target, encoder, len(vocabulary))


def require_no_mask(causal: bool, target: str) -> None:
    """Raise ArgumentError if there is a causal mask, as queries and keys are of different sentences.

    ``target``: the queries' own input, for the message.
    """
    if causal:
        raise ArgumentError(f"a causal mask is for self-attention, got {target} as well; leave one of them out")


def words_of(sentence: str, keep_case: bool = False) -> list[str]:
    """Return the words of a sentence. Raises ArgumentError if there are none."""
    words = tokenize(sentence, keep_case)
    if not words:
        raise ArgumentError(f"expected a sentence with at least one word, got {quoted(sentence)}")
    return words


def changes_text(sentences: Iterable[str], keep_case: bool = False) -> str:
    """Return how ``words_of`` has changed sentences, "words in lower case, without punctuation"; "": not at all."""
    pairs = [("".join(tokenize(sentence, True)), "".join(sentence.split())) for sentence in sentences]
    is_lowered = not keep_case and any(words != words.lower() for words, _ in pairs)
    is_bare = any(words != text for words, text in pairs)
    said = ", ".join(["in lower case"] * is_lowered + ["without punctuation"] * is_bare)
    return f"words {said}" if said else ""


class SentenceEncoder(Encoder):
    """Embeddings with positions: X = dropout(E + PE). Vaswani et al. 2017, sections 3.4 and 3.5."""

    def __init__(self, texts: Sequence[Text], n_words: int, d_model: int, max_length: int) -> None:
        super().__init__()
        self.texts, self.d_model = texts, d_model
        self.embeddings = Embeddings(n_words, d_model)
        self.position = PositionalEncoding(d_model, max_length=max_length)

    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """Compute X of the target, of the source and again of the source; without targets, three times the source."""
        sources = [text.source for text in self.texts]
        targets = [text.target for text in self.texts if text.target is not None]
        if not targets:
            X = self._encode(sources, device, step)
            return X, X, X
        target = self._encode(targets, device, _named_after_side("target", "q_length", step))
        source = self._encode(sources, device, _named_after_side("source", "k_length", step))
        return target, source, source

    def piece(self, i: int, side: Side, start: int, device: torch.device) -> Tensor:
        """As ``forward``, without holding the embeddings or positions of all of a long input."""
        tokens = self.texts[i].target if side == "query" else None
        ids = torch.tensor((tokens or self.texts[i].source).ids[start : start + PIECE]).to(device)
        E: Tensor = self.embeddings(ids[None])[0]  # length d_model
        return E + sinusoids(len(E), self.d_model, start).to(E)

    def _encode(self, sentences: Sequence[Tokens], device: torch.device, step: Step) -> Tensor:
        """Compute the embeddings with positions, (batch_size, length, d_model)."""
        longest = max(map(len, sentences))
        ids = torch.tensor([[*s.ids, *[Vocabulary.PADDING] * (longest - len(s))] for s in sentences]).to(device)
        X: Tensor = self.position(self.embeddings(ids, step=step), step=step)
        return X


def embedded_parts(embeddings: Embeddings, position: PositionalEncoding, ids: Tensor) -> tuple[InputPart, ...]:
    """Compute E, PE and X of one sentence, with ids (1, length), without dropout."""
    made: list[tuple[str, Tensor]] = []

    def keep(equation: str, tensor: Tensor, axes: str) -> Tensor:
        made.append((equation, tensor))
        return tensor

    with torch.no_grad():
        position(embeddings(ids, step=keep), step=keep)
    (of_E, E), (_, X) = made
    parts = ("E", of_E, E[0]), ("PE", SINUSOIDS, position.pe[: ids.shape[1]]), ("X", "X = E + PE", X[0])
    return tuple(InputPart(symbol, equation, x.float().cpu().numpy()) for symbol, equation, x in parts)


def _named_after_side(side: str, length: str, step: Step) -> Step:
    """Return a step that names its tensors after one side, as source-target attention embeds two sentences."""

    def named(definition: str, tensor: Tensor, axes: str) -> Tensor:
        name, equation = definition.split(" = ", 1)
        return step(f"{name} {side} = {equation}", tensor, axes.replace("seq_length", length))

    return named
