"""Page of pairs of words: the heads ranked by the query's weight on the key, and the pairs that the best one misses."""

import numpy as np

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Column, Page, Table, Text
from mhaviz.pages.head_numbers import WHISKER, Measure, Order, Ranking, kind_text, reading_text
from mhaviz.pages.labels import cut_words, in_quotes, quoted
from mhaviz.pages.panels import Scale
from mhaviz.pages.registry import ABLATION_SUFFIXES, shown
from mhaviz.results.answer import LEAST_OTHERS, LEAST_WORDS, TIMES_OTHERS
from mhaviz.results.attention import head_name
from mhaviz.results.head_numbers import LEAST_FOR_INTERVAL
from mhaviz.results.head_pairs import HALF, BestHead, HeadPairs, PairLook, PairsOfKind

USUAL_ORDER = Order("weight")

_STUDENT = "95% of Student's distribution around the mean over {}"
_WORD, _TEXT = 16, 40  # most cells of a word, and of a text
_MOST_MISSED = 20
_MOST_NAMED = 2  # heads that a title names beside the best
_USUAL = "what other words give the key, or the word at the same distance from them, whichever is more"


@shown(HeadPairs, ABLATION_SUFFIXES)
def head_pairs_page(pairs: HeadPairs, order: Order = USUAL_ORDER) -> Page:
    """Return the page: the heads ranked, the pairs that the best head misses, and each number by layer and head."""
    few = len(pairs.kinds[0].looks) < LEAST_FOR_INTERVAL
    measures = _measures(pairs)
    ranking = Ranking(pairs.kinds, order, measures, "pairs", _STUDENT if few else WHISKER, measures[1])
    scales = {measure.name: Scale(high=1.0, decimals=measure.decimals, zeros=True) for measure in measures}
    left_out = f"{counted(pairs.too_long, 'pair')} left out: texts longer than the model can read" * bool(
        pairs.too_long
    )
    notes = tuple(filter(None, [left_out, pairs.source.remark]))
    blocks: tuple[Block, ...] = (
        Text(tuple(_subtitle(kind) for kind in pairs.kinds), "subtitle"),
        ranking.plot(),
        *(
            _missed(kind, kind.best)
            for kind in pairs.kinds
            if kind.best and kind.missed(kind.best.row, kind.best.column)
        ),
        *ranking.panels(scales),
        *[Text(notes, "quiet")] * bool(notes),
    )
    reading = reading_text([kind.weight.mean for kind in pairs.kinds])
    return Page(_title(pairs), blocks, pairs.source.footnote, reading)


def _measures(pairs: HeadPairs) -> list[Measure]:
    known = {tuple(kind.found.by_layer.tolist()) for kind in pairs.kinds}
    alike = {n for by_layer in known for n in by_layer}
    n_pairs, n_known = len(pairs.kinds[0].looks), alike.pop() if len(alike) == 1 else 0
    found = f"the key gets more than any other word, and more than {TIMES_OTHERS:g} × its usual weight"
    return [
        Measure("weight", "weight of the query on the key"),
        Measure("found", f"pairs in which {found}", "share", of=n_known),
        Measure("half", f"pairs in which the weight is above {HALF:g}", "share", of=n_pairs),
        Measure("usual", _USUAL),
    ]


def _subtitle(kind: PairsOfKind) -> str:
    n_pairs, n_known = len(kind.looks), kind.found.sentences
    known = (
        f"; usual weights are known of {n_known:,}: in the others the query sees fewer than {LEAST_WORDS} words, or "
    )
    known += f"fewer than {LEAST_OTHERS} others see the key"
    return kind_text(kind, f"means over {counted(n_pairs, 'pair')} of words{known * (n_known < n_pairs)}")


def _title(pairs: HeadPairs) -> str:
    """Return "minilm: L3 H1 of 72 heads finds the key of 15 of 20 pairs"; of several kinds of attention, for each."""
    titles = [_lesson(kind) for kind in pairs.kinds]
    if len(titles) > 1:
        titles = [f"{kind.kind}: {title}" for kind, title in zip(pairs.kinds, titles, strict=True)]
    return f"{pairs.source.model}: {'; '.join(titles)}"


def _lesson(kind: PairsOfKind) -> str:
    best, n_heads = kind.best, len(list(kind.heads()))
    heads = counted(n_heads, "head")
    if best is None:
        if not kind.usual.is_known:
            return "too few other words to tell what a head finds"
        return f"no head of {n_heads:,} gives keys more than {TIMES_OTHERS:g} × what other words give them"
    name, count = _name(kind, best.row, best.column), f"{best.n_found:,} of {counted(best.n_pairs, 'pair')}"
    if not best.n_found:
        return f"no head of {n_heads:,} stands out: {name}, the strongest, finds the key of no pair"
    if best.by_luck:
        return f"no head of {n_heads:,} stands out: {name} finds the key of {count}, as the best may by luck"
    if not best.finds_most:
        return f"no head of {n_heads:,} finds the key of most pairs; {name}, the strongest, finds {count}"
    return f"{name} of {heads} finds the key of {count}{_ties_text(kind, best)}"


def _ties_text(kind: PairsOfKind, best: BestHead) -> str:
    """Return ", L1 H3 may be as strong (13)"; "" without ties."""
    ties = sorted(best.ties, key=lambda tie: -kind.weight.mean[tie])
    if not ties:
        return ""
    named = [f"{_name(kind, *tie)} ({_found(kind, *tie)})" for tie in ties[:_MOST_NAMED]]
    more = len(ties) - len(named)
    named += [counted(more, "other")] * bool(more)
    return f"; {' and '.join([', '.join(named[:-1]), named[-1]] if named[1:] else named)} may be as strong"


def _found(kind: PairsOfKind, row: int, column: int) -> str:
    return f"{round(float(kind.found.mean[row, column]) * int(kind.found.by_layer[row])):,}"


def _name(kind: PairsOfKind, row: int, column: int) -> str:
    return head_name(kind.layers[row], column)


def _missed(kind: PairsOfKind, best: BestHead) -> Table:
    """Return the pairs whose key the best head does not find, with what it looks at instead."""
    missed = kind.missed(best.row, best.column)
    place, name = (best.row, best.column), _name(kind, best.row, best.column)
    columns = (
        Column("query → key", align="left", is_key=True),
        Column("weight", "{:.2f}".format),
        Column("usual", "{:.2f}".format),
        Column("looks at", align="left"),
        Column("with", "{:.2f}".format),
        Column("text", align="left"),
    )
    rows = tuple(_row(look, place) for look in missed)
    heading = f"{name} misses {len(missed):,} of {counted(len(kind.looks), 'pair')}"
    notes = f"usual: {_USUAL}; looks at: the strongest of the words that are neither the query, special nor a sink"
    return Table(columns, rows, heading, _MOST_MISSED, notes)


def _row(look: PairLook, place: tuple[int, int]) -> tuple[object, ...]:
    texts, target = look.words.texts, int(look.targets[place])
    usual = float(look.usual[place])
    return (
        f"{quoted(texts[look.query], _WORD)} → {quoted(texts[look.key], _WORD)}",
        float(look.weights[place]),
        None if np.isnan(usual) else usual,
        "the key" if target == look.key else in_quotes(quoted(texts[target], _WORD)),
        float(look.target_weights[place]),
        cut_words(quoted(look.pair.text, len(look.pair.text)).split(), _TEXT),
    )
