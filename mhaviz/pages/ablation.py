"""Page of an ablation: the heads ranked by the effect of zeroing them, and each number as a panel of layers × heads."""

import math
from collections.abc import Mapping

import numpy as np

from mhaviz.errors import counted
from mhaviz.inputs.probes import RandomRepeats
from mhaviz.pages.blocks import Block, Page, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.head_numbers import (
    Measure,
    Order,
    Ranking,
    kind_text,
    reading_text,
)
from mhaviz.pages.panels import Scale, decimals_of
from mhaviz.pages.registry import ABLATION_SUFFIXES, shown
from mhaviz.pages.words import left_out_text, one_text, texts_of
from mhaviz.results.ablation import EFFECTS, Ablation, HeadEffects, Prediction
from mhaviz.units import with_minus

_CHANGES: Mapping[Prediction, str] = {
    "next token": "KL(p ‖ q) of the next token's distribution p, and q without the head, in bits",
    "masked token": "KL(p ‖ q) of a masked token's distribution p, and q without the head, in bits",
    "embedding": "1 − cosine of the mean of the last layer over a text, and the same without the head",
}
_LOSS = "log₂ p − log₂ q of the token that is there, in bits: how much worse it is predicted"
_VERBS = {"change": "changes", "loss": "is worse predicted"}
_NO_EFFECT = {"change": "changes the {}s", "loss": "makes the {}s better"}
_ONE: Mapping[Prediction, str] = {"next token": "token", "masked token": "masked token", "embedding": "embedding"}


USUAL_EFFECTS = Order(EFFECTS[0])


@shown(Ablation, ABLATION_SUFFIXES)
def ablation_page(ablation: Ablation, order: Order = USUAL_EFFECTS) -> Page:
    """Return the page: the ranking, and the means of each number on a scale that all kinds of attention share."""
    scales = {name: _scale(ablation, name) for name in EFFECTS}
    meanings = {"change": _CHANGES[ablation.prediction], "loss": _LOSS}
    every = [Measure(name, meanings[name], decimals=scale.decimals) for name, scale in scales.items()]
    ranking = Ranking(ablation.kinds, order, every, f"{one_text(ablation.probe)}s")
    about = tuple(filter(None, [_loss_text(ablation), left_out_text(ablation.too_long), ablation.source.remark]))
    reading = reading_text([kind.change.mean for kind in ablation.kinds], "no such head, or not zeroed")

    blocks: tuple[Block, ...] = (
        Text(tuple(kind_text(kind, _subtitle(ablation, kind)) for kind in ablation.kinds), "subtitle"),
        ranking.plot(),
        *ranking.panels(scales),
        *([Text(about, "quiet")] if about else []),
    )
    return Page(_lesson(ablation, ranking), blocks, ablation.source.footnote, reading)


def _lesson(ablation: Ablation, ranking: Ranking) -> str:
    """Return the title, "gpt2: without L5 H3 the next token changes most, by 0.12 bits"."""
    effects, measure = ranking.means, ranking.measure
    model, what = ablation.source.model, "embedding" if ablation.prediction == "embedding" else "prediction"
    if not effects:
        return f"{model}: no head has a known effect"
    name, mean = effects[0]
    if mean <= 0:
        return f"{model}: no head {_NO_EFFECT[measure.name].format(what)}"
    amount = measure.text(mean) if round(mean, measure.decimals) else with_minus(f"{mean:.1e}")
    most, by = " most," * (len(effects) > 1), "1 − cosine {}" if what == "embedding" else "by {} bits"
    return f"{model}: without {name} the {ablation.prediction} {_VERBS[measure.name]}{most} {by.format(amount)}"


def _scale(ablation: Ablation, name: str) -> Scale:
    """Return the scale of a number: from 0 to the largest of all kinds, or around 0 where some are negative."""
    means = [kind.number(name).mean for kind in ablation.kinds]
    largest = max(float(np.nanmax(np.abs(mean), initial=0.0)) for mean in means) or 1.0
    decimals = decimals_of(largest)
    if name == "loss" and any(bool((mean < 0).any()) for mean in means):
        return Scale(DIVERGING, -largest, largest, decimals, zeros=True)
    return Scale(high=largest, decimals=decimals, zeros=True)


def _subtitle(ablation: Ablation, kind: HeadEffects) -> str:
    """Return "each zeroed by itself, means over 100 sentences, 2,140 tokens"."""
    texts = texts_of(kind.change.sentences, ablation.probe)
    predictions = counted(kind.change.predictions, _ONE[ablation.prediction])
    if isinstance(ablation.probe, RandomRepeats) and ablation.prediction != "embedding":
        predictions += " of the repeat"
    return f"each zeroed by itself, means over {texts}, {predictions}"


def _loss_text(ablation: Ablation) -> str:
    """Return the loss of the whole model; "" where it makes embeddings."""
    if math.isnan(ablation.loss):
        return ""
    return f"the whole model's loss: {ablation.loss:.2f} bits a {_ONE[ablation.prediction]}"
