"""Page of the heads on which predictions hang: ranked by the estimate, beside what zeroing each changes."""

import numpy as np

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Page, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.head_numbers import Measure, Order, Ranking, kind_text, reading_text
from mhaviz.pages.numbers import fixed
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
_AGREES = 0.5
"""Rank correlation from which the estimate tells which heads matter."""

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
    """Return "sentiment: predictions hang on L2 H1 most; estimate and zeroing rank heads alike, by 0.83"."""
    model, agreement = relevance.source.model, relevance.agreement
    heads, measure = ranking.means, ranking.measure
    if not heads:
        return f"{model}: no head has a known effect"
    (name, mean), *_ = heads
    what = {"estimate": "by the estimate", "fall": "by the fall of y", "change": "by bits"}[measure.name]
    most = f"{model}: predictions hang on {name} most {what}, {measure.text(mean)}"
    if agreement is None:
        return most
    said = "agrees" if agreement >= _AGREES else "does not tell"
    compared = "bits" if relevance.compared == "change" else "falls of y"
    end = f"with the {compared} of zeroing" if said == "agrees" else f"the {compared} of zeroing"
    return f"{most}; the estimate {said} {end}: rank correlation {fixed(agreement, 2)}"


def _scale(relevance: HeadRelevance, name: str) -> Scale:
    means = [kind.number(name).mean for kind in relevance.kinds]
    largest = max(float(np.nanmax(np.abs(mean), initial=0.0)) for mean in means) or 1.0
    if name == "fall" and any(bool((mean < 0).any()) for mean in means):
        return Scale(DIVERGING, -largest, largest, decimals_of(largest), zeros=True)
    return Scale(high=largest, decimals=decimals_of(largest), zeros=True)
