"""Page of masking and dropout: scores before and after the mask, weights, and weights after dropout."""

import numpy as np

from mhaviz.inputs.tokens import KIND_NAMES, Tokens
from mhaviz.pages.blocks import Drawn, Matrices, Page, Text, Title
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.map_words import scores_reading
from mhaviz.pages.panels import CROSS, SCORE, WEIGHT, Panel, Scale, blanked
from mhaviz.pages.registry import shown
from mhaviz.pages.weight_range import darkest_from
from mhaviz.results.attention import AttentionMap, head_name
from mhaviz.results.axis import Axis
from mhaviz.results.masking import MaskedSentence, Masking

PAD = "pad"
"""Label of a padding token."""


@shown(Masking)
def masking_page(m: Masking) -> Page:
    """Return the page: scores, masked scores, weights and weights after dropout of each sentence, on shared scales."""
    layer = f", {m.source.model}" + ("" if m.layer is None else f", layer {m.layer}")
    dropout = "" if m.dropout is None else f", dropout with p = {m.dropout:g}"
    title = f"{KIND_NAMES[m.kind]}{layer}: {_lesson(m)}{dropout}"
    largest = max(float(np.nanmax(np.abs(one.scores))) for one in m.sentences) or 1.0
    scores = Scale(DIVERGING, -largest, largest, 1 if largest >= 10 else 2, zeros=True, name=SCORE)
    texts = ((one, one.weights[:, : len(one.queries), : len(one.keys)]) for one in m.sentences)
    maps = [AttentionMap(weights, Axis(one.queries), Axis(one.keys), m.kind) for one, weights in texts]
    weights = Scale(high=darkest_from(maps), zeros=True, name=WEIGHT)
    words = [f"{PAD}: padding, hidden as a key; as a query it is left out"] if m.counts.padding else []
    words += [] if m.dropout is None else [f"{CROSS}: {_dropped_words(m)}"]
    pictures = (_panels(m, number, scores, weights) for number in range(len(m.sentences)))

    def reading(drawn: Drawn) -> str:
        return "; ".join(
            filter(None, [scores_reading(drawn), _hidden_text(m, drawn.hidden), *drawn.pooled, m.source.remark])
        )

    return Page(title, (Text(tuple(words), "quiet"), *pictures), m.source.footnote, reading)


def _panels(m: Masking, number: int, scores: Scale, weights: Scale) -> Matrices:
    """Return S, masked S, A and, with dropout, dropout(A), for each head of a sentence."""
    one, panels = m.sentences[number], []
    for i, head in enumerate(m.heads):
        name, blank = head_name(m.layer, head), one.hidden[i] | one.padding
        marks = np.where(one.padding, PAD, "")
        masked, weighed = (blanked(values[i], blank) for values in (one.scores, one.weights))
        panels += [
            Panel(f"{name}: S = Q Kᵀ {m.rule}".rstrip(), one.scores[i], scores, short=f"{name}: S"),
            Panel("S masked, hidden = −∞", masked, scores, marks=marks, short="S masked"),
            Panel("A = softmax(S masked)", weighed, weights, marks=marks, short="A"),
        ]
        if one.kept is not None and one.dropped is not None:
            gone = one.dropped[i] & ~blank
            panels.append(Panel("dropout(A)", blanked(one.kept[i], blank), weights, marks=np.where(gone, CROSS, marks)))
    alike = tuple(map(_padded_axes, m.sentences))
    across = len(panels) // len(m.heads)
    title = _sentence_title(m, number)
    return Matrices(title, tuple(panels), *alike[number], across, ("query", "key"), alike=alike)


def _sentence_title(m: Masking, number: int) -> Title:
    """Return the title of a sentence, with its number of padding tokens."""
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


def _padded_axes(one: MaskedSentence) -> tuple[Axis, Axis]:
    """Return the axes of queries and keys: their tokens and padding, which counts as special tokens."""

    def padded(tokens: Tokens, length: int) -> Axis:
        n = len(tokens)
        texts = tokens.texts + (PAD,) * (length - n)
        return Axis(Tokens(texts, (*tokens.special, *range(n, length))))

    _, q_length, k_length = one.scores.shape
    return padded(one.queries, q_length), padded(one.keys, k_length)


def _lesson(m: Masking) -> str:
    """Return how many of the scores that are drawn the mask hides, and how many padding leaves out."""
    scores, masked, padding = m.counts
    by_mask = f"the mask hides {masked:,} of {scores:,} scores" if masked else "the mask hides nothing"
    if not padding:
        return by_mask
    return f"{by_mask}, padding leaves out {padding:,} {'more' if masked else f'of {scores:,} scores'}"


def _hidden_text(m: Masking, mark: str) -> str:
    """Return how the cells look that the mask hides; "" if it hides none."""
    _, masked, padding = m.counts
    return f"{mark}: hidden by the mask, −∞{', unless it is padding' * bool(padding)}" if masked else ""


def _dropped_words(m: Masking) -> str:
    """Return the number of weights that are dropped, and what happens to the others."""
    assert m.dropout is not None, "called only with dropout"
    scores, masked, padding = m.counts
    seen = scores - masked - padding
    dropped = sum(
        int((one.dropped & ~one.hidden & ~one.padding).sum()) for one in m.sentences if one.dropped is not None
    )
    return (
        f"dropped, in training only: {dropped:,} of {seen:,} weights, seed {m.seed}; the others are divided by "
        f"1 − {m.dropout:g}"
    )
