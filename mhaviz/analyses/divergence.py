"""How unlike two rows of weights are. Lin 1991, "Divergence measures based on the Shannon entropy", section IV."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TINY = np.finfo(np.float64).tiny  # in place of 0, so that 0 / 0 is 0, and so is 0 log 0


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64]:
    """The Jensen–Shannon divergence of each row of p and that of q, in bits: 0 for equal rows, 1 for disjoint ones.

    JSD(p, q) = ½ KL(p ‖ m) + ½ KL(q ‖ m),  m = ½ (p + q),  KL(p ‖ m) = Σ p log₂(p / m)

    Args:
        p, q: rows that sum to 1, or to 0 where a query sees no key, (…, k_length); they broadcast.

    Returns:
        (…): 0 as well for two rows of zeros, and 1 for a row of zeros and one that is none.
    """
    p, q = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(q, np.float64))
    divergence = np.where(p.any(axis=-1) == q.any(axis=-1), (_from_middle(p, q) + _from_middle(q, p)) / 2, 1.0)
    return np.clip(divergence, 0.0, 1.0)  # weights are rounded, and so are their sums


def _from_middle(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """KL(p ‖ m)."""
    ratio = 2 * p / np.maximum(p + q, _TINY)
    return np.asarray((p * np.log2(np.maximum(ratio, _TINY))).sum(axis=-1))
