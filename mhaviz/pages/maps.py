"""Maps of weights as a page: their heads, what each head does, and how to read them."""

from collections.abc import Sequence
from functools import partial

from mhaviz.pages.blocks import Heads, Legend, Page
from mhaviz.pages.map_summary import summary_table
from mhaviz.pages.map_words import cells_text, layers_text, map_title, reading_text
from mhaviz.pages.panels import tile_titles
from mhaviz.records import Attention, AttentionMap


def attention_page(attention: Attention) -> Page:
    """The heads of every map; layers of one attention together."""
    maps = attention.maps
    with_layer = _tells_layer(attention)
    own_scale = len(set(map(scale_group, maps))) > 1 or any(not m.is_whole or m.summary is not None for m in maps)
    blocks = [_heads(group, with_layer, own_scale) for group in by_attention(maps)]
    legend = Legend("none" if own_scale else "before")
    return Page("", (*blocks, legend), attention.source.footnote, partial(reading_text, attention))


def scale_group(m: AttentionMap) -> str:
    """Maps of one group share a scale: the ranges of weights, of means, of largest weights and of rollouts differ."""
    if m.quantity.is_signed:
        return "change"
    return f"{m.quantity.key}, {m.quantity.reduction if m.is_pooled else 'each'}"


def by_attention(maps: Sequence[AttentionMap]) -> list[tuple[AttentionMap, ...]]:
    """Maps that differ in their layer alone together, in the order of the first of each."""
    groups: list[list[AttentionMap]] = []
    for m in maps:
        group = next((group for group in groups if _differ_in_layer_alone(m, group[-1])), None)
        if group is None:
            groups.append([m])
        else:
            group.append(m)
    return [tuple(group) for group in groups]


def _differ_in_layer_alone(m: AttentionMap, other: AttentionMap) -> bool:
    if m.layer == other.layer or (m.sentence, m.kind, m.heads) != (other.sentence, other.kind, other.heads):
        return False
    return m.quantity == other.quantity and m.rows.is_same(other.rows) and m.columns.is_same(other.columns)


def _tells_layer(attention: Attention) -> bool:
    """Whether a map must name its layer: there are several in the record, or in the model that it is of."""
    n_layers = attention.source.details.get("n_layers", 1)
    return len({m.layer for m in attention.maps}) > 1 or (isinstance(n_layers, int) and n_layers > 1)


def _heads(maps: tuple[AttentionMap, ...], with_layer: bool, own_scale: bool) -> Heads:
    first, alone = maps[0], len(maps) == 1
    with_layer = with_layer and not first.quantity.through_layers  # which stands over each tile
    titles = tuple(map_title(m, layers_text([m.layer]) if with_layer else "") for m in maps)
    title = titles[0] if alone else map_title(first, layers_text([m.layer for m in maps]))
    tiles = [tile for m in maps for tile in tile_titles(m)]
    across = None
    if not alone and not first.quantity.through_layers:
        tiles = [f"layer {m.layer} · {tile}" for m in maps for tile in tile_titles(m)]
        across = len(first.heads)
    table = None
    if alone and first.summary is not None:
        table = partial(summary_table, first.heads, first.summary)
    cell = partial(cells_text, name=first.quantity.name)
    return Heads(title, maps, titles, tuple(tiles), across, cell, own_scale=own_scale, table=table)
