"""Patches of an image among the tokens of a sequence."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Patches:
    """Patches of an image, in reading order, among the tokens of a sequence.

    Attributes:
        grid: numbers of rows and columns.
        length: number of tokens in the sequence.
        places: index of each patch in the sequence, for each example of a batch, or once for all of them.
        is_text: whether the patches stand in the place of tokens of a text.
        parameters: indices in the sequence and names of parameters, such as "cls_token", that were joined to the
            patches as tokens.
    """

    grid: tuple[int, int]
    length: int
    places: tuple[tuple[int, ...], ...]
    is_text: bool = False
    parameters: tuple[tuple[range, str], ...] = ()

    @classmethod
    def of_image(cls, rows: int, columns: int) -> "Patches":
        """Return the patches of a sequence that holds nothing else."""
        return cls((rows, columns), rows * columns, (tuple(range(rows * columns)),))

    @property
    def are_all(self) -> bool:
        """Whether each example has all patches of the image, from its first token on."""
        return all(one == tuple(range(math.prod(self.grid))) for one in self.places)

    def moved(self, by: int, length: int) -> "Patches":
        """Return the patches with their indices shifted by ``by``, in a sequence of another length."""
        places = tuple(tuple(place + by for place in one) for one in self.places)
        moved = [(range(part.start + by, part.stop + by), name) for part, name in self.parameters]
        inside = tuple((part, name) for part, name in moved if part.start >= 0 and part.stop <= length)
        return replace(self, length=length, places=places, parameters=inside)
