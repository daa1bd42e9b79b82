"""Page of the difference of two attentions: the heads that changed most, and B − A of every head."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import KIND_NAMES, Kind
from mhaviz.pages.attention import heads_blocks
from mhaviz.pages.blocks import NOTHING, Block, Column, Dot, Drawn, Matrices, Page, Table, Text
from mhaviz.pages.divergence import change_dots, divergence_panels, first_text, lesson
from mhaviz.pages.map_words import cells_text, hidden_text
from mhaviz.pages.registry import PAGE_SUFFIXES, shown
from mhaviz.pages.span_difference import are_by_span, span_difference_page, span_heads_table, where_of_spans
from mhaviz.pages.words import bits_text, one_text, position_text
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.difference import Difference, HeadDifference, MapDifference
from mhaviz.results.quantity import WEIGHT, Cells
from mhaviz.units import with_minus

_MOST = 16  # rows of the table; a longer one would scroll the pictures away
_MEANING = (
    "the Jensen–Shannon divergence of a query's weights before and after, in bits: 0 if none has changed, 1 if no key "
    "is in common; the mean over the queries"
)
_CHANCE = "the mean divergence of a head before from another head after"


@shown(Difference, PAGE_SUFFIXES)
def difference_page(d: Difference) -> Page:
    """Return the page: the heads that changed most, and, if any has, B − A of every head of every map on one scale."""
    changes = [m.change for m in d.maps]
    of_head, several = _by_name(d), len({m.sentence for m in changes}) > 1
    has_spans = are_by_span(d)
    ranked = _ranked(d, of_head, partial(where_of_spans, d) if has_spans else _where)
    whisker = "from the least to the largest of the sentences"
    meaning = _MEANING + " and the sentences" * several
    which = "span whose weight changes most" if has_spans else f"query → key whose {_name(d)} changes most"
    where = f"the {which}" + ", of all sentences" * several
    table = span_heads_table(ranked, meaning) if has_spans else ranking_table(d)
    dots = change_dots(ranked, table, meaning, where, whisker, _CHANCE)
    if has_spans:
        return span_difference_page(d, dots)
    title = lesson(d.source, first_text(ranked) or _first_change(d, of_head), len(of_head))
    if not _has_changed(d):
        return Page(title, (dots,), d.source.footnote)
    blocks: tuple[Block, ...] = (
        dots,
        *_layers_by_heads(d),
        Text((heading(d),), "heading"),
        *(_with_changes(d, block) for block in heads_blocks(changes, "", len({m.layer for m in changes}) > 1)),
    )
    return Page(title, blocks, d.source.footnote, partial(reading_text, changes))


def _by_name(d: Difference) -> dict[str, list[HeadDifference]]:
    """Return each head's changes in all sentences, by the head's name."""
    names, of_head = _short_names(d, ("sentence", "layer")), defaultdict[str, list[HeadDifference]](list)
    for head in d.ranking:
        of_head[" ".join([*names[head.map.name], head.map.short_name_of(head.head)])].append(head)
    return of_head


def _ranked(
    d: Difference, of_head: Mapping[str, Sequence[HeadDifference]], where: Callable[[HeadDifference], str]
) -> list[Dot]:
    """Return the heads that have a divergence, each with its mean over the sentences, the largest first; ``where``:
    names the weight that has changed most."""
    changes, chances = list[Dot](), {m.change.name: m.chance for m in d.maps}
    for name, several in of_head.items():
        if bits := [head.divergence for head in several if head.divergence is not None]:
            low, high = (min(bits), max(bits)) if len(bits) > 1 else (math.nan, math.nan)
            known = [chance for head in several if (chance := chances[head.map.name]) is not None]
            chance = float(np.mean(known)) if known else math.nan
            changes.append(Dot(name, float(np.mean(bits)), low, high, chance, where(_most_changed(several))))
    return sorted(changes, key=lambda change: -change.value)


def _most_changed(heads: Sequence[HeadDifference]) -> HeadDifference:
    return max(heads, key=lambda head: head.size)


def _first_change(d: Difference, of_head: Mapping[str, Sequence[HeadDifference]]) -> str:
    """Return the head with the largest change, "L0 H2: weight +0.125"; "" if none has changed."""
    name = max(of_head, key=lambda one: _most_changed(of_head[one]).size)
    change = _most_changed(of_head[name]).largest
    return "" if change is None else f"{name}: {_name(d)} {_signed(change.after - change.before)}"


def _layers_by_heads(d: Difference) -> list[Matrices]:
    """Return the mean divergence over the sentences as layers × heads for each kind; empty where there is one layer, a
    head has several numbers, or some heads are left out."""
    layers = sorted({m.change.layer for m in d.maps if m.change.layer is not None})
    n_heads = 1 + max(head.head for head in d.ranking)
    if (
        len(layers) < 2
        or {head.head for head in d.ranking} != set(range(n_heads))
        or any(_short_names(d, ("sentence", "layer", "kind")).values())
    ):
        return []
    bits = defaultdict[Kind, NDArray[np.float64]](lambda: np.zeros((2, len(layers), n_heads)))  # sums, and how many
    for head in d.ranking:
        if head.divergence is not None and head.map.layer is not None:
            bits[head.map.kind][:, layers.index(head.map.layer), head.head] += head.divergence, 1
    several, panels = len(bits) > 1, []
    for kind, (sums, counts) in bits.items():
        there = counts.any(axis=1)
        means = sums / np.where(counts, counts, np.nan)
        panels.append((KIND_NAMES[kind] if several else "", list(compress(layers, there)), means[there]))
    return divergence_panels(panels)


def heading(d: Difference) -> str:
    """Return what the pictures show."""
    return f"B − A, the change of every {_name(d)}"


def _with_changes(d: Difference, block: Matrices) -> Matrices:
    """Return a block of changes with the divergence of each head and the description of its cells."""
    first = next(m for m in d.maps if m.change.name == block.maps[0].name)
    of_head = {(head.map.name, head.head): head.divergence for head in d.ranking}
    divergences = (of_head[m.name, head] for m in block.maps for head in m.heads)
    panels = tuple(
        replace(panel, aside="" if divergence is None else f"{bits_text(divergence)} bits")
        for panel, divergence in zip(block.panels, divergences, strict=True)
    )
    return replace(
        block,
        panels=panels,
        cell_text=partial(cell_text, first.change),
        by_layer=tuple(_with_changes(d, one) for one in block.by_layer),
        module=block.module if block.by_layer else _module_text(first),
    )


def _module_text(difference: MapDifference) -> str:
    """Return the name of the attention's module; where it differs between the two programs, both names."""
    sides = difference.sides or (difference.change,)
    names = list(dict.fromkeys(m.module for m in sides))
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{side}: {name}" for side, name in zip("AB", names, strict=True) if name)


def reading_text(changes: Sequence[AttentionMap], drawn: Drawn) -> str:
    """Return how to read pictures of these changes."""
    less, more = drawn.ends or ("below 0", "above 0")
    name = _number_name(changes)
    text = f"rows are queries, columns keys; {less}: less {name} than before, {more}: more"
    return "; ".join(filter(None, [text, hidden_text(changes, drawn.hidden)]))


def cell_text(m: AttentionMap, drawn: Cells) -> str:
    """Return what a cell of a picture shows; "" if it is the change of one number."""
    farthest, name = "the change farthest from 0", m.quantity.name
    if drawn.are_tokens or m.are_sums:
        return cells_text(drawn, name)
    if not m.is_pooled:
        return f"each cell is {farthest} of up to {drawn.rows.widest:,} × {drawn.columns.widest:,}"
    if len(drawn.rows) == len(m.rows) and len(drawn.columns) == len(m.columns):
        return cells_text(m.cells, name)
    return f"{cells_text(m.cells, name)}; where several share a place, {farthest}"


def ranking_table(d: Difference) -> Table:
    """Return the table of heads, those that changed most first."""
    names = _short_names(d, ("layer",))
    several = any(names.values())
    columns = (
        *([Column("map", ", ".join, "left", is_key=True)] if several else []),
        Column("head", align="left", is_key=True),
        Column("divergence", bits_text),
        Column("worst row", _worst, "left"),
        Column("before", "{:.3f}".format),
        Column("change", _signed),
        Column("where", _where, "left"),
    )
    rows = [
        (
            *([names[head.map.name]] if several else []),
            head.map.short_name_of(head.head),
            head.divergence,
            head.worst and head,
            head.largest and head.largest.before,
            head.largest and head.largest.after - head.largest.before,
            head.largest and head,
        )
        for head in d.ranking
    ]
    heading = "the heads that changed most" if _has_changed(d) else f"no {_name(d)} differs"
    return Table(columns, tuple(rows), heading, _MOST, _notes(d))


def _has_changed(d: Difference) -> bool:
    return any(head.largest for head in d.ranking)


def _short_names(d: Difference, left_out: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return what distinguishes each map from the others: "sentence 1", or "pass 100", "layer 2" and "cross"."""
    changes = [m.change for m in d.maps]
    every = [
        {
            "pass": f"pass {m.pass_number}",
            "sentence": f"{one_text(is_recorded=m.is_recorded)} {m.sentence}",
            "layer": m.layer_text,
            "kind": m.kind,
            "quantity": "weights" if m.quantity.key == WEIGHT.key else m.quantity.key,
            "reduction": m.quantity.reduction,
        }
        for m in changes
    ]
    parts = [[text for name, text in of_map.items() if name not in left_out] for of_map in every]
    differing = [len(set(values)) > 1 for values in zip(*parts, strict=True)]
    return {m.name: tuple(compress(of_map, differing)) for m, of_map in zip(changes, parts, strict=True)}


def _name(d: Difference) -> str:
    """Return the name of the numbers."""
    return _number_name([m.change for m in d.maps])


def _number_name(maps: Sequence[AttentionMap]) -> str:
    """Return the name of the numbers of these maps; "weight" if they are shares of 1, or differ."""
    names = {WEIGHT.name if m.quantity.is_distribution else m.quantity.name for m in maps}
    return names.pop() if len(names) == 1 else WEIGHT.name


def _notes(d: Difference) -> str:
    """Return what the columns mean."""
    parts = [f"before, change: of the {_name(d)} that has changed most"] if _has_changed(d) else []
    if any(head.divergence is not None for head in d.ranking):
        parts.append(
            "divergence: the mean Jensen–Shannon divergence of the head's rows before and after, in bits: 0 if no "
            "weight has changed, 1 if no row has a key in common"
        )
    if (chances := [m.chance for m in d.maps if m.chance is not None]) and _has_changed(d):
        ends = dict.fromkeys(bits_text(end) for end in (min(chances), max(chances)))
        parts.append(f"by chance {' to '.join(ends)}, {_CHANCE}")
    if any(head.worst for head in d.ranking):
        parts.append("worst row: the largest of these divergences, and its query")
    if zeros := sum(head.zero_rows for head in d.ranking):
        rows = "1 row that is zeros" if zeros == 1 else f"{zeros:,} rows that are zeros"
        parts.append(f"{rows} in both {'is' if zeros == 1 else 'are'} left out of the mean")
    if any(head.divergence is not None and not head.map.is_whole for head in d.ranking):
        parts.append("of pooled cells, or of a window with one cell for all other keys, it is at most that of all keys")
    if any(head.divergence is not None and head.map.sink for head in d.ranking):
        parts.append("a head's sink counts as one more key")
    if any(not m.change.quantity.rows_are_shares for m in d.maps):
        several = dict.fromkeys(_of_no_shares(m.change) for m in d.maps if not m.change.quantity.rows_are_shares)
        parts.append(f"{' and '.join(several)} are no distribution: they have no divergence")
    if any(head.flaw for head in d.ranking):
        parts.append("rows that do not sum to 1 are no distribution: their heads have no divergence")
    return "; ".join(parts)


def _of_no_shares(m: AttentionMap) -> str:
    """Return the name of numbers whose rows do not sum to 1."""
    return "largest weights of cells" if m.quantity.is_distribution else f"{m.quantity.name}s"


def _worst(head: HeadDifference) -> str:
    """Return "0.6931 at 3 cat"."""
    if head.worst is None:
        return NOTHING
    m = head.map
    return f"{bits_text(head.worst.divergence)} at {_token(m.rows, head.worst.query)}"


def _where(head: HeadDifference) -> str:
    """Return the query and key of the weight that has changed most, "3 cat → 5 mat"."""
    m, change = head.map, head.largest
    if change is None:
        return NOTHING
    query = _token(m.rows, change.query)
    return f"{query} → {_token(m.columns, change.key)}"


def _signed(change: float) -> str:
    """Return "+0.553", or "+2e−07" for a number that three decimals would round to 0."""
    return with_minus(f"{change:+.3f}" if abs(change) >= 0.0005 else f"{change:+.0e}")


def _token(axis: Axis, position: int) -> str:
    """Return "12,345 whale", or "12,340 to 12,349" for a cell of several tokens."""
    last = int(axis.edges[axis.cell_of(position) + 1]) - 1
    if last > position:
        return f"{position:,} to {last:,}"
    return position_text(position, axis.tokens.texts[position - axis.start])
