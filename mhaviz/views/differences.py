"""What has changed between two attentions, in words and colours: the same in the terminal and in figures."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress

import numpy as np

from mhaviz.records import AttentionMap, Axis, Cells, Difference, HeadDifference
from mhaviz.views.captions import cells_text, hidden_text
from mhaviz.views.colours import DIVERGING
from mhaviz.views.labels import position_text, visible
from mhaviz.views.look import Look
from mhaviz.views.panels import Scale

HEADING = "B − A, the change of every weight"

_BOUND = math.log(2)
_MEASURES = {"weight": "weights", "rollout": "rollout"}
_LEAST, _MOST = 2, 6  # decimals
_MANY = 60  # rows or columns; each of more is too small to be seen alone
_BEYOND = 0.005  # of the cells of such a head, the share that may have more than the last colour


def layer_text(d: Difference, m: AttentionMap) -> str:
    """Which layer the title of a picture names, where there are several; a rollout has it over its tile."""
    several = len({one.change.layer for one in d.maps}) > 1
    return f", layer {m.layer}" * (several and not m.quantity.is_rollout)


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


def ranking_heading(d: Difference) -> str:
    """What stands over the table."""
    return "the heads that changed most" if _has_changed(d) else "no weight differs"


def _has_changed(d: Difference) -> bool:
    return any(head.largest for head in d.ranking)


def ranking_headings(d: Difference) -> tuple[str, ...]:
    """Of the columns of ``ranking_rows``."""
    names = ("head", "divergence", "of ln 2", "worst row", "change", "before", "after", "where")
    return (*["map"] * (len(d.maps) > 1), *names)


WORDS = ("map", "worst row", "where")
"""The columns that hold words; the others are numbers."""


def ranking_rows(
    d: Difference, most: int, shown: Callable[[str], str] = visible, stacked: bool = False
) -> list[tuple[str, ...]]:
    """A row a head, those that changed most first.

    ``shown`` makes a token fit to be shown; ``stacked``: a part of a map's name, and one token, a line.
    """
    names = _short_names(d, "\n" if stacked else ", ")
    return [
        (
            *[names[head.map.name]] * (len(d.maps) > 1),
            f"{head.head}",
            *_divergence(head.divergence),
            _worst(head, shown, "\n" if stacked else " "),
            *_change(head, shown, "\n" if stacked else " "),
        )
        for head in d.ranking[:most]
    ]


def _short_names(d: Difference, between: str) -> dict[str, str]:
    """Of each map what tells it from the others: "sentence 1", "layer 2, cross"."""
    changes = [m.change for m in d.maps]
    parts = [
        (f"sentence {m.sentence}", f"layer {m.layer}", m.kind, _MEASURES[m.quantity.of], m.quantity.reduction)
        for m in changes
    ]
    differing = [len(set(values)) > 1 for values in zip(*parts, strict=True)]
    return {m.name: between.join(compress(of_map, differing)) for m, of_map in zip(changes, parts, strict=True)}


def more_text(d: Difference, most: int) -> str:
    """What is said of heads that the table leaves out."""
    left_out = len(d.ranking) - most
    return f"and {left_out:,} head{'s' * (left_out > 1)} more; .json has all" if left_out > 0 else ""


def ranking_notes(d: Difference) -> str:
    """What the columns mean."""
    parts = ["change, before, after: of the weight that has changed most"] * _has_changed(d)
    if any(head.divergence is not None for head in d.ranking):
        parts.append(
            "divergence: the mean Jensen–Shannon divergence of the head's rows before and after, in nats: 0 if no "
            f"weight has changed, at most ln 2 = {_BOUND:.3f}, if no row has a key in common"
        )
    if any(head.worst for head in d.ranking):
        parts.append("worst row: the largest of these divergences, and its query")
    if zeros := sum(sum(m.zero_rows) for m in d.maps):
        rows = "1 row that is zeros" if zeros == 1 else f"{zeros:,} rows that are zeros"
        parts.append(f"{rows} in both {'is' if zeros == 1 else 'are'} left out of the mean")
    if any(head.divergence is not None and not head.map.is_whole for head in d.ranking):
        parts.append("of cells, and of a window with one more key for all outside, it is no more than that of all keys")
    if any(head.divergence is not None and head.map.sink for head in d.ranking):
        parts.append("a head's sink counts as one more key")
    if any(not m.change.quantity.has_row_sums for m in d.maps):
        parts.append("largest weights of cells are no distribution: they have no divergence")
    if any(head.flaw for head in d.ranking):
        parts.append("rows that do not sum to 1 are no distribution: their heads have no divergence")
    return "; ".join(parts)


def _divergence(divergence: float | None) -> tuple[str, str]:
    if divergence is None:
        return "–", "–"
    return _nats(divergence), f"{divergence / _BOUND:.1%}"


def _nats(divergence: float) -> str:
    return "<0.0001" if 0 < divergence < 0.00005 else f"{divergence:.4f}"


def _worst(head: HeadDifference, shown: Callable[[str], str], between: str) -> str:
    """ "0.6931 at 3 cat"."""
    if head.worst is None:
        return "–"
    m = head.map
    return f"{_nats(head.worst.divergence)}{between}at {_token(m.rows, head.worst.query, shown)}"


def _change(head: HeadDifference, shown: Callable[[str], str], between: str) -> tuple[str, str, str, str]:
    m, change = head.map, head.largest
    if change is None:
        return "–", "–", "–", "–"
    query, key = _token(m.rows, change.query, shown), _token(m.columns, change.key, shown)
    where = f"{query}{between}→ {key}"
    return _signed(change.after - change.before), f"{change.before:.3f}", f"{change.after:.3f}", where


def _signed(change: float) -> str:
    """ "+0.553", and "+2e-07" of what three decimals would make nothing."""
    return f"{change:+.3f}" if abs(change) >= 0.0005 else f"{change:+.0e}"


def _token(axis: Axis, position: int, shown: Callable[[str], str]) -> str:
    """ "12,345 whale", or "12,340 to 12,349" of a cell."""
    last = int(axis.edges[axis.cell_of(position) + 1]) - 1
    if last > position:
        return f"{position:,} to {last:,}"
    return position_text(position, axis.tokens.texts[position - axis.start], shown)
