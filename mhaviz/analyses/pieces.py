"""Sums over the queries of texts that were cut into pieces, put together again: a text counts as one sentence."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Piece


class Pieces:
    """Keeps the sums of pieces until all of their text are there.

    The pieces of a text follow one another in a corpus, so that little is kept, and nothing at the end of a block.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, int], tuple[int, list[NDArray[Any]]]] = {}

    def joined(
        self, site: Hashable, pieces: Sequence[Piece | None], numbers: Sequence[int], *sums: NDArray[Any]
    ) -> tuple[tuple[int, ...], tuple[NDArray[Any], ...]]:
        """The sums of the sentences that are whole with this batch, and their numbers.

        Args:
            site: which attention they are of.
            pieces: for each row of the sums, which piece it is of; None: of a whole sentence. Empty: all are whole.
            numbers: of the sentence of each row.
            sums: over the queries of each row, (batch_size, …); they may be broadcast, but for their rows.
        """
        if not any(pieces):
            return tuple(numbers), sums
        ready: list[tuple[int, Sequence[NDArray[Any]]]] = []
        for row, (piece, number) in enumerate(zip(pieces, numbers, strict=True)):
            own = [one[row] for one in sums]
            if piece is None:
                ready.append((number, own))
                continue
            count, kept = self._kept.pop((site, number), (0, own))
            if count:
                kept = [before + one for before, one in zip(kept, own, strict=True)]
            if count + 1 == piece.count:
                ready.append((number, kept))
            else:
                self._kept[site, number] = count + 1, kept
        if not ready:
            return (), tuple(one[:0] for one in sums)
        return tuple(number for number, _ in ready), tuple(
            np.stack(np.broadcast_arrays(*(rows[place] for _, rows in ready))) for place in range(len(sums))
        )
