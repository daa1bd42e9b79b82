"""Page of the difference of two texts by sentence, turn or other spans: which span gets more weight, beside uniform
attention, and in which heads."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mhaviz.errors import counted
from mhaviz.inputs.tokens import OF_ONE_TEXT
from mhaviz.pages.blocks import NOTHING, Block, Column, Dot, Page, SpanGrid, SpanPanel, Table, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.labels import in_quotes, quoted
from mhaviz.pages.numbers import fixed, percent
from mhaviz.pages.panels import Scale, end_of_scale
from mhaviz.pages.span_weights import SPAN_NAME, few_panels, span_grid, text_name, times_text
from mhaviz.pages.words import bits_text
from mhaviz.results.difference import Difference, HeadDifference, MapDifference
from mhaviz.results.means import mean_text
from mhaviz.results.result import Source
from mhaviz.results.span_changes import SpanChanges
from mhaviz.results.span_numbers import REST
from mhaviz.results.span_ranking import SpanHeads, SpanWeight, ratios

_MOST_PAIRS, _MOST_HEADS = 12, 8  # rows of tables
_MOST_NAMED = 2  # spans of one text that a title names
_LEAST = 0.005  # least change of a weight that is told: half a point
_LEAST_END = 5.0  # least end of the scale in points, so that noise stays pale
_ITSELF = "itself"


def are_by_span(d: Difference) -> bool:
    """Return whether the maps are of spans that are no words."""
    return all(m.only is not None for m in d.maps)


def span_difference_page(d: Difference, ranking: Block) -> Page:
    """Return the page; ``ranking``: the heads by their divergence."""
    texts = [_Text(SpanChanges.of(maps), d.source) for maps in _by_text(d.maps)]
    blocks = list[Block]()
    for text in texts:
        if len(texts) > 1:
            name = text_name(text.changes.after.first)
            blocks += [*[Text(("",))] * bool(blocks), Text((f"{name}: {text.title}",), "heading")]
        blocks += text.blocks()
    said = "a span gives the mean over its tokens, and gets the sum over its tokens"
    title = texts[0].title if len(texts) == 1 else ""
    return Page(title, (*blocks, ranking), d.source.footnote, "; ".join([said, *only_texts(d)]), True)


def where_of_spans(head: HeadDifference) -> str:
    """Return the weight of a head that has changed most, "answer → user: 78% → 99%"; of a single query "user: …"."""
    change = head.largest
    if change is None:
        return NOTHING
    query, key = head.map.queries[change.query], head.map.keys[change.key]
    to = _ITSELF if query == key and head.map.kind in OF_ONE_TEXT else quoted(key, SPAN_NAME)
    way = to if len(head.map.rows) == 1 else f"{quoted(query, SPAN_NAME)} → {to}"
    return f"{way}: {percent(change.before)} → {percent(change.after)}"


def span_heads_table(heads: Sequence[Dot], meaning: str) -> Table:
    """Return the table of the heads by their divergence; ``meaning``: what the divergence is."""
    columns = (
        Column("head", align="left", is_key=True),
        Column("divergence", bits_text),
        Column("changes most", align="left"),
    )
    rows = tuple((head.name, head.value, head.note) for head in heads)
    heading = "the heads that changed most" if any(head.value for head in heads) else "no weight differs"
    return Table(columns, rows, heading, _MOST_HEADS, f"divergence: {meaning}")


def only_texts(d: Difference) -> Iterator[str]:
    """Iterate over texts on the spans, and on the sinks, that only one side has."""
    for place, side in enumerate(("first", "second")):
        only = [m.only[place] for m in d.maps if m.only is not None]
        if spans := dict.fromkeys(name for of_map in only for name in (*of_map.keys, *of_map.queries)):
            yield f"only in the {side}: {_listed([*spans])}"
        if sinks := [name for name in dict.fromkeys(name for of_map in only for name in of_map.apart) if name != REST]:
            yield f"a sink in the {side} alone, and in the other part of a span or of the rest: {_listed(sinks)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(in_quotes(quoted(name, SPAN_NAME)) for name in names)


def _by_text(maps: Sequence[MapDifference]) -> list[list[MapDifference]]:
    texts = defaultdict[Hashable, list[MapDifference]](list)
    for one in maps:
        m = one.change
        texts[m.sentence, m.pass_number, m.kind, m.queries, m.keys].append(one)
    return [*texts.values()]


class _Text:
    """What is said and drawn of two texts.

    Args:
        changes: the changes of all heads.
        source: the source of both texts.
    """

    def __init__(self, changes: SpanChanges, source: Source) -> None:
        self.changes, self._source = changes, source

    @property
    def _first(self) -> SpanHeads:
        return self.changes.before

    @property
    def _rows(self) -> range:
        return range(len(self._first.first.rows))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Names of the columns; one that looks like another has its number before it."""
        shown = [quoted(name, SPAN_NAME) for name in self._first.first.keys]
        again = Counter(shown)
        return tuple(f"#{i} {name}" if again[name] > 1 else name for i, name in enumerate(shown))

    def _row_name(self, row: int) -> str:
        """Return the name of a row, which is that of its column if it has one."""
        name = self._first.first.queries[row]
        own = self._first.itself(row)
        return quoted(name, SPAN_NAME) if own is None else self._names[own]

    def _key_name(self, row: int, key: int) -> str:
        return _ITSELF if key == self._first.itself(row) else in_quotes(self._names[key])

    @property
    def title(self) -> str:
        """What has changed: "Without “system”, which had 6%, “answer” gives “user” 88% of its weight, 80% before (1.0 ×
        uniform, as before)"."""
        changes = self.changes
        row, key = changes.largest
        who, lead = f"“{self._row_name(row)}”", self._lead(row)
        others = "other " * any(changes.lone)
        if not changes.has_changed:
            who = who if len(self._rows) == 1 else "every span"
            return f"{lead}{who} gives all {others}spans the same weight as before"
        if abs(changes.change[row, key]) < _LEAST:
            who = f"{who} looks" if len(self._rows) == 1 else "the spans look"
            return f"{lead}{who} at all {others}spans as before: none gets {_LEAST:.1%} more or less weight on average"
        before, after = (float(side.mass[row, key]) for side in (changes.before, changes.after))
        gives = f"{who} gives {self._key_name(row, key)} {percent(after)} of its weight, {percent(before)} before"
        return f"{lead}{gives}{_beside_uniform(*changes.means(row, key))}"

    def _lead(self, row: int) -> str:
        """Return what only one text has, with its weight, or the names of both."""
        (gone, new), sides = self.changes.lone, (self.changes.before, self.changes.after)
        had, has = (
            percent(float(side.mass[row, [*keys]].sum())) for side, keys in zip(sides, (gone, new), strict=True)
        )
        if gone and new:
            return f"With {self._spans(new)} ({has}) in place of {self._spans(gone)} ({had}), "
        if gone:
            return f"Without {self._spans(gone)}, which had {had}, "
        if new:
            return f"With {self._spans(new)}, which {'gets' if len(new) == 1 else 'get'} {has}, "
        one, other = (side.model for side in self._source.sides)
        return f"{one} → {other}: " if one != other else f"{one}: "

    def _spans(self, keys: Sequence[int]) -> str:
        named = [f"“{self._names[key]}”" for key in keys]
        return " and ".join(named) if len(named) <= _MOST_NAMED else counted(len(named), "span")

    def blocks(self) -> Iterator[Block]:
        """Yield what changes most in which head, the picture and the table."""
        yield Text((self._subtitle,), "subtitle")
        if len(self._rows) > 1:
            yield self._spans_grid()
            yield self._pairs_table()
            return
        yield self._query_table()
        if self._first.n_matrices > 1 and (self.changes.has_changed or any(self.changes.lone)):
            yield self._heads_grid()

    @property
    def _subtitle(self) -> str:
        row, key = self.changes.most_changed
        has_most = self._first.n_matrices > 1 and self.changes.has_changed
        parts = [self._first.name, *[self._most_text(row, key, True)] * has_most]
        if len(self._rows) == 1:
            ratios_of_heads = [side.lookback(0) for side in (self.changes.before, self.changes.after)]
            if all(map(len, ratios_of_heads)):
                parts.append("lookback ratio {:.2f}, then {:.2f}".format(*map(np.mean, ratios_of_heads)))
        return "; ".join(parts)

    def _most_text(self, row: int, key: int, in_words: bool = False) -> str:
        """Return "L1 H4: 20% → 7%", or in words "L1 H4 changes most, from “answer” on “user”: 20% → 7%"."""
        if (head := self.changes.most(row, key)) is None:
            return NOTHING
        numbers = f"{percent(head.before)} → {percent(head.after)}"
        if not in_words:
            return f"{head.name}: {numbers}"
        end = self._key_name(row, key)
        way = f"on {end}" if len(self._rows) == 1 else f"from “{self._row_name(row)}” on {end}"
        return f"{head.name} changes most, {way}: {numbers}"

    def _query_table(self) -> Table:
        """Return the table of the columns, for the queries of one span."""
        order = [*self._first.keys, *self._apart]
        rows = tuple((self._plain_name(0, key), *self._numbers(0, key)) for key in order)
        heading = f"what “{self._row_name(0)}” looks at, {self._first.name}"
        return self._table((Column("span", align="left", is_key=True),), rows, heading, None)

    def _pairs_table(self) -> Table:
        """Return the table of the pairs of spans, those of the largest changes first."""
        pairs = [(row, key) for row in self._rows for key in range(len(self._names))]
        pairs.sort(key=lambda pair: -abs(float(self.changes.change[pair])))
        rows = tuple(
            (self._row_name(row), self._plain_name(row, key), *self._numbers(row, key))
            for row, key in pairs
            if self.changes.most(row, key)
        )
        ends = (Column("from", align="left", is_key=True), Column("to", align="left", is_key=True))
        return self._table(ends, rows, f"from span to span, {self._first.name}, the largest change first", _MOST_PAIRS)

    def _table(
        self, ends: tuple[Column, ...], rows: tuple[tuple[Any, ...], ...], heading: str, most: int | None
    ) -> Table:
        """Return a table, without the column about single heads where there is one matrix."""
        n = len(ends) + len(_NUMBERS) - (self._first.n_matrices == 1)
        columns = (*ends, *_NUMBERS)[:n]
        notes = _MEANING + _MOST_IN * (self._first.n_matrices > 1)
        return Table(columns, tuple(row[:n] for row in rows), heading, most, notes)

    def _plain_name(self, row: int, key: int) -> str:
        return _ITSELF if key == self._first.itself(row) else self._names[key]

    def _numbers(self, row: int, key: int) -> tuple[Any, ...]:
        """Return the numbers of a pair, as ``_NUMBERS``."""
        changes, (gone, new) = self.changes, self.changes.lone
        sides = (changes.before, new), (changes.after, gone)
        shares = [None if key in absent else float(side.mass[row, key]) for side, absent in sides]
        means = changes.means(row, key) if key in self._first.keys else (None, None)
        times = [mean and mean.times_uniform for mean in means]
        return (*shares, float(changes.change[row, key]), *times, self._most_text(row, key))

    @property
    def _apart(self) -> list[int]:
        """Columns of the rest and of sinks."""
        return [key for key in range(len(self._names)) if key not in self._first.keys]

    def _spans_grid(self) -> SpanGrid:
        """Return spans × spans before and after, each the mean over all heads."""
        panels, order = list[SpanPanel](), [*self._first.keys, *self._apart]
        for title, side in (("before", self.changes.before), ("after", self.changes.after)):
            chance = np.where(np.isin(np.arange(len(self._names)), side.keys), side.chance, np.nan)
            shares = np.where(chance == 0, np.nan, side.mass)
            panels.append(SpanPanel(title, shares[:, order], ratios(side.mass, chance)[:, order]))
        names = [self._names[key] for key in order]
        return span_grid(panels, [*map(self._row_name, self._rows)], names, (0, len(self._apart)))

    def _heads_grid(self) -> SpanGrid:
        """Return the change of every head, a panel of spans × heads for each layer."""
        order, panels, begin = [*self._first.keys, *self._apart], list[SpanPanel](), 0
        points = 100 * np.array([self.changes.changes(0, key) for key in order])
        end = max(end_of_scale([points.astype(np.float32)]), _LEAST_END)
        _, key = self.changes.most_changed
        outlined = order.index(key), int(np.abs(points[order.index(key)]).argmax())
        for m in self._first.maps:
            those = slice(begin, begin + len(m.weights))
            title = mean_text(m.mean_over) if m.layer is None else f"layer {m.layer}"
            own = ((outlined[0], outlined[1] - begin),) if begin <= outlined[1] < those.stop else ()
            panels.append(SpanPanel(title, points[:, those] / 100, points[:, those], own))
            begin = those.stop
        of_heads = not self._first.first.quantity.of_all_heads
        columns = tuple(map(str, self._first.first.heads)) if of_heads else ("mean",)
        beyond = bool((np.abs(points) > end).any())
        scale = Scale(DIVERGING, -end, end, signed=True, name="change", below=beyond, above=beyond)
        names, layers = [self._names[j] for j in order], [m.layer for m in self._first.maps]
        shown, rows, n_apart = few_panels(panels, names, layers, len(self._apart))
        of_colours, of_numbers = "change: after − before, in points (% of the weight)", "numbers: the same"
        return SpanGrid(tuple(shown), tuple(rows), columns, (n_apart, 0), scale, of_colours, of_numbers)


def _beside_uniform(before: SpanWeight | None, after: SpanWeight | None) -> str:
    """Return " (1.0 × uniform, 1.2 × before)"; "" where uniform attention is not known, as of sinks."""
    if before is None or after is None or np.isnan(before.chance) or np.isnan(after.chance):
        return ""
    then, now = (times_text(one.times_uniform) for one in (before, after))
    return f" ({now} uniform, {'as' if now == then else then} before)"


def _points(change: float) -> str:
    """Return "+7.6", in points."""
    text = fixed(100 * change, 1)
    return f"+{text}" if 100 * change >= 0.05 else text


_NUMBERS = (
    Column("before", percent),
    Column("after", percent),
    Column("change", _points),
    Column("× before", "{:.1f}".format),
    Column("× after", "{:.1f}".format),
    Column("most in", align="left"),
)
_MEANING = (
    "×: weight / that of uniform attention; a weight that changes at the same × follows the lengths of the spans; "
    "change: after − before, in points"
)
_MOST_IN = "; most in: the head whose weight changes most"
