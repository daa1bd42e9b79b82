"""Sums over the sentences of a corpus, in constant memory, which can be saved, and joined with those of others."""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from mhaviz.attention.model import CorpusModel
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Piece, Text
from mhaviz.results.result import Source

Array = NDArray[np.float64]

_MOST = 1e38  # largest number in a file, as numbers are drawn in float32
_WHERE = "sentence", "query", "key", "ids", "tokens"


class Sums(dict[str, Array]):
    """Sums over sentences for the heads of one attention: float64 arrays by name, initially zeros of given shapes.

    Arrays of two parts are added, with two exceptions. A name may have a prefix, such as "chance.".

    - "mean", "count" and "deviations", Σ (x − mean)², are joined by equation 1.5 of Chan, Golub and LeVeque 1983,
      "Algorithms for computing the sample variance", which stays accurate if the spread is much smaller than the mean.
    - "largest" keeps the larger value, with its place in "sentence", "query" and "key", counted from 1; the first of
      equal ones.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__({name: np.zeros(shape) for name, shape in shapes.items()})

    def add_values(self, values: Array, has: NDArray[np.bool_], prefix: str = "") -> None:
        """Add the numbers of sentences to a mean.

        Args:
            values: (sentences, …), followed by the axes of the mean.
            has: (sentences, …), followed by the axes of the count; whether a sentence has the number.
            prefix: prefix of the mean's name.
        """
        count = has.sum(axis=0)
        mean = np.where(has, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        deviations = (np.where(has, values - mean, 0.0) ** 2).sum(axis=0)
        self.join({f"{prefix}mean": mean, f"{prefix}count": count, f"{prefix}deviations": deviations})

    def join(self, other: Mapping[str, Array]) -> None:
        """Add the sums of other sentences; to zeros, this copies them exactly. Raises ValueError if shapes differ."""
        for name, array in other.items():
            if array.shape != self[name].shape:
                raise ValueError(f"{name}: expected numbers of shape {self[name].shape}, got {array.shape}")
            prefix, dot, field = name.rpartition(".")
            if field == "mean":
                self._join_means(prefix + dot, other)
            elif field == "largest":
                self._take_larger(other)
            elif field not in ("count", "deviations", *_WHERE):
                self[name] += array

    def _join_means(self, prefix: str, other: Mapping[str, Array]) -> None:
        (mean, count, deviations), theirs = (
            [one[f"{prefix}{name}"] for name in ("mean", "count", "deviations")] for one in (self, other)
        )
        share = theirs[1] / np.maximum(count + theirs[1], 1)  # 1 exactly where there was nothing
        apart = theirs[0] - mean
        mean += apart * share
        deviations += theirs[2] + apart**2 * (count * share)
        count += theirs[1]

    def _take_larger(self, other: Mapping[str, Array]) -> None:
        is_first = (other["largest"] == self["largest"]) & (other["sentence"] < self["sentence"])
        taken = (other["largest"] > self["largest"]) | is_first
        for name in ("largest", *_WHERE):
            self[name][taken] = other[name][taken]

    def mean(self, prefix: str = "") -> Array:
        """Return the mean over the sentences; NaN where no sentence has the number."""
        return np.where(self[f"{prefix}count"] > 0, self[f"{prefix}mean"], nan)

    @property
    def spread(self) -> Array:
        """Standard deviation between the sentences, √(Σ (x − mean)² / (count − 1)); NaN for fewer than two."""
        count = self["count"]
        return np.where(count > 1, np.sqrt(self["deviations"] / np.maximum(count - 1, 1)), nan)


class Study(ABC):
    """Study of a corpus: the sums of all attentions of a model.

    Processes may read shards of a corpus, whose sums are joined. Their number does not affect the first nine digits of
    any result.

    Attributes:
        name: name of the study in its parts.
        sums: sums by kind and layer.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.sums: dict[tuple[Kind, int], Sums] = {}

    @abstractmethod
    def shapes(self, n_heads: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of an attention with ``n_heads`` heads, the first axis of "mean"."""

    @property
    def options(self) -> dict[str, Any]:
        """Everything that the numbers depend on, except for models and texts, as plain JSON values."""
        return {}

    @abstractmethod
    def read(
        self,
        models: Sequence[CorpusModel],
        texts: Sequence[str],
        pieces: Sequence[Text | None],
        numbers: Sequence[int],
    ) -> None:
        """Run the models on a batch, and add the calls of their attentions.

        Args:
            models: the models; all read the same tokens.
            texts: sentences.
            pieces: for each sentence, the piece that is read in its place; see ``CorpusModel.encode_unnamed``.
            numbers: index of each sentence in the corpus, from 0.

        Raises:
            MhavizError: as ``Model.run``.
        """

    @abstractmethod
    def result(self, source: Source, too_long: int = 0) -> Any:
        """Return the result over all sentences so far; ``too_long``: number of sentences that could not be read."""

    def of(self, kind: Kind, layer: int, n_heads: int) -> Sums:
        """Return the sums of an attention; zeros if it is new."""
        if (kind, layer) not in self.sums:
            self.sums[kind, layer] = Sums(self.shapes(n_heads))
        return self.sums[kind, layer]

    def layers(self) -> Iterator[tuple[Kind, tuple[int, ...], list[Sums]]]:
        """Iterate over each kind of attention with its layers and their sums."""
        for kind in KIND_NAMES:
            layers = tuple(sorted(layer for other, layer in self.sums if other == kind))
            if layers:
                yield kind, layers, [self.sums[kind, layer] for layer in layers]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, such as "self.0.mean"."""
        return {f"{kind}.{layer}.{name}": a for (kind, layer), sums in self.sums.items() for name, a in sums.items()}

    def join(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add the ``arrays`` of a study of other sentences; to nothing, this copies them exactly.

        Raises:
            ValueError: they are invalid, or of another model.
        """
        joined = set[str]()
        for name in arrays:
            site = re.match(r"(self|masked|cross)\.([0-9]{1,6})\.", name)
            if site is None:
                raise ValueError(f"expected names such as self.0.mean, got {name!r:.40}")
            if (prefix := site[0]) in joined:
                continue
            joined.add(prefix)
            mean, kind = arrays.get(f"{prefix}mean"), cast(Kind, site[1])
            n_heads = len(mean) if mean is not None and mean.ndim else 0
            shapes = self.shapes(n_heads)
            for field, shape in shapes.items():
                _check(f"{prefix}{field}", arrays.get(f"{prefix}{field}"), shape)
            self.of(kind, int(site[2]), n_heads).join({field: arrays[f"{prefix}{field}"] for field in shapes})


def _check(name: str, array: NDArray[Any] | None, shape: tuple[int, ...]) -> None:
    if array is None:
        raise ValueError(f"there is no {name}")
    if array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"{name}: expected float64 of shape {shape}, got {array.dtype} of {array.shape}")
    least = -_MOST if name.endswith("mean") else 0
    if not ((least <= array) & (array <= _MOST)).all():  # NaN is neither
        raise ValueError(f"{name}: expected numbers from {least:g} to {_MOST:g}")


def stacked(layers: Sequence[Array], nothing: float = nan) -> Array:
    """Stack arrays (n_heads, …) of layers to (n_layers, n_heads, …), with ``nothing`` where a layer has fewer heads."""
    whole = np.full((len(layers), max(map(len, layers)), *layers[0].shape[1:]), nothing)
    for row, array in zip(whole, layers, strict=True):
        row[: len(array)] = array
    return whole


class Pieces:
    """Sums of pieces of texts, kept until all pieces of a text have been read.

    The pieces of a text are consecutive in a corpus, so that little is kept, and nothing at the end of a block.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, int], tuple[int, list[NDArray[Any]]]] = {}

    def joined(
        self, site: Hashable, pieces: Sequence[Piece | None], numbers: Sequence[int], *sums: NDArray[Any]
    ) -> tuple[tuple[int, ...], tuple[NDArray[Any], ...]]:
        """Return the indices and the sums of sentences that are complete with this batch.

        Args:
            site: the attention.
            pieces: piece of each row of the batch; None: a whole sentence. Empty: all are whole sentences.
            numbers: index of the sentence of each row.
            sums: sums over the queries of each row, (batch_size, …); they broadcast, except for the first axis.
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
