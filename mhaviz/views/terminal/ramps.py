"""Characters that stand for numbers where there are no colours: the more of its place one fills, the larger."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.panels import Scale

RAMP = " ▁▂▃▄▅▆▇█"
"""From the lowest number to the highest."""
BELOW, ABOVE = "░▒▓", "▂▅█"
"""Of numbers of two signs, from the smallest to the largest; what is nearly 0 is blank."""
HIDDEN = "·"
"""What stands in a hidden cell: a blank would look like 0."""

_EDGE = 1e-5  # a number so near to the next character has it: rounding does not choose, as in a legend's even steps


def blank_text(several: Sequence[NDArray[np.float32]], scale: Scale) -> str:
    """ "blank: below 0.11", where most of a row is, as of one that is nearly even; else nothing."""
    end = scale.value(1 / len(RAMP))
    is_blank = any(
        bool((2 * np.nansum(np.where(values < end, values, 0), axis=1) > np.nansum(values, axis=1)).any())
        for values in several
    )
    return f"blank: below {end:.2g}" if is_blank and not scale.has_two_signs else ""


def ramp_characters(values: NDArray[np.float32], scale: Scale) -> NDArray[np.str_]:
    """The character of each value; for NaN, the mark of what is hidden."""
    shares = np.nan_to_num(scale.shares(values)).astype(np.float64)
    if scale.has_two_signs:
        ramp = [*reversed(BELOW), " ", *ABOVE]
        from_middle = shares * (len(ramp) - 1) - len(BELOW)
        places = len(BELOW) + np.copysign(np.rint(np.abs(from_middle)), from_middle)
    else:
        ramp = list(RAMP)
        places = np.floor(shares * len(ramp) + _EDGE)
    chosen = np.array(ramp)[np.clip(places, 0, len(ramp) - 1).astype(int)]
    return np.where(np.isnan(values), HIDDEN, chosen)
