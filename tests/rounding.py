"""How far apart rounding may take two computations of the same numbers: no processor adds in the order of another."""

import numpy as np


def rounding(depth: int = 1, size: float = 10.0, terms: int = 32, dtype: type = np.float32) -> float:
    """The largest error of what is computed from sums of products (Higham 2002, section 3.1; a softmax passes it on).

    Args:
        depth: so many layers, each of which computes with what the one before has rounded.
        size: of the scores, or of what else is summed: the absolute values of a sum's products add up to it.
        terms: of a sum; of longer ones, as many as are added one after the other.
    """
    return depth * terms * float(np.finfo(dtype).eps) * size
