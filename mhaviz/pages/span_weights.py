"""Page of maps by sentence, turn or other spans: which span looks at which, and in which heads, beside uniform
attention."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.spans import REST
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT
from mhaviz.pages.answer import by_chance
from mhaviz.pages.blocks import Block, Column, Page, SpanGrid, SpanPanel, Table, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.labels import in_quotes, quoted
from mhaviz.pages.map_words import sinks_texts
from mhaviz.pages.numbers import fixed, percent, short
from mhaviz.pages.panels import Scale, tile_titles
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import even_edges
from mhaviz.results.means import averages_inputs, mean_text
from mhaviz.results.span_ranking import LEAST_MASS, TURNS, SpanHeads, SpanWeight, ratios

_MOST_LAYERS = 8  # layers with a panel each
_MOST_HEADS, _FEW_SPANS = 8, 12  # heads that are drawn one by one, of so many spans
_MOST_PAIRS = 8  # rows of the table of pairs
MOST_ROWS, _MOST_CELLS = 16, 32  # spans that a query looks at, and cells of a side of spans × spans
SPAN_NAME, _LONG = 28, 10_000  # most cells of the name of a span, and of one that is not cut
ITSELF = "itself"
_NUMBERS = (Column("weight", percent), Column("uniform", percent), Column("×", "{:.1f}".format))
_RATIO = "×: weight / uniform"

SCALE = Scale.around_one(DIVERGING, 8.0, "× uniform")
"""Scale of weights / those of uniform attention: fixed, so that noise stays pale."""

READING = "a span gives the mean over its tokens, and gets the sum over its tokens"
"""How to read weights between spans."""

_OF_COLOURS = (
    "× uniform: the weight / what uniform attention would give of what does not go to sinks, over the keys seen"
)
_OF_NUMBERS = "numbers: % of the weight"


def spans_page(attention: Attention) -> Page:
    """Return the page of maps by span; each of several texts has a heading."""
    texts = [SpanHeads(maps) for maps in _by_text(attention.maps)]
    names, is_random = [text_name(one.first) for one in texts], attention.source.is_random
    reading = _reading(attention)
    if len(texts) == 1:
        return Page(_title(texts[0], is_random), tuple(_blocks(texts[0])), attention.source.footnote, reading, True)
    blocks = list[Block]()
    for name, text in zip(names, texts, strict=True):
        blocks += [*[Text(("",))] * bool(blocks), Text((f"{name}: {_title(text, is_random)}",), "heading")]
        blocks += _blocks(text)
    return Page("", tuple(blocks), attention.source.footnote, reading, True)


def _by_text(maps: Sequence[AttentionMap]) -> list[list[AttentionMap]]:
    texts = defaultdict[Hashable, list[AttentionMap]](list)
    for m in maps:
        sides = m.rows.tokens.texts, m.columns.tokens.texts
        texts[m.sentence, m.pass_number, m.kind, sides, m.rows.cells is None].append(m)
    return [*texts.values()]


def text_name(m: AttentionMap) -> str:
    """Return "sentence 2, self-attention"."""
    numbers = (("pass", m.pass_number), (m.text_name, m.sentence))
    return ", ".join([*(f"{name} {number}" for name, number in numbers if number is not None), KIND_NAMES[m.kind]])


def _is_of_query(text: SpanHeads) -> bool:
    """Return whether the maps are of one span of queries, chosen from several."""
    return text.first.rows.cells is not None and len(text.first.rows) == 1


def _title(text: SpanHeads, is_random: bool) -> str:
    """Return "“answer” looks at “document 2” in L3 H7: 54% of its weight, 2.1 × uniform", or that no head turns to
    another span; of a mean or a single head, that it does not, as others may."""
    best, of_query = text.best, _is_of_query(text)
    who = f"“{row_name(text, 0)}”" if of_query else "a span"
    if not text.n_pairs:
        return f"{who} sees no other span" if of_query else "No span sees another"
    single = ("The mean" if text.first.quantity.of_all_heads else text.name) if text.n_matrices == 1 else ""
    if best is None:
        share = f"{percent(LEAST_MASS)} of the weight of {who}"
        return f"{single} gives no other span {share}" if single else f"No {text.noun} gives {share} to another span"
    row, key = row_name(text, best.query), key_name(text, best.key)
    if not best.turns:
        what = f"{single} turns {who} to no other span" if single else f"No {text.noun} turns {who} to another span"
        to = f"to “{key}”" if of_query else f"“{row}” to “{key}”"
        return f"{what}: at most {_times(best)} uniform, {to}" + f" in {best.name}" * (not single)
    where = f"in {best.name}" if best.name else "on average"
    said = f"“{row}” looks at “{key}” {where}: {percent(best.mass)} of its weight, {_times(best)} uniform"
    return by_chance(said, is_random)


def _blocks(text: SpanHeads) -> Iterator[Block]:
    """Yield what all heads give together, the picture, and a table of the spans or pairs of spans."""
    if _is_of_query(text):
        lookback = _lookback_text(text)
        yield from [Text((lookback,), "subtitle")] * bool(lookback)
        yield _heads_grid(text)
        yield _query_table(text)
        return
    yield _spans_grid(text)
    yield from [_pairs_table(text)] * bool(text.n_pairs)


def _heads_grid(text: SpanHeads) -> SpanGrid:
    """Return a panel of spans × heads for each layer, of the queries of one span. Sinks and the rest are rows apart."""
    keys, apart, best = text.strongest_keys(0, MOST_ROWS), apart_keys(text), text.best
    others = [key for key in text.keys if key not in keys]
    order = [*keys, *[-1] * bool(others), *apart]
    heads, panels = list(dict.fromkeys(head for m in text.maps for head in m.heads)), []
    for number, m in enumerate(text.maps):
        assert m.chance is not None
        mass, chance = m.weights[:, 0].astype(np.float64), m.chance[:, 0].astype(np.float64)
        if others:  # as one span
            mass, chance = (
                np.concatenate([x, x[:, others].sum(axis=1, keepdims=True)], axis=1) for x in (mass, chance)
            )
        columns = [heads.index(head) for head in m.heads]
        shares, times = np.full((2, len(order), len(heads)), np.nan)  # a layer may lack some heads
        shares[:, columns] = np.where(chance == 0, np.nan, mass)[:, order].T
        times[:, columns] = ratios(mass, chance)[:, order].T
        outlined: tuple[tuple[int, int], ...] = ()
        if best and best.turns and best.place and best.place[0] == number and text.n_matrices > 1 and best.key in keys:
            outlined = ((keys.index(best.key), columns[best.place[1]]),)
        panels.append(SpanPanel(panel_title(m), shares, times, outlined))
    of_heads = not text.first.quantity.of_all_heads
    names = [*(_labelled(text, key) for key in keys), *[others_text(others)] * bool(others)]
    names += [_labelled(text, key) for key in apart]
    of_columns = tuple(map(str, heads)) if of_heads else ("mean",)
    shown, rows, n_apart = few_panels(panels, names, [m.layer for m in text.maps], len(apart))
    return span_grid(shown, rows, of_columns, (n_apart, 0))


def few_panels(
    panels: Sequence[SpanPanel], names: Sequence[str], layers: Sequence[int | None], n_apart: int
) -> tuple[Sequence[SpanPanel], Sequence[str], int]:
    """Return panels of spans × heads, one for each layer, with the names of their rows and how many rows are apart; of
    many layers, panels of layers × heads, one for each span."""
    if len(panels) <= _MOST_LAYERS:
        return panels, names, n_apart
    of_spans = []
    for row, name in enumerate(names):
        shares, times = (np.array([getattr(panel, of)[row] for panel in panels]) for of in ("shares", "colours"))
        outlined = tuple((layer, j) for layer, panel in enumerate(panels) for i, j in panel.outlined if i == row)
        of_spans.append(SpanPanel(name, shares, times, outlined, row >= len(names) - n_apart))
    return of_spans, [*map(str, layers)], 0


def panel_title(m: AttentionMap) -> str:
    """Return the title of a panel of all heads of a map: "layer 3", or of a mean over layers what it is."""
    return mean_text(m.mean_over) if m.layer is None else f"layer {m.layer}"


def others_text(others: Sequence[int]) -> str:
    """Return "23 other spans"."""
    return counted(len(others), "other span")


def _spans_grid(text: SpanHeads) -> SpanGrid:
    """Return spans × spans, of each head or of the mean over many."""
    if text.n_matrices > (_MOST_HEADS if len(text.keys) <= _FEW_SPANS else 1):
        return grid_of_spans(text, [(text.name, text.mass, text.chance)])
    of_heads = [
        (title, mass.astype(np.float64), chance.astype(np.float64))
        for m in text.maps
        if m.chance is not None
        for title, mass, chance in zip(_titles(m), m.weights, m.chance, strict=True)
    ]
    return grid_of_spans(text, of_heads)


def grid_of_spans(text: SpanHeads, numbers: Sequence[tuple[str, NDArray[np.float64], NDArray[np.float64]]]) -> SpanGrid:
    """Return panels of spans × spans. Sinks and the rest are columns apart; of many spans, a row or column is of
    neighbours.

    ``numbers``: title, weights and those of uniform attention of each panel, (rows, columns).
    """
    apart, n_rows = apart_keys(text), len(text.first.rows)
    rows, columns = (even_edges(n, _MOST_CELLS).tolist() for n in (n_rows, len(text.keys)))
    n_columns, panels = len(columns) - 1, []
    for title, mass, chance in numbers:
        shares, even = (_in_cells(x, rows, columns, text.keys, apart) for x in (mass, np.nan_to_num(chance)))
        unknown = _in_cells(np.isnan(chance).astype(np.float64), rows, columns, text.keys, apart) > 0
        shares[:, :n_columns][((even == 0) & ~unknown)[:, :n_columns]] = np.nan  # which queries do not see
        panels.append(SpanPanel(title, shares, ratios(shares, even)))
    of_rows = [
        row_name(text, start) if end - start == 1 else _cell_name(_row_place(text, start), _row_place(text, end - 1))
        for start, end in pairwise(rows)
    ]
    of_columns = [
        key_name(text, text.keys[start]) if end - start == 1 else _cell_name(text.keys[start], text.keys[end - 1])
        for start, end in pairwise(columns)
    ]
    return span_grid(panels, of_rows, [*of_columns, *(key_name(text, key) for key in apart)], (0, len(apart)))


def _in_cells(
    x: NDArray[np.float64], rows: Sequence[int], columns: Sequence[int], keys: Sequence[int], apart: Sequence[int]
) -> NDArray[np.float64]:
    """Return means over the spans of each cell of rows of sums over those of each cell of columns, then the columns
    apart, (rows, columns)."""
    sums = np.concatenate([np.add.reduceat(x[:, list(keys)], columns[:-1], axis=1), x[:, list(apart)]], axis=1)
    means: NDArray[np.float64] = np.add.reduceat(sums, rows[:-1], axis=0) / np.diff(rows)[:, None]
    return means


def _cell_name(first: int | None, last: int | None) -> str:
    """Return the name of a cell of neighbouring spans; those of sinks alone have no place."""
    return " to ".join(f"#{place}" for place in (first, last) if place is not None)


def span_grid(
    panels: Sequence[SpanPanel], rows: Sequence[str], columns: Sequence[str], apart: tuple[int, int]
) -> SpanGrid:
    """Return panels on the scale of × uniform; arguments as of ``SpanGrid``."""
    known = np.concatenate([panel.colours[np.isfinite(panel.colours)] for panel in panels])
    scale = replace(SCALE, below=bool((known < SCALE.low).any()), above=bool((known > SCALE.high).any()))
    return SpanGrid(tuple(panels), tuple(rows), tuple(columns), apart, scale, _OF_COLOURS, _OF_NUMBERS)


def _labelled(text: SpanHeads, key: int) -> str:
    """Return the name of a span with its number of tokens, "document 2 (110)"."""
    count = _count(text, key)
    return key_name(text, key) + (f" ({count:,})" if key in text.keys and count else "")


def _count(text: SpanHeads, key: int) -> int | None:
    """Return the number of tokens of a span; None: it has others in each of the texts or passes that are averaged."""
    return None if averages_inputs(text.first.mean_over) else text.first.columns.tokens.counts[key]


def _lookback_text(text: SpanHeads) -> str:
    """Return the lookback ratios of the queries of one span; "": they have none."""
    ratios = text.lookback(0)
    if not ratios.size:
        return ""
    ends = f", {ratios.min():.2f} to {ratios.max():.2f} by {text.noun}" * (ratios.size > 1)
    return (
        f"lookback ratio {ratios.mean():.2f}{ends}: weight on a token before “{row_name(text, 0)}” / the same + that "
        f"on one of its own so far (Chuang et al. 2024)"
    )


def _query_table(text: SpanHeads) -> Table:
    """Return a table of the spans that the queries of one look at, in the order of the text, then of the rest and the
    sinks."""
    rows = list[tuple[Any, ...]]()
    keys = text.strongest_keys(0, MOST_ROWS)
    for key in keys:
        rows.append((other_name(text, 0, key), _count(text, key), *_numbers(text, 0, key)))
    if others := [key for key in text.keys if key not in keys]:
        mass, chance = (float(x[0, others].sum()) for x in (text.mass, text.chance))
        rows.append((others_text(others), None, mass, chance, mass / chance if chance else None, None, None))
    for key in apart_keys(text):
        rows.append((key_name(text, key), _count(text, key), float(text.mass[0, key]), *[None] * 4))
    heading = f"what “{row_name(text, 0)}” looks at, {text.name}"
    span = (Column("span", align="left", is_key=True), Column("tokens", "{:,}".format))
    return _table(text, span, rows, heading)


def _pairs_table(text: SpanHeads) -> Table:
    """Return a table of the pairs of spans in the order of the largest weight / uniform of a head."""
    pairs = islice(text.ranking(), _MOST_PAIRS)
    rows = [
        (row_name(text, pair.query), key_name(text, pair.key), *_numbers(text, pair.query, pair.key)) for pair in pairs
    ]
    ends = (Column("from", align="left", is_key=True), Column("to", align="left", is_key=True))
    first = f"those with the strongest {text.noun} first" if text.n_matrices > 1 else "the strongest first"
    which = f"; {len(rows)} of {text.n_pairs:,} pairs" * (len(rows) < text.n_pairs)
    return _table(text, ends, rows, f"from span to another, {text.name}, {first}{which}")


def _numbers(text: SpanHeads, query: int, key: int) -> tuple[Any, ...]:
    """Return the values of a row and a column: those of ``_NUMBERS``, and two about single heads."""
    mean = text.mean(query, key)
    if mean is None:
        return (*[None] * 4, "not seen")
    numbers = mean.mass, mean.chance, mean.times_uniform
    return (*numbers, text.n_turning(query, key), _strongest_text(text.strongest(query, key)))


def _table(text: SpanHeads, names: Sequence[Column], rows: Sequence[tuple[Any, ...]], heading: str) -> Table:
    """Return a table of numbers behind names of spans; of a single matrix without the columns about heads."""
    if text.n_matrices == 1:
        columns = (*names, *_NUMBERS)
        return Table(columns, tuple(row[: len(columns)] for row in rows), heading, notes=_RATIO)
    turning = f"{text.noun}s ≥ {short(TURNS)} ×"
    of_heads = Column(turning, "{:,}".format), Column("strongest", align="left")
    notes = (
        f"{_RATIO}; {turning}: those that give it at least {percent(LEAST_MASS)} of their weight; strongest: of "
        f"{text.noun}s that give it so much, the one with the largest ×"
    )
    return Table((*names, *_NUMBERS, *of_heads), tuple(rows), heading, notes=notes)


def _titles(m: AttentionMap) -> tuple[str, ...]:
    """Return a title for each matrix of a map."""
    return tile_titles(m) if m.layer is not None else (mean_text(m.mean_over),)


def apart_keys(text: SpanHeads) -> list[int]:
    """Return the columns of the rest and of sinks."""
    return [key for key in range(len(text.first.keys)) if key not in text.keys]


def _strongest_text(one: SpanWeight | None) -> str:
    """Return "L3 H7: 54%, 2.1 ×"."""
    return f"{one.name}: {percent(one.mass)}, {_times(one)}" if one else f"none gives it {percent(LEAST_MASS)}"


def _times(one: SpanWeight) -> str:
    return times_text(one.times_uniform)


def times_text(ratio: float) -> str:
    """Return "1.8 ×", with more decimals where fewer would round a ratio below ``TURNS`` up to it."""
    decimals = next(n for n in range(1, 9) if ratio >= TURNS or n == 8 or round(ratio, n) < TURNS)
    return f"{fixed(ratio, decimals)} ×"


def row_name(text: SpanHeads, row: int) -> str:
    """Return the name of a row, with the place of its column, so that a span has one place; of a span of sinks alone,
    which has no column, without a place."""
    return _name(text.first.queries[row], _row_place(text, row) if _are_numbered(text) else None)


def _row_place(text: SpanHeads, row: int) -> int | None:
    """Return the place of the column of a row; in cross-attention the place of the row; None: it has no column."""
    return text.itself(row) if text.first.kind in OF_ONE_TEXT else text.first.rows.start + row


def key_name(text: SpanHeads, key: int) -> str:
    """Return the name of a column, with its place where names are cut or alike."""
    return _name(text.first.keys[key], key if key in text.keys and _are_numbered(text) else None)


def other_name(text: SpanHeads, row: int, key: int) -> str:
    """Return the name of a column beside a row: "itself" if both are the same span."""
    return ITSELF if key == text.itself(row) else key_name(text, key)


def _name(span: str, place: int | None) -> str:
    number = "" if place is None else f"#{place} "
    return number + quoted(span, SPAN_NAME - len(number))


def _are_numbered(text: SpanHeads) -> bool:
    """Return whether names of spans begin with their place, "#3", as some are cut or alike."""
    queries, keys = text.first.queries, [text.first.keys[key] for key in text.keys]
    are_alike = any(len({*names}) < len(names) for names in (queries, keys))
    return are_alike or any(map(is_cut, (*queries, *keys)))


def is_cut(name: str) -> bool:
    """Return whether the name of a span is not written whole."""
    return quoted(name, SPAN_NAME) != quoted(name, _LONG)


def _reading(attention: Attention) -> str:
    """Return how to read the pictures."""
    maps = [m for m in attention.maps if m.chance is not None]
    apart = {m.keys[j]: None for m in maps for j in np.flatnonzero(m.are_apart)}
    names = [in_quotes(quoted(name, SPAN_NAME)) for name in apart if name != REST]
    grey = [f"sinks ({', '.join(names)})"] * bool(names) + ["the rest, which is in no span"] * (REST in apart)
    is_folded = any(len(m.rows) > 1 and max(m.weights.shape[1], (~m.are_apart).sum()) > _MOST_CELLS for m in maps)
    sinks = dict.fromkeys(text for m in maps if m.sinks for text in sinks_texts([m])) if len(maps) == 1 else ()
    parts = [
        READING,
        "#0 to #1: neighbouring spans, which give the mean and get the sum of theirs" if is_folded else "",
        f"in grey: {' and '.join(grey)}" if grey else "",
        *sinks,
        attention.source.remark,
    ]
    return "; ".join(filter(None, parts))
