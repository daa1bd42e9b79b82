"""Maps as a plain matplotlib figure, an Axes a head, for whoever wants to go on working with it."""

import math
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from mhaviz.records import Attention
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.look import Look

_LABELLED = 40  # tokens that have names on an axis; more would run into one another
_INCHES = 2.4  # of a head


def axes_figure(attention: Attention, look: Look) -> Figure:
    """Every head of every map on Axes of its own, which has its numbers, labels and title as any Axes has.

    ``figure.axes`` are in the order of the maps and, in each, of the heads. Rows are queries, columns keys. One scale
    for all, with one bar.
    """
    heads = [(m, head, weights) for m in attention.maps for head, weights in zip(m.heads, m.weights, strict=True)]
    columns = look.columns or min(len(heads), 4)
    rows = math.ceil(len(heads) / columns)
    figure = Figure(figsize=(_INCHES * columns + 1, _INCHES * rows + 0.5), dpi=look.dpi, layout="constrained")
    FigureCanvasAgg(figure)
    scale = look.weight_scale(attention.maps)
    several = len(attention.maps) > 1
    lettering = Lettering.covering(token for m in attention.maps for token in (*m.queries, *m.keys))
    font: Any = {"fontsize": 7, "fontfamily": lettering.families, "parse_math": False}
    norm = LogNorm(scale.low, scale.high) if scale.log else Normalize(scale.low, scale.high)
    image: Any = None
    for place, (m, head, weights) in enumerate(heads, start=1):
        axes = figure.add_subplot(rows, columns, place)
        image = axes.imshow(weights, cmap=scale.colormap, norm=norm, interpolation="nearest")
        axes.set_title(f"{m.name}, head {head}" if several else f"head {head}", fontsize=9)
        for axis, tokens, size in ((axes.yaxis, m.queries, len(weights)), (axes.xaxis, m.keys, weights.shape[1])):
            if size == len(tokens) <= _LABELLED:
                axis.set_ticks(range(size), lettering.labels(tokens), **font)
        axes.tick_params(axis="x", rotation=90)
    if image is not None:
        figure.colorbar(image, ax=figure.axes, label="weight", shrink=0.6)
    return figure
