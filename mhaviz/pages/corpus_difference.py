"""Page of two models compared over many sentences: the heads ranked by divergence, and a panel of layers × heads."""

import math
from collections.abc import Mapping
from typing import Any

from mhaviz.errors import counted
from mhaviz.inputs.tokens import KIND_NAMES
from mhaviz.pages.blocks import NOTHING, Block, Column, Dot, Page, Table, Text
from mhaviz.pages.divergence import change_dots, divergence_panels, first_text, lesson, pair_text
from mhaviz.pages.head_numbers import WHISKER, key_columns, kind_text, reading_text
from mhaviz.pages.labels import quoted
from mhaviz.pages.registry import PAGE_SUFFIXES, shown
from mhaviz.pages.words import bits_text, left_out_text
from mhaviz.results.attention import head_name
from mhaviz.results.corpus_difference import CorpusDifference, KindDivergence

_MOST_ROWS, _TOKEN = 16, 12  # rows of the table; characters of a token beside a dot
_MEANING = (
    "mean: of the Jensen–Shannon divergence of each query's weights in both models, in bits, over its sentence, then "
    "over the sentences: 0 if no weight differs, 1 if no row has a key in common"
)
_BESIDE = "of the row that differs most, the query → the key whose weight differs most"
_NOTES = f"{_MEANING}; ±: the standard deviation between the sentences; sentences and tokens are counted from 0"


@shown(CorpusDifference, PAGE_SUFFIXES)
def corpus_difference_page(d: CorpusDifference) -> Page:
    """Return the page: the heads ranked, and the mean divergence of each head as layers × heads on one scale."""
    several = len(d.kinds) > 1
    left_out = tuple(filter(None, [left_out_text(d.too_long, "models")]))
    heads = [
        Dot(
            f"{head['kind']} " * several + head_name(head["layer"], head["head"]),
            head["mean"],
            head["low"],
            head["high"],
            note=" → ".join(quoted(head[name], _TOKEN) for name in ("query_token", "key_token")),
        )
        for head in d.ranking
    ]
    panels = [(KIND_NAMES[kind.kind] if several else "", kind.layers, kind.divergence.mean) for kind in d.kinds]
    blocks: tuple[Block, ...] = (
        Text(tuple(kind_text(kind, _subtitle(kind)) for kind in d.kinds), "subtitle"),
        change_dots(heads, ranking_table(d), _MEANING, _BESIDE, WHISKER.format(d.replicates, "sentences")),
        *divergence_panels(panels),
    )
    reading = reading_text([kind.divergence.mean for kind in d.kinds])
    return Page(
        lesson(d.source, first_text(heads), len(heads)), blocks, d.source.footnote, "; ".join([reading, *left_out])
    )


def _subtitle(kind: KindDivergence) -> str:
    """Return "divergence of two models over 1,000 sentences, 21,400 tokens"."""
    texts, tokens = counted(kind.divergence.sentences, "sentence"), counted(kind.divergence.queries, "token")
    return f"divergence of two models over {texts}, {tokens}"


def limits_text(d: CorpusDifference) -> str:
    """Return "3 of 144 heads above a mean of 0.1 bits"; "" without limits."""
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
    """Return the table of heads, those that differ most first."""
    several, has_interval = len(d.kinds) > 1, any(not math.isnan(head["low"]) for head in d.ranking)
    columns = (
        *key_columns(several),
        Column("mean", _spread),
        *[Column("95 %", _interval)] * has_interval,
        Column("largest row", bits_text),
        Column("where", _where, "left"),
        *([Column("", str, "left")] if d.limits.are_given else []),
    )
    rows = [
        (
            *([head["kind"]] if several else []),
            head_name(head["layer"], head["head"]),
            head,
            *[head] * has_interval,
            head["largest"],
            head,
            *(["above" if head["above"] else ""] if d.limits.are_given else []),
        )
        for head in d.ranking
    ]
    return Table(columns, tuple(rows), _heading(d), _MOST_ROWS, _NOTES)


def _heading(d: CorpusDifference) -> str:
    differs = any(head["largest"] > 0 for head in d.ranking)
    return "; ".join(filter(None, ["the heads that differ most" if differs else "no weight differs", limits_text(d)]))


def _spread(head: Mapping[str, float]) -> str:
    """Return "0.1234±0.0123"."""
    return bits_text(head["mean"]) + ("" if math.isnan(head["spread"]) else f"±{bits_text(head['spread'])}")


def _interval(head: Mapping[str, float]) -> str:
    return f"{bits_text(head['low'])}–{bits_text(head['high'])}"


def _where(head: Mapping[str, Any]) -> str:
    """Return "3 cat → 5 mat, sentence 12"."""
    if head["sentence"] < 0:
        return NOTHING
    pair = pair_text(head["query"], head["query_token"], head["key"], head["key_token"])
    return f"{pair}, sentence {head['sentence']:,}"
