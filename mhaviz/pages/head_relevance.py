"""Page of the heads on which predictions depend: ranked by the estimate, beside what zeroing each changes."""

import numpy as np

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Page, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.head_numbers import Head, Measure, Order, Ranking, kind_text, reading_text
from mhaviz.pages.numbers import fixed, short
from mhaviz.pages.panels import Scale, decimals_of
from mhaviz.pages.registry import ABLATION_SUFFIXES, shown
from mhaviz.pages.relevance import explained_text
from mhaviz.pages.words import left_out_text
from mhaviz.results.head_relevance import NUMBERS, HeadRelevance

_MEANINGS = {
    "estimate": "|Σ A ⊙ ∂y/∂A|: the change of y without the head, to first order",
    "fall": "y less y with the head zeroed",
    "change": "KL(p ‖ q) of all choices p, and q with the head zeroed, in bits",
}
_ALIKE, _PARTLY = 0.8, 0.5
"""Rank correlations from which two rankings are called alike, and partly alike."""

_LEAST_CHANGE = 0.01  # bits, or units of y: of a head without which less changes it is not said that it matters

USUAL_RELEVANCE = Order("estimate")


@shown(HeadRelevance, ABLATION_SUFFIXES)
def head_relevance_page(relevance: HeadRelevance, order: Order = USUAL_RELEVANCE) -> Page:
    """Return the page: the ranking, and the means of each number on a scale that all kinds of attention share."""
    scales = {name: _scale(relevance, name) for name in NUMBERS}
    every = [Measure(name, _MEANINGS[name], unit="", decimals=scales[name].decimals) for name in NUMBERS]
    ranking = Ranking(relevance.kinds, order, every, "texts")
    texts = f"each zeroed by itself, means over {counted(relevance.sentences, 'text')}"
    about = tuple(filter(None, [left_out_text(relevance.too_long), relevance.source.remark]))
    blocks: tuple[Block, ...] = (
        Text((_y_text(relevance), *(kind_text(kind, texts) for kind in relevance.kinds)), "subtitle"),
        ranking.plot(),
        *ranking.panels(scales),
        *([Text(about, "quiet")] if about else []),
    )
    means = [kind.estimate.mean for kind in relevance.kinds]
    return Page(_title(relevance, ranking), blocks, relevance.source.footnote, reading_text(means))


def _y_text(relevance: HeadRelevance) -> str:
    explained = relevance.explained
    if explained.is_top and explained.kind != "written":
        return "y is the logit of the model's top prediction in each text"
    return f"y is {explained_text(explained)}" + " in each text" * (explained.kind == "written")


def _title(relevance: HeadRelevance, ranking: Ranking) -> str:
    """Return "sentiment: predictions depend on L2 H1 most by the estimate, 0.14; zeroing ranks heads alike: rank
    correlation 0.87", and which head zeroing finds, if it is another."""
    model, agreement = relevance.source.model, relevance.agreement
    heads, measure = ranking.means, ranking.measure
    if not heads:
        return f"{model}: no head has a known effect"
    compared = relevance.compared
    changes = {
        Head(kind, row, column).name_among(relevance.kinds): abs(kind.number(compared).of_head(row, column)["mean"])
        for kind in relevance.kinds
        for row, column in kind.heads()
    }
    largest = max(changes, key=lambda name: changes[name])
    unit = " bits" if compared == "change" else ""
    if changes[largest] < _LEAST_CHANGE:
        return f"{model}: no head alone matters: zeroing changes at most {short(changes[largest], 2)}{unit} ({largest})"
    (name, mean), *_ = heads
    what = {"estimate": "by the estimate", "fall": "by the fall of y", "change": "by bits"}[measure.name]
    most = f"{model}: predictions depend on {name} most {what}, {measure.text(mean)}"
    if agreement is None:
        return most
    how = "alike" if agreement >= _ALIKE else "partly alike" if agreement >= _PARTLY else "otherwise"
    other = f", {largest} first" * (largest != name)
    return f"{most}; zeroing ranks heads {how}{other}: rank correlation {fixed(agreement, 2)}"


def _scale(relevance: HeadRelevance, name: str) -> Scale:
    means = [kind.number(name).mean for kind in relevance.kinds]
    largest = max(float(np.nanmax(np.abs(mean), initial=0.0)) for mean in means) or 1.0
    if name == "fall" and any(bool((mean < 0).any()) for mean in means):
        return Scale(DIVERGING, -largest, largest, decimals_of(largest), zeros=True)
    return Scale(high=largest, decimals=decimals_of(largest), zeros=True)
