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

Cmap = Annotated[str, look_option(help="ink, bone or one of matplotlib's.")]
Vmax = Annotated[
    Any,
    look_option(
        metavar="WEIGHT|auto",
        parser=parsed(number_or_auto, "a weight such as 0.5, or auto"),
        help="Weight of the darkest colour. \\[default: auto: most lies below]",
    ),
]
Dpi = Annotated[int, look_option(help="Pixels an inch.")]


@dataclass(frozen=True, eq=False, repr=False)
class PictureOptions:
    """How a picture looks that stands in a paper."""

    dpi: Dpi = 150
    width: Annotated[
        Any,
        look_option(
            metavar="LENGTH",
            parser=parsed(parse_length, "a length such as 3.3in or 8.4cm"),
            help="Of the picture: 3.3in, 8.4cm.",
        ),
    ] = None
    font_size: Annotated[float | None, look_option(metavar="POINTS", help="Of labels. \\[default: 8]")] = None
    title: Annotated[str | None, look_option(metavar="TEXT", help='In place of its own; "" for none.')] = None
    footnote: Annotated[str | None, look_option(metavar="TEXT", help="In place of all small print.")] = None


@dataclass(frozen=True, eq=False, repr=False)
class MapOptions(PictureOptions):
    """How maps look."""

    cmap: Cmap = "ink"
    vmax: Vmax = None
    scale: Annotated[
        Literal["linear", "log"],
        look_option(metavar="linear|log", help="log: equal factors, equal steps."),
    ] = "linear"
    columns: Annotated[int | None, look_option(help="Heads side by side in the picture.")] = None
    numbers: Annotated[
        bool | None, look_option("--numbers/--no-numbers", help="Write them into the cells. \\[default: if few]")
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class PoolOptions:
    """How maps are pooled."""

    pool: Annotated[
        Literal["mass", "max", "both"] | None,
        long_option(metavar="mass|max|both", help="What a cell shows. \\[default: mass]"),
    ] = None
    size: Annotated[
        int | None,
        long_option(metavar="CELLS", help=f"Most rows and columns of cells. \\[default: {MOST_CELLS}]"),
    ] = None


def style_of(*groups: PictureOptions, **looks: Any) -> "Style":
    """The style that groups of options and single ones make. Raises ArgumentError for one that cannot be."""
    from mhaviz.views.style import Style

    for group in groups:
        looks |= vars(group)
    if "scale" in looks:
        looks["log"] = looks.pop("scale") == "log"
    return Style(**looks)
