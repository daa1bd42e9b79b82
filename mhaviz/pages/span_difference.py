"""Page of the difference of two texts by sentence, turn or other spans: which span gets more weight, beside uniform
attention, and in which heads."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.spans import REST
from mhaviz.pages.blocks import NOTHING, Block, Column, Dot, Page, SpanGrid, SpanPanel, Table, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.labels import in_quotes, quoted
from mhaviz.pages.numbers import fixed, percent
from mhaviz.pages.panels import Scale, end_of_scale
from mhaviz.pages.span_weights import (
    ITSELF,
    MOST_ROWS,
    READING,
    SPAN_NAME,
    apart_keys,
    few_panels,
    grid_of_spans,
    key_name,
    other_name,
    others_text,
    panel_title,
    row_name,
    text_name,
    times_text,
)
from mhaviz.pages.words import bits_text
from mhaviz.results.difference import Difference, HeadDifference, MapDifference
from mhaviz.results.result import Source
from mhaviz.results.span_changes import SpanChanges
from mhaviz.results.span_ranking import SpanHeads, SpanWeight

_MOST_PAIRS, _MOST_HEADS = 12, 8  # rows of tables
_MOST_NAMED = 2  # spans of one text that a title names
_LEAST = 0.005  # least change of a weight that is told: half a point
_OF_COLOURS, _OF_NUMBERS = "change: after − before, in points (% of the weight)", "numbers: the same"
_LEAST_END = 5.0  # least end of the scale in points, so that noise stays pale


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
    title = texts[0].title if len(texts) == 1 else ""
    has_changed = any(text.changes.has_changed or any(text.changes.lone) for text in texts)
    return Page(
        title, (*blocks, *[ranking] * has_changed), d.source.footnote, "; ".join([READING, *only_texts(d)]), True
    )


def where_of_spans(d: Difference, head: HeadDifference) -> str:
    """Return the weight of a head that has changed most, "answer → user: 78% → 99%"; of a single query "user: …"."""
    change, sides = head.largest, next(m.sides for m in d.maps if m.change is head.map)
    if change is None or sides is None:
        return NOTHING
    text = SpanHeads(sides[:1])
    query, key = (
        quoted(of_side[place], SPAN_NAME)
        for of_side, place in ((head.map.queries, change.query), (head.map.keys, change.key))
    )
    to = ITSELF if change.key == text.itself(change.query) else key
    way = to if len(head.map.rows) == 1 else f"{query} → {to}"
    return f"{way}: {percent(change.before)} → {percent(change.after)}"


def span_heads_table(heads: Sequence[Dot], meaning: str) -> Table:
    """Return the table of the heads by their divergence; ``meaning``: what the divergence is."""
    columns = (
        Column("head", align="left", is_key=True),
        Column("divergence", bits_text),
        Column("changes most", align="left"),
    )
    rows = tuple((head.name, head.value, head.note) for head in heads)
    return Table(columns, rows, "the heads that changed most", _MOST_HEADS, f"divergence: {meaning}")


def only_texts(d: Difference) -> Iterator[str]:
    """Iterate over texts on the spans, and on the sinks, that only one side has."""
    for place, side in enumerate(("first", "second")):
        only = [m.only[place] for m in d.maps if m.only is not None]
        if spans := dict.fromkeys(name for m in d.maps for name in m.spans_of_one(place)):
            yield f"only in the {side}: {_listed([*spans])}"
        if sinks := [name for name in dict.fromkeys(name for of_map in only for name in of_map.apart) if name != REST]:
            unknown = f"; × is not known in the {side}" * any(_lacks_chance(m, place) for m in d.maps)
            yield f"a sink in the {side} alone, and so part of its span or of the rest: {_listed(sinks)}{unknown}"


def _lacks_chance(m: MapDifference, place: int) -> bool:
    """Return whether it is not known what uniform attention gives the spans of a side."""
    side = m.sides and m.sides[place]
    return bool(side and side.chance is not None and np.isnan(side.chance[..., ~side.are_apart]).any())


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

    def _key_name(self, row: int, key: int) -> str:
        return ITSELF if key == self._first.itself(row) else in_quotes(key_name(self._first, key))

    @property
    def title(self) -> str:
        """What has changed: "Without “system”, which had 6%, “answer” gives “user” 88% of its weight, 80% before (1.0 ×
        uniform, as before)"."""
        changes = self.changes
        row, key = changes.largest
        who, is_single = f"“{row_name(self._first, row)}”", len(self._rows) == 1
        others = "other " * any(changes.lone)
        if not changes.has_changed:
            lead, who = self._lead(row if is_single else None), who if is_single else "every span"
            return f"{lead}{who} gives all {others}spans the same weight as before"
        if abs(changes.change[row, key]) < _LEAST:
            lead, who = self._lead(row if is_single else None), f"{who} looks" if is_single else "the spans look"
            return f"{lead}{who} at all {others}spans as before: none gets {_LEAST:.1%} more or less weight on average"
        before, after = (float(side.mass[row, key]) for side in (changes.before, changes.after))
        gives = f"{who} gives {self._key_name(row, key)} {percent(after)} of its weight, {percent(before)} before"
        return f"{self._lead(row)}{gives}{_beside_uniform(*changes.means(row, key))}"

    def _lead(self, row: int | None) -> str:
        """Return what only one text has, with the weight that a row gives it, None: no row in particular; or the names
        of both."""
        gone, new = self.changes.lone
        had, has = (
            self._share(side, row, keys) for side, keys in ((self.changes.before, gone), (self.changes.after, new))
        )
        if gone and new:
            of_new, of_gone = (f" ({share})" if share else "" for share in (has, had))
            return f"With {self._spans(new)}{of_new} in place of {self._spans(gone)}{of_gone}, "
        if gone:
            return f"Without {self._spans(gone)}, " + f"which had {had}, " * bool(had)
        if new:
            return f"With {self._spans(new)}, " + f"which {'gets' if len(new) == 1 else 'get'} {has}, " * bool(has)
        one, other = (side.model for side in self._source.sides)
        return f"{one} → {other}: " if one != other else f"{one}: "

    @staticmethod
    def _share(side: SpanHeads, row: int | None, keys: Sequence[int]) -> str:
        return "" if row is None else percent(float(side.mass[row, [*keys]].sum()))

    def _spans(self, keys: Sequence[int]) -> str:
        named = [f"“{key_name(self._first, key)}”" for key in keys]
        return " and ".join(named) if len(named) <= _MOST_NAMED else counted(len(named), "span")

    def blocks(self) -> Iterator[Block]:
        """Yield what changes most in which head, the picture and the table."""
        yield Text((self._subtitle,), "subtitle")
        if len(self._rows) > 1:
            sides = (("before", self.changes.before), ("after", self.changes.after))
            yield grid_of_spans(self._first, [(title, side.mass, side.chance) for title, side in sides])
            if self.changes.ranking:
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
        way = f"on {end}" if len(self._rows) == 1 else f"from “{row_name(self._first, row)}” on {end}"
        return f"{head.name} changes most, {way}: {numbers}"

    @cached_property
    def _shown(self) -> tuple[list[int], list[int]]:
        """Columns of the spans of which a head changes most, for the queries of one span, and those of all others. That
        which changes most of those that both texts have comes first."""
        keys, (_, most) = self._first.keys, self.changes.most_changed
        shown = sorted(sorted(keys, key=lambda key: (key != most, -self.changes.sizes[0, key]))[:MOST_ROWS])
        return shown, [key for key in keys if key not in shown]

    def _query_table(self) -> Table:
        """Return the table of the columns, for the queries of one span."""
        shown, others = self._shown
        rows = [(other_name(self._first, 0, key), *self._numbers(0, key)) for key in shown]
        if others:
            before, after = (float(side.mass[0, others].sum()) for side in (self.changes.before, self.changes.after))
            rows.append((others_text(others), before, after, after - before, None, None, None))
        rows += [(other_name(self._first, 0, key), *self._numbers(0, key)) for key in apart_keys(self._first)]
        heading = f"what “{row_name(self._first, 0)}” looks at, {self._first.name}"
        return self._table((Column("span", align="left", is_key=True),), tuple(rows), heading)

    def _pairs_table(self) -> Table:
        """Return the table of the pairs of spans with the largest changes."""
        pairs = self.changes.ranking
        rows = tuple(
            (row_name(self._first, row), other_name(self._first, row, key), *self._numbers(row, key))
            for row, key in pairs[:_MOST_PAIRS]
        )
        ends = (Column("from", align="left", is_key=True), Column("to", align="left", is_key=True))
        is_cut = len(pairs) > len(rows)
        which = f"{len(rows)} largest of {len(pairs):,}" if is_cut else "largest"
        return self._table(ends, rows, f"the {which} changes, {self._first.name}", "; .json has all" * is_cut)

    def _table(
        self, ends: tuple[Column, ...], rows: tuple[tuple[Any, ...], ...], heading: str, more: str = ""
    ) -> Table:
        """Return a table, without the column about single heads where there is one matrix."""
        n = len(ends) + len(_NUMBERS) - (self._first.n_matrices == 1)
        columns = (*ends, *_NUMBERS)[:n]
        notes = _MEANING + _MOST_IN * (self._first.n_matrices > 1) + more
        return Table(columns, tuple(row[:n] for row in rows), heading, None, notes)

    def _numbers(self, row: int, key: int) -> tuple[Any, ...]:
        """Return the numbers of a pair, as ``_NUMBERS``."""
        changes, (gone, new) = self.changes, self.changes.lone
        sides = (changes.before, new), (changes.after, gone)
        shares = [None if key in absent else float(side.mass[row, key]) for side, absent in sides]
        means = changes.means(row, key) if key in self._first.keys else (None, None)
        times = [mean and mean.times_uniform for mean in means]
        return (*shares, float(changes.change[row, key]), *times, self._most_text(row, key))

    def _heads_grid(self) -> SpanGrid:
        """Return the change of every head, a panel of spans × heads for each layer; of many layers, of layers × heads
        for each span."""
        (keys, others), apart, maps = self._shown, apart_keys(self._first), self._first.maps
        order = [*keys, *[-1] * bool(others), *apart]
        _, most = self.changes.most_changed
        heads, panels = list(dict.fromkeys(head for m in maps for head in m.heads)), list[SpanPanel]()
        for before, after in zip(maps, self.changes.after.maps, strict=True):
            change = (after.weights[:, 0].astype(np.float64) - before.weights[:, 0]).T  # columns, n_heads
            if others:  # as one span
                change = np.concatenate([change, change[others].sum(axis=0, keepdims=True)])
            shown = np.full((len(order), len(heads)), np.nan)  # a layer may lack some heads
            shown[:, [heads.index(head) for head in before.heads]] = change[order]
            panels.append(SpanPanel(panel_title(before), shown, 100 * shown))
        row = order.index(most)
        sizes = np.array([np.nan_to_num(np.abs(panel.shares[row])) for panel in panels])  # layers, heads
        number, head = (int(i) for i in np.unravel_index(int(sizes.argmax()), sizes.shape))
        if self.changes.has_changed:
            panels[number] = replace(panels[number], outlined=((row, head),))
        names = [others_text(others) if key < 0 else key_name(self._first, key) for key in order]
        columns = tuple(map(str, heads)) if not self._first.first.quantity.of_all_heads else ("mean",)
        drawn, rows, n_apart = few_panels(panels, names, [m.layer for m in maps], len(apart))
        scale = _scale(np.concatenate([panel.colours.ravel() for panel in panels]))
        return SpanGrid(tuple(drawn), tuple(rows), columns, (n_apart, 0), scale, _OF_COLOURS, _OF_NUMBERS)


def _scale(points: NDArray[np.float64]) -> Scale:
    """Return the scale of changes in points."""
    end = max(end_of_scale([points.astype(np.float32)]), _LEAST_END)
    below, above = bool((points < -end).any()), bool((points > end).any())
    return Scale(DIVERGING, -end, end, signed=True, name="change", below=below, above=above)


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
