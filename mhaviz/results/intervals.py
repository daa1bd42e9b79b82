"""Intervals and probabilities of few numbers, in closed form."""

import math
from functools import cache
from statistics import NormalDist

from mhaviz.results.head_numbers import LEVEL

_LARGEST = 1e4  # largest quantile of Student's distribution that is looked for
_STEPS = 60  # bisections, after which the ends differ by less than rounding


@cache
def student(freedom: int) -> float:
    """Return t with which an interval mean ± t · spread / √n has ``LEVEL``, for n − 1 degrees of freedom, by bisection
    of the distribution in Abramowitz and Stegun 1964, "Handbook of mathematical functions", 26.7.3 and 26.7.4."""
    low, high = 0.0, _LARGEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < LEVEL else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Return the probability that a number of Student's distribution lies between −t and t."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, is_odd = math.cos(angle), freedom % 2
    term = total = (cosine if is_odd else 1.0) * (freedom > 1)
    for k in range(1, freedom // 2):
        term *= cosine**2 * (2 * k / (2 * k + 1) if is_odd else (2 * k - 1) / (2 * k))
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the interval of a share of n at ``LEVEL``: Wilson 1927, "Probable inference, the law of succession, and
    statistical inference". Unlike share ± spread, it holds for few, and for shares near 0 and 1."""
    z2 = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2
    middle, half = share + z2 / (2 * n), math.sqrt(z2 * (share * (1 - share) + z2 / (4 * n)) / n)
    return max((middle - half) / (1 + z2 / n), 0.0), min((middle + half) / (1 + z2 / n), 1.0)


def at_least(count: int, n: int, chance: float) -> float:
    """Return the probability of ``count`` hits or more among n, each of which has this chance."""
    if chance in (0.0, 1.0) or not count:
        return float(not count or chance)
    logs = (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(chance)
        + (n - k) * math.log1p(-chance)
        for k in range(count, n + 1)
    )
    return min(math.fsum(map(math.exp, logs)), 1.0)
