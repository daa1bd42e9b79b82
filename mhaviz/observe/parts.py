"""Join weights that meet values part by part: a head, a block of keys, or some queries at a time."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Parts:
    """The parts of weights that have met values so far.

    Args:
        shape: of all weights, in the program's own axes.
        axes: the axes of the keys, counted from the end. The parts tell which of several it is.
        sinks: how many columns of the softmax are no keys, and meet no values.
        device: of the weights.
        on_complete: called once all weights have met values.

    Attributes:
        numbers: numbers all weights, in the program's own axes.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axes: Sequence[int],
        sinks: int,
        device: torch.device,
        on_complete: Callable[[], None],
    ) -> None:
        self._shape, self._axes, self._sinks = tuple(shape), [len(shape) + axis for axis in axes], sinks
        self.on_complete = on_complete
        self.numbers = torch.arange(torch.Size(shape).numel(), device=device).view(self._shape)
        self._has_met = torch.zeros_like(self.numbers, dtype=torch.bool).flatten()
        self._queries: set[int] = set()
        self._weights: Tensor | None = None

    def add(self, A: Tensor, places: Tensor) -> None:
        """Add weights, (…, queries, keys), that have met values; ``places``: their numbers among all weights."""
        if self._weights is None:
            self._weights = A.new_zeros(len(self._has_met))
        varying = [self._varying(places, axis) for axis in (-2, -1)]
        if self._has_met[places].any() or not varying[1] <= set(self._axes):
            return  # weights that meet values twice never become whole
        self._axes = [axis for axis in self._axes if axis in varying[1]] or self._axes
        self._queries |= varying[0]
        self._has_met[places], self._weights[places] = True, A

    def joined(self) -> Tensor | None:
        """Return all weights, (…, q_length, k_length), once all have met values; None: not yet, or axes are not
        known."""
        n_keys = self._shape[self._axes[0]]
        n_met = len(self._has_met) // n_keys * (n_keys - self._sinks)
        if int(self._has_met.sum()) != n_met or len(self._queries) != 1 or self._weights is None:
            return None
        self.on_complete()
        return self.arranged(self._weights.view(self._shape))

    @property
    def places(self) -> tuple[int, ...]:
        """Where all weights have the axes of (…, q_length, k_length), once that is known."""
        ((query,), key) = self._queries, self._axes[0]
        return (*(axis for axis in range(len(self._shape)) if axis not in (query, key)), query, key)

    def arranged(self, x: Tensor) -> Tensor:
        """Return x, with the axes of all weights, as (…, q_length, k_length) without sinks, once these are known."""
        x, has_met = (one.permute(*self.places) for one in (x, self._has_met.view(self._shape)))
        return x[..., has_met.flatten(0, -2)[0]]

    def _varying(self, places: Tensor, axis: int) -> set[int]:
        """Return the axes of all weights that an axis of a part runs along."""
        coordinates = torch.unravel_index(places, self._shape)
        return {number for number, x in enumerate(coordinates) if bool((x != x.narrow(axis, 0, 1)).any())}
