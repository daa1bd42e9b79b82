"""Whether saved numbers can be attention weights, and what is unusual about them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mhaviz.errors import MhavizError
from mhaviz.records.attention import LARGEST, ROUNDING, AttentionMap


def require_weights(m: AttentionMap, path: Path) -> None:
    """Raise MhavizError unless every number can be a weight."""
    for head, weights in zip(m.heads, m.weights, strict=True):
        if not np.isfinite(weights).all():
            place, what = ~np.isfinite(weights), "a finite number"
        elif (weights < 0).any():
            place, what = weights < 0, "at least 0"
        elif (weights > LARGEST).any():
            place, what = weights > LARGEST, f"at most {LARGEST:g}"
        else:
            continue
        query, key = (int(i) for i in np.argwhere(place)[0])
        got = f"{weights[query, key]:g}" + (", or what float32 cannot hold," if np.isinf(weights[query, key]) else "")
        raise MhavizError(
            f"{path}: {m.name}: expected a weight that is {what}, got {got} in head {head}, row {query}, column {key}"
        )
    if (hidden := seen_hidden(m)) is not None:
        keys = "later keys" if m.reach is None else "hidden keys"
        raise MhavizError(f"{path} is not understood: {m.name}: expected no weight on {keys}, got {hidden}")


def seen_hidden(m: AttentionMap) -> str | None:
    """A weight where the mask hides the key."""
    hidden = m.hidden
    for head, weights in zip(m.heads, m.weights, strict=True):
        if hidden is not None and weights[hidden].any():
            row, column = (int(i) for i in np.argwhere(hidden & (weights != 0))[0])
            return f"{weights[row, column]:.3g} in head {head}, row {row}, column {column}"
    return None


def sum_notices(maps: tuple[AttentionMap, ...], path: Path) -> Iterable[str]:
    """What to say of rows that do not sum to 1: the one that is farthest from it, and how many are zeros.

    Largest weights have no sum; a part of a map may leave some out, or all, and a head's sink gets some, or all.
    """
    worst, text = ROUNDING, ""
    rows, zeros, first = 0, 0, ""
    for m in maps:
        if not m.quantity.has_row_sums:
            continue
        sums = m.row_sums
        away = np.where(sums == 0, 0.0, sums - 1)
        away = np.maximum(away, 0.0) if m.has_rest else np.abs(away)
        if away.max() > worst:
            worst = float(away.max())
            head, row = (int(i) for i in np.unravel_index(away.argmax(), away.shape))
            text = f"row {row} of head {m.heads[head]} in {m.name} sums to {sums[head, row]:.4g}"
        if not m.has_rest:
            rows += sums.size
            if (sums == 0).any():
                head, row = (int(i) for i in np.argwhere(sums == 0)[0])
                first = first or f"row {row} of head {m.heads[head]} in {m.name}"
                zeros += int((sums == 0).sum())
    if text:
        yield f"{path}: not all rows sum to 1; farthest from it, {text}"
    if zeros:
        number = "1 row has" if zeros == 1 else f"{zeros:,} rows have"
        beginning = "; the first is" if zeros > 1 else ":"
        yield f"{path}: {number} nothing but zeros, of {rows:,}, as if no key were seen{beginning} {first}"
