"""Page of two models compared over many sentences: the heads ranked by divergence, and a panel of layers × heads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mhaviz.errors import counted
from mhaviz.inputs.tokens import KIND_NAMES
from mhaviz.pages.blocks import NOTHING, Block, Column, Dot, Page, Table, Text
from mhaviz.pages.divergence import change_dots, divergence_panels, first_text, lesson, pair_text
from mhaviz.pages.head_numbers import WHISKER, Measure, Order, Ranking, kind_text, reading_text
from mhaviz.pages.labels import quoted
from mhaviz.pages.registry import PAGE_SUFFIXES, shown
from mhaviz.pages.words import bits_text, left_out_text
from mhaviz.results.attention import head_name
from mhaviz.results.corpus_difference import CorpusDifference, KindDivergence

_MOST_ROWS, _TOKEN = 16, 12  # rows of the table; characters of a token beside a dot
_MEANING = (
    "the Jensen–Shannon divergence of each query's weights in both models, in bits, averaged over its "
    "sentence, then over the sentences: 0 if no weight differs, 1 if no row has a key in common"
)
_BESIDE = "of the row that differs most, the query → the key whose weight differs most"


class _Bits(Measure):
    def text(self, number: float) -> str:
        return bits_text(number)


_BITS, _ORDER = _Bits("divergence", _MEANING), Order("divergence", None)


@shown(CorpusDifference, PAGE_SUFFIXES)
def corpus_difference_page(d: CorpusDifference) -> Page:
    """Return the page: the heads ranked, and the mean divergence of each head as layers × heads on one scale."""
    several = len(d.kinds) > 1
    left_out = left_out_text(d.too_long, "models")
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
    panels = divergence_panels(
        [(KIND_NAMES[kind.kind] if several else "", kind.layers, kind.divergence.mean) for kind in d.kinds]
    )
    blocks: tuple[Block, ...] = (
        Text(tuple(kind_text(kind, _subtitle(kind)) for kind in d.kinds), "subtitle"),
        change_dots(heads, ranking_table(d), _MEANING, _BESIDE, WHISKER.format("sentences")),
        *panels,
        *([Text((left_out,), "quiet")] if left_out else []),
    )
    reading = reading_text([kind.divergence.mean for kind in d.kinds]) if panels else ""
    return Page(lesson(d.source, first_text(heads), len(heads)), blocks, d.source.footnote, reading)


def _subtitle(kind: KindDivergence) -> str:
    """Return "divergence of two models over 1,000 sentences, 21,400 tokens"."""
    texts, tokens = counted(kind.divergence.sentences, "sentence"), counted(kind.divergence.queries, "token")
    return f"divergence of two models over {texts}, {tokens}"


def _limit_text(d: CorpusDifference) -> str:
    """Return "3 of 144 heads above 0.1 bits"; "" without a limit."""
    if d.fail_above is None:
        return ""
    above = sum(head["above"] for head in d.ranking)
    return f"{above:,} of {counted(len(d.ranking), 'head')} above {d.fail_above:g} bits"


def ranking_table(d: CorpusDifference) -> Table:
    """Return the table of heads, those that differ most first, with the row that differs most."""
    table = Ranking(d.kinds, _ORDER, [_BITS], "sentences").table()
    has_limit = d.fail_above is not None
    above = [Column("", str, "left")] * has_limit
    more = ((head["largest"], head, *(["above" * head["above"]] if has_limit else [])) for head in d.ranking)
    return replace(
        table,
        columns=(*table.columns, Column("largest row", bits_text), Column("where", _where, "left"), *above),
        rows=tuple(row + of_row for row, of_row in zip(table.rows, more, strict=True)),
        heading=_heading(d),
        most=_MOST_ROWS,
        notes=f"{table.notes}; sentences and tokens are counted from 0",
    )


def _heading(d: CorpusDifference) -> str:
    differs = any(head["largest"] > 0 for head in d.ranking)
    return "; ".join(filter(None, ["the heads that differ most" if differs else "no weight differs", _limit_text(d)]))


def _where(head: Mapping[str, Any]) -> str:
    """Return "3 cat → 5 mat, sentence 12"."""
    if head["sentence"] < 0:
        return NOTHING
    pair = pair_text(head["query"], head["query_token"], head["key"], head["key_token"])
    return f"{pair}, sentence {head['sentence']:,}"
