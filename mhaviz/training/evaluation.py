"""What a model says of sentences that it has not seen, and how much of it is right."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mhaviz.layer.decoding import decode_greedily
from mhaviz.layer.tokens import END, START, Vocabulary
from mhaviz.layer.transformer import Translator
from mhaviz.training.batch import PairBatch, in_batches, padded_ids, visible_words
from mhaviz.training.checkpoint import Checkpoint
from mhaviz.training.corpus import Pair, Task

SCORES: dict[Task, str] = {"translation": "exact match", "language": "next word right"}
"""What ``held_out_score`` is the share of."""

_MOST_LOGITS = 20_000_000  # at once; 80 MB


def next_word_logits(checkpoint: Checkpoint, batch: PairBatch) -> Tensor:
    """Logits of what comes after each word that the decoder reads, (batch_size, target_length + 1, vocab_size)."""
    model = checkpoint.model
    if isinstance(model, Translator):
        memory, _ = model.encode(batch.source_ids, batch.source_mask)
        return model.decode(batch.read_ids, memory, batch.source_mask).logits
    return model.decode(batch.read_ids).logits


def translate(checkpoint: Checkpoint, sentences: Sequence[Sequence[str]], device: torch.device) -> list[Pair]:
    """Sentences of known words with their greedy translations, by a translator in eval mode."""
    assert isinstance(checkpoint.model, Translator)
    start, end = checkpoint.target_vocabulary.ids([START, END])
    pairs: list[Pair] = []
    for some in in_batches(sentences, lambda source: most_words(len(source)), words_at_once(checkpoint)):
        ids = padded_ids(some, checkpoint.source_vocabulary, device)
        written = decode_greedily(checkpoint.model, ids, visible_words(ids), start, end, most_words(ids.shape[1]))
        for source, (row, ended) in zip(some, written, strict=True):
            words = tuple(map(checkpoint.target_vocabulary.word, row))
            pairs.append(Pair(tuple(source), words, ended=ended))
    return pairs


def words_at_once(checkpoint: Checkpoint) -> int:
    """How many words to predict together, so that their logits stay small."""
    return max(_MOST_LOGITS // len(checkpoint.target_vocabulary), 1)


def most_words(source_length: int) -> int:
    """Words after which a translation of a source of this length is cut off."""
    return 3 * source_length // 2 + 10


def held_out_score(checkpoint: Checkpoint, pairs: Sequence[Pair], device: torch.device) -> float:
    """The share of translations that are the expected ones word for word, or of next words that are guessed."""
    checkpoint.model.eval()
    if checkpoint.task == "translation":
        written = translate(checkpoint, [pair.source for pair in pairs], device)
        return sum(ours.target == pair.target for ours, pair in zip(written, pairs, strict=True)) / len(pairs)
    right = total = 0
    for logits, expected in _guesses(checkpoint, pairs, device):
        right += int((logits.argmax(dim=-1) == expected).sum())
        total += len(expected)
    return right / total


def perplexity(checkpoint: Checkpoint, pairs: Sequence[Pair], device: torch.device) -> float:
    """e to the mean cross-entropy of the targets' words and end marks."""
    checkpoint.model.eval()
    losses = [nnf.cross_entropy(*guess, reduction="none") for guess in _guesses(checkpoint, pairs, device)]
    return torch.cat(losses).mean().exp().item()


def _guesses(checkpoint: Checkpoint, pairs: Sequence[Pair], device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """The logits, (words, vocab_size), and the numbers, (words,), of all words that are to be said."""
    for some in in_batches(pairs, lambda pair: len(pair.read), words_at_once(checkpoint)):
        batch = PairBatch(some, checkpoint.source_vocabulary, checkpoint.target_vocabulary, device)
        said = batch.expected_ids != Vocabulary.PADDING
        with torch.no_grad():
            yield next_word_logits(checkpoint, batch)[said], batch.expected_ids[said]
