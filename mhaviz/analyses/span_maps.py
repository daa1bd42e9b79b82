"""Maps by span, such as by word: sums over the keys of each span, and means over its queries, at any length."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from mhaviz.analyses.weights import map_sizes, mean_share, require_text
from mhaviz.attention.map import pool
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.attention.pooled_map import Pooling
from mhaviz.devices import require_memory
from mhaviz.inputs.spans import SpansOf, text_by_span
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.quantity import NORM, WEIGHT, Quantity
from mhaviz.results.result import Source
from mhaviz.results.spans import SpanSide

_FLOAT64 = 8  # bytes

_AT_ONCE = 2**22
"""Most sums over keys that are held at a time, before they are averaged over queries."""


def span_maps(
    model: Model,
    inputs: Inputs,
    spans_of: SpansOf,
    most: int,
    heads: Sequence[int] | None = None,
    hide_special: bool = False,
    on_progress: Callable[[float, str], None] = lambda done, what: None,
) -> Attention:
    """Compute a map of spans of each selected attention for each sentence.

    Args:
        model, inputs, heads, hide_special: as in ``attention_weights``.
        spans_of: finds the spans of each side.
        most: most rows and columns; more spans are pooled by mass.
        on_progress: as in ``pooled_maps``.

    Raises:
        ArgumentError: as ``spans_of``; there are only special tokens.
        MhavizError: the sums do not fit into memory.
    """
    maps: list[AttentionMap] = []
    source = model.describe(replace(inputs, texts=tuple(text_by_span(text, spans_of) for text in inputs.texts)))
    costs = [size.n_heads * size.q_length * size.k_length for size in map_sizes(model, inputs, heads)]

    def on_attention(seen: SiteCall) -> None:
        number = len(maps)
        before, cost, what = sum(costs[:number]), costs[number], f"map {number + 1} of {len(costs)}"

        def on_share(share: float) -> None:
            on_progress((before + share * cost) / sum(costs), what)

        maps.append(span_map(seen, spans_of, most, hide_special, on_share))

    model.run(inputs, on_attention, heads)
    return Attention(source, tuple(maps))


def span_map(
    seen: SiteCall,
    spans_of: SpansOf,
    most: int,
    hide_special: bool = False,
    on_progress: Callable[[float], None] = lambda done: None,
) -> AttentionMap:
    """Return the map of spans of a call of one sentence; arguments as in ``span_maps``.

    The weights are summed tile by tile over the keys of each column, and a block of queries at a time is averaged.
    """
    rows, keys = span_sides((seen.queries[0], seen.keys[0]), seen.site.kind, spans_of, hide_special)
    cells, columns = rows.pooled(most), keys.pooled(most)
    edges, cuts, (_, n_heads, *lengths) = rows.edges, columns.edges, seen.call.shape
    shape = n_heads, len(cells.axis), len(columns.axis)
    require_memory(_FLOAT64 * math.prod(shape), torch.device("cpu"), "the map")
    # A row is the mean over its spans of the means over their tokens, so that each run of tokens has a factor.
    factors, owners = rows.shares, cells.owners[edges[:-1]]
    of_rows = factors / np.diff(cells.axis.edges)[owners]
    at_once = max(_AT_ONCE // (n_heads * (len(cuts) - 1)), 1)
    weights, rest, whole = np.zeros(shape), np.zeros(n_heads), np.zeros(n_heads)
    for first in range(0, len(edges) - 1, at_once):
        block = slice(first, first + at_once)
        ends = edges[first : first + at_once + 1]
        part = _part(on_progress, float(ends[0] / edges[-1]), float(ends[-1] / edges[-1]))
        window = int(ends[0]), int(ends[-1]), 0, lengths[1]
        wanted = Pooling(window=window, cuts=(tuple(ends.tolist()), tuple(cuts.tolist()))).within(*lengths)
        pooled = pool(seen.call, wanted, on_progress=part)
        A = pooled.weights[0].cpu().numpy()  # n_heads, runs of queries, runs of keys
        sums = columns.runs.sums(A)  # n_heads, runs of queries, columns
        there = np.unique(owners[block][owners[block] >= 0])
        weights[:, there] += SpanSide(cells.axis, owners[block]).sums(sums * of_rows[block, None], axis=1)
        totals = A.sum(axis=2, dtype=np.float64) @ factors[block]
        rest += totals - sums.sum(axis=2, dtype=np.float64) @ factors[block]
        whole += totals
    quantity, to_special = WEIGHT if seen.call.value_norms is None else NORM, None
    if hide_special and seen.keys[0].special:
        whole = np.full(n_heads, len(rows.axis)) if quantity.is_distribution else whole
        to_special = mean_share(rest[:, None], whole[:, None])
    return seen.map(weights.astype(np.float32), (cells.axis, columns.axis), quantity=quantity, to_special=to_special)


def _part(on_progress: Callable[[float], None], start: float, end: float) -> Callable[[float], None]:
    """Return a report of the progress of a part of the work, from one share of it to another."""
    return lambda done: on_progress(start + done * (end - start))


def span_sides(
    sides: tuple[Tokens, Tokens], kind: Kind, spans_of: SpansOf, hide_special: bool = False
) -> tuple[SpanSide, SpanSide]:
    """Return the spans of the queries and of the keys. Raises ArgumentError as ``span_maps``."""
    if hide_special:
        require_text(sides[0].of_text, sides[1].of_text, kind)
    queries, keys = (SpanSide.of(side, spans_of, hide_special) for side in sides)
    return queries, keys


def span_outline(
    model: Model,
    inputs: Inputs,
    spans_of: SpansOf,
    most: int,
    hide_special: bool = False,
    quantity: Quantity = WEIGHT,
) -> Attention:
    """Return maps with the axes of those that ``span_maps`` computes, as ``outline`` does of others.

    Raises:
        ArgumentError: as ``span_maps``.
    """
    kinds, maps = model.first_sites(inputs), list[AttentionMap]()
    for number, text in enumerate(inputs.texts):
        for kind, site in kinds.items():
            sides = span_sides(text.sides(kind), kind, spans_of, hide_special)
            rows, columns = (side.axis.pooled(most) for side in sides)
            zeros = np.broadcast_to(np.float32(0), (1, len(rows), len(columns)))
            sentence = inputs.sentence(number)
            maps.append(AttentionMap(zeros, rows, columns, kind, site.layer, sentence=sentence, quantity=quantity))
    return Attention(Source(""), tuple(maps))
