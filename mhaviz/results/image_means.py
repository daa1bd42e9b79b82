"""Means of attention over images: over heads, layers, passes and inputs, also of layers with other grids of patches."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.results.means import AVERAGED, Averaged, MeanOver
from mhaviz.results.module_names import common_name
from mhaviz.results.patch_shares import Aside, ImageMap, PatchView

_Mean = Callable[[Sequence[NDArray[np.float64]]], NDArray[np.float64]]
"""Averages arrays whose first axis is heads."""

_TEXTS = frozenset({"sentences", "examples"})


def mean_of_images(
    maps: Sequence[ImageMap], names: Sequence[Averaged], over: MeanOver, is_key: bool
) -> tuple[tuple[ImageMap, ...], MeanOver]:
    """Return the means of maps, and what they are means over.

    Weights are averaged, each head with the same weight, and then divided by those of uniform attention. Where layers
    have other numbers of patches, the mean has those of the finest.

    Args:
        maps: the maps.
        names: what is averaged.
        over: what the maps are means over already.
        is_key: whether their numbers are what patches give a key, which finer patches have as the coarser ones over
            which they lie.

    Raises:
        ArgumentError: layers have several heads, which are not averaged; or maps have other heads or views.
    """
    if "layers" in names and "heads" not in names and any(len(m.heads) > 1 for m in maps):
        raise ArgumentError(
            f"{parameter('mean')}: expected heads, too, got layers: head 3 of one layer has nothing to do with head 3 "
            f"of another; give heads and layers"
        )
    groups = defaultdict[Hashable, list[ImageMap]](list)
    for m in maps:
        groups[_kept(m, names)].append(m)
    counts: dict[Averaged, int | None] = dict(over)
    some = max(groups.values(), key=len)
    numbers: dict[Averaged, int] = {
        "heads": sum(len(m.heads) for m in some),
        "layers": len({m.layer for m in some}),
        "passes": len({m.pass_number for m in some}),
        **dict.fromkeys(("sentences", "examples"), len({m.sentence for m in some})),
    }
    counts |= {name: numbers[name] for name in names}
    means = tuple(_mean(group, names, is_key) for group in groups.values())
    return means, tuple((name, counts[name]) for name in AVERAGED if name in counts)


def _kept(m: ImageMap, names: Sequence[Averaged]) -> Hashable:
    """Return what distinguishes a map from those that it is averaged with."""
    return (
        None if "layers" in names else m.layer,
        None if "layers" in names else m.module,
        None if "passes" in names else m.pass_number,
        None if _TEXTS.intersection(names) else m.sentence,
    )


def _mean(group: Sequence[ImageMap], names: Sequence[Averaged], is_key: bool) -> ImageMap:
    first, are_heads = group[0], "heads" in names
    heads = (0,) if are_heads else first.heads
    for m in group:
        if not are_heads and m.heads != first.heads:
            raise ArgumentError(f"{parameter('mean')}: expected maps of the same heads, got others")
        if [(view.name, view.box) for view in m.views] != [(view.name, view.box) for view in first.views]:
            raise ArgumentError(f"{parameter('mean')}: expected the same views of images in all maps, got others")

    def mean(several: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        if are_heads:
            return np.asarray(np.concatenate(several).mean(axis=0, keepdims=True))
        return np.asarray(np.mean(several, axis=0))

    return replace(
        first,
        views=tuple(_mean_view([m.views[i] for m in group], mean, is_key) for i in range(len(first.views))),
        aside=_mean_aside(group, mean),
        heads=heads,
        layer=None if "layers" in names and len({m.layer for m in group}) > 1 else first.layer,
        module=common_name([m.module for m in group]) or "",
        pass_number=None if "passes" in names else first.pass_number,
        sentence=None if _TEXTS.intersection(names) else first.sentence,
    )


def _mean_view(views: Sequence[PatchView], mean: _Mean, is_key: bool) -> PatchView:
    grids = {view.grid for view in views}
    rows, columns = max(grids, key=lambda grid: grid[0] * grid[1])
    if len(grids) > 1 and any(view.patch for view in views):
        raise ArgumentError(
            f"{parameter('mean')}: expected as many patches in all layers, as one of them is chosen, got "
            f"{' and '.join(f'{rows} × {columns}' for rows, columns in sorted(grids))}; choose layers by "
            f"{parameter('layer')}"
        )
    alike = [view.over(rows, columns, divides=not is_key) for view in views]
    chance = np.mean([view.chance for view in alike], axis=0)
    weights = mean([np.nan_to_num(view.weights) for view in alike])
    return replace(alike[0], weights=np.where(chance > 0, weights, np.nan), chance=chance)


def _mean_aside(group: Sequence[ImageMap], mean: _Mean) -> tuple[Aside, ...]:
    """Return the mean of what is no patch; 0 in a map that lacks it."""
    kinds = dict.fromkeys((one.kind, one.texts) for m in group for one in m.aside)
    found = []
    for kind, texts in kinds:
        weights = [
            sum((one.weights for one in m.aside if (one.kind, one.texts) == (kind, texts)), np.zeros(len(m.heads)))
            for m in group
        ]
        found.append(Aside(kind, texts, mean(weights)))
    return tuple(found)
