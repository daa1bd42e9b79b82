"""What the rows of a picture sum to: 1, unless they are another tool's."""

from collections.abc import Sequence

import numpy as np

from mhaviz.records import ROUNDING, AttentionMap

ONE = "a row sums to 1"


def sums_text(maps: Sequence[AttentionMap]) -> str:
    """ "a row sums to 1", or "rows sum to between 0.98 and 2.00"; how many are zeros, as those of padding may be.

    Of heads with a sink it is said where the rest goes.
    """
    sinks = [m.sink for m in maps]
    if any(sinks):
        less = "less than 1, the rest goes" if all(sinks) else "1, or to less where the rest goes"
        return f"a row sums to {less} to the head's sink"
    sums = np.concatenate([m.row_sums.ravel() for m in maps])
    others = sums[sums != 0]
    zeros = len(sums) - len(others)
    if not others.size:
        return "all weights are 0"
    low, high = float(others.min()), float(others.max())
    is_one = low >= 1 - ROUNDING and high <= 1 + ROUNDING
    text = ONE if is_one else f"rows sum to {_range(low, high)}"
    return text + f", but {zeros:,} of {len(sums):,} to 0" * bool(zeros)


def _range(low: float, high: float) -> str:
    decimals = 3 if f"{low:.2f}" == f"{high:.2f}" == "1.00" else 2  # more than ROUNDING from 1
    ends = [f"{end:,.{decimals}f}" for end in (low, high)]
    return f"between {ends[0]} and {ends[1]}" if ends[0] != ends[1] else ends[0]
