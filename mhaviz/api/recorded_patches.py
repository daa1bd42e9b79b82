"""Views of images among the recorded tokens, by the regions of images that these are."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.inputs.patches import PatchGrid
from mhaviz.observe.regions import FRAME, LEFT, TOP, SeenImage
from mhaviz.observe.token_regions import Sides, TokenRegions

_MOST_PIXELS = 448
"""Most pixels of the longer side of a picture of what a program has read."""

_OFF = 0.05
"""Part of a patch by which its place may be off the grid, as where sizes are no multiples of each other."""


class ImageNumbers:
    """Numbers the images of a forward pass in the order in which the program has read them."""

    def __init__(self) -> None:
        self._forward = -1
        self._known: list[SeenImage] = []
        self._pictures: dict[tuple[int, int], tuple[SeenImage, NDArray[np.float32] | None]] = {}

    def of(self, images: Iterable[SeenImage], forward: int) -> list[int]:
        """Return the number of each image; ``forward``: number of the forward pass that has read them."""
        numbers = []
        for image in images:
            number = next((at for at, one in enumerate(self._known) if _are_same(one, image)), None)
            if number is None:
                if forward != self._forward:
                    self._forward, self._known = forward, []
                    self._pictures.clear()
                number = len(self._known)
                self._known.append(image)
            numbers.append(number)
        return numbers

    def picture(self, image: SeenImage, frame: int) -> NDArray[np.float32] | None:
        """Return a frame of an image as the program has read it, see ``PatchGrid.seen``; None: it has other channels
        than colours, or is not known."""
        if (id(image), frame) not in self._pictures:
            self._pictures[id(image), frame] = image, _picture(image, frame)
        return self._pictures[id(image), frame][1]


def _picture(image: SeenImage, frame: int) -> NDArray[np.float32] | None:
    pixels = image.pixels
    if pixels is None or not image.is_as_read or pixels.shape[0] not in (1, 3) or not pixels.numel():
        return None
    with torch.no_grad():
        pixels = pixels.reshape(pixels.shape[0], -1, *pixels.shape[-2:])[:, frame].float()
        if not bool(pixels.isfinite().all()):
            return None
        if (most := max(pixels.shape[1:])) > _MOST_PIXELS:
            height, width = (max(n * _MOST_PIXELS // most, 1) for n in pixels.shape[1:])
            pixels = torch.nn.functional.adaptive_avg_pool2d(pixels, (height, width))
        picture: NDArray[np.float32] = pixels.expand(3, -1, -1).permute(1, 2, 0).cpu().numpy().copy()
        return picture


def _are_same(one: SeenImage, other: SeenImage) -> bool:
    """Return whether two images are the same pixels in memory, as those that two encoders have read."""
    if one is other:
        return True
    if one.pixels is None or other.pixels is None or one.pixels.shape != other.pixels.shape:
        return False
    return one.pixels.data_ptr() == other.pixels.data_ptr()


def windows_of(sides: Sides, batch_size: int) -> list[list[int]]:
    """Return the places in the batch of each example: of an image that was cut into windows, those of its windows.

    Windows are of the same image, and hold other patches. Examples of which that is not known are one place each.
    """
    alone = [[place] for place in range(batch_size)]
    of_images = [None if side is None else side.of_images for side in sides]
    side = of_images[0] or of_images[1]
    if side is None or batch_size < 2 or len(side.numbers) != batch_size:
        return alone
    numbers = side.numbers.cpu()
    images = side.regions.rows[:, 0].cpu()[numbers.clamp(min=0).long()]
    images = torch.where(numbers >= 0, images, torch.full_like(images, -1))
    of_image: dict[int, list[int]] = {}
    for place, of in enumerate(images):
        there = [*{*of[of >= 0].tolist()}]
        if len(there) != 1:
            return alone
        of_image.setdefault(int(there[0]), []).append(place)
    if len(of_image) == batch_size:
        return alone
    patches = side.regions.rows[side.numbers[side.numbers >= 0].long()]
    different = patches.unique(dim=0)  # type: ignore[no-untyped-call]
    are_windows = len(different) == len(patches)  # and no copies of the image, read with other words
    return [*of_image.values()] if are_windows else alone


def grids_of(side: TokenRegions, example: int, images: ImageNumbers, forward: int) -> tuple[PatchGrid, ...]:
    """Return the views of images whose patches are among the tokens of an example.

    Tokens of one region are patches if their regions tile an image in rows and columns of one size, or some of them, as
    those of a window. Others, such as a mean over an image, are none.

    Args:
        side: the tokens.
        example: their place in the batch.
        images: numbers of the images.
        forward: number of the forward pass.
    """
    seen_images = side.regions.images
    numbers = images.of(seen_images, forward)
    of_tokens = side.numbers[min(example, len(side.numbers) - 1)].cpu().numpy()
    there = np.flatnonzero(of_tokens >= 0)
    every = side.regions.rows.cpu().numpy().astype(np.float64)
    rows = every[of_tokens[there]]
    known = side.numbers[side.numbers >= 0].cpu().numpy()
    of_all = every[known]  # also of other windows, which tell how far an image reaches
    grids: list[PatchGrid] = []
    keys = [tuple(row) for row in rows[:, [0, FRAME, FRAME + 1]]]
    for key in dict.fromkeys(keys):
        own = np.array([one == key for one in keys])
        which, first = int(key[0]), int(key[1])
        image = seen_images[which]
        number = numbers[which] + first if image.frames > 1 else numbers[which]
        seen = images.picture(image, first)
        grids += [
            replace(grid, image=number, seen=seen)
            for grid in _tiled(rows[own], there[own], of_all[of_all[:, 0] == which], image)
        ]
    return _named(grids, any(image.frames > 1 for image in seen_images))


def _named(grids: list[PatchGrid], are_frames: bool) -> tuple[PatchGrid, ...]:
    """Return views with names that tell them apart, if there are several."""
    if len(grids) < 2:
        return tuple(grids)
    images = [grid.image for grid in grids]
    what = "frame" if are_frames else "image"
    of_image = [f"{what} {image}" if len({*images}) > 1 else "" for image in images]
    sizes = [f"{grid.rows} × {grid.columns}" if images.count(grid.image) > 1 else "" for grid in grids]
    names = [" ".join(filter(None, both)) for both in zip(of_image, sizes, strict=True)]
    if len({*names}) < len(names):
        return ()
    return tuple(replace(grid, name=name) for grid, name in zip(grids, names, strict=True))


def _tiled(
    rows: NDArray[np.float64], places: NDArray[np.int64], of_image: NDArray[np.float64], image: SeenImage
) -> list[PatchGrid]:
    """Return the grids of regions of one image and frame, (n, 7), of tokens at these places; ``of_image``: regions of
    the image in all examples."""
    grid = _grid(rows, places, of_image, image)
    if grid is not None:
        return [grid]
    sizes = [tuple(size) for size in np.round(rows[:, [TOP + 1, LEFT + 1]] - rows[:, [TOP, LEFT]], 2)]
    if len({*sizes}) == 1:
        return []
    own = [np.array([one == size for one in sizes]) for size in dict.fromkeys(sizes)]
    found = (_grid(rows[one], places[one], rows[one], image) for one in own)
    return [grid for grid in found if grid is not None]


def _grid(
    rows: NDArray[np.float64], places: NDArray[np.int64], of_image: NDArray[np.float64], image: SeenImage
) -> PatchGrid | None:
    """Return the grid of regions; None: they do not tile the image in rows and columns of one size."""
    thin = [bool((np.round(rows[:, axis + 1] - rows[:, axis], 4) == 1).all()) for axis in (TOP, LEFT)]
    if thin[0] != thin[1] and min(image.height, image.width) > 1:  # lines of pixels, as of what is no image
        return None
    along = []
    for axis, size in ((TOP, image.height), (LEFT, image.width)):
        starts, ends = rows[:, axis], rows[:, axis + 1]
        cell = Counter(np.round(ends - starts, 4).tolist()).most_common(1)[0][0]
        if cell <= 0:
            return None
        first = float(starts.min() % cell)
        first = 0.0 if cell - first < _OFF * cell else first
        at = (starts - first) / cell
        numbers = np.round(at).astype(np.int64)
        if (np.abs(at - numbers) > _OFF).any() or (ends - starts > cell * (1 + _OFF)).any():
            return None
        last = int(np.round((of_image[:, axis].max() - first) / cell))
        count = max(int(numbers.max()), last) + 1
        count = max(count, int((size - first) / cell + _OFF))
        along.append((numbers, count, first / size, min((first + count * cell) / size, 1.0)))
    (of_rows, n_rows, top, bottom), (of_columns, n_columns, left, right) = along
    cells = of_rows * n_columns + of_columns
    if len(np.unique(cells)) < len(cells) or n_rows * n_columns == 1:
        return None
    found = np.full(n_rows * n_columns, -1, np.int64)
    found[cells] = places
    return PatchGrid(n_rows, n_columns, tuple(found.tolist()), box=(top, left, bottom, right))


def names_of(side: TokenRegions, example: int) -> dict[int, str]:
    """Return the names of parameters that are tokens of an example, by position."""
    of_tokens = side.numbers[min(example, len(side.numbers) - 1)].tolist()
    named = ((place, side.regions.name_of(number)) for place, number in enumerate(of_tokens))
    return {place: name for place, name in named if name}
