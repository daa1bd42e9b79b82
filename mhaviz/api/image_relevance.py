"""``attend`` with an image and ``why``: which patches of the image made the prediction of a classifier."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mhaviz.analyses.word_relevance import with_falls
from mhaviz.api.image_attention import UNPLACED, placed_in_photos, read_images
from mhaviz.api.recording import record
from mhaviz.attention.model import Model
from mhaviz.attention.targets import Score, Target, Why
from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.inputs.given import Given
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Text, Tokens
from mhaviz.results.image_relevance import Blank, ImageRelevance, relevance_over
from mhaviz.results.relevance import MOST_REMOVED, Relevance, Removal, Together, WordRelevance

if TYPE_CHECKING:
    from mhaviz.models.transformers.images import ImageReader, SeenImages

_SIZE = 64
"""Most rows and columns of maps that are recorded, of which only the names of tokens are read."""

_NO_TEXT = Text(Tokens(()))
"""Text that a classifier of images reads."""


def image_relevance(
    model: Model,
    given: Given,
    why: Why,
    removal: Removal = "top",
    on_notice: Callable[[str], None] | None = None,
    on_progress: Callable[[float, str], None] = lambda done, what: None,
) -> ImageRelevance:
    """Compute the relevance of each patch of an image for a label, and how much its logit falls without some of them.

    The model's attention is recorded with a graph that begins at the pixels. A patch is removed by setting its pixels
    to a mean colour, as no classifier reads fewer pixels.

    Args:
        model: a classifier of images.
        given: one image.
        why: "label=NAME"; "top" for the model's top prediction; or a function from its output to a scalar.
        removal: the patches that are removed, one at a time, with one forward pass each: the five with the largest
            relevance, which are also removed together, or all.
        on_notice: called with one line for each attention that was not observed, and for what is not known.
        on_progress: called with the share of the work that is done, and what is next.

    Raises:
        ArgumentError: several images, a text, or layers that do not read one another; no such label.
        MhavizError: as ``Recording.relevance``; which tokens are patches is not known, as where the model merges them.
        ProgramError: as ``attend_images``.
    """
    if len(given.image or ()) != 1:
        raise ArgumentError(
            f"{parameter('why')} explains one prediction, got {len(given.image or ())} images; give one of them"
        )
    reader, seen = read_images(model, given)
    if given.sentences:
        raise ArgumentError(
            f"{parameter('why')} with {parameter('image')} is for classifiers of images, which read no text: how "
            f"attention to an image and to a text joins is not known; leave out one of them"
        )
    pixels = _pixels_of(reader, seen)
    on_progress(0.0, "gradients")
    target, found, chosen = _explained(reader, seen, why, on_notice)
    side = _of_patches(reader, found.text)
    (grid,) = side.words.images
    blank: Blank = "processor" if reader.has_mean_colour else "image"
    removing = _Removing(reader, seen, target, grid, pixels, 0.0 if blank == "processor" else _mean_colour(pixels))
    removed = with_falls(
        side,
        found.y,
        removal,
        lambda place: removing.score([place]),
        lambda done: on_progress(done, "removing patches"),
        n_more=1,
    )
    strongest = side.ranked[:MOST_REMOVED]
    together = None
    if len(strongest) > 1:
        on_progress(1 - 1 / (2 + len(removed.removed)), "removing patches together")
        score = removing.score(strongest)
        together = Together(len(strongest), found.y - score.y, score.chosen)
    unknown = set[int]()
    removed = replace(removed, words=placed_in_photos(side.words, seen, 0, unknown))
    if unknown and on_notice is not None:
        on_notice(UNPLACED)
    source = model.describe()
    (photo,) = given.image or ()
    return ImageRelevance(
        source,
        target.explained,
        found.y,
        chosen,
        removed,
        removal=removal,
        together=together,
        over=relevance_over(source, removed, photo),
        blank=blank,
    )


def _explained(
    reader: "ImageReader", seen: "SeenImages", why: Why, on_notice: Callable[[str], None] | None
) -> tuple[Target, Relevance, str]:
    """Return the target, the relevance of the tokens for it, and what the model chooses."""
    from mhaviz.models.transformers.explain import target_of_image

    with _with_gradients():
        with record(reader.loaded.model, size=_SIZE, on_notice=on_notice) as recording:
            output = reader.run(seen, with_graph=True)
        target = target_of_image(reader.loaded, why, lambda: output)
        chosen = target.score(output, _NO_TEXT).chosen
        return target, recording.relevance(target.value(output, _NO_TEXT), target.explained.choice), chosen


@contextmanager
def _with_gradients() -> Iterator[None]:
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _pixels_of(reader: "ImageReader", seen: "SeenImages") -> Tensor:
    """Return the pixels of the one view that a model reads, (1, channels, height, width). Raises MhavizError if it
    reads several views, or no pixels in rows and columns."""
    from mhaviz.models.transformers.images import PIXELS

    pixels = seen.fields.get(PIXELS)
    if pixels is None or pixels.ndim != 4 or len(pixels) != 1:
        got = "none" if pixels is None else str(tuple(pixels.shape))
        raise MhavizError(
            f"{reader.loaded.name}: expected pixels of one view of the image, (1, channels, height, width), got {got}: "
            f"which of them are a patch is not known"
        )
    return pixels


def _of_patches(reader: "ImageReader", side: WordRelevance) -> WordRelevance:
    """Return the relevance of tokens, with all that are no patches aside. Raises MhavizError if it is not known which
    are patches."""
    images = side.words.images
    if len(images) != 1 or -1 in images[0].places:
        raise MhavizError(
            f"{reader.loaded.name}: expected the patches of an image, in rows and columns, among the tokens: which "
            f"they are is not known"
        )
    aside = ~np.isin(np.arange(len(side.words)), images[0].places)
    return replace(side, words=replace(side.words, special=tuple(np.flatnonzero(aside).tolist())), aside=aside)


def _mean_colour(pixels: Tensor) -> Tensor:
    return pixels.mean(dim=(2, 3), keepdim=True)


@dataclass(frozen=True, eq=False)
class _Removing:
    """Runs of a model without some patches of an image.

    Attributes:
        reader, seen, target: the model, what it reads, and what is explained.
        grid: the patches, whose box is a part of the pixels.
        pixels: (1, channels, height, width).
        colour: what their pixels are set to: a number, or (1, channels, 1, 1).
    """

    reader: "ImageReader"
    seen: "SeenImages"
    target: Target
    grid: PatchGrid
    pixels: Tensor
    colour: float | Tensor

    def score(self, places: Sequence[int]) -> Score:
        """Return what comes of the target without the patches that are tokens at these places."""
        from mhaviz.models.transformers.images import PIXELS

        pixels = self.pixels.clone()
        for place in places:
            rows, columns = self._pixels_at(place)
            pixels[:, :, rows, columns] = self.colour
        with torch.no_grad():
            output = self.reader.run(replace(self.seen, fields={**self.seen.fields, PIXELS: pixels}))
            return self.target.score(output, _NO_TEXT)

    def _pixels_at(self, place: int) -> tuple[slice, slice]:
        """Return the rows and columns of the pixels of a patch."""
        cell = self.grid.cell(place)
        assert cell is not None
        top, left, bottom, right = self.grid.box
        height, width = self.pixels.shape[2:]
        down = _slice(cell[0], self.grid.rows, top * height, bottom * height)
        return down, _slice(cell[1], self.grid.columns, left * width, right * width)


def _slice(number: int, count: int, begin: float, end: float) -> slice:
    """Return the pixels from ``begin`` to ``end`` that one of ``count`` equal parts has."""
    step = (end - begin) / count
    return slice(round(begin + number * step), round(begin + (number + 1) * step))
