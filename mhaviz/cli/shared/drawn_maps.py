"""Maps as every command that draws them delivers them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.errors import MhavizError

if TYPE_CHECKING:
    from mhaviz.records import Attention
    from mhaviz.views.look import Look


MOST_MAPS = 4_000
"""With more of them a terminal scrolls for a minute; a picture has room for fewer, and says so."""


def require_drawable(delivery: Delivery, n_maps: int, by_layer: bool) -> None:
    """Raise MhavizError if a picture is to be drawn of more maps than can be; data may be of any number.

    ``by_layer``: --layer would choose among them.
    """
    if delivery.draws and n_maps > MOST_MAPS:
        alone = " or a layer alone, with --layer" if by_layer else ""
        raise MhavizError(
            f"expected at most {MOST_MAPS:,} maps to draw, got {n_maps:,}; draw fewer sentences{alone}, or take all as "
            f"data, in a .json file or with --json"
        )


def tell_shown(delivery: Delivery, n_maps: int) -> None:
    """Say so if the terminal shows the first ``MOST_MAPS`` alone."""
    if n_maps > MOST_MAPS and not delivery.json:
        delivery.notice(f"the terminal shows the first {MOST_MAPS:,} of {n_maps:,} maps; a .json file takes all")


def deliver_maps(delivery: Delivery, attention: "Attention", look: "Look", notice: str | None = None) -> None:
    """Save them, and show them in the terminal; see ``Delivery.deliver``."""
    n_maps = len(attention.maps)
    require_drawable(delivery, n_maps, by_layer=len({m.layer for m in attention.maps}) > 1)
    tell_shown(delivery, n_maps)
    shown = replace(attention, maps=attention.maps[:MOST_MAPS])
    delivery.deliver(attention, look, shown=shown, notice=notice)
