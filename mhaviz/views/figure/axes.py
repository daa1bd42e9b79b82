"""One head on matplotlib Axes of the user, whose figure and settings stay as they are."""

from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.pages.labels import cut
from mhaviz.pages.panels import SINK_SCALE, head_panels
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import as_written
from mhaviz.views.figure.outline import outline
from mhaviz.views.figure.sheet import QUIET, mapped
from mhaviz.views.scales import resolve_maps
from mhaviz.views.style import Style
from mhaviz.views.tiles.labels import has_labels, marks_of
from mhaviz.views.tiles.layout import Side

_NAME_CELLS = 36  # most cells of the name of a module
_OUTLINE = 0.5  # points


def draw_head(attention: Attention, style: Style, ax: Axes) -> tuple[AxesImage, list[str]]:
    """Draw the only head of the attention: rows are queries, columns keys, and hidden cells are NaN and white.

    Sinks keep their columns, in grey and on a scale of their own, in a second image over the first.

    Letters are those of the user's matplotlib, unless ``style.font_size`` is given; characters that its fonts lack are
    drawn in others.

    Returns:
        The image, and notices for the user.

    Raises:
        ArgumentError: ``ax`` is no Axes, there is more than one head, or ``vmax`` does not fit the numbers.
    """
    if not isinstance(ax, Axes):
        got = type(ax).__name__
        raise ArgumentError(f"{parameter('ax')}: expected one matplotlib Axes, got {got}; give one of them, as axes[0]")
    panels = [(m, panel) for m in attention.with_sinks().maps for panel in head_panels(m)]
    if len(panels) != 1:
        raise ArgumentError(
            f"{parameter('ax')}: expected one head to draw in it, got {len(panels)}; choose one, as "
            f"attention.select(head=0, layer=0)"
        )
    ((m, panel),) = panels
    fonts = Fonts.covering([*m.queries, *m.keys, m.module, style.title or ""])
    fonts = replace(fonts, positions=style.positions, on_paper=style.has_small_letters)
    size: dict[str, Any] = {} if style.font_size is None else {"fontsize": style.font_size}
    font: dict[str, Any] = {
        "fontfamily": [*matplotlib.rcParams["font.family"], *fonts.families],
        "parse_math": False,
        "usetex": False,
        **size,
    }
    panel = resolve_maps([m], style).panel(panel, m)
    image = ax.imshow(panel.shown, interpolation="nearest", origin="upper", **mapped(panel.scale))
    if panel.apart:
        others, grey = ~np.isin(np.arange(len(m.columns)), panel.apart), mapped(SINK_SCALE)
        grey["cmap"] = grey["cmap"].with_extremes(bad="none")
        ax.imshow(np.where(others, np.nan, panel.shown), interpolation="nearest", origin="upper", **grey)
    ax.grid(False)
    if m.hidden is not None:
        _outline(ax, ~m.hidden)
    sinks = f"{panel.aside}, in grey from 0 to 1" if panel.apart else ""
    lines = (panel.title, cut(m.module, _NAME_CELLS), sinks) if style.title is None else (style.title,)
    ax.set_title("\n".join(as_written(fonts.shown(line)) for line in lines if line), **font)
    _label_sides(ax, m, fonts, font)
    ax.set_ylabel(m.quantity.row, **size)
    ax.set_xlabel("key", **size)
    return image, [fonts.notice] if fonts.notice else []


def _outline(ax: Axes, visible: NDArray[np.bool_]) -> None:
    """Draw a thin line around the cells that are not hidden."""
    bars = outline(visible, (1.0, 1.0), line=0.0)
    lines = [[(x - 0.5, y - 0.5), (x + across - 0.5, y + down - 0.5)] for x, y, across, down in bars]
    ax.add_collection(LineCollection(lines, colors=QUIET, linewidths=_OUTLINE), autolim=False)


def _label_sides(ax: Axes, m: AttentionMap, fonts: Fonts, font: dict[str, Any]) -> None:
    """Label as many tokens or positions of both sides as have room in the Axes as they now are, as figures do."""
    figure, box = ax.get_figure(root=True), ax.get_window_extent()
    assert figure is not None, "Axes that can be drawn in belong to a figure"
    cell = min(box.width / len(m.columns), box.height / len(m.rows)) / figure.dpi
    usual = matplotlib.rcParams["ytick.labelsize"], matplotlib.rcParams["xtick.labelsize"]
    axes = m.rows, m.columns
    sides = Side(len(m.rows), cell, 0.0), Side(len(m.columns), cell, 0.0)
    for number, (side, tokens, size) in enumerate(zip((ax.yaxis, ax.xaxis), axes, usual, strict=True)):
        points = FontProperties(size=font.get("fontsize", size)).get_size_in_points()
        marks = marks_of(axes, sides, points, fonts)[number]
        side.set_ticks([place / cell - 0.5 for place, *_ in marks], [as_written(text) for _, text, _ in marks], **font)
        if side is ax.xaxis and has_labels(tokens):
            side.set_tick_params(rotation=90)
