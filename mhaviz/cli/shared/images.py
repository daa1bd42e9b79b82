"""Options of commands that draw attention over an image."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.shared.console import option_name
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.parsing import parsed, whole
from mhaviz.cli.shared.queries import As, deliver_form, require_query
from mhaviz.errors import ArgumentError, MhavizError

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
    """Options for an image whose patches are the keys of the attention."""

    image: Annotated[Path | None, image_option(metavar="FILE", help="Draw a query's attention over this image.")] = None
    query: Annotated[
        str | None,
        image_option(
            metavar="TOKEN",
            help="A word, its position #10, or a patch 5,7. \\[default with --image: the class token, else the mean]",
        ),
    ] = None
    form: As = None
    grid: Annotated[
        Any,
        image_option(
            metavar="14x14",
            parser=parsed(_grid, "rows and columns of patches such as 14x14"),
            help="Rows and columns of patches, if the maps do not have them.",
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """Files that are read for these options."""
        return [self.image] if self.image else []

    def check(
        self,
        needs_image: Sequence[str] = ("grid",),
        head: Collection[int] | None = None,
        is_mean: bool = False,
    ) -> None:
        """Check the options before the work starts.

        Args:
            needs_image: options that need an image.
            head, is_mean: as of ``require_query``.

        Raises:
            ArgumentError: an option needs an image, or names no patch of it.
            MhavizError: the image cannot be read.
        """
        require_query(self.query, self.form, head, is_mean)
        if self.image is None:
            if alone := [option_name(name) for name in needs_image if getattr(self, name) is not None]:
                raise ArgumentError(f"{alone[0]} is for attention over an image; add --image photo.png")
            return
        if self.form is not None:
            raise ArgumentError(f"{option_name('form')} is for maps of a text; leave out it or --image")
        from mhaviz.files.images import read_image
        from mhaviz.results.image import named_patch, require_patch

        if self.grid is not None and min(self.grid) > 0 and (patch := named_patch(self.query)) is not None:
            require_patch(patch, self.grid)
        try:
            read_image(self.image)
        except MhavizError as error:
            raise MhavizError(f"--image: {error}") from error

    def deliver(self, attention: "Attention", delivery: Delivery, style: "Style") -> None:
        """Save and show maps; with an image, pictures and JSON show the attention over it.

        Raises:
            ArgumentError: as ``Attention.over_image``.
        """
        if self.image is not None:
            over = partial(attention.over_image, self.image, self.query, grid=self.grid)
            delivery.deliver_beside(lambda: attention, "the maps without the image", over, style)
        else:
            deliver_form(attention, self.query, self.form, delivery, style)
