"""Patches of an image among the tokens of a sequence."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Patches:
    """Patches of an image, in reading order, among the tokens of a sequence.

    Attributes:
        grid: rows and columns.
        length: of the sequence.
        places: of each patch in the sequence, of each example of a batch; one for all.
        is_text: whether they stand in the place of tokens of a text.
    """

    grid: tuple[int, int]
    length: int
    places: tuple[tuple[int, ...], ...]
    is_text: bool = False

    @classmethod
    def of_image(cls, rows: int, columns: int) -> "Patches":
        """Those of a sequence that holds nothing else."""
        return cls((rows, columns), rows * columns, (tuple(range(rows * columns)),))

    @property
    def are_all(self) -> bool:
        """Whether each example has the whole image, from its first token on, as far as the patches tell."""
        return all(one == tuple(range(math.prod(self.grid))) for one in self.places)

    def moved(self, by: int, length: int) -> "Patches":
        """The same in a sequence of this length, where so many tokens have come before them, or have gone."""
        places = tuple(tuple(place + by for place in one) for one in self.places)
        return replace(self, length=length, places=places)
