"""What has changed between two attentions, in words and colours: the same in the terminal and in figures."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from mhaviz.records import AttentionMap, Cells, Difference
from mhaviz.views.captions import cells_text, hidden_text
from mhaviz.views.colours import DIVERGING
from mhaviz.views.look import Look
from mhaviz.views.panels import Scale

HEADING = "B − A, the change of every weight"

_LEAST, _MOST = 2, 6  # decimals
_MANY = 60  # rows or columns; each of more is too small to be seen alone
_BEYOND = 0.005  # of the cells of such a head, the share that may have more than the last colour


def layer_text(d: Difference, m: AttentionMap) -> str:
    """Which layer the title of a picture names, where there are several; a rollout has it over its tile."""
    several = len({one.change.layer for one in d.maps}) > 1
    return f", layer {m.layer}" * (several and not m.quantity.through_layers)


def change_scale(drawn: Iterable[AttentionMap], look: Look) -> Scale:
    """The one scale of all changes, 0 in its middle, with as many decimals as the largest needs."""
    largest = look.vmax or max(_largest(m) for m in drawn) or 1.0
    decimals = min(max(1 - math.floor(math.log10(largest)), _LEAST), _MOST)
    return Scale(look.cmap, -largest, largest, decimals, signed=True)


def _largest(m: AttentionMap) -> float:
    """The largest change; of many cells the one that few are beyond, or a single cell would make all others pale."""
    sizes = [np.abs(change) for change in m.weights]
    if max(m.weights.shape[1:]) > _MANY:
        beyond = max(float(np.quantile(size, 1 - _BEYOND)) for size in sizes)
        if beyond:
            return beyond
    return max(float(size.max()) for size in sizes)


def reading_text(scale: Scale, in_colour: bool = True, maps: Sequence[AttentionMap] = (), hidden: str = "grey") -> str:
    """How to read the pictures of these maps; the colours' names, if they are those that mhaviz has chosen.

    ``hidden``: how hidden cells are shown.
    """
    less, more = ("blue", "red") if in_colour and scale.colormap == DIVERGING else ("below 0", "above 0")
    text = f"rows are queries, columns keys; {less}: less weight than before, {more}: more"
    return "; ".join(filter(None, [text, hidden_text(maps, hidden)]))


def cell_text(m: AttentionMap, drawn: Cells) -> str:
    """What a cell of a picture is, if it is not simply the change of one weight."""
    farthest = "the change farthest from 0"
    if drawn.are_tokens or (m.is_pooled and m.quantity.reduction == "mass"):
        return cells_text(drawn)
    if not m.is_pooled:
        return f"each cell is {farthest} of up to {drawn.rows.widest:,} × {drawn.columns.widest:,}"
    fewer = len(drawn.rows) < len(m.rows) or len(drawn.columns) < len(m.columns)
    return cells_text(m.cells) + f"; where several share a place, {farthest}" * fewer
