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
    from mhaviz.results.image import ImageAttention
    from mhaviz.views.style import Style

image_option = partial(typer.Option, rich_help_panel="Images")


def _grid(text: str) -> tuple[int, ...]:
    """ "14x14" → (14, 14), "8x8@1" → (8, 8, 1)."""
    size, at, first = text.partition("@")
    rows, columns = map(whole, re.split("[xX×,]", size))
    return (rows, columns, whole(first)) if at else (rows, columns)


parse_grid = parsed(_grid, "rows and columns of patches such as 14x14, or 8x8@1 from token 1 on")
"""Parser of a grid of patches."""

Image = Annotated[
    list[Path] | None,
    image_option(metavar="FILE", help="Draw attention over this image, one for each that is read; -: as it was read."),
]
AS_READ = Path("-")
"""In the place of an image: what the program itself has read."""

Key = Annotated[
    str | None,
    image_option(metavar="TOKEN", help="In place of --query: how much each patch looks at this word."),
]


@dataclass(frozen=True, eq=False, repr=False)
class ImageOptions:
    """Options for images whose patches are keys, or queries, of the attention."""

    image: Image = None
    query: Annotated[
        str | None,
        image_option(
            metavar="TOKEN",
            help="A word, its position #10, or a patch 5,7. \\[default with --image: the class token, else the mean]",
        ),
    ] = None
    key: Key = None
    form: As = None
    grid: Annotated[
        Any,
        image_option(
            metavar="14x14[@1]",
            parser=parse_grid,
            help="Rows and columns of patches, and the position of the first, if the maps do not have them.",
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """Files that are read for these options."""
        return [] if self.image == [AS_READ] else self.image or []

    @property
    def are_over(self) -> bool:
        """Whether attention is drawn over patches, of images or of none that are given."""
        return bool(self.image) or self.key is not None

    def check(self, names_patches: bool = False, head: Collection[int] | None = None, is_mean: bool = False) -> None:
        """Check the options before the work starts.

        Args:
            names_patches: whether a grid serves without an image, as it names tokens.
            head, is_mean: as of ``require_query``.

        Raises:
            ArgumentError: options exclude each other, one needs an image, or names no patch of it.
            MhavizError: an image cannot be read.
        """
        require_query(self.query, self.form, head, is_mean)
        require_one_side(self.query, self.key)
        if not self.are_over:
            if self.grid is not None and not names_patches:
                raise ArgumentError("--grid is for attention over an image; add --image photo.png")
            return
        if self.form is not None:
            other = "--image" if self.image else "--key"
            raise ArgumentError(f"{option_name('form')} is for maps of a text; leave out it or {other}")
        if self.grid is not None and min(self.grid[:2]) > 0:
            from mhaviz.results.image import named_patch, require_patch

            if (patch := named_patch(self.query)) is not None:
                require_patch(patch, self.grid[:2])
        require_images(self.files)

    def deliver(
        self, attention: "Attention", delivery: Delivery, style: "Style", mean: Sequence[str] | None = None
    ) -> None:
        """Save and show maps; over patches, pictures and JSON show the attention over them.

        ``mean``: what they are means over, as of ``Attention.mean``; None: they are no means.

        Raises:
            ArgumentError: as ``Attention.over_image``, or ``Attention.mean``.
        """
        if self.are_over:
            deliver_over(attention, self.files, self.query, self.key, delivery, style, mean, self.grid)
        else:
            maps = attention if mean is None else attention.mean(*mean)
            deliver_form(maps, self.query, self.form, delivery, style)


def require_one_side(query: str | None, key: str | None) -> None:
    """Raise ArgumentError if both a query and a key are chosen."""
    if query is not None and key is not None:
        raise ArgumentError(
            "--query chooses what looks, and --key what is looked at; expected one of them, got both; leave one out"
        )


def require_images(files: Collection[Path]) -> None:
    """Raise MhavizError if an image cannot be read."""
    from mhaviz.files.images import read_image

    if AS_READ in files:
        raise ArgumentError(
            "--image -, what a program has read, is for record, and for all its images: give it alone, or a file"
        )
    for file in files:
        try:
            read_image(file)
        except MhavizError as error:
            raise MhavizError(f"--image: {error}") from error


def deliver_over(
    attention: "Attention",
    files: Sequence[Path],
    query: str | None,
    key: str | None,
    delivery: Delivery,
    style: "Style",
    mean: Sequence[str] | None = None,
    grid: Any = None,
) -> None:
    """Save maps to the files of maps, and deliver the attention over images, or over patches alone.

    Raises:
        ArgumentError: as ``Attention.over_image``, or ``Attention.mean``.
    """
    images = files[0] if len(files) == 1 else list(files) or None
    what = "the maps without the image" if len(files) == 1 else "the maps without the images" if files else "the maps"

    def maps() -> "Attention":
        return attention if mean is None else attention.mean(*mean)

    def over() -> "ImageAttention":
        return attention.over_image(images, query, key=key, grid=grid, mean=mean)

    delivery.deliver_beside(maps, what, over, style, has_page=True)
