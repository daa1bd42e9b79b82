"""Join maps that hold some heads each, or some windows, of the same attention."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mhaviz.analyses.recorded_maps import RecordedMap
from mhaviz.results.attention import AttentionMap


def with_heads_joined(maps: Sequence[AttentionMap]) -> tuple[AttentionMap, ...]:
    """Join the maps that hold different heads of the same attention."""
    found: dict[tuple[object, ...], list[AttentionMap]] = {}
    for m in maps:
        of = m.pass_number, m.sentence, m.kind, m.layer, m.module, m.quantity.key, m.quantity.reduction
        found.setdefault((*of, m.rows.tokens, m.columns.tokens, m.weights.shape[1:]), []).append(m)
    joined: list[AttentionMap] = []
    for several in found.values():
        heads = [head for m in several for head in m.heads]
        if len(several) == 1 or len(set(heads)) < len(heads):
            joined += several
            continue
        weights = np.concatenate([m.weights for m in several])[np.argsort(heads)]
        sink = any(m.sink for m in several)
        reach = several[0].reach if len({m.reach for m in several}) == 1 else None
        whole = replace(several[0], weights=weights, heads=tuple(sorted(heads)), sink=sink, reach=reach)
        joined.append(replace(whole, queries_and_keys=None, windows=_heads_of_windows(several, heads)))
    return tuple(joined)


def _heads_of_windows(several: Sequence[AttentionMap], heads: Sequence[int]) -> tuple[AttentionMap, ...]:
    """Return the windows of maps with some of the heads each, with all heads; none if they have other windows."""
    if len({len(m.windows) for m in several}) > 1:
        return ()
    order = np.argsort(heads)
    return tuple(
        replace(of[0], weights=np.concatenate([m.weights for m in of])[order], heads=tuple(sorted(heads)))
        for of in zip(*(m.windows for m in several), strict=True)
    )


def with_windows_joined(maps: Sequence[AttentionMap], found: Sequence[RecordedMap]) -> list[AttentionMap]:
    """Return the maps without those of further windows, which the first window's has; see ``AttentionMap.windows``."""
    several: dict[tuple[int, int, int], list[AttentionMap]] = {}
    for m, one in zip(maps, found, strict=True):
        several.setdefault((one.number, one.pass_number, one.example), []).append(m)
    return [replace(of[0], windows=tuple(of)) if len(of) > 1 else of[0] for of in several.values()]
