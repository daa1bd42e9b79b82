"""Weights between sentences, turns and other spans, beside those of uniform attention, at any length.

The model runs twice: which keys are sinks is a number of all chosen layers and heads, and what uniform attention gives
a span depends on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.key_sums import key_sums
from mhaviz.analyses.weights import map_sizes
from mhaviz.attention.map import pool
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.attention.pooled_map import Pooling
from mhaviz.devices import require_memory
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.spans import SpansOf, span_tokens
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.results.sinks import KeySums, Sinks
from mhaviz.results.span_numbers import KeySpans, SpanSums, spans_of_sides
from mhaviz.results.spans import SpanSide

_FLOAT32, _FLOAT64 = 4, 8  # bytes
_AT_ONCE = 2**24
"""Most weights of a block of queries, and most sums over keys, that are held at a time."""

TextSinks = dict[tuple[int | None, Kind], Sinks | None]
"""Sinks of each sentence in each kind of attention."""


class _TextKeys(NamedTuple):
    """Tokens of the queries and keys of a text, and what its keys get in all maps."""

    queries: Tokens
    keys: Tokens
    sums: KeySums

    @classmethod
    def of(cls, seen: SiteCall) -> "_TextKeys":
        """Return the keys of the text of a call, before any map is added."""
        (queries,), (keys,) = seen.queries, seen.keys
        return cls(queries, keys, KeySums(len(keys)))

    def sinks(self) -> Sinks | None:
        """Return the sinks, as ``KeySums.of_text``."""
        return self.sums.of_text(len(self.queries), self.keys)


class MapBesideUniform(NamedTuple):
    """A map by span, and what it has no place for.

    Attributes:
        map: the map, with the weights of uniform attention.
        uniform_lookback: float64, (n_heads, rows), as in ``SpanNumbers``.
    """

    map: AttentionMap
    uniform_lookback: NDArray[np.float64]


def span_numbers(
    model: Model,
    inputs: Inputs,
    choice: SpanChoice,
    heads: Sequence[int] | None = None,
    on_progress: Callable[[float, str], None] = lambda done, what: None,
) -> Attention:
    """Compute a map by span of each selected attention for each sentence, as ``Attention.by`` does of whole maps.

    Args and errors are those of ``maps_beside_uniform``.
    """
    found = maps_beside_uniform(model, inputs, choice, heads, on_progress)
    return Attention(model.describe(inputs), tuple(m for m, _ in found))


def maps_beside_uniform(
    model: Model,
    inputs: Inputs,
    choice: SpanChoice,
    heads: Sequence[int] | None = None,
    on_progress: Callable[[float, str], None] = lambda done, what: None,
) -> list[MapBesideUniform]:
    """Compute the maps of ``span_numbers``, with the lookback ratios of uniform attention.

    Args:
        model, inputs, heads: as in ``attention_weights``.
        choice: finds the spans of each side.
        on_progress: as in ``pooled_maps``.

    Raises:
        ArgumentError: as ``SpanChoice.of_text``, and what finds the spans.
        MhavizError: the sums do not fit into memory.
    """
    costs = [size.n_heads * size.q_length * size.k_length for size in map_sizes(model, inputs, heads)]
    maps, texts = list[MapBesideUniform](), dict[tuple[int | None, Kind], _TextKeys]()
    done = 0

    def on_share(share: float, cost: int, what: str) -> None:
        on_progress((done + share * cost) / (2 * sum(costs)), what)

    def on_first(seen: SiteCall) -> None:
        nonlocal done
        number = len(maps_seen)
        maps_seen.append(number)
        of_text = texts.setdefault((seen.sentence, seen.site.kind), _TextKeys.of(seen))
        _add_keys(seen, of_text.sums, lambda share: on_share(share, costs[number], "sinks"))
        done += costs[number]

    maps_seen = list[int]()
    model.run(inputs, on_first, heads)
    sinks: TextSinks = {text: of_text.sinks() for text, of_text in texts.items()}

    def on_second(seen: SiteCall) -> None:
        nonlocal done
        number = len(maps)
        what = f"map {number + 1} of {len(costs)}"
        of_text = sinks[seen.sentence, seen.site.kind]
        maps.append(_map(seen, choice, of_text, lambda share: on_share(share, costs[number], what)))
        done += costs[number]

    model.run(inputs, on_second, heads)
    return maps


def _add_keys(seen: SiteCall, sums: KeySums, on_progress: Callable[[float], None]) -> None:
    """Add all weights of a call of one sentence to the sums for its keys, a block of queries at a time."""
    _, n_heads, q_length, k_length = seen.call.shape
    at_once = max(_AT_ONCE // (n_heads * k_length), 1)
    of_keys = torch.zeros(3, 1, k_length, dtype=torch.float64)
    for start in range(0, q_length, at_once):
        end = min(start + at_once, q_length)
        of_keys += key_sums(seen.call.weights(start, end), _seen(seen, start, end)[None])
        on_progress(end / q_length)
    sums.add_sums(n_heads, q_length, *of_keys[:, 0].numpy())


def _seen(seen: SiteCall, start: int, end: int) -> Tensor:
    """Return which keys queries see, bool, (n_heads or 1, queries, k_length)."""
    visible = seen.call.visible(start, end)
    if visible is None:
        seen_by_all = torch.ones((), dtype=torch.bool, device=seen.call.device)
        return seen_by_all.expand(1, end - start, seen.call.shape[3])
    return visible[0].expand(-1, end - start, seen.call.shape[3])


def _run_counts(seen: SiteCall, start: int, end: int, cuts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return how many keys of each run queries see, (n_heads or 1, queries, runs), counted a head at a time.

    ``cuts``: where runs begin, and where the last ends, (runs + 1,).
    """
    last = torch.from_numpy(cuts[1:] - 1).to(seen.call.device)
    up_to = torch.stack([of_head.cumsum(dim=-1, dtype=torch.int32)[:, last] for of_head in _seen(seen, start, end)])
    return np.diff(up_to.cpu().numpy(), prepend=np.int32(0))


def _map(
    seen: SiteCall, choice: SpanChoice, sinks: Sinks | None, on_progress: Callable[[float], None]
) -> MapBesideUniform:
    """Return the map by span of a call of one sentence. Weights are summed over keys tile by tile."""
    _, n_heads, q_length, k_length = seen.call.shape
    ahead = k_length - q_length if seen.site.kind == "masked" else None
    (queries,), (of_keys,) = seen.queries, seen.keys
    rows, keys = _sides(queries, of_keys, choice.of_text(seen.sentence), sinks, ahead)
    cuts, n_columns = keys.side.edges, len(keys.side.axis)
    require_memory(3 * _FLOAT64 * n_heads * len(rows.axis) * n_columns, torch.device("cpu"), "the map")
    sums = SpanSums(rows, keys, n_heads, ahead)
    n_masks = len(_seen(seen, 0, 1))
    at_once = max(min(_AT_ONCE // (n_heads * (len(cuts) - 1)), _AT_ONCE // (n_masks * k_length)), 1)
    for start in range(0, q_length, at_once):
        end = min(start + at_once, q_length)
        wanted = Pooling(
            window=(start, end, 0, k_length), cuts=(tuple(range(start, end + 1)), tuple(cuts.tolist()))
        ).within(q_length, k_length)
        part = _part(on_progress, start / q_length, end / q_length)
        pooled = pool(seen.call, wanted, on_progress=part).weights[0].cpu().numpy()
        counts = _run_counts(seen, start, end, cuts)
        sums.add(start, *map(keys.side.runs.sums, (pooled, counts)))
    found = sums.result()
    of_call = seen.map(
        found.mass.astype(np.float32),
        (rows.axis, keys.side.axis),
        sinks=keys.sinks,
        chance=found.chance.astype(np.float32),
        lookback=found.lookback.astype(np.float32),
        apart=keys.apart,
    )
    return MapBesideUniform(of_call, found.uniform_lookback)


def _part(on_progress: Callable[[float], None], start: float, end: float) -> Callable[[float], None]:
    """Return a report of the progress of a part of the work, from one share of it to another."""
    return lambda done: on_progress(start + done * (end - start))


def _sides(
    queries: Tokens, keys: Tokens, spans_of: SpansOf, sinks: Sinks | None, ahead: int | None
) -> tuple[SpanSide, KeySpans]:
    """Return the spans of queries and of keys; arguments as of ``spans_of_sides``."""
    of_queries, of_keys = spans_of_sides(queries, keys, spans_of, ahead)
    rows = SpanSide.of_axis(Axis(span_tokens(of_queries, queries)), len(queries))
    return rows, KeySpans.of(keys, of_keys, sinks)


def span_numbers_outline(model: Model, inputs: Inputs, choice: SpanChoice) -> Attention:
    """Return maps with the rows of those that ``span_numbers`` computes, before the model runs.

    Raises:
        ArgumentError: as ``span_numbers``.
    """
    kinds, maps = model.first_sites(inputs), list[AttentionMap]()
    for number, text in enumerate(inputs.texts):
        sentence = inputs.sentence(number)
        for kind, site in kinds.items():
            queries, keys = text.sides(kind)
            side, columns = _sides(queries, keys, choice.of_text(sentence), None, None)
            rows, axis = side.axis, columns.side.axis
            zeros = np.broadcast_to(np.float32(0), (1, len(rows), len(axis)))
            m = AttentionMap(zeros, rows, axis, kind, site.layer, sentence=sentence)
            maps.append(replace(m, chance=zeros, lookback=zeros[..., 0]))
    return Attention(Source(""), tuple(maps))
