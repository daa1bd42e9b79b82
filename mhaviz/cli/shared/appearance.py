"""Options for how pictures look, and how finely maps of many tokens are drawn."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.parsing import number_or_auto, on_or_off, parse_length, parsed
from mhaviz.errors import ArgumentError, parameter
from mhaviz.limits import MOST_CELLS
from mhaviz.pages.registry import FIGURE_SUFFIXES
from mhaviz.views.style import LOOKS_OF_FILES, Style

look_option = partial(typer.Option, rich_help_panel="Appearance")
long_option = partial(typer.Option, rich_help_panel="Long inputs")


@dataclass(frozen=True, eq=False, repr=False)
class PictureOptions:
    """Options for how a picture without colours of numbers is drawn: fields of ``Style``, as in the classes below."""

    room: Annotated[
        str | None,
        look_option(
            "--for", metavar="slide|column|page", help="Fits a slide, column or page: in files, or a PDF's pages."
        ),
    ] = None
    dpi: Annotated[int | None, look_option(help="Pixels per inch: 150, on paper 300.", show_default=False)] = Style.dpi
    width: Annotated[
        Any,
        look_option(
            metavar="LENGTH",
            parser=parsed(parse_length, "a length such as 3.3in or 8.4cm"),
            help="Width of the picture: 3.3in or 8.4cm.",
        ),
    ] = Style.width
    font_size: Annotated[float | None, look_option(metavar="POINTS", help="Size of labels. \\[default: 8]")] = (
        Style.font_size
    )
    title: Annotated[str | None, look_option(metavar="TEXT", help='Replaces the title; "" for none.')] = Style.title


@dataclass(frozen=True, eq=False, repr=False)
class ColourOptions(PictureOptions):
    """Options for how a picture with colours of numbers is drawn."""

    cmap: Annotated[str, look_option(help="ink, bone or a matplotlib colormap.")] = Style.cmap


@dataclass(frozen=True, eq=False, repr=False)
class TokenOptions(ColourOptions):
    """Options for how a picture with rows or columns of tokens is drawn."""

    positions: Annotated[
        Any,
        look_option(
            metavar="on|off",
            parser=parsed(on_or_off, "on or off"),
            help="Number repeated tokens: the₃. \\[default: on]",
            show_default=False,
        ),
    ] = Style.positions


@dataclass(frozen=True, eq=False, repr=False)
class WeightOptions(TokenOptions):
    """Options for how a picture with weights is drawn."""

    vmax: Annotated[
        Any,
        look_option(
            metavar="NUMBER|auto",
            parser=parsed(number_or_auto, "a number such as 0.5, or auto"),
            help="Darkest number. \\[default: auto, above most weights]",
        ),
    ] = Style.vmax


@dataclass(frozen=True, eq=False, repr=False)
class HeadOptions(WeightOptions):
    """Options for how heads are drawn."""

    columns: Annotated[int | None, look_option(help="Heads side by side in the picture.")] = Style.columns


@dataclass(frozen=True, eq=False, repr=False)
class MapOptions(HeadOptions):
    """Options for how maps are drawn: all fields of ``Style``."""

    log: Annotated[bool, look_option("--log", help="Logarithmic colours.")] = Style.log
    sinks: Annotated[
        Literal["apart", "in"],
        look_option(
            metavar="apart|in", help="Sinks such as \\[CLS]: apart, in grey (the default), or in.", show_default=False
        ),
    ] = Style.sinks  # type: ignore[assignment]


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


def style_of(looks: PictureOptions, delivery: Delivery) -> Style:
    """Return the style that these options describe.

    Raises:
        ArgumentError: it is invalid, or has a look of files of which none is saved.
    """
    style = Style(**vars(looks))
    for name, suffixes in LOOKS_OF_FILES.items():
        if getattr(style, name) is not None and delivery.suffixes.isdisjoint(suffixes):
            got = " and ".join(map(str, delivery.paths)) or "none"
            raise ArgumentError(
                f"{parameter(name)}: expected a picture to save, in a {' or '.join(FIGURE_SUFFIXES)} file, got {got}; "
                f"leave it out, or give a file by {parameter('output')}"
            )
    return style
