"""What goes to tokens that are not of the text, where these are left out of a map."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.records.axis import even_edges
from mhaviz.records.brief import Brief


@dataclass(frozen=True, eq=False)
class SpecialKeys(Brief):
    """The weight that each query gives to special tokens, all of them together: one column beside the map.

    Attributes:
        weights: float32, (n_heads, rows): with the weights of the row in the map, they sum to 1; of norms, a sum.
        texts: the tokens, each once: "[CLS]", "[SEP]".
    """

    weights: NDArray[np.float32]
    texts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the column."""
        return " ".join(self.texts)

    def select(self, places: Sequence[int]) -> "SpecialKeys":
        """Of the heads at these places."""
        return SpecialKeys(self.weights[list(places)], self.texts)

    def pooled(self, rows: int, queries: NDArray[np.int64]) -> "SpecialKeys":
        """In at most so many rows: the mean over the queries, of which each row now has so many."""
        n_rows = self.weights.shape[1]
        if rows >= n_rows:
            return self
        cells = even_edges(n_rows, rows)[:-1]
        means = np.add.reduceat(self.weights * queries, cells, axis=1) / np.add.reduceat(queries, cells)
        return SpecialKeys(np.asarray(means, np.float32), self.texts)
