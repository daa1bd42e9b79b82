"""How the numbers of single sentences are spread: counts between edges that are known before, so that they add up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class Histograms:
    """How many sentences have a number in each bin, for each head of one layer and each number.

    Attributes:
        edges: for each number, those between its bins, rising: one fewer than there are bins. A number at an edge is
            counted above it.
        counts: int64, (n_heads, n_numbers, n_bins).
    """

    edges: Sequence[NDArray[np.float64]]
    counts: NDArray[np.int64]

    @classmethod
    def none(cls, edges: Sequence[NDArray[np.float64]], n_heads: int) -> "Histograms":
        """Those of no sentence; all numbers have the same number of bins."""
        return cls(edges, np.zeros((n_heads, len(edges), len(edges[0]) + 1), np.int64))

    def add(self, values: NDArray[np.float64], has: NDArray[np.bool_]) -> None:
        """Count sentences.

        Args:
            values: (sentences, n_heads, n_numbers).
            has: (sentences, n_numbers), whether a sentence has the number.
        """
        n_heads, _, n_bins = self.counts.shape
        for place, edges in enumerate(self.edges):
            bins = np.searchsorted(edges, values[has[:, place], :, place], side="right")  # sentences n_heads
            flat = (bins + n_bins * np.arange(n_heads)).ravel()
            self.counts[:, place] += np.bincount(flat, minlength=n_heads * n_bins).reshape(n_heads, n_bins)

    def join(self, other: "Histograms") -> None:
        """Count the sentences of another part of the corpus, too."""
        self.counts += other.counts
