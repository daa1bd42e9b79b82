"""Page of attention maps: their heads, statistics of each head, and how to read them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mhaviz.inputs.tokens import KIND_NAMES
from mhaviz.pages.blocks import Matrices, Page, Text
from mhaviz.pages.key_bars import KeyBars, can_be_bars
from mhaviz.pages.map_summary import summary_table
from mhaviz.pages.map_words import bars_reading, cells_text, layers_text, map_title, passes_text, reading_text
from mhaviz.pages.panels import head_panels, tile_titles
from mhaviz.pages.registry import MAP_SUFFIXES, shown
from mhaviz.pages.span_weights import spans_page
from mhaviz.pages.words import position_text
from mhaviz.results.answer import are_beside_chance
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.module_names import calls_text, common_name

_MEAN = ("mean",)  # the one row of a mean over heads
_MOST_ABREAST = 8  # most passes in a row; more are in as many rows as have room


@shown(Attention, MAP_SUFFIXES)
def attention_page(attention: Attention) -> Page:
    """Return the page of all maps, with the layers of one attention in one block, or the bars of single rows."""
    if are_beside_chance(attention):
        return spans_page(attention)
    whole = attention.with_sinks().maps
    maps = tuple(map(_heads_as_rows, whole))
    if all(m.quantity.row == "head" and m.queries == _MEAN for m in maps):
        groups = by_attention(maps)
        if len(groups) == len(maps) and all(map(can_be_bars, maps)):
            about = attention.source.model, _tells_layer(attention)
            return _page_of_bars(attention, [KeyBars(*pair, *about) for pair in zip(whole, maps, strict=True)])
        maps = tuple(m for group in groups for m in _layers_as_rows(list(group.values())))
    attention = replace(attention, maps=maps)
    blocks = heads_blocks(maps, attention.source.model, _tells_layer(attention))
    return Page("", tuple(blocks), attention.source.footnote, partial(reading_text, attention))


def _page_of_bars(attention: Attention, rows: Sequence[KeyBars]) -> Page:
    """Return the page of the single rows that means have left, each as bars below what it says."""
    title = rows[0].lesson if len(rows) == 1 else ""
    said = ([] if title else [Text((f"{row.text}{row.lesson}",), "subheading")] for row in rows)
    blocks = (block for texts, row in zip(said, rows, strict=True) for block in (*texts, row.block()))
    return Page(title, tuple(blocks), attention.source.footnote, bars_reading(attention))


def heads_blocks(maps: Sequence[AttentionMap], model: str, with_layer: bool) -> list[Matrices]:
    """Return blocks of these maps, with the layers of one attention in one block; ``with_layer``: name the layers."""
    again = {m.module.rpartition(" #")[0] for m in maps if calls_text([m.module])}
    return [_heads(group, model, with_layer, again) for group in by_attention(maps)]


def _heads_as_rows(m: AttentionMap) -> AttentionMap:
    """Return a map of one query chosen from several as the matrix (heads, keys that it may see); other maps as they
    are."""
    if m.rows.cells is None or len(m.rows) > 1 or (len(m.heads) == 1 and not m.quantity.of_all_heads):
        return m
    seen = np.arange(len(m.columns)) if m.hidden is None else np.flatnonzero(~m.hidden[0])
    if not seen.size:
        return m
    first, last = int(seen[0]), int(seen[-1])
    edges, tokens = m.columns.edges[first : last + 2], m.columns.tokens
    part = tokens[int(edges[0]) - m.columns.start : int(edges[-1]) - m.columns.start]
    query = f"query {position_text(m.rows.start, m.queries[0])}, "
    title = f"{query}{m.title_prefix}{KIND_NAMES[m.kind]}"
    names = _MEAN if m.quantity.of_all_heads else tuple(f"H{head}" for head in m.heads)
    return replace(
        m,
        weights=m.weights[:, 0, first : last + 1][None],
        rows=Axis.of(names),
        columns=Axis(part, edges),
        kind="other",
        heads=(0,),
        quantity=replace(m.quantity, of_all_heads=True, row="head", title_prefix=title),
        summary=None,
        reach=None,
        to_special=None,
        queries_and_keys=None,
        sinks=m.sinks and m.sinks.among(first, last),
    )


def _layers_as_rows(maps: Sequence[AttentionMap]) -> Sequence[AttentionMap]:
    """Return means over heads in several layers as one matrix, (layers, keys); forward passes of one layer as they
    are."""
    layers = tuple(f"L{m.layer}" for m in maps)
    if len(set(layers)) < max(len(layers), 2):
        return maps
    quantity = replace(maps[0].quantity, row="layer")
    weights = np.concatenate([m.weights for m in maps], axis=1)
    return [replace(maps[0], weights=weights, rows=Axis.of(layers), quantity=quantity)]


def by_attention(maps: Sequence[AttentionMap]) -> list[dict[int, AttentionMap]]:
    """Group maps that differ only in their layer, and return each group by the maps' places in the result.

    In a recorded program, the modules of a group must share a pattern, "blocks.*.attn". Where there are several forward
    passes, those of one layer are a group.
    """
    groups: list[dict[int, AttentionMap]] = []
    alike: dict[object, list[tuple[dict[int, AttentionMap], set[str]]]] = defaultdict(list)  # with names of modules
    are_film = len({m.pass_number for m in maps}) > 1
    for place, m in enumerate(maps):
        sides = (part for axis in (m.rows, m.columns) for part in (axis.tokens.texts, axis.edges.tobytes()))
        is_frame = are_film and not m.quantity.through_layers
        alone = (m.layer, m.module) if is_frame else m.pass_number
        of_kind = alike[(m.sentence, m.kind, m.heads, m.quantity, m.mean_over, alone, *sides)]
        found = next((one for one in of_kind if is_frame or _belongs(m, *one)), None)
        if found is None:
            found = {}, set()
            groups.append(found[0])
            of_kind.append(found)
        group, names = found
        group[place] = m
        if len(names) < 2:
            names.add(m.module)
    return groups


def _belongs(m: AttentionMap, group: dict[int, AttentionMap], names: set[str]) -> bool:
    """Return whether a map is another layer of the attention of this group; a rollout goes through all modules.

    ``names``: one or two modules of the group, which tell the pattern of all.
    """
    if m.layer == group[next(reversed(group))].layer:
        return False
    return m.quantity.through_layers or common_name([*names, m.module]) is not None


def _tells_layer(attention: Attention) -> bool:
    """Return whether maps must name their layer, as there are several in the result, the model or the program."""
    counts = [attention.source.details.get(name, 1) for name in ("n_layers", "n_attentions")]
    return len({m.layer for m in attention.maps}) > 1 or any(isinstance(n, int) and n > 1 for n in counts)


def _heads(maps: dict[int, AttentionMap], model: str, with_layer: bool, again: Collection[str]) -> Matrices:
    """Return the block of one map, of several layers of an attention, or of one layer in several forward passes.

    ``again``: modules that run more than once in a pass.
    """
    names = [m.module for m in maps.values()]
    are_calls = calls_text(names).startswith("calls") or (len(set(names)) == 1 and names[0] in again)
    by_layer = tuple(_layer(place, m, model, with_layer, are_calls) for place, m in maps.items())
    if len(maps) == 1:
        return by_layer[0]
    first = by_layer[0].maps[0]
    passes = list(dict.fromkeys(m.pass_number for m in maps.values()))
    is_film = len(passes) > 1
    numbers = dict.fromkeys(m.layer for m in maps.values() if m.layer is not None)
    layers = "call 1" if are_calls else layers_text(list(numbers))
    which = [calls_text(names) or layers if with_layer else "", passes_text(passes) if is_film else ""]
    about = ", ".join(filter(None, which))
    title = map_title(first, model, about, with_pass=not is_film)
    together = replace(by_layer[0], title=title, maps=tuple(maps.values()), table=None, module=common_name(names) or "")
    if first.quantity.of_all_heads and not is_film:  # one matrix a layer, all side by side
        return replace(together, panels=tuple(panel for one in by_layer for panel in one.panels))
    if is_film:
        return _film(together)
    panels = tuple(panel for m in maps.values() for panel in head_panels(m, *_row_names(m, are_calls)))
    n_heads = len(first.heads)
    return replace(together, panels=panels, by_layer=by_layer, across=n_heads if n_heads > 1 else None)


def _film(block: Matrices) -> Matrices:
    """Return a block of one layer in several passes with its heads one by one, each through all passes from left to
    right."""
    maps = tuple(m.select((head,)) for head in block.maps[0].heads for m in block.maps)
    panels = tuple(panel for m in maps for panel in head_panels(m, f"pass {m.pass_number} · ", f"P{m.pass_number} "))
    n_passes = len(block.maps)
    across = n_passes if len(block.maps[0].heads) > 1 and n_passes <= _MOST_ABREAST else None
    return replace(block, panels=panels, maps=maps, across=across)


def _row_names(m: AttentionMap, is_call: bool) -> tuple[str, str]:
    """Return "call 2 · " and "C2 ", or nothing, as the name of a head says its layer."""
    if not is_call:
        return "", ""
    call = _layer_or_call(m, is_call)
    return f"{call} · ", f"C{call.rpartition(' ')[2]} "


def _layer_or_call(m: AttentionMap, is_call: bool) -> str:
    return calls_text([m.module]) or ("call 1" if is_call else m.layer_text)


def _layer(place: int, m: AttentionMap, model: str, with_layer: bool, is_call: bool) -> Matrices:
    with_layer = with_layer and not m.quantity.of_all_heads  # else each tile names it
    return Matrices(
        map_title(m, model, _layer_or_call(m, is_call) if with_layer else ""),
        head_panels(m),
        m.rows,
        m.columns,
        names=(m.quantity.row, "key"),
        maps=(m,),
        cell_text=partial(cells_text, name=m.quantity.name),
        table=None if m.summary is None else summary_table(tile_titles(m), m.summary, m.quantity.name),
        module=m.module,
        order=place,
    )
