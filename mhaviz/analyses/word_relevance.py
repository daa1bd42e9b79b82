"""Relevance of the words of a text for a prediction, beside the fall of its score when a word is removed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.relevance import queries_of_y, relevance, relevance_of_both
from mhaviz.attention.graded import GradedAttention
from mhaviz.attention.model import GradedRun, Inputs, Model
from mhaviz.attention.targets import Score, Why, require_one_text
from mhaviz.errors import MhavizError
from mhaviz.inputs.spans import Span, span_tokens, words_or_tokens
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.relevance import MOST_REMOVED, Relevance, Removal, WordRelevance


def word_relevance(
    model: Model,
    inputs: Inputs,
    why: Why,
    removal: Removal = "top",
    on_progress: Callable[[float, str], None] = lambda done, what: None,
) -> Relevance:
    """Compute the relevance of each word for a target, and how much the target falls without some of them.

    Args:
        model: the model; all of its attentions take part.
        inputs: one text.
        why: see ``Model.target``.
        removal: the words that are removed, one at a time, with one forward pass each: the five with the largest
            relevance, or all.
        on_progress: called with the share of the work that is done, and what is next.

    Raises:
        ArgumentError: several texts; as ``Model.target``.
        MhavizError: as ``Model.graded``.
    """
    text = require_one_text(inputs.texts)
    target = model.target(why, text)
    on_progress(0.0, "gradients")
    run = model.graded(text, target)
    of_text, of_written = relevance_of_tokens(run)
    side = by_word(text.source, of_text, text.prompt or None)

    def without(word: int) -> Score | None:
        rest = text.without(side.words.ranges[word])
        return model.score(rest, target) if rest.source.of_text and (rest.prompt or not text.prompt) else None

    removed = with_falls(side, run.score.y, removal, without, lambda done: on_progress(done, "removing words"))
    source = model.describe(inputs)
    written = None if of_written is None or text.target is None else by_word(text.target, of_written)
    return Relevance(source, target.explained, run.score.y, run.score.chosen, removed, written, removal)


def with_falls(
    side: WordRelevance,
    y: float,
    removal: Removal,
    score_without: Callable[[int], Score | None],
    on_progress: Callable[[float], None],
    n_more: int = 0,
) -> WordRelevance:
    """Remove words one at a time, and return the words with how much y falls without each.

    Args:
        side: the words, of which none is removed.
        y: y with all words.
        removal: which words are removed; see ``word_relevance``.
        score_without: returns what comes of the target without a word; None: it cannot be removed.
        on_progress: called before each with the share of the work that is done.
        n_more: number of passes that follow these.
    """
    candidates = side.ranked if removal == "all" else side.ranked[:MOST_REMOVED]
    falls, without = side.falls.copy(), [*side.without]
    for done, word in enumerate(candidates, 1):  # the gradients were the first
        on_progress(done / (1 + len(candidates) + n_more))
        if (score := score_without(word)) is not None:
            falls[word], without[word] = y - score.y, score.chosen
    return replace(side, falls=falls, without=tuple(without))


def relevance_of_tokens(run: GradedRun) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Compute the relevance of each token of a text, and of what the decoder of an encoder with a decoder reads.

    Raises:
        MhavizError: the attentions are no stack of layers of one length, nor an encoder and a decoder.
    """
    of = {kind: [graded for site, graded in run.attentions if site.kind == kind] for kind in _KINDS}
    stacks = [kind for kind in _KINDS if of[kind]]
    if len(stacks) == 1 and stacks != ["cross"]:
        (layers,) = (of[stacks[0]],)
        _require_one_length(layers)
        return _numbers(relevance(layers, queries_of_y(layers[-1]))), None
    order = [site.kind for site, _ in run.attentions]
    if order == ["self"] * len(of["self"]) + ["masked", "cross"] * len(of["cross"]) and of["self"] and of["cross"]:
        for kind in ("self", "masked", "cross"):
            _require_one_length(of[kind])
        written, text = relevance_of_both(of["self"], of["masked"], of["cross"], queries_of_y(of["cross"][-1]))
        return _numbers(text), _numbers(written)
    named = ", ".join(f"{len(of[kind])} {kind}" for kind in stacks)
    raise MhavizError(
        f"expected layers of self-attention, or an encoder and then a decoder with masked and source-target attention "
        f"in turn, got {named}: how these join is not known"
    )


_KINDS: tuple[Kind, ...] = ("self", "masked", "cross")


def _require_one_length(layers: Sequence[GradedAttention]) -> None:
    lengths = {layer.call.shape[2:] for layer in layers}
    if len(lengths) > 1:
        raise MhavizError(f"expected layers of one length, got {sorted(lengths)}: which tokens are which is not known")


def _numbers(x: Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = x[0].double().cpu().numpy()
    return numbers


def by_word(tokens: Tokens, relevance: NDArray[np.float64], given: int | None = None) -> WordRelevance:
    """Return the relevance of tokens, (length,), by word, of which none is removed.

    ``given``: number of tokens that were given, and not written by the model; None: all.
    """
    if len(tokens) != len(relevance):
        raise MhavizError(
            f"expected relevance of {len(tokens)} tokens, got {len(relevance)}: which tokens are which is not known"
        )
    words = span_tokens(_words_of(tokens, given or 0), tokens)
    if tokens.images and len(words) == len(tokens):
        words = replace(words, images=tokens.images)
    sums = np.array([sum(relevance[start:end].sum() for start, end in ranges) for ranges in words.ranges])
    written = len(tokens) if given is None else given
    aside = np.array([i in words.special or ranges[0][0] >= written for i, ranges in enumerate(words.ranges)])
    return WordRelevance(words, sums, aside, np.full(len(sums), np.nan), ("",) * len(sums))


def _words_of(tokens: Tokens, given: int) -> tuple[Span, ...]:
    """Return the words of a text; one that the model has continued ends where it was given."""
    begin, rest = words_or_tokens(tokens[:given]) if given else (), words_or_tokens(tokens[given:])
    moved = (replace(span, ranges=tuple((a + given, b + given) for a, b in span.ranges)) for span in rest)
    return (*begin, *moved)
