"""Options of commands that lay attention over an image."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.shared.appearance import MapOptions
from mhaviz.cli.shared.console import option_name
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.parsing import parsed, whole
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.pages.registry import RESULT_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.results.attention import Attention
    from mhaviz.views.style import Style

image_option = partial(typer.Option, rich_help_panel="Images")


def _grid(text: str) -> tuple[int, int]:
    """ "14x14" → (14, 14)."""
    rows, columns = map(whole, re.split("[xX×,]", text))
    return rows, columns


@dataclass(frozen=True, eq=False, repr=False)
class ImageOptions:
    """An image whose patches are the keys of the attention."""

    image: Annotated[Path | None, image_option(metavar="FILE", help="Lay a query's attention over this image.")] = None
    query: Annotated[
        str | None,
        image_option(
            metavar="TOKEN",
            help="What it gives: a token, its position, or a patch 5,7; of an image, a class token or the mean of all.",
        ),
    ] = None
    grid: Annotated[
        Any,
        image_option(
            metavar="14x14",
            parser=parsed(_grid, "rows and columns of patches such as 14x14"),
            help="Rows and columns of patches, where the maps do not know them.",
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [self.image] if self.image else []

    def check(self, looks: MapOptions, needs_image: Sequence[str] = ("grid",)) -> None:
        """Find out before the work starts whether its options go together.

        ``needs_image``: those that are about an image alone.

        Raises:
            ArgumentError: they do not, or cannot be read.
            MhavizError: there is no such image.
        """
        if self.image is None:
            if alone := [option_name(name) for name in needs_image if getattr(self, name) is not None]:
                raise ArgumentError(f"{alone[0]} is for attention over an image; add --image photo.png")
            return
        if looks.numbers is not None:
            raise ArgumentError("--numbers is for maps, not for pictures over an image; leave it out")
        from mhaviz.files.images import read_image

        try:
            read_image(self.image)
        except MhavizError as error:
            raise MhavizError(f"--image: {error}") from error

    def deliver(self, attention: "Attention", delivery: Delivery, style: "Style") -> None:
        """Save maps and show them, or show them over the image: pictures and JSON are then of this.

        Files of maps are saved first, so that they are there whatever is wrong with the image.

        Raises:
            ArgumentError: as ``Attention.over_image``.
        """
        if self.image is None:
            delivery.deliver(attention if self.query is None else attention.of_query(self.query), style)
            return
        of_maps = [path for path in delivery.paths if path.suffix.lower() not in RESULT_SUFFIXES]
        if of_maps:
            replace(delivery, output=of_maps, quiet=True, json=False).deliver(attention, style)
            delivery.tell(*(f"saved {path}, the maps without the image" for path in of_maps))
        over = attention.over_image(self.image, self.query, grid=self.grid)
        others = [path for path in delivery.paths if path not in of_maps]
        replace(delivery, output=others).deliver(over, style)
