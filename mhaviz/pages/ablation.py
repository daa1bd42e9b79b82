"""What changes without each head: a layers × heads panel of each number, and the heads ranked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from mhaviz.pages.blocks import Block, Column, Page, Panels, Table, Text
from mhaviz.pages.panels import DIVERGING, Panel, Scale, decimals_of
from mhaviz.pages.words import counted, left_out_text, one_text, texts_of
from mhaviz.records.ablation import EFFECTS, Ablation, HeadEffects, Prediction
from mhaviz.records.axis import Axis
from mhaviz.records.probes import RandomRepeats
from mhaviz.records.tokens import KIND_NAMES

IN_MODEL_ORDER = "layer"
_DRAWN = 16  # rows of the table on paper

_CHANGES: Mapping[Prediction, str] = {
    "next token": "KL(p ‖ q) of the next token's distribution p, and q without the head, in bits",
    "masked token": "KL(p ‖ q) of a masked token's distribution p, and q without the head, in bits",
    "embedding": "1 − cosine of the mean of the last layer over a text, and the same without the head",
}
_LOSS = "log₂ p − log₂ q of the token that is there, in bits: how much worse it is predicted"
_UNITS: Mapping[Prediction, str] = {
    "next token": "change, bits",
    "masked token": "change, bits",
    "embedding": "1 − cosine",
}
_ONE: Mapping[Prediction, str] = {"next token": "token", "masked token": "masked token", "embedding": "embedding"}


@dataclass(frozen=True)
class EffectOrder:
    """Which heads stand first in a table, and how many are in it.

    Attributes:
        column: by "change" or "loss", the largest first, or ``IN_MODEL_ORDER``.
        reverse: the other end first.
        most: rows; None: all heads.
    """

    column: str = EFFECTS[0]
    reverse: bool = False
    most: int | None = None


@dataclass(frozen=True)
class _Head:
    """A head, at a row and a column of the arrays of its kind."""

    effects: HeadEffects
    row: int
    column: int

    def number(self, name: str) -> tuple[float, float] | None:
        """One of its numbers, and its standard deviation between sentences; None where there is no number."""
        of = self.effects.effect(name).of_head(self.row, self.column)
        return None if math.isnan(of["mean"]) else (of["mean"], of["spread"])

    def interval(self, name: str) -> tuple[float, float] | None:
        """From where to where its mean may lie; None where that is not known."""
        of = self.effects.effect(name).of_head(self.row, self.column)
        return None if math.isnan(of["low"]) else (of["low"], of["high"])


USUAL_EFFECTS = EffectOrder(most=16)
"""What the terminal has room for."""


def ablation_page(ablation: Ablation, order: EffectOrder = USUAL_EFFECTS) -> Page:
    """The means of all numbers, each on a scale of its own, which all kinds of attention share."""
    scales = {name: _scale(ablation, name) for name in _known(ablation)}
    about = tuple(filter(None, [_loss_text(ablation), left_out_text(ablation.too_long), ablation.source.remark]))
    blocks: tuple[Block, ...] = (
        *(_panels(ablation, kind, scales, order) for kind in ablation.kinds),
        _table(ablation, order),
        *([Text(about, "quiet")] if about else []),
    )
    return Page("", blocks, ablation.source.footnote, _reading_text(ablation))


def _known(ablation: Ablation) -> list[str]:
    """The names of the numbers that there are."""
    return [name for name in EFFECTS if any(kind.effect(name).is_known for kind in ablation.kinds)]


def _scale(ablation: Ablation, name: str) -> Scale:
    """From 0 to the largest of all kinds; around 0 where some are below."""
    means = [kind.effect(name).mean for kind in ablation.kinds]
    largest = max(float(np.nanmax(np.abs(mean), initial=0.0)) for mean in means) or 1.0
    decimals, unit = decimals_of(largest), _UNITS[ablation.prediction] if name == "change" else "loss, bits"
    if name == "loss" and any(bool((mean < 0).any()) for mean in means):
        return Scale(DIVERGING, -largest, largest, decimals, zeros=True, name=unit)
    return Scale(high=largest, decimals=decimals, zeros=True, name=unit)


def _panels(ablation: Ablation, kind: HeadEffects, scales: Mapping[str, Scale], order: EffectOrder) -> Panels:
    panels = tuple(Panel(name, kind.effect(name).mean.astype(np.float32), scale) for name, scale in scales.items())
    rows, columns = Axis.of(map(str, kind.layers)), Axis.of(map(str, range(kind.change.mean.shape[1])))
    first = order.column if order.column in scales else EFFECTS[0]
    title, more = (
        f"{KIND_NAMES[kind.kind]}: {counted(len(list(kind.heads())), 'head')}",
        "-o heads.png has {} more".format,
    )
    caption, subtitle = _reading_text(ablation), _subtitle(ablation, kind)
    return Panels(title, panels, rows, columns, first, len(panels), ("layer", "head"), caption, more, subtitle=subtitle)


def _subtitle(ablation: Ablation, kind: HeadEffects) -> str:
    """ "each zeroed by itself, means over 100 sentences, 2,140 tokens"."""
    texts = texts_of(kind.change.sentences, ablation.probe)
    predictions = counted(kind.change.predictions, _ONE[ablation.prediction])
    if isinstance(ablation.probe, RandomRepeats) and ablation.prediction != "embedding":
        predictions += " of the repeat"
    return f"each zeroed by itself, means over {texts}, {predictions}"


def _table(ablation: Ablation, order: EffectOrder) -> Table:
    """A row a head, the number that they are ordered by first, with its interval."""
    several, known = len(ablation.kinds) > 1, _known(ablation)
    known.sort(key=lambda name: name != order.column)
    decimals = {name: _scale(ablation, name).decimals for name in known}
    spreads = [
        Column(
            name,
            partial(_spread, decimals[name]),
        )
        for name in known
    ]
    heads = _ranked(ablation, order)
    has_interval = any(head.interval(known[0]) for head in heads)
    columns = (
        *([Column("kind", align="left", is_key=True)] if several else []),
        *(Column(name, is_key=True) for name in ("layer", "head")),
        spreads[0],
        *([Column("95 %", partial(_interval, decimals[known[0]]))] if has_interval else []),
        *spreads[1:],
    )
    rows: list[tuple[object, ...]] = []
    for head in heads[: order.most]:
        of_kind = [head.effects.kind] if several else []
        first, *others = (head.number(name) for name in known)
        interval = [head.interval(known[0])] if has_interval else []
        rows.append((*of_kind, head.effects.layers[head.row], head.column, first, *interval, *others))
    texts = f"{one_text(ablation.probe)}s"
    notes = [_notes(ablation), f"±: standard deviation between {texts}"]
    if has_interval:
        notes.append(f"95 %: where the mean lies, by a bootstrap over the {texts}")
    heading = _heading(order, len(heads))
    return Table(
        columns,
        tuple(rows),
        heading,
        most_drawn=_DRAWN,
        more="and {:,} more".format,
        notes="; ".join(notes),
    )


def _ranked(ablation: Ablation, order: EffectOrder) -> list[_Head]:
    heads = [_Head(kind, row, column) for kind in ablation.kinds for row, column in kind.heads()]
    if order.column == IN_MODEL_ORDER:
        return heads[::-1] if order.reverse else heads
    sign = 1 if order.reverse else -1

    def place(head: _Head) -> tuple[bool, float]:
        number = head.number(order.column)
        return number is None, 0.0 if number is None else sign * number[0]

    return sorted(heads, key=place)


def _heading(order: EffectOrder, heads: int) -> str:
    """ "heads by change, largest first: 16 of 144"."""
    of = f": {order.most:,} of {heads:,}" if order.most is not None and order.most < heads else ""
    if order.column == IN_MODEL_ORDER:
        return f"heads in the order of the model, {'last' if order.reverse else 'first'} layer first{of}"
    return f"heads by {order.column}, {'smallest' if order.reverse else 'largest'} first{of}"


def _spread(decimals: int, number: tuple[float, float]) -> str:
    """ "0.53 ± 0.12"; without what is not known."""
    mean, spread = number
    after = "" if math.isnan(spread) else f" ± {spread:.{decimals}f}"
    return f"{mean:z.{decimals}f}{after}"


def _interval(decimals: int, ends: tuple[float, float]) -> str:
    """ "0.41 to 0.65"."""
    return f"{ends[0]:z.{decimals}f} to {ends[1]:z.{decimals}f}"


def _reading_text(ablation: Ablation) -> str:
    lacking = any(len(list(kind.heads())) < kind.change.mean.size for kind in ablation.kinds)
    return "rows are layers, columns heads" + ("; blank: no such head, or not zeroed" if lacking else "")


def _loss_text(ablation: Ablation) -> str:
    """How well the whole model predicts; empty of embeddings."""
    if math.isnan(ablation.loss):
        return ""
    return f"the whole model's loss: {ablation.loss:.2f} bits a {_ONE[ablation.prediction]}"


def _notes(ablation: Ablation) -> str:
    """What the numbers mean, in their order."""
    meanings = {"change": _CHANGES[ablation.prediction], "loss": _LOSS}
    return "; ".join(f"{name}: {meanings[name]}" for name in _known(ablation))
