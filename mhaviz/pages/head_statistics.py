"""What every head looks at: a layers × heads panel of each number, and the heads ranked."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT
from mhaviz.pages.blocks import Block, Page, Panels, Text
from mhaviz.pages.head_distributions import distribution_panels
from mhaviz.pages.head_distributions import reading_text as distribution_text
from mhaviz.pages.head_numbers import (
    CHANCE,
    Head,
    Measure,
    Order,
    known_measures,
    layers_by_heads,
    ranked,
    ranking_table,
)
from mhaviz.pages.head_numbers import reading_text as panels_text
from mhaviz.pages.panels import Scale
from mhaviz.pages.registry import HEAD_SUFFIXES, shown
from mhaviz.pages.words import counted, left_out_text, one_text, texts_of
from mhaviz.results.head_statistics import OF_A_NEEDLE, SINK_ABOVE, HeadAverages, HeadStatistics
from mhaviz.results.quantity import NORM

_UP_TO_1 = ("weight", "share")
_OF_MANY = ("sink", *OF_A_NEEDLE)
_DISTRIBUTIONS = 6  # heads
_ACROSS = 5  # panels side by side: two rows of ten, and cells of one size where there are several kinds

MEASURES = (
    Measure("entropy", "−Σ a ln a of a row of {weight}s a, in nats", "entropy, nats", low_first=True),
    Measure("distance", "Σ a |i − j| of query i and keys j, in tokens", "distance, tokens", decimals=1),
    Measure("itself", "{weight} on the query's own position"),
    Measure("previous", "{weight} on the token before, of all queries but the first"),
    Measure("next", "{weight} on the token after, of all queries but the last"),
    Measure("first", "{weight} on the first token"),
    Measure("separators", "{weight} on special tokens such as [SEP]"),
    Measure("copies", "{weight} on earlier copies of the query's token"),
    Measure("induction", "{weight} on what followed earlier copies of the query's token"),
    Measure("sink", f"how often the mean of first is above {SINK_ABOVE:g}", "share"),
    Measure("retrieval", "how often a token of a needle gets the largest {weight} where it is read", "share"),
    Measure("needle", "{weight} on the token of the needle that is read"),
)
"""The numbers, in their order."""

OF_ONE_SENTENCE = tuple(measure for measure in MEASURES if measure.name not in _OF_MANY)
"""Those that one sentence's map has by itself; the others are of many, or of a needle."""

USUAL_ORDER = Order(MEASURES[0].name)


@shown(HeadStatistics, HEAD_SUFFIXES)
def head_statistics_page(statistics: HeadStatistics, order: Order = USUAL_ORDER) -> Page:
    """The means of all numbers; weights share one scale, from 0 to 1, entropy and distance have their own."""
    s, scales, weight = statistics, measure_scales(statistics), weight_text(statistics)
    meanings = (f"{measure.name}: {measure.told(weight)}" for measure in known_measures(s.kinds, MEASURES))
    counts, left_out = (tuple(filter(None, [text])) for text in (counts_text(s), left_out_text(s.too_long)))
    texts = f"{one_text(s.probe, s.is_recorded)}s"
    blocks: tuple[Block, ...] = (
        *(_panels(s, kind, scales, order) for kind in s.kinds),
        *_distributions(s, order),
        Text((*chance_texts(s), "; ".join(meanings)), "quiet", "drawn"),
        ranking_table(s.kinds, order, MEASURES, weight, s.replicates, texts, "listed"),
        Text((*counts, *sink_texts(s), *filter(None, [s.source.remark])), "quiet"),
        Text(left_out, "quiet", "listed"),
    )
    return Page("", blocks, s.source.footnote, "; ".join([reading_text(s), *left_out]))


def weight_text(statistics: HeadStatistics) -> str:
    """What the numbers are of: a "weight", or the "share" of a norm."""
    return "share" if statistics.are_of_norms else "weight"


def _panels(statistics: HeadStatistics, kind: HeadAverages, scales: dict[str, Scale], order: Order) -> Panels:
    known = {measure.name: kind.number(measure.name).mean for measure in known_measures([kind], MEASURES)}
    about = _subtitle(statistics, kind), _prefix(statistics)
    return layers_by_heads(kind.kind, kind.layers, known, scales, order.column, _ACROSS, *about)


def measure_scales(statistics: HeadStatistics) -> dict[str, Scale]:
    """The scale of each number, one for all kinds: weights and shares from 0 to 1, the others up to the largest."""
    ends = {}
    for measure in known_measures(statistics.kinds, MEASURES):
        largest = max(float(np.nanmax(kind.number(measure.name).mean, initial=0.0)) for kind in statistics.kinds)
        if measure.unit in _UP_TO_1:
            high, name = 1.0, "share of norms" if statistics.are_of_norms else "weight, share"
        else:
            high, name = largest or 1.0, measure.unit
        ends[measure.name] = Scale(high=high, decimals=measure.decimals, zeros=True, name=name)
    return ends


def _distributions(statistics: HeadStatistics, order: Order) -> list[Block]:
    """Of the number that heads are ordered by, of the first heads; none of a single sentence."""
    kinds = statistics.kinds
    known = known_measures(kinds, MEASURES)
    measure = next((measure for measure in known if measure.name == order.column), known[0])
    every = ranked(kinds, replace(order, column=measure.name), MEASURES)
    heads = [head for head in every[: min(order.most or _DISTRIBUTIONS, _DISTRIBUTIONS)] if head.spread(measure.name)]
    rows = {_label(head, measure, len(kinds) > 1): _counts(head, measure) for head in heads}
    if all(counts.sum() < 2 for counts in rows.values()):
        return []
    there = np.logical_or.reduce([kind.number(measure.name).counts.any(axis=(0, 1)) for kind in kinds])
    n_bins, one = int(np.flatnonzero(there)[-1]) + 1, one_text(statistics.probe, statistics.is_recorded)
    panels = distribution_panels(measure.name, rows, n_bins, one, len(every))
    has_interval = len(kinds) == 1 and any(head.interval(measure.name) for head in heads)
    return [panels, Text((distribution_text(has_interval),), "quiet", "drawn")]


def _counts(head: Head, measure: Measure) -> NDArray[np.int64]:
    """How many sentences have a number in each bin, (n_bins,)."""
    counts: NDArray[np.int64] = head.of.number(measure.name).counts[head.row, head.column]
    return counts


def _label(head: Head, measure: Measure, has_kind: bool) -> str:
    """ "L3 H5  0.53, 0.51–0.55"; beside a kind the mean alone: figures cut longer labels in their middle."""
    number, ends = head.spread(measure.name), head.interval(measure.name)
    named = f"{head.name}  {measure.text(number[0]) if number else ''}"
    if has_kind:
        return f"{head.of.kind} {named}"
    return f"{named}, {measure.interval(ends)}" if ends else named


def chance_texts(statistics: HeadStatistics) -> list[str]:
    """Of each kind, what each number is by chance: "chance, …: entropy 2.31, distance 3.4 to 5.1, …"."""
    return [text for kind in statistics.kinds if (text := _chance_text(statistics, kind))]


def _chance_text(statistics: HeadStatistics, kind: HeadAverages) -> str:
    numbers = []
    for measure in MEASURES:
        chance = kind.number(measure.name).chance
        if np.isfinite(chance).any():
            ends = dict.fromkeys(measure.text(float(end)) for end in (np.nanmin(chance), np.nanmax(chance)))
            numbers.append(f"{measure.name} {' to '.join(ends)}")
    of = f"{kind.kind}, " if len(statistics.kinds) > 1 else ""
    return f"{of}{CHANCE}: {', '.join(numbers)}" if numbers else ""


def sink_texts(statistics: HeadStatistics) -> list[str]:
    """Of each kind, how many heads look at the first token."""
    several = len(statistics.kinds) > 1
    return [
        f"{kind.kind + ', ' if several else ''}sink rate, of all heads: {kind.sink_rate:.1%}"
        for kind in statistics.kinds
        if kind.sink.is_known
    ]


def title(statistics: HeadStatistics, kind: HeadAverages) -> str:
    """ "self-attention: 144 heads, means over 1,000 sentences, 21,400 tokens"."""
    heads = counted(len(list(kind.heads())), "head")
    return f"{_prefix(statistics)}{KIND_NAMES[kind.kind]}: {heads}, {_subtitle(statistics, kind)}"


def _prefix(statistics: HeadStatistics) -> str:
    return NORM.title_prefix if statistics.are_of_norms else ""


def _subtitle(statistics: HeadStatistics, kind: HeadAverages) -> str:
    """ "means over 1,000 sentences, 21,400 tokens"."""
    most = texts_of(kind.sentences, statistics.probe, statistics.is_recorded), counted(kind.queries, "token")
    least, ends = kind.entropy.by_layer.min(axis=0).tolist(), (kind.sentences, kind.queries)
    texts, tokens = (
        text if few == many else f"{few:,} to {text}" for few, many, text in zip(least, ends, most, strict=True)
    )
    return f"means over {texts}, {tokens}"


def reading_text(statistics: HeadStatistics) -> str:
    """How to read the pictures."""
    text = panels_text([kind.entropy.mean for kind in statistics.kinds])
    if not statistics.are_of_norms:
        return text
    return f"{text}; in place of weights, shares of each query's {NORM.name}s; {NORM.remark}"


def counts_text(statistics: HeadStatistics) -> str:
    """Of how many tokens copies and induction are; empty where they have no meaning."""
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
