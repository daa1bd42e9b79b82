"""Page of spans over many texts: what the queries of one span look at in every head, and the heads ranked."""

from dataclasses import replace

import numpy as np

from mhaviz.errors import counted
from mhaviz.inputs.spans import REST
from mhaviz.pages.blocks import Block, Page, SpanPanel, Text
from mhaviz.pages.head_numbers import WHISKER, Measure, Order, Ranking, kind_text
from mhaviz.pages.labels import quoted
from mhaviz.pages.numbers import percent
from mhaviz.pages.registry import ABLATION_SUFFIXES, shown
from mhaviz.pages.span_weights import READING, SPAN_NAME, few_panels, is_cut, span_grid, times_text
from mhaviz.results.head_numbers import LEAST_FOR_INTERVAL
from mhaviz.results.head_spans import HeadSpans, SpansOfKind
from mhaviz.results.span_ranking import LEAST_MASS

USUAL_ORDER = Order("")
"""Order by the span that some head turns to most."""

_NAMED = 3  # most spans of some texts that are named

_UNIFORM = "of a head that gives all keys but sinks the same weight"
_STUDENT = "95% of Student's distribution around the mean over {}"


@shown(HeadSpans, ABLATION_SUFFIXES)
def head_spans_page(spans: HeadSpans, order: Order = USUAL_ORDER) -> Page:
    """Return the page: spans × heads of each layer, and the heads ranked by what they give one span."""
    blocks = list[Block]()
    for kind in map(_titled, spans.kinds):
        blocks.append(Text((_subtitle(spans, kind),), "subtitle"))
        blocks.append(_grid(spans, kind))
        ranked = order.column or (kind.best[0] if kind.best else (*kind.common, *kind.others, kind.query)[0])
        ranking = Ranking([kind], Order(ranked, order.most), _measures(kind), "texts", chance=_UNIFORM)
        is_of_few = kind.spans[ranking.measure.name].sentences < LEAST_FOR_INTERVAL
        blocks.append(replace(ranking, interval=_STUDENT if is_of_few else WHISKER).plot())
    reading = "; ".join(filter(None, (READING, _in_some(spans), _left_out(spans), spans.source.remark)))
    return Page(_title(spans), tuple(blocks), spans.source.footnote, reading, True)


def _titled(kind: SpansOfKind) -> SpansOfKind:
    """Return numbers with the names of spans as they are written, which begin with their place, "#3", if some are cut
    or alike."""
    names = list(dict.fromkeys([*kind.spans, kind.query]))
    titles = [quoted(name, SPAN_NAME) for name in names]
    if len({*titles}) < len(titles) or any(is_cut(name) for name in names):
        numbers = [f"#{place} " for place in range(len(names))]
        titles = [number + quoted(name, SPAN_NAME - len(number)) for number, name in zip(numbers, names, strict=True)]
    of = dict(zip(names, titles, strict=True))
    return replace(kind, query=of[kind.query], spans={of[name]: number for name, number in kind.spans.items()})


def _measures(kind: SpansOfKind) -> list[Measure]:
    return [Measure(name, f"weight of “{kind.query}” on “{name}”") for name in kind.spans]


def _title(spans: HeadSpans) -> str:
    """Return "minilm: “answer” looks at “user” in L3 H7: 54% of its weight, 2.1 × uniform, over 20 texts"."""
    titles = [_lesson(_titled(kind)) for kind in spans.kinds]
    if len(titles) > 1:
        titles = [f"{kind.kind}: {title}" for kind, title in zip(spans.kinds, titles, strict=True)]
    return f"{spans.source.model}: {'; '.join(titles)}"


def _lesson(kind: SpansOfKind) -> str:
    named, over = f"“{kind.query}”", f"over {counted(kind.texts, 'text')}"
    another = "another span" + " that half of the texts have" * (kind.common != kind.others)
    if kind.best is None:
        return f"no head gives {percent(LEAST_MASS)} of the weight of {named} to {another}, {over}"
    span, *place = kind.best
    head, ratio, key = kind.name_of(*place), kind.ratios(span)[*place], f"“{span}”"
    n_with = kind.spans[span].sentences
    if n_with < kind.texts:
        over = f"over the {n_with:,} of {counted(kind.texts, 'text')} with both"
    if not kind.turns(*kind.best):
        return f"no head turns {named} to {another}: at most {times_text(ratio)} uniform, to {key} in {head}, {over}"
    share = percent(kind.spans[span].mean[*place])
    return f"{named} looks at {key} in {head}: {share} of its weight, {times_text(ratio)} uniform, {over}"


def _subtitle(spans: HeadSpans, kind: SpansOfKind) -> str:
    text = kind_text(kind, f"means over {counted(spans.texts, 'text')}")
    ratios = kind.lookback.mean[np.isfinite(kind.lookback.mean)]
    if not ratios.size:
        return text
    return f"{text}; lookback ratio {ratios.mean():.2f}, {ratios.min():.2f} to {ratios.max():.2f} by head"


def _grid(spans: HeadSpans, kind: SpansOfKind) -> Block:
    """Return a panel of spans × heads for each layer, with the rest and sinks as rows apart."""
    n_heads = kind.rest.shape[1]
    names, best = [*kind.spans], kind.best
    panels = []
    for row, layer in enumerate(kind.layers):
        shares = [kind.spans[name].mean[row] for name in names] + [kind.rest[row], kind.sinks[row]]
        ratios = [kind.ratios(name)[row] for name in names] + [np.full(n_heads, np.nan)] * 2
        outlined = ((names.index(best[0]), best[2]),) if best and best[1] == row and kind.turns(*best) else ()
        panels.append(SpanPanel(f"layer {layer}", np.array(shares), np.array(ratios), outlined))
    shown, rows, n_apart = few_panels(panels, [*names, REST, "sinks"], kind.layers, 2)
    return span_grid(shown, rows, list(map(str, range(n_heads))), (n_apart, 0))


def _in_some(spans: HeadSpans) -> str:
    """Return which spans are not in all texts: "“system” is in 3 of 12 texts"; "": none."""
    kind = _titled(spans.kinds[0])
    rare = [(name, number.sentences) for name, number in kind.spans.items() if number.sentences < kind.texts]
    parts = [f"“{name}” is in {n:,} of {counted(kind.texts, 'text')}" for name, n in rare[:_NAMED]]
    more = [f"{counted(len(rare) - _NAMED, 'more span')} in some"] * (len(rare) > _NAMED)
    return ", ".join(parts + more)


def _left_out(spans: HeadSpans) -> str:
    parts = [
        f"{counted(n, 'text')} left out: {why}"
        for n, why in ((spans.too_long, "longer than the model can read"), (spans.without, "without such a span"))
        if n
    ]
    return "; ".join(parts)
