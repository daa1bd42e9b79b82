"""Options for how pictures look."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mhaviz.errors import ArgumentError
from mhaviz.units import parse_length

if TYPE_CHECKING:
    from mhaviz.views.style import Style

look_option = partial(typer.Option, rich_help_panel="Appearance")

Cmap = Annotated[str, look_option(help="ink, bone or one of matplotlib's.")]
Vmax = Annotated[
    str,
    look_option(
        metavar="WEIGHT|auto",
        help="Weight of the darkest colour. \\[default: auto: most lies below]",
        show_default=False,
    ),
]
Columns = Annotated[int | None, look_option(help="Heads side by side in the picture.")]
Numbers = Annotated[
    bool | None, look_option("--numbers/--no-numbers", help="Write them into the cells. \\[default: if few]")
]
Width = Annotated[str | None, look_option(metavar="LENGTH", help="Of the picture: 3.3in, 8.4cm.")]
FontSize = Annotated[float | None, look_option(metavar="POINTS", help="Of labels. \\[default: 8]")]


@dataclass(frozen=True, eq=False, repr=False)
class PictureOptions:
    """How any picture looks."""

    dpi: Annotated[int, look_option(help="Pixels an inch.")] = 150
    title: Annotated[str | None, look_option(metavar="TEXT", help='In place of its own; "" for none.')] = None
    footnote: Annotated[str | None, look_option(metavar="TEXT", help="In place of all small print.")] = None


@dataclass(frozen=True, eq=False, repr=False)
class MapOptions:
    """How maps look."""

    cmap: Cmap = "ink"
    vmax: Vmax = "auto"
    scale: Annotated[
        Literal["linear", "log"],
        look_option(metavar="linear|log", help="log: equal factors, equal steps."),
    ] = "linear"
    columns: Columns = None
    numbers: Numbers = None
    width: Width = None
    font_size: FontSize = None


def style_of(
    picture: PictureOptions,
    cmap: str = "ink",
    vmax: str = "auto",
    scale: str = "linear",
    columns: int | None = None,
    numbers: bool | None = None,
    width: str | None = None,
    font_size: float | None = None,
) -> "Style":
    """What these options mean. Raises ArgumentError for what cannot be read."""
    from mhaviz.views.style import Style

    try:
        largest = None if vmax.strip().lower() == "auto" else float(vmax)
    except ValueError:
        raise ArgumentError(f"--vmax: expected a weight such as 0.5, or auto, got {vmax!r}") from None
    try:
        length = None if width is None else parse_length(width)
    except ValueError as error:
        raise ArgumentError(f"--width: {error}") from None
    return Style(
        cmap,
        picture.dpi,
        columns,
        largest,
        numbers,
        log=scale == "log",
        width=length,
        font_size=font_size,
        title=picture.title,
        footnote=picture.footnote,
    )


def style_of_weights(picture: PictureOptions, **looks: object) -> "Style":
    """The same, of what is at most 1. Raises ArgumentError also for a larger ``vmax``."""
    style = style_of(picture, **looks)  # type: ignore[arg-type]
    style.require_of_weights()
    return style
