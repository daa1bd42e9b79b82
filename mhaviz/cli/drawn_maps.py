"""Maps as every command that draws them delivers them."""

from typing import TYPE_CHECKING

from mhaviz.cli.delivery import Delivery

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.records import Attention
    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.look import Look


def deliver_maps(delivery: Delivery, attention: "Attention", look: "Look", notice: str | None = None) -> None:
    """Save them, and show them in the terminal; see ``Delivery.deliver``."""

    def draw() -> "Sheet":
        from mhaviz.views.figure.heatmap import heatmap_figure

        return heatmap_figure(attention, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.heatmap import HeatmapView

        return HeatmapView(attention, look)

    delivery.deliver(attention, draw, view, notice=notice)
