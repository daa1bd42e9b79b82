"""Options for how pictures look, and how finely maps of many tokens are drawn."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.shared.parsing import number_or_auto, parse_length, parsed
from mhaviz.limits import MOST_CELLS

if TYPE_CHECKING:
    from mhaviz.views.style import Style

look_option = partial(typer.Option, rich_help_panel="Appearance")
long_option = partial(typer.Option, rich_help_panel="Long inputs")

Cmap = Annotated[str, look_option(help="ink, bone or a matplotlib colormap.")]
Vmax = Annotated[
    Any,
    look_option(
        metavar="WEIGHT|auto",
        parser=parsed(number_or_auto, "a weight such as 0.5, or auto"),
        help="Weight of the darkest colour. \\[default: auto, above most weights]",
    ),
]
Dpi = Annotated[int, look_option(help="Pixels per inch.")]


@dataclass(frozen=True, eq=False, repr=False)
class PictureOptions:
    """Options for how a picture is drawn."""

    dpi: Dpi = 150
    width: Annotated[
        Any,
        look_option(
            metavar="LENGTH",
            parser=parsed(parse_length, "a length such as 3.3in or 8.4cm"),
            help="Width of the picture: 3.3in or 8.4cm.",
        ),
    ] = None
    font_size: Annotated[float | None, look_option(metavar="POINTS", help="Size of labels. \\[default: 8]")] = None
    title: Annotated[str | None, look_option(metavar="TEXT", help='Replaces the title; "" for none.')] = None


@dataclass(frozen=True, eq=False, repr=False)
class MapOptions(PictureOptions):
    """Options for how maps are drawn."""

    cmap: Cmap = "ink"
    vmax: Vmax = None
    scale: Annotated[
        Literal["linear", "log"],
        look_option(metavar="linear|log", help="log: logarithmic colours."),
    ] = "linear"
    columns: Annotated[int | None, look_option(help="Heads side by side in the picture.")] = None


@dataclass(frozen=True, eq=False, repr=False)
class PoolOptions:
    """Options for how maps are pooled."""

    pool: Annotated[
        Literal["mass", "max"] | None,
        long_option(metavar="mass|max", help="How weights become a cell. \\[default: mass]"),
    ] = None
    size: Annotated[
        int | None,
        long_option(metavar="CELLS", help=f"Most rows and columns of cells. \\[default: {MOST_CELLS}]"),
    ] = None


def style_of(*groups: PictureOptions, **looks: Any) -> "Style":
    """Return the style that these options describe. Raises ArgumentError if it is invalid."""
    from mhaviz.views.style import Style

    for group in groups:
        looks |= vars(group)
    if "scale" in looks:
        looks["log"] = looks.pop("scale") == "log"
    return Style(**looks)
