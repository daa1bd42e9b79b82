"""Maps on plain matplotlib Axes, one for each head, for users who go on with matplotlib."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mhaviz.errors import ArgumentError
from mhaviz.pages.labels import cut
from mhaviz.pages.panels import scale_group, tile_titles
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.notebook import NotebookFigure
from mhaviz.views.figure.sheet import mapped
from mhaviz.views.scales import resolve_maps
from mhaviz.views.style import Style

_OF_PAGES = ("width", "font_size", "title")  # attributes of a style that Axes do not have
_LABELLED = 40  # most tokens with labels on an axis; more would overlap
_INCHES = 2.4  # width and height of a head
_NAME_CELLS = 36  # most cells of the name of a module


def axes_figure(attention: Attention, style: Style) -> Figure:
    """Return a figure with plain Axes for every head of every map.

    ``figure.axes`` are in the order of the maps and, in each, of the heads, then colour bars. Rows are queries, columns
    keys. Maps of one quantity share a scale and a colour bar. The total weight on special tokens is not drawn.
    """
    if unread := [name for name in _OF_PAGES if getattr(style, name) is not None]:
        raise ArgumentError(f"{unread[0]} is for pictures that are saved; change this one by matplotlib")
    n_heads = sum(len(m.heads) for m in attention.maps)
    a_layer = len(attention.maps[0].heads) if len(attention.maps) > 1 else 4
    columns = min(style.columns or a_layer, n_heads)
    rows = math.ceil(n_heads / columns)
    figure = NotebookFigure(figsize=(_INCHES * columns + 1, _INCHES * rows + 0.5), dpi=style.dpi, layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(rows, columns, place) for place in range(1, n_heads + 1)]
    draw_heads(attention, style, axes)
    groups: dict[str, list[tuple[Axes, AttentionMap]]] = {}
    of_heads = [m for m in attention.maps for _ in m.heads]
    for one, m in zip(axes, of_heads, strict=True):
        groups.setdefault(scale_group(m), []).append((one, m))
    for alike in groups.values():
        first, m = alike[0]
        figure.colorbar(first.images[0], ax=[one for one, _ in alike], label=m.quantity.drawn_name, shrink=0.6)
    return figure


def draw_heads(attention: Attention, style: Style, axes: Sequence[Axes]) -> Figure:
    """Draw a head on each Axes, and return their figure.

    Raises:
        ArgumentError: there are not as many Axes as heads.
    """
    are_several = len(attention.maps) > 1
    heads = [
        (m, m.name_of(head) if are_several else tile, weights)
        for m in attention.maps
        for head, tile, weights in zip(m.heads, tile_titles(m), m.weights, strict=True)
    ]
    if len(axes) != len(heads) or not all(isinstance(one, Axes) for one in axes):
        raise ArgumentError(f"ax: expected {len(heads)} matplotlib Axes, one per head, got {len(axes)} objects")
    fonts = Fonts.covering(token for m in attention.maps for token in (*m.queries, *m.keys, m.module))
    font: dict[str, Any] = {"fontsize": 7, "fontfamily": fonts.families, "parse_math": False}
    scales = resolve_maps(attention.maps, style)
    for one, (m, title, weights) in zip(axes, heads, strict=True):
        one.imshow(weights, interpolation="nearest", **mapped(scales.of(m)))
        if m.module:
            name = cut(fonts.shown(m.module), _NAME_CELLS)
            one.set_title(f"{title}\n{name}", fontsize=9, fontfamily=fonts.families, parse_math=False)
        else:
            one.set_title(title, fontsize=9)
        for axis, tokens, size in ((one.yaxis, m.queries, len(weights)), (one.xaxis, m.keys, weights.shape[1])):
            if size == len(tokens) <= _LABELLED:
                axis.set_ticks(range(size), fonts.labels(tokens), **font)
        one.tick_params(axis="x", rotation=90)
        one.set_xlabel("key", fontsize=8)
        one.set_ylabel("query", fontsize=8)
    figure = axes[0].get_figure(root=True)
    assert figure is not None, "Axes that can be drawn in belong to a figure"
    return figure
