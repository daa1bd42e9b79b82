"""Characters that stand for numbers where there are no colours: the more of its place one fills, the larger."""

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.panels import Scale

RAMP, ASCII_RAMP = " ▁▂▃▄▅▆▇█", " .:+=%#@"
"""From the lowest number to the highest."""
BELOW, ABOVE = "░▒▓", "▂▅█"
ASCII_BELOW, ASCII_ABOVE = "-~=", "+#@"
"""Of numbers of two signs, from the smallest to the largest; what is nearly 0 is blank."""
HIDDEN, ASCII_HIDDEN = "·", "/"
"""What stands in a hidden cell: a blank would look like 0."""

_EDGE = 1e-5  # a number so near to the next character has it: rounding does not choose, as in a legend's even steps


def ramp_characters(values: NDArray[np.float32], scale: Scale, in_unicode: bool) -> NDArray[np.str_]:
    """The character of each value; for NaN, the mark of what is hidden."""
    shares = np.nan_to_num(scale.shares(values)).astype(np.float64)
    if scale.has_two_signs:
        below, above = (BELOW, ABOVE) if in_unicode else (ASCII_BELOW, ASCII_ABOVE)
        ramp = [*reversed(below), " ", *above]
        from_middle = shares * (len(ramp) - 1) - len(below)
        places = len(below) + np.copysign(np.rint(np.abs(from_middle)), from_middle)
    else:
        ramp = list(RAMP if in_unicode else ASCII_RAMP)
        places = np.floor(shares * len(ramp) + _EDGE)
    chosen = np.array(ramp)[np.clip(places, 0, len(ramp) - 1).astype(int)]
    return np.where(np.isnan(values), hidden_mark(in_unicode), chosen)


def hidden_mark(in_unicode: bool) -> str:
    """What stands in a hidden cell."""
    return HIDDEN if in_unicode else ASCII_HIDDEN
