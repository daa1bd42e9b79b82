"""Maps as every command that draws them delivers them."""

from typing import TYPE_CHECKING

from mhaviz.cli.delivery import Delivery
from mhaviz.errors import MhavizError
from mhaviz.views.files import FIGURE_SUFFIXES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.records import Attention
    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.look import Look


MOST_MAPS = 4_000
"""With more of them a terminal scrolls for a minute; a picture has room for fewer, and says so."""


def require_drawable(delivery: Delivery, n_maps: int) -> None:
    """Raise MhavizError if these are more maps than can be drawn, and some are to be drawn."""
    draws = not (delivery.quiet or delivery.json) or any(p.suffix.lower() in FIGURE_SUFFIXES for p in delivery.paths)
    if draws and n_maps > MOST_MAPS:
        raise MhavizError(
            f"expected at most {MOST_MAPS:,} maps to draw, got {n_maps:,}; choose a layer with --layer or fewer "
            f"sentences, or take all as data, with --json"
        )


def deliver_maps(delivery: Delivery, attention: "Attention", look: "Look", notice: str | None = None) -> None:
    """Save them, and show them in the terminal; see ``Delivery.deliver``."""

    require_drawable(delivery, len(attention.maps))

    def draw() -> "Sheet":
        from mhaviz.views.figure.heatmap import heatmap_figure

        return heatmap_figure(attention, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.heatmap import HeatmapView

        return HeatmapView(attention, look)

    delivery.deliver(attention, draw, view, notice=notice)
