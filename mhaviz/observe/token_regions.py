"""The regions of images and texts that the tokens along one side of an attention are."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mhaviz.observe.regions import NONE, SOURCE, Regions


@dataclass(frozen=True, eq=False)
class TokenRegions:
    """The regions of images and texts that the tokens along one side of an attention are.

    Attributes:
        regions: the regions.
        numbers: int32, (batch_size, length), the number of the region of each token.
    """

    regions: Regions
    numbers: Tensor

    @cached_property
    def of_images(self) -> "TokenRegions | None":
        """The regions of images alone; None: there are none."""
        sources, images = self.regions.sources, self.regions.images
        if not images or not bool((self.numbers != NONE).any()):
            return None
        if len(images) == len(sources):
            return self
        rows = self.regions.rows.clone()
        places = rows.new_tensor([images.index(source) if source in images else NONE for source in sources])
        if len(rows):
            rows[:, SOURCE] = places[rows[:, SOURCE].long()]
            is_text = (self.numbers >= 0) & (rows[self.numbers.clamp(min=0).long(), SOURCE] < 0)
            numbers = self.numbers.masked_fill(is_text, NONE)
        else:
            numbers = self.numbers
        regions = Regions(images, rows, self.regions.names)
        return TokenRegions(regions, numbers) if bool((numbers != NONE).any()) else None

    def extended(self, length: int) -> "TokenRegions":
        """Return as many tokens, the last of which are of no region, such as keys that PyTorch's layer adds."""
        missing = length - self.numbers.shape[1]
        if missing <= 0:
            return self
        return TokenRegions(self.regions, torch.nn.functional.pad(self.numbers, (0, missing), value=NONE))


Sides = tuple[TokenRegions | None, TokenRegions | None]
"""What queries and keys are; None: no region is known."""
