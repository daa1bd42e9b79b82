"""How attention is spread over the patches of an image: shares, multiples of uniform, the fewest patches with half."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.inputs.patches import WHOLE, Box
from mhaviz.results.result import ShortRepr

HALF = 0.5
EVEN = 0.4
"""Least part of the patches that hold half of the attention where it is called even: of noise, they are about that
many."""

LEAST_PATCHES = 25
"""Least number of patches of which a half is worth a word: 5 × 5."""

PEAK = 4.0
"""Least multiple of uniform of a patch that stands out of attention that is even but for it."""

_ROUNDING = 1e-6  # of sums of float32

Spread = Literal["half", "peaks", "even", "nothing"]
"""How a head spreads attention over patches: half of it lies in few; some stand out of many that are even; it is even;
it gives the patches nothing, or has NaN."""

Elsewhere = Literal["special", "sink", "words", "others", "none"]
"""What keys are that are no patches: special tokens, such as a class token; a sink; words of a text; tokens of which
nothing is known; "none": the part of a softmax that belongs to no key."""


@dataclass(frozen=True, eq=False)
class Aside(ShortRepr):
    """What a query gives keys that are no patches.

    Attributes:
        kind: what they are.
        texts: texts of their tokens, of special tokens and sinks; empty where they are not named.
        weights: float64, (n_heads,), sum of their weights; where these are no shares, as a part of the row's sum.
    """

    kind: Elsewhere
    texts: tuple[str, ...]
    weights: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PatchView(ShortRepr):
    """Attention to the patches of one view of an image, or from them to a key.

    Attributes:
        weights: float64, (n_heads, rows, columns); NaN: a mask hides the patch, or it is no token of the map.
        chance: float64, (rows, columns), what a query that gives all patches the same would give each; they sum to 1
            over all views of a map.
        name, image, box: as of ``PatchGrid``.
        patch: row and column of the patch that is the query or the key; None: it is none of this view.
        is_placed: as of ``PatchGrid``.
    """

    weights: NDArray[np.float64]
    chance: NDArray[np.float64]
    name: str = ""
    image: int = 0
    box: Box = WHOLE
    patch: tuple[int, int] | None = None
    is_placed: bool = False

    @property
    def grid(self) -> tuple[int, int]:
        """Number of rows and columns of patches."""
        rows, columns = self.chance.shape
        return rows, columns

    @property
    def seen_box(self) -> Box:
        """Part of the image from the first to the last row and column of patches that are seen."""
        (rows, columns), (top, left, bottom, right) = self.grid, self.box
        down, across = (np.flatnonzero((self.chance > 0).any(axis=axis)) for axis in (1, 0))
        if not down.size:
            return self.box
        height, width = (bottom - top) / rows, (right - left) / columns
        first, last = (int(down[0]), int(across[0])), (int(down[-1]) + 1, int(across[-1]) + 1)
        return top + first[0] * height, left + first[1] * width, top + last[0] * height, left + last[1] * width

    def over(self, rows: int, columns: int, divides: bool) -> "PatchView":
        """Return the view in more patches, which lie over its own; nothing is smoothed.

        ``divides``: each patch divides its weight among those over it, by their areas; otherwise they have its weight.
        """
        if self.grid == (rows, columns):
            return self
        down, across = _overlaps(rows, self.grid[0]), _overlaps(columns, self.grid[1])
        shares = down @ np.nan_to_num(self.chance) @ across.T
        if not divides:
            down, across = (x / x.sum(axis=1, keepdims=True) for x in (down, across))
        weights = down @ np.nan_to_num(self.weights) @ across.T
        return replace(self, weights=np.where(shares > 0, weights, np.nan), chance=shares, patch=None)


def _overlaps(fine: int, coarse: int) -> NDArray[np.float64]:
    """Return the part of each of ``coarse`` equal parts of a line that lies in each of ``fine`` ones."""
    ends = [np.linspace(0, 1, n + 1) for n in (fine, coarse)]
    low = np.maximum(ends[0][:-1, None], ends[1][None, :-1])
    high = np.minimum(ends[0][1:, None], ends[1][None, 1:])
    return np.asarray(np.maximum(high - low, 0.0) * coarse)


@dataclass(frozen=True, eq=False)
class ImageMap(ShortRepr):
    """Attention of one query of a map to the patches of images, or of all patches to one key.

    Attributes:
        views: the views of images that are among the keys; of a key, among the queries.
        aside: what the query gives keys that are no patches; empty: there are none, or it is attention to a key.
        is_key: whether the weights are what each patch, a query, gives one key.
        layer, heads, sentence, module, pass_number: as in ``AttentionMap``.
    """

    views: tuple[PatchView, ...]
    aside: tuple[Aside, ...] = ()
    layer: int | None = 0
    heads: tuple[int, ...] = ()
    sentence: int | None = None
    module: str = ""
    pass_number: int | None = None
    is_key: bool = False

    @property
    def is_recorded(self) -> bool:
        """See ``AttentionMap.is_recorded``."""
        return bool(self.module) or self.pass_number is not None

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the only view, (n_heads, rows, columns). Raises ArgumentError if there are several."""
        if len(self.views) != 1:
            raise ArgumentError(f"expected one view of an image, got {len(self.views)}; see the weights of each")
        return self.views[0].weights

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """Weights of the patches of all views that the query sees, (n_heads, n_patches); those that patches give a key
        as parts of their mean."""
        weights = np.concatenate([view.weights[:, view.chance > 0] for view in self.views], axis=1)
        return np.asarray(weights * self._chance if self.is_key else weights)

    @cached_property
    def _chance(self) -> NDArray[np.float64]:
        return np.asarray(np.concatenate([view.chance[view.chance > 0] for view in self.views]))

    @property
    def n_patches(self) -> int:
        """Number of patches that the query sees."""
        return len(self._chance)

    @cached_property
    def inside(self) -> NDArray[np.float64]:
        """Sum of the weights of all patches, (n_heads,); of a key, its mean weight over them."""
        return np.asarray(self._weights.sum(axis=1))

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        """Weights as shares of those of all patches, (n_heads, n_patches); 0 where these are 0."""
        sums = self.inside[:, None]
        return np.asarray(self._weights / np.where(sums > 0, sums, 1.0))

    @cached_property
    def _orders(self) -> NDArray[np.int64]:
        return np.argsort(-self._shares, axis=1, kind="stable")

    @cached_property
    def half(self) -> tuple[int | None, ...]:
        """Of each head, the fewest patches that hold half of what it gives all patches; None: it gives them nothing, or
        has NaN."""
        sums = np.cumsum(np.take_along_axis(self._shares, self._orders, axis=1), axis=1)
        counts = (sums < HALF - _ROUNDING).sum(axis=1) + 1
        return tuple(int(n) if inside > 0 else None for n, inside in zip(counts, self.inside, strict=True))

    def spread(self, head: int) -> Spread:
        """Return how the head at this place spreads what it gives the patches; see ``EVEN`` and ``PEAK``."""
        n_half = self.half[head]
        if n_half is None:
            return "nothing"
        if n_half < EVEN * self.n_patches:
            return "half"
        return "peaks" if (self._ratios(head) >= PEAK).any() else "even"

    def outlined(self, head: int) -> tuple[NDArray[np.bool_], ...]:
        """Return which patches of each view, (rows, columns), stand out: the fewest with half, or those of ``PEAK``."""
        chosen, spread = np.zeros(self.n_patches, np.bool_), self.spread(head)
        if spread == "half":
            chosen[self._orders[head, : self.half[head]]] = True
        elif spread == "peaks":
            chosen = self._ratios(head) >= PEAK
        return self._in_views(chosen, False)

    def _ratios(self, head: int) -> NDArray[np.float64]:
        ratios = self._shares[head] / self._chance
        return ratios if self.inside[head] > 0 else np.full_like(ratios, np.nan)

    def times_uniform(self, head: int) -> tuple[NDArray[np.float64], ...]:
        """Return what each patch of each view gets, (rows, columns), as a multiple of what a query would give it that
        gives all patches the same; NaN: it is hidden, or the head gives the image nothing."""
        return self._in_views(self._ratios(head), np.nan)

    def view_shares(self, head: int) -> tuple[float, ...]:
        """Return the share of each view of what the head gives all patches."""
        return tuple(float(x.sum()) for x in self._in_views(self._shares[head], 0.0))

    @property
    def uniform_shares(self) -> tuple[float, ...]:
        """Shares of the views if all patches got the same."""
        return tuple(float(np.nansum(view.chance)) for view in self.views)

    def _in_views(self, flat: NDArray[np.generic], outside: float) -> tuple[NDArray, ...]:  # type: ignore[type-arg]
        """Return numbers of patches as those of views; ``outside``: number of hidden patches."""
        numbers, begin = [], 0
        for view in self.views:
            seen = view.chance > 0
            there = np.full(seen.shape, outside, flat.dtype)
            end = begin + int(seen.sum())
            there[seen] = flat[begin:end]
            numbers.append(there)
            begin = end
        return tuple(numbers)


def merged(parts: Sequence[tuple[ImageMap, int]]) -> ImageMap:
    """Return the mean of maps of other patches of the same views, such as windows.

    ``parts``: maps, each with the number of its queries.
    """
    first, n_queries = parts[0][0], sum(n for _, n in parts)

    def mean(numbers: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        sums = sum(np.nan_to_num(x) * n for x, (_, n) in zip(numbers, parts, strict=True))
        return np.asarray(sums / n_queries)

    views = []
    for i, view in enumerate(first.views):
        chance = mean([m.views[i].chance for m, _ in parts])
        weights = np.where(chance > 0, mean([m.views[i].weights for m, _ in parts]), np.nan)
        views.append(replace(view, weights=weights, chance=chance))
    asides = [replace(one, weights=mean([m.aside[i].weights for m, _ in parts])) for i, one in enumerate(first.aside)]
    return replace(first, views=tuple(views), aside=tuple(asides), sentence=None)
