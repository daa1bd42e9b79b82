"""How far two models are apart over many sentences: a layers × heads panel of each number, and the heads ranked."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import KIND_NAMES
from mhaviz.pages.blocks import NOTHING, Block, Column, Page, Panels, Table, Text
from mhaviz.pages.head_numbers import heads_subtitle, heads_title, key_columns, layers_by_heads, reading_text
from mhaviz.pages.panels import Scale, decimals_of
from mhaviz.pages.registry import shown
from mhaviz.pages.words import bits_text, counted, left_out_text
from mhaviz.results.corpus_difference import CorpusDifference, KindDivergence

_MOST_ROWS = 16  # of the table


@shown(CorpusDifference)
def corpus_difference_page(d: CorpusDifference) -> Page:
    """Means, spreads and the largest rows, each on a scale of its own, and the heads ranked."""
    scales, several = _scales(d), len(d.kinds) > 1
    left_out = tuple(filter(None, [left_out_text(d.too_long, "models")]))

    def panels(kind: KindDivergence) -> Panels:
        known = {name: values for name, values in _numbers(kind).items() if not np.isnan(values).all()}
        return layers_by_heads(KIND_NAMES[kind.kind] if several else "", kind.layers, known, scales, "mean")

    blocks: tuple[Block, ...] = (
        heads_subtitle(d.kinds, _subtitle),
        *map(panels, d.kinds),
        ranking_table(d),
        Text(left_out, "quiet", "listed"),
    )
    title = heads_title([kind.kind for kind in d.kinds], len(d.ranking))
    return Page(title, blocks, d.source.footnote, "; ".join([_reading_text(d), *left_out]))


def _numbers(kind: KindDivergence) -> dict[str, NDArray[np.float64]]:
    """What stands over each panel, and its values."""
    return {"mean": kind.divergence.mean, "spread": kind.divergence.spread, "largest row": kind.divergence.largest}


def _scales(d: CorpusDifference) -> dict[str, Scale]:
    """From 0 to the largest number, or to 1 where nothing differs."""
    scales = {}
    for name in ("mean", "spread", "largest row"):
        top = max((float(np.nanmax(_numbers(kind)[name], initial=0.0)) for kind in d.kinds), default=0.0) or 1.0
        scales[name] = Scale(high=top, decimals=decimals_of(top))
    return scales


def _subtitle(kind: KindDivergence) -> str:
    """ "divergence of two models over 1,000 sentences, 21,400 tokens"."""
    texts, tokens = counted(kind.divergence.sentences, "sentence"), counted(kind.divergence.queries, "token")
    return f"divergence of two models over {texts}, {tokens}"


def _reading_text(d: CorpusDifference) -> str:
    return reading_text([kind.divergence.mean for kind in d.kinds])


_MEANING = (
    "mean: of the Jensen–Shannon divergence of each query's weights in both models, in bits, over its sentence, then "
    "over the sentences: 0 if no weight differs, 1 if no row has a key in common; spread: the standard deviation "
    "between the sentences"
)


def limits_text(d: CorpusDifference) -> str:
    """ "3 heads of 144 above 0.1 bits", nothing without limits."""
    limits, parts = d.limits, []
    if limits.mean is not None:
        parts.append(f"a mean of {limits.mean:g} bits")
    if limits.row is not None:
        parts.append(f"{limits.row:g} bits in a row")
    if not parts:
        return ""
    above = sum(head["above"] for head in d.ranking)
    return f"{above:,} of {counted(len(d.ranking), 'head')} above {' or '.join(parts)}"


def ranking_table(d: CorpusDifference) -> Table:
    """A row a head, those that differ most first."""
    several = len(d.kinds) > 1
    columns = (
        *key_columns(several),
        Column("mean", _spread),
        Column("largest row", bits_text),
        Column("where", _where, "left"),
        *([Column("", str, "left")] if d.limits.are_given else []),
    )
    rows = [
        (
            *([head["kind"]] if several else []),
            head["layer"],
            head["head"],
            head,
            head["largest"],
            head,
            *(["above" if head["above"] else ""] if d.limits.are_given else []),
        )
        for head in d.ranking
    ]
    differs = any(head["largest"] > 0 for head in d.ranking)
    heading = "; ".join(
        filter(None, ["the heads that differ most" if differs else "no weight differs", limits_text(d)])
    )
    notes = f"{_MEANING}; sentences and queries are counted from 0"
    return Table(columns, tuple(rows), heading, _MOST_ROWS, notes)


def _spread(head: Mapping[str, float]) -> str:
    """ "0.1234±0.0123"."""
    return bits_text(head["mean"]) + ("" if math.isnan(head["spread"]) else f"±{bits_text(head['spread'])}")


def _where(head: Mapping[str, float]) -> str:
    """ "sentence 12, query 5"."""
    return NOTHING if head["sentence"] < 0 else f"sentence {head['sentence']:,}, query {head['query']:,}"
