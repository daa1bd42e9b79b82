"""How far two models are apart over many sentences: a layers × heads panel of each number, and the heads ranked."""

import math
from collections.abc import Mapping

import numpy as np

from mhaviz.inputs.tokens import KIND_NAMES
from mhaviz.pages.blocks import NOTHING, Block, Column, Dot, Dots, Page, Panels, Table, Text
from mhaviz.pages.head_numbers import heads_subtitle, heads_title, key_columns, layers_by_heads, reading_text
from mhaviz.pages.panels import Scale, decimals_of
from mhaviz.pages.registry import shown
from mhaviz.pages.words import bits_text, counted, head_name, left_out_text
from mhaviz.results.corpus_difference import CorpusDifference, KindDivergence

_MOST_ROWS, _MOST_DOTS = 16, 10
_DIVERGENCE = "mean divergence, bits"


@shown(CorpusDifference)
def corpus_difference_page(d: CorpusDifference) -> Page:
    """The mean of each head, layers × heads, on one scale; the heads ranked."""
    several = len(d.kinds) > 1
    left_out = tuple(filter(None, [left_out_text(d.too_long, "models")]))
    top = max((float(np.nanmax(kind.divergence.mean, initial=0.0)) for kind in d.kinds), default=0.0) or 1.0
    scale = {_DIVERGENCE: Scale(high=top, decimals=decimals_of(top))}

    def panels(kind: KindDivergence) -> Panels:
        values = {_DIVERGENCE: kind.divergence.mean}
        return layers_by_heads(KIND_NAMES[kind.kind] if several else "", kind.layers, values, scale, _DIVERGENCE)

    blocks: tuple[Block, ...] = (
        heads_subtitle(d.kinds, _subtitle),
        *map(panels, d.kinds),
        _ranking_dots(d),
        ranking_table(d),
        Text(left_out, "quiet", "listed"),
    )
    title = heads_title([kind.kind for kind in d.kinds], len(d.ranking))
    return Page(title, blocks, d.source.footnote, "; ".join([_reading_text(d), *left_out]))


def _ranking_dots(d: CorpusDifference) -> Dots:
    """The heads that differ most, each with the place where it does; a whisker would need replicates."""
    dots = tuple(
        Dot(f"{head['kind']} " * (len(d.kinds) > 1) + _name_and_place(head), head["mean"])
        for head in d.ranking[:_MOST_DOTS]
    )
    notes = "beside each head the row that differs most; no whiskers, as the sentences are not drawn again"
    return Dots(_heading(d), dots, _MEANING, bits_text, notes)


def _name_and_place(head: Mapping[str, float]) -> str:
    name = head_name(int(head["layer"]), int(head["head"]))
    return name if head["sentence"] < 0 else f"{name}, {_where(head)}"


def _subtitle(kind: KindDivergence) -> str:
    """ "divergence of two models over 1,000 sentences, 21,400 tokens"."""
    texts, tokens = counted(kind.divergence.sentences, "sentence"), counted(kind.divergence.queries, "token")
    return f"divergence of two models over {texts}, {tokens}"


def _reading_text(d: CorpusDifference) -> str:
    return reading_text([kind.divergence.mean for kind in d.kinds])


_MEANING = (
    "mean: of the Jensen–Shannon divergence of each query's weights in both models, in bits, over its sentence, then "
    "over the sentences: 0 if no weight differs, 1 if no row has a key in common"
)
_SPREAD = "±: the standard deviation between the sentences"


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
    notes = f"{_MEANING}; {_SPREAD}; sentences and queries are counted from 0"
    return Table(columns, tuple(rows), _heading(d), _MOST_ROWS, notes, where="listed")


def _heading(d: CorpusDifference) -> str:
    differs = any(head["largest"] > 0 for head in d.ranking)
    return "; ".join(filter(None, ["the heads that differ most" if differs else "no weight differs", limits_text(d)]))


def _spread(head: Mapping[str, float]) -> str:
    """ "0.1234±0.0123"."""
    return bits_text(head["mean"]) + ("" if math.isnan(head["spread"]) else f"±{bits_text(head['spread'])}")


def _where(head: Mapping[str, float]) -> str:
    """ "sentence 12, query 5"."""
    return NOTHING if head["sentence"] < 0 else f"sentence {head['sentence']:,}, query {head['query']:,}"
