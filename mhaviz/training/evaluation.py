"""Evaluation of translations of held-out sentences, and of the word alignment of source-target attention.

Alignment error rate, Och and Ney 2003, section 4.1, where all gold links are sure ones: A links each target word to the
source word with the largest weight, and AER = 1 − 2·|A ∩ G| / (|A| + |G|) over all sentences together.
"""

import difflib
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as nnf
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.tokens import MARKS
from mhaviz.layer.tokens import Vocabulary
from mhaviz.layer.transformer import decode_greedily
from mhaviz.results.attention import AttentionMap
from mhaviz.results.training import AlignmentErrors, Evaluation
from mhaviz.training.checkpoint import SCORE, TASK, Checkpoint
from mhaviz.training.corpus import MOST_WORDS, Pair, PairBatch, padded_ids, visible_words

AT_ONCE = 256  # sentences that are read together
_NAMED = 8  # unknown words, in an error


def evaluate(checkpoint: Checkpoint, pairs: Sequence[Pair], held_out: bool, device: torch.device) -> Evaluation:
    """Evaluate the model on these pairs.

    ``held_out``: whether it has certainly been trained on none of them.

    Raises:
        ArgumentError: the model does not know some words.
        MhavizError: the logits are NaN or infinite.
    """
    for pair in pairs:
        require_known(pair.source, checkpoint.source_vocabulary, "source")
        require_known(pair.target, checkpoint.target_vocabulary, "target")
    checkpoint.model.to(device)
    of_guesses = perplexity(checkpoint, pairs, device)
    if not math.isfinite(of_guesses):
        raise MhavizError("the model's predictions are not numbers: its parameters are too large; train it again")
    return Evaluation(
        source=checkpoint.source(device),
        task=TASK,
        score_name=SCORE,
        score=held_out_score(checkpoint, pairs, device),
        perplexity=of_guesses,
        sentences=len(pairs),
        held_out=held_out,
    )


def require_known(words: Sequence[str], vocabulary: Vocabulary, side: Literal["source", "target"]) -> None:
    """Raise ArgumentError if there are too many words, or unknown ones, for which it suggests similar words."""
    if len(words) > MOST_WORDS:
        raise ArgumentError(
            f"expected a sentence of at most {MOST_WORDS} words, as a trained model takes them, got {len(words)}; "
            f"split it"
        )
    unknown = [word for word in dict.fromkeys(words) if word not in vocabulary]
    if unknown:
        known = [word for word in vocabulary.words if word not in MARKS]
        named = ", ".join(f'"{word:.40}"{_near(word, known)}' for word in unknown[:_NAMED])
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        some = ", ".join(f"{word:.20}" for word in known[:5])
        raise ArgumentError(
            f"the checkpoint has not learnt {named}{more}: expected {side} words that it knows, such as {some} "
            f"({len(known):,} in all)"
        )


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word[:40], known, n=3)
    return f" (near: {', '.join(near)})" if near else ""


def next_word_logits(checkpoint: Checkpoint, batch: PairBatch) -> Tensor:
    """Return the logits of the word after each one that the decoder reads, (batch_size, target_length + 1,
    vocab_size)."""
    memory, _ = checkpoint.model.encode(batch.source_ids, batch.source_mask)
    return checkpoint.model.decode(batch.read_ids, memory, batch.source_mask).logits


def translate(checkpoint: Checkpoint, sentences: Sequence[Sequence[str]], device: torch.device) -> list[Pair]:
    """Translate sentences of known words greedily, by a model in eval mode."""
    start, end = checkpoint.target_vocabulary.ids(MARKS)
    pairs: list[Pair] = []
    for first in range(0, len(sentences), AT_ONCE):
        some = sentences[first : first + AT_ONCE]
        ids = padded_ids(some, checkpoint.source_vocabulary, device)
        written = decode_greedily(checkpoint.model, ids, visible_words(ids), start, end, most_words(ids.shape[1]))
        for source, (row, ended) in zip(some, written, strict=True):
            words = tuple(map(checkpoint.target_vocabulary.word, row))
            pairs.append(Pair(tuple(source), words, ended=ended))
    return pairs


def most_words(source_length: int) -> int:
    """Return the number of words after which the translation of a source of this length is cut off."""
    return 3 * source_length // 2 + 10


def held_out_score(checkpoint: Checkpoint, pairs: Sequence[Pair], device: torch.device) -> float:
    """Return the share of translations that equal the expected ones word for word."""
    checkpoint.model.eval()
    written = translate(checkpoint, [pair.source for pair in pairs], device)
    return sum(ours.target == pair.target for ours, pair in zip(written, pairs, strict=True)) / len(pairs)


def perplexity(checkpoint: Checkpoint, pairs: Sequence[Pair], device: torch.device) -> float:
    """Return exp of the mean cross-entropy of the words and end marks of the targets."""
    checkpoint.model.eval()
    losses = []
    for first in range(0, len(pairs), AT_ONCE):
        batch = PairBatch(
            pairs[first : first + AT_ONCE], checkpoint.source_vocabulary, checkpoint.target_vocabulary, device
        )
        said = batch.expected_ids != Vocabulary.PADDING
        with torch.no_grad():
            logits = next_word_logits(checkpoint, batch)[said]  # words vocab_size
        losses.append(nnf.cross_entropy(logits, batch.expected_ids[said], reduction="none"))
    return torch.cat(losses).mean().exp().item()


Links = Sequence[tuple[int, int]]
"""Links: (position in source, position in target), from 0."""


def alignment_errors(maps: Sequence[AttentionMap], gold: Sequence[Links]) -> AlignmentErrors:
    """Compare source-target maps, with a row for each target word, with the gold links of each pair.

    Raises:
        ArgumentError: there is no link at all.
    """
    links = sum(len(set(alignment)) for alignment in gold)
    if not links:
        raise ArgumentError("expected gold alignments with at least one link, got none")
    n_heads = maps[0].weights.shape[0]
    return AlignmentErrors(
        heads=tuple(_error_rate([m.weights[head] for m in maps], gold) for head in range(n_heads)),
        mean=_error_rate([m.weights.mean(axis=0) for m in maps], gold),
        links=links,
    )


def _error_rate(weights: Sequence[NDArray[np.float32]], gold: Sequence[Links]) -> float:
    """Return the error rate of one head's maps, each (target_length, source_length)."""
    right = found = expected = 0
    for a, alignment in zip(weights, gold, strict=True):
        A = {(int(source), target) for target, source in enumerate(a.argmax(axis=-1))}
        G = set(alignment)
        right, found, expected = right + len(A & G), found + len(A), expected + len(G)
    return 1 - 2 * right / (found + expected)
