"""What a model can be asked for that is to read many sentences."""

from collections.abc import Callable, Sequence
from typing import Protocol

from mhaviz.maps.weighed_batch import WeighedBatch
from mhaviz.records import Source


class CorpusSource(Protocol):
    """Batches of sentences in, the weights of every attention out, one at a time: they are never kept together."""

    @property
    def source(self) -> Source:
        """What the numbers are made by."""
        ...

    @property
    def max_length(self) -> int | None:
        """The most tokens, special ones included, that the model can read; None: any number."""
        ...

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each, special ones included."""
        ...

    def weigh(self, texts: Sequence[str], seen: Callable[[WeighedBatch], None]) -> None:
        """One forward pass of a padded batch; calls ``seen`` once an attention, in order.

        Raises:
            ArgumentError: a text is too long.
            MhavizError: the batch does not fit into memory.
        """
        ...
