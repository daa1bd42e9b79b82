"""Page of statistics of heads: the heads ranked, and each statistic as a panel of layers × heads."""

import numpy as np

from mhaviz.errors import counted
from mhaviz.inputs.tokens import OF_ONE_TEXT
from mhaviz.pages.blocks import Block, Page, Text
from mhaviz.pages.head_numbers import (
    Measure,
    Order,
    Ranking,
    kind_text,
    known_measures,
    reading_text,
)
from mhaviz.pages.panels import Scale
from mhaviz.pages.registry import HEAD_SUFFIXES, shown
from mhaviz.pages.words import left_out_text, one_text, texts_of
from mhaviz.results.head_statistics import SINK_ABOVE, HeadAverages, HeadStatistics

MEASURES = (
    Measure("entropy", "−Σ a ln a, a the weight on each key, in nats", "entropy, nats", low_first=True),
    Measure("distance", "Σ a |i − j| of query i and keys j, in tokens", "distance, tokens", decimals=1),
    Measure("itself", place="the query's own position"),
    Measure("previous", place="the token before, where there is one"),
    Measure("next", place="the token after, where there is one"),
    Measure("first", place="the first token"),
    Measure("separators", place="special tokens such as [SEP]"),
    Measure("copies", place="earlier copies of the query's token, where there are any"),
    Measure("induction", place="what followed earlier copies of the query's token, where there are any"),
    Measure("sink", f"how often the mean of first is above {SINK_ABOVE:g}", "share"),
    Measure("retrieval", "how often a token of a needle gets the largest weight where it is read", "share"),
    Measure("needle", place="the token of the needle that is read"),
)
"""All statistics, in the order of panels and columns."""

USUAL_ORDER = Order(MEASURES[0].name)


@shown(HeadStatistics, HEAD_SUFFIXES)
def head_statistics_page(statistics: HeadStatistics, order: Order = USUAL_ORDER) -> Page:
    """Return the page: the heads ranked by one statistic, and the means of all."""
    s, scales, texts = statistics, measure_scales(statistics), f"{one_text(statistics.probe, statistics.is_recorded)}s"
    ranking = Ranking(s.kinds, order, MEASURES, texts)
    notes = counts_text(s), *_sink_texts(s), left_out_text(s.too_long), s.source.remark

    blocks: tuple[Block, ...] = (
        Text(tuple(title(s, kind) for kind in s.kinds), "subtitle"),
        ranking.plot(),
        *ranking.panels(scales),
        Text(tuple(filter(None, notes)), "quiet"),
    )
    reading = reading_text([kind.entropy.mean for kind in s.kinds])
    return Page(ranking.lesson(s.source.model), blocks, s.source.footnote, reading)


def measure_scales(statistics: HeadStatistics) -> dict[str, Scale]:
    """Return the scale of each statistic, which all kinds of attention share: from 0 to 1 for all shares, so that equal
    shares have equal colours, and from 0 to the largest for the others, or to chance if it is larger."""
    ends = {}
    for measure in known_measures(statistics.kinds, MEASURES):
        numbers = [kind.number(measure.name) for kind in statistics.kinds]
        largest = max(float(np.nanmax(one, initial=0.0)) for number in numbers for one in (number.mean, number.chance))
        high = 1.0 if measure.is_share else largest or 1.0
        ends[measure.name] = Scale(high=high, decimals=measure.decimals, zeros=True)
    return ends


def _sink_texts(statistics: HeadStatistics) -> list[str]:
    """Return the sink rate of all heads, for each kind of attention where it is known."""
    several = len(statistics.kinds) > 1
    return [
        f"{kind.kind + ', ' if several else ''}sink rate, of all heads: {kind.sink_rate:.1%}"
        for kind in statistics.kinds
        if kind.sink.is_known
    ]


def title(statistics: HeadStatistics, kind: HeadAverages) -> str:
    """Return "self-attention: 144 heads, means over 1,000 sentences, 21,400 tokens"."""
    return kind_text(kind, _subtitle(statistics, kind))


def _subtitle(statistics: HeadStatistics, kind: HeadAverages) -> str:
    """Return "means over 1,000 sentences, 21,400 tokens"."""
    most = texts_of(kind.sentences, statistics.probe, statistics.is_recorded), counted(kind.queries, "token")
    least, ends = kind.entropy.by_layer.min(axis=0).tolist(), (kind.sentences, kind.queries)
    texts, tokens = (
        text if few == many else f"{few:,} to {text}" for few, many, text in zip(least, ends, most, strict=True)
    )
    return f"means over {texts}, {tokens}"


def counts_text(statistics: HeadStatistics) -> str:
    """Return the number of tokens that copies and induction are computed from; "" where they have no meaning."""
    counts = {kind.kind: _count(statistics, kind) for kind in statistics.kinds if kind.kind in OF_ONE_TEXT}
    if not counts:
        return ""
    if len(set(counts.values())) == 1:
        (text,) = set(counts.values())
        return f"copies, induction: {text}"
    return "copies, induction: " + "; ".join(f"{kind}, {text}" for kind, text in counts.items())


def _count(statistics: HeadStatistics, kind: HeadAverages) -> str:
    if not kind.copies.queries:  # the numbers of a program's tokens are not always known
        return f"no token {'is known to have' if statistics.is_recorded else 'has'} an earlier copy"
    have = "has" if kind.copies.queries == 1 else "have"
    where = counted(kind.copies.sentences, one_text(statistics.probe, statistics.is_recorded))
    return f"of {counted(kind.copies.queries, 'token')} in {where} that {have} an earlier copy"
