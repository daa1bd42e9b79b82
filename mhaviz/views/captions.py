"""The words that stand over pictures, the same in the terminal and in figures."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from mhaviz.pages.words import KINDS
from mhaviz.records import (
    ROUNDING,
    WEIGHT,
    Attention,
    AttentionMap,
    Axis,
    Cells,
    Explanation,
    Kind,
    ScalingComparison,
)
from mhaviz.views.labels import cut, cut_words, harmless, in_ascii, title_words, visible

_RULE = 8  # characters, such as those of / √1024

_SIDES = "rows are queries, columns keys"
_ONE = "a row sums to 1"
READING = f"{_SIDES}; {_ONE}"
"""How to read a map of weights."""


def reading_text(
    attention: Attention, pooled: Sequence[str] = (), drawn: Sequence[Cells] | None = None, hidden: str = "grey"
) -> str:
    """How to read these maps of weights.

    Args:
        attention: the maps.
        pooled: what a cell shows, of each map that has a cell a token; empty where that is a weight.
        drawn: the cells in the picture, as far as it is not said elsewhere what they are; None: those of the maps.
        hidden: as in ``hidden_text``.
    """
    shown = [m.cells for m in attention.maps] if drawn is None else drawn
    name = WEIGHT.name if any(m.quantity.of == WEIGHT.of for m in attention.maps) else attention.maps[0].quantity.name
    parts = [_SIDES]
    if any(pooled) or any(not m.is_whole for m in attention.maps):
        kinds = [f"{text} {name}s" for text in dict.fromkeys(filter(None, pooled))]
        if not all(pooled):
            kinds = [f"of long ones, {text}" for text in kinds]
        parts += [*kinds, cells_texts(shown, name)]
        parts += ["what goes to no key goes to the head's sink"] * any(m.sink for m in attention.maps)
    else:
        parts.append(sums_text(attention.maps))
    parts += dict.fromkeys(m.quantity.remark for m in attention.maps)
    return "; ".join(filter(None, [*parts, hidden_text(attention.maps, hidden), harmless(attention.source.remark)]))


def sums_text(maps: Sequence[AttentionMap]) -> str:
    """ "a row sums to 1", or "rows sum to between 0.98 and 2.00"; how many are zeros, as those of padding may be.

    Of heads with a sink it is said where the rest goes.
    """
    sinks = [m.sink for m in maps]
    if any(sinks):
        less = "less than 1, the rest goes" if all(sinks) else "1, or to less where the rest goes"
        return f"a row sums to {less} to the head's sink"
    sums = np.concatenate([m.row_sums.ravel() for m in maps])
    others = sums[sums != 0]
    zeros = len(sums) - len(others)
    if not others.size:
        return "all weights are 0"
    low, high = float(others.min()), float(others.max())
    is_one = low >= 1 - ROUNDING and high <= 1 + ROUNDING
    text = _ONE if is_one else f"rows sum to {_sums_range(low, high)}"
    return text + f", but {zeros:,} of {len(sums):,} to 0" * bool(zeros)


def _sums_range(low: float, high: float) -> str:
    decimals = 3 if f"{low:.2f}" == f"{high:.2f}" == "1.00" else 2  # more than ROUNDING from 1
    ends = [f"{end:,.{decimals}f}" for end in (low, high)]
    return f"between {ends[0]} and {ends[1]}" if ends[0] != ends[1] else ends[0]


def hidden_text(maps: Sequence[AttentionMap], mark: str = "grey") -> str:
    """What is hidden in these maps; nothing if nothing is. ``mark``: how it is shown."""
    windows: list[AttentionMap] = []
    others: list[AttentionMap] = []
    for m in maps:
        (windows if _window_hides(m) else others).append(m)
    is_causal = any(m.kind == "masked" for m in maps)
    if not windows:
        return f"{mark}: later keys, hidden" * is_causal
    reaches = sorted({m.reach for m in windows if m.reach is not None})
    where = f"more than {' or '.join(f'{r:,}' for r in reaches)} position{'s' * (reaches != [1])} away"
    if others:
        layers = sorted({m.layer for m in windows})
        named = "some maps"
        if not {m.layer for m in others} & set(layers):
            named = layers_text(layers) if len(layers) <= _MOST_LAYERS else "some layers"
        where = f"{where} in {named}"
    return f"{mark}: hidden keys, {('later, or ' if others else 'later or ') * is_causal}{where}"


_MOST_LAYERS = 6  # that are named one by one


def layers_text(layers: Sequence[int]) -> str:
    """ "layer 3", "layers 0 to 5", "layers 0, 2, 4"."""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if list(layers) == list(range(layers[0], layers[0] + len(layers))):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(map(str, layers))}"


def _window_hides(m: AttentionMap) -> bool:
    """Whether some cell is hidden that would not be without the window."""
    if m.reach is None or m.hidden is None:
        return False
    without = replace(m, reach=None).hidden
    return bool((m.hidden if without is None else m.hidden & ~without).any())


def cells_texts(several: Sequence[Cells], name: str = "weight") -> str:
    """What the cells of several maps are, each said once; nothing if all are weights. ``name``: of a number."""
    kinds = list(dict.fromkeys(filter(None, (cells_text(cells, name) for cells in several))))
    if any(cells.are_tokens for cells in several):
        kinds = [f"of long ones, {text}" for text in kinds]
    if len({cells.quantity.reduction for cells in several if not cells.are_tokens}) > 1:
        first, other = "each cell is the largest of", f"of largest {name}s, it is the largest of"
        kinds = [text.replace(first, other).removesuffix(f" {name}s") for text in kinds]
    return "; ".join(kinds)


def cells_text(cells: Cells, name: str = "weight") -> str:
    """What a cell of a pooled map is; nothing if it is a weight. ``name``: of a number."""
    if cells.are_tokens:
        return ""
    tallest, widest = cells.rows.widest, cells.columns.widest
    if cells.quantity.reduction == "max":
        return f"each cell is the largest of up to {tallest:,} × {widest:,} {name}s"
    keys = f"up to {widest:,} keys" if widest > 1 else "a key"
    if tallest == 1:
        return f"each cell is a query's {name} on {keys}"
    return f"each cell is the mean over up to {tallest:,} queries of their {name} on {keys}"


def pooled_text(q_length: int, k_length: int, rows: int, columns: int) -> str:
    """What a cell shows, if it stands for more than one query or key; else nothing."""
    if rows >= q_length and columns >= k_length:
        return ""
    return f"each cell is the strongest of up to {-(-q_length // rows)} × {-(-k_length // columns)}"


def map_title(
    attention_map: AttentionMap,
    width: int,
    ascii_only: bool = False,
    shown: Callable[[str], str] = visible,
    part: str | None = None,
) -> str:
    """ "self-attention: i wonder what …", or "rollout of self-attention: …", in at most ``width`` cells.

    ``shown`` makes a text fit to be shown; ``part``: what to say of the map instead of ``part_text``.
    """
    m = attention_map
    head = m.quantity.over + KINDS[m.kind] + (part_text(m) if part is None else part)
    sides = [(m.queries, m.rows.tokens.special)]
    if m.kind == "cross" or m.queries != m.keys:
        sides.append((m.keys, m.columns.tokens.special))
    return _title(head, sides, width, ascii_only, shown)


def part_text(attention_map: AttentionMap) -> str:
    """Which part of a map, and which reduction, where it is not all weights."""
    m = attention_map
    if m.is_whole:
        return ""
    where = f", {_run('query', 'queries', m.rows)}, {_run('key', 'keys', m.columns)}"
    if (m.rows.start, m.rows.end) == (m.columns.start, m.columns.end) and m.kind != "cross":
        where = f", {_run('token', 'tokens', m.rows)}"
    by = {"mass": "", "max": f", largest {m.quantity.name}s"}[m.quantity.reduction]
    return by + where


def _run(one: str, several: str, axis: Axis) -> str:
    if axis.end - axis.start == 1:
        return f"{one} {axis.start:,}"
    return f"{several} {axis.start:,} to {axis.end - 1:,}"


def pair_title(
    kind: Kind,
    queries: Sequence[str],
    keys: Sequence[str],
    width: int,
    ascii_only: bool = False,
    shown: Callable[[str], str] = visible,
) -> str:
    """The kind of attention and the sentence, or "target → source", in at most ``width`` cells.

    ``shown`` makes a text fit to be shown.
    """
    sides = [queries] if kind != "cross" and queries == keys else [queries, keys]
    return _title(KINDS[kind], [(side, ()) for side in sides], width, ascii_only, shown)


def tells_layer(attention: Attention) -> bool:
    """Whether a map must name its layer: there are several in the record, or in the model that it is of."""
    n_layers = attention.source.details.get("n_layers", 1)
    return len({m.layer for m in attention.maps}) > 1 or (isinstance(n_layers, int) and n_layers > 1)


def study_title(
    record: Explanation | ScalingComparison,
    width: int,
    ascii_only: bool = False,
    shown: Callable[[str], str] = visible,
) -> str:
    """The same of a study of one layer, which it names if there are several: "self-attention, layer 3: …"."""
    sides = [(record.queries, record.special_queries), (record.keys, record.special_keys)]
    sides = sides if record.kind == "cross" or record.queries != record.keys else sides[:1]
    layer = "" if record.layer is None else f", layer {record.layer}"
    return _title(KINDS[record.kind] + layer, sides, width, ascii_only, shown)


def _title(
    head: str,
    sides: Sequence[tuple[Sequence[str], Collection[int]]],
    width: int,
    ascii_only: bool,
    shown: Callable[[str], str],
) -> str:
    """``head`` and the texts of the sides, each of tokens and of the places of those that are not of the text."""
    arrow, ellipsis = (" -> ", "...") if ascii_only else (" → ", "…")
    texts = [title_words(tokens, special, shown) for tokens, special in sides]
    if ascii_only:
        texts = [list(map(in_ascii, words)) for words in texts]
    room = (width - len(head) - 2 - len(arrow) * (len(sides) - 1)) // len(sides)
    shortened = arrow.join(cut_words(words, max(room, 8), ellipsis) for words in texts)
    return cut(f"{head}: {shortened}", width, ellipsis)


def rule_text(record: Explanation | ScalingComparison) -> str:
    """What becomes of q·k before the softmax, where it is short enough to stand over a column: "/ √64"."""
    return record.rule if len(record.rule) <= _RULE else "scaled"
