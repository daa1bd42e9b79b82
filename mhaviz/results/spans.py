"""Sums of weights over the keys of spans, such as words, and means over their queries."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.inputs.spans import SpansOf, span_tokens
from mhaviz.inputs.tokens import Ranges, Tokens
from mhaviz.results.axis import Axis


@dataclass(frozen=True, eq=False)
class SpanSide:
    """The spans of one side of a map, and which of its tokens are in them.

    Attributes:
        axis: the spans; its cells may hold several.
        owners: int64, (length,), for each token the number of its span, −1 for the rest, which is in none.
    """

    axis: Axis
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, tokens: Tokens, spans_of: SpansOf, hide_special: bool = False) -> "SpanSide":
        """Find the spans of a side; ``hide_special``: leave out those of special tokens, so that these are the rest.

        Raises:
            ArgumentError: as ``spans_of``; a token is in two spans.
        """
        spans = span_tokens(spans_of(tokens), tokens)
        return cls.of_axis(Axis(spans) if not hide_special else Axis.at(spans, spans.of_text), len(tokens))

    @classmethod
    def of_axis(cls, axis: Axis, length: int) -> "SpanSide":
        """Return the side of ``length`` tokens whose spans an axis has. Raises ArgumentError if a token is in two."""
        return cls(axis, _owners(axis.tokens.ranges, length))

    def pooled(self, most: int) -> "SpanSide":
        """Return the side with at most ``most`` cells, which belong to tokens in place of the spans."""
        axis = self.axis.pooled(most)
        cells = np.repeat(np.arange(len(axis)), np.diff(axis.edges))
        return SpanSide(axis, np.where(self.owners < 0, -1, cells[self.owners]))

    @property
    def edges(self) -> NDArray[np.int64]:
        """Where runs of tokens with one owner begin, and where the last ends, int64, (runs + 1,)."""
        return np.concatenate([[0], np.flatnonzero(np.diff(self.owners)) + 1, [len(self.owners)]])

    @property
    def runs(self) -> "SpanSide":
        """The side with a run of tokens in place of each token."""
        return SpanSide(self.axis, self.owners[self.edges[:-1]])

    @property
    def shares(self) -> NDArray[np.float64]:
        """For each run of tokens, its share of the tokens of its span, (runs,); 0 for the rest."""
        counts, owners = np.diff(self.edges), self.runs.owners
        in_spans = owners >= 0
        return np.where(in_spans, counts / np.bincount(owners[in_spans], counts[in_spans])[owners], 0.0)

    def sums(self, x: NDArray[np.floating], axis: int = -1) -> NDArray[np.floating]:
        """Sum numbers of tokens along an axis over each span, (…, length, …) → (…, spans, …)."""
        order = np.argsort(self.owners, kind="stable")[(self.owners < 0).sum() :]  # span by span, without the rest
        owners = self.owners[order]
        x = x if np.array_equal(owners, self.owners) else np.take(x, order, axis)
        begins = np.flatnonzero(np.diff(owners, prepend=-1))
        return x if len(begins) == len(owners) else np.asarray(np.add.reduceat(x, begins, axis=axis))

    def means(self, x: NDArray[np.floating], axis: int = -2) -> NDArray[np.floating]:
        """Average numbers of tokens along an axis over each span, as ``sums``."""
        shape = [-1 if place == axis % x.ndim else 1 for place in range(x.ndim)]
        return self.sums(x, axis) / np.bincount(self.owners[self.owners >= 0]).reshape(shape)


def _owners(ranges: tuple[Ranges, ...], length: int) -> NDArray[np.int64]:
    """Return the number of each token's span, −1 for tokens in none. Raises ArgumentError if a token is in two."""
    owners = np.full(length, -1, np.int64)
    for number, of_span in enumerate(ranges):
        for start, end in of_span:
            if not 0 <= start < end <= length or (owners[start:end] >= 0).any():
                raise ArgumentError(f"expected spans of {length} tokens, each in one of them, got {start} to {end}")
            owners[start:end] = number
    return owners
