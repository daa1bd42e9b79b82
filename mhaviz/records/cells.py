"""The cells of a map that stand for more than one query or key."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Reduction = Literal["mass", "max"]

_WIDE = 32  # tokens of a cell; one more is 3 % more weight, less than a step of most scales


def cell_edges(length: int, cells: int) -> NDArray[np.int64]:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells), (cells + 1,)."""
    return np.arange(cells + 1, dtype=np.int64) * length // cells


def even_cells(length: int, most: int) -> int:
    """The largest number of cells, at most ``most``, that are as good as equally wide.

    In a map by mass a cell of three keys beside one of two has half as much weight again for no other reason: such a
    map is striped. As many cells as are needed when each is as wide as the widest must be: then few are narrower, by
    one. Where one key more or less in a cell is too little to be seen, it is ``most``.
    """
    widest = -(-length // max(most, 1))
    return max(most, 1) if widest > _WIDE else -(-length // widest)


@dataclass(frozen=True)
class Cells:
    """Where the rows and columns of cells begin in the whole input, and what a cell is.

    Attributes:
        query_edges: int64, (rows + 1,): the first query of each row of cells, and the end of the last.
        key_edges: int64, (columns + 1,): the same of the keys.
        reduction: "mass": the mean over the cell's queries of the weight that goes to the cell's keys, so that a row of
            all keys sums to 1; "max": the largest single weight in the cell.
    """

    query_edges: NDArray[np.int64]
    key_edges: NDArray[np.int64]
    reduction: Reduction = "mass"

    @classmethod
    def of_tokens(cls, q_length: int, k_length: int) -> "Cells":
        """A cell for every query and key."""
        return cls(np.arange(q_length + 1, dtype=np.int64), np.arange(k_length + 1, dtype=np.int64))

    @property
    def tallest(self) -> int:
        """The most queries that a cell stands for."""
        return int(np.diff(self.query_edges).max())

    @property
    def widest(self) -> int:
        """The most keys that a cell stands for."""
        return int(np.diff(self.key_edges).max())

    @property
    def are_tokens(self) -> bool:
        """Whether each cell is the weight between one query and one key."""
        return self.tallest == self.widest == 1
