"""What a mask and dropout do, as panels, and the words beside them."""

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Title
from mhaviz.pages.panels import DIVERGING, Panel, Scale
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.masking import MaskedSentence, Masking
from mhaviz.records.tokens import KIND_NAMES, Tokens

PAD = "pad"
"""The label of a token that only fills the batch up."""


def masking_title(m: Masking) -> str:
    """Which attention, and what is done to it."""
    layer = "" if m.layer is None else f", layer {m.layer}"
    dropped = "" if m.dropout is None else f", dropout with p = {m.dropout:g}"
    return f"{KIND_NAMES[m.kind]}{layer}: scores before and after the mask, weights{dropped}"


def sentence_title(m: Masking, number: int) -> Title:
    """Which sentence, and how far it is padded."""
    one = m.sentences[number]
    short = f"sentence {number}" if len(m.sentences) > 1 else "sentence"
    head, (q_length, k_length) = short, one.scores.shape[1:]
    if one.is_padded and (len(one.queries), q_length) == (len(one.keys), k_length):
        head = f"{short}, {len(one.keys)} of {k_length} tokens, the others are padding"
    elif one.is_padded:
        head = (
            f"{short}, {len(one.queries)} of {q_length} queries, {len(one.keys)} of {k_length} keys, the others padding"
        )
    if one.queries.texts == one.keys.texts:
        return Title(head, (("", one.queries),), short)
    return Title(head, (("queries", one.queries), ("keys", one.keys)), short)


def padded_axis(tokens: Tokens, length: int) -> Axis:
    """The tokens of one side and its padding, which is no token of the text."""
    n = len(tokens)
    texts = tokens.texts + (PAD,) * (length - n)
    return Axis(Tokens(texts, (*tokens.special, *range(n, length))))


def axes_of(one: MaskedSentence) -> tuple[Axis, Axis]:
    """Queries and keys, padding included."""
    q_length, k_length = one.scores.shape[1:]
    return padded_axis(one.queries, q_length), padded_axis(one.keys, k_length)


def score_scale(m: Masking) -> Scale:
    """One scale for all scores, 0 in its middle."""
    largest = max(float(np.nanmax(np.abs(one.scores))) for one in m.sentences) or 1.0
    return Scale(DIVERGING, -largest, largest, 1 if largest >= 10 else 2, zeros=True)


def weight_maps(m: Masking) -> list[AttentionMap]:
    """The weights of each sentence, without padding: what a scale for all is chosen by."""
    cut = ((one, one.weights[:, : len(one.queries), : len(one.keys)]) for one in m.sentences)
    return [AttentionMap(weights, Axis(one.queries), Axis(one.keys), m.kind) for one, weights in cut]


def exceeds(m: Masking, scale: Scale) -> bool:
    """Whether a weight, before dropout or after, is larger than the scale."""
    drawn = ((x, one) for one in m.sentences for x in (one.weights, one.kept) if x is not None)
    return any(bool((x[:, : len(one.queries), : len(one.keys)] > scale.high).any()) for x, one in drawn)


def masking_panels(
    m: Masking, one: MaskedSentence, scores: Scale, weights: Scale, marks: tuple[str, str] = ("×", PAD)
) -> list[Panel]:
    """For each head S, S masked, A and, with dropout, what is left of A.

    ``marks``: what stands in cells that are dropped, and in those of padding, where a medium writes numbers.
    """
    panels = []
    scaled = f"Q Kᵀ {m.rule}".rstrip()
    for i, head in enumerate(m.heads):
        name = f"head {head}: "
        blank = one.hidden[i] | one.padding
        texts = np.where(one.padding, marks[1], "")
        panels += [
            Panel(f"{name}S = {scaled}", one.scores[i], scores),
            Panel("S masked = −∞ where hidden", _without(one.scores[i], blank), scores, marks=texts),
            Panel("A = softmax(S masked)", _without(one.weights[i], blank), weights, marks=texts),
        ]
        if one.kept is not None and one.dropped is not None:
            gone = one.dropped[i] & ~blank
            texts = np.where(gone, marks[0], texts)
            panels.append(Panel("dropout(A)", _without(one.kept[i], blank), weights, gone, marks=texts))
    return panels


def _without(values: NDArray[np.float32], blank: NDArray[np.bool_]) -> NDArray[np.float32]:
    return np.where(blank, np.float32(np.nan), values)


def has_hidden(m: Masking) -> bool:
    """Whether the mask hides a key of the text from a query of the text."""
    return any(bool((one.hidden & ~one.padding).any()) for one in m.sentences)


def has_padding(m: Masking) -> bool:
    """Whether a sentence is shorter than its batch."""
    return any(one.is_padded for one in m.sentences)


def hidden_words(m: Masking) -> str:
    """What the blank cells are."""
    if has_hidden(m):
        return "hidden by the mask: −∞, no number, and no weight"
    return f"the mask hides nothing{' but padding' if has_padding(m) else ''}"


PADDING_WORDS = "padding: hidden as a key; its output is ignored"


def dropped_words(m: Masking) -> str:
    """How many weights are dropped, and what becomes of the others."""
    assert m.dropout is not None, "the caller asks of dropout alone"
    seen = sum(int((~one.hidden & ~one.padding).sum()) for one in m.sentences)
    dropped = sum(
        int((one.dropped & ~one.hidden & ~one.padding).sum()) for one in m.sentences if one.dropped is not None
    )
    return (
        f"dropped, in training only: {dropped:,} of {seen:,} weights, seed {m.seed}; the others are divided by "
        f"1 − {m.dropout:g}"
    )
