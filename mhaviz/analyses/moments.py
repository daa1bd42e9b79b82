"""Mean and spread of numbers over any number of sentences, in constant memory, and in parts that are joined."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIELDS = {"count": np.int64, "mean": np.float64, "deviations": np.float64}
_MOST = 1e38  # of what is drawn in float32


@dataclass
class Moments:
    """Count, mean and sum of squared deviations over the sentences, of every number of an array.

    Parts are joined by equation 1.5 of Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance",
    which loses no digits however many sentences there are, and however small the spread is beside the mean.

    Attributes:
        count: int64, of a shape that broadcasts to that of the mean: how many sentences have the number.
        mean: float64, of any shape; 0 where no sentence has the number.
        deviations: float64, of the same shape: Σ (x − mean)².
    """

    count: NDArray[np.int64]
    mean: NDArray[np.float64]
    deviations: NDArray[np.float64]

    @classmethod
    def none(cls, shape: tuple[int, ...], count_shape: tuple[int, ...] | None = None) -> "Moments":
        """Those of no sentence; ``count_shape``: of ``count``, where several numbers are of the same sentences."""
        counts = np.zeros(shape if count_shape is None else count_shape, np.int64)
        return cls(counts, np.zeros(shape), np.zeros(shape))

    def add(self, values: NDArray[np.float64], has: NDArray[np.bool_] | None = None) -> None:
        """Join with sentences.

        Args:
            values: (batch_size, *shape).
            has: (batch_size, *count_shape): which sentences have the number; None: all.
        """
        if has is None:
            has = np.ones((len(values), *self.count.shape), np.bool_)
        count = has.sum(axis=0)
        mean = np.where(has, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        deviations = np.where(has, values - mean, 0.0) ** 2
        self.join(Moments(count, mean, deviations.sum(axis=0)))

    def join(self, other: "Moments") -> None:
        """Join with those of other sentences.

        Raises:
            ValueError: those are of another shape.
        """
        if other.mean.shape != self.mean.shape or other.count.shape != self.count.shape:
            raise ValueError(f"expected numbers of shape {self.mean.shape}, got {other.mean.shape}")
        share = other.count / np.maximum(self.count + other.count, 1)  # 1 exactly where there was nothing
        apart = other.mean - self.mean
        self.mean += apart * share
        self.deviations += other.deviations + apart**2 * (self.count * share)
        self.count += other.count

    @property
    def known_mean(self) -> NDArray[np.float64]:
        """The mean; NaN where no sentence has the number."""
        return np.where(self.count > 0, self.mean, nan)

    @property
    def spread(self) -> NDArray[np.float64]:
        """The standard deviation between the sentences, √(Σ (x − mean)² / (count − 1)); NaN for fewer than two."""
        return np.where(self.count > 1, np.sqrt(self.deviations / np.maximum(self.count - 1, 1)), nan)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The three arrays by their names, such as "self.0.mean" for the prefix "self.0."."""
        return {f"{prefix}{name}": getattr(self, name) for name in _FIELDS}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> "Moments":
        """The reverse. Raises ValueError for arrays that are missing, or cannot be those."""
        found = {}
        for name, dtype in _FIELDS.items():
            array = arrays.get(f"{prefix}{name}")
            if array is None:
                raise ValueError(f"there is no {prefix}{name}")
            if array.dtype != dtype:
                raise ValueError(f"{prefix}{name}: expected {np.dtype(dtype)}, got {array.dtype}")
            found[name] = array.copy()
        moments = cls(**found)
        try:
            fits = np.broadcast_shapes(moments.count.shape, moments.mean.shape) == moments.mean.shape
        except ValueError:
            fits = False
        if not fits or moments.deviations.shape != moments.mean.shape:
            shapes = ", ".join(str(getattr(moments, name).shape) for name in _FIELDS)
            raise ValueError(f"{prefix}count, mean, deviations: expected shapes that go together, got {shapes}")
        if not all((np.abs(array) < _MOST).all() for array in found.values()):
            raise ValueError(f"{prefix}mean: expected numbers, got NaN or infinity, or more than {_MOST:g}")
        if (moments.count < 0).any() or (moments.deviations < 0).any():
            raise ValueError(f"{prefix}count, {prefix}deviations: expected none below 0")
        return moments
