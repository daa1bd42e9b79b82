"""An explanation in words, the same in the terminal and in figures."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import Explanation
from mhaviz.views.labels import bare, cut, visible

_LONG = 1e5  # with two decimals and a sign from here on wider than any power of ten in float32
MOST_KEYS = 16  # of a longer sentence the keys that matter most are shown, and the rest are summed up


def number_text(value: float, form: str = "z.2f") -> str:
    """A score, a product or a length: in this form, or, where its digits would fill a column, as "1.23e+19"."""
    return f"{value:{form}}" if abs(value) < _LONG else f"{value:{'+' if '+' in form else ''}.3g}"


def heading(e: Explanation, shown: Callable[[str], str] = visible) -> str:
    """Which query of which head; ``shown`` makes a token fit to be shown."""
    return f"head {e.head}, query “{cut(shown(bare(e.token)), 24)}” at position {e.position}"


def scores_heading(e: Explanation) -> str:
    """Over the scores."""
    rule = e.rule.replace("/ √", "divided by √").replace("·", "times") or "unscaled"
    return f"scores: q·k, the sum of {_features(e)}; {rule}; softmax"


def output_heading(e: Explanation) -> str:
    """Over the contributions."""
    return "output: the values v times their weights a, the largest contributions first"


def strongest_text(e: Explanation, shown: Callable[[str], str] = visible) -> str:
    """What made the score of the key with the largest weight."""
    if not e.visible.any():
        return "Every key is hidden: the weights and the output are zeros."
    key = int(np.argmax(e.weights))
    features = e.strongest_features(key)
    products = [f"{feature} ({number_text(e.products[key, feature], '+z.2f')})" for feature in features]
    named = f"feature{'s' * (len(features) > 1)} {' and '.join(filter(None, (', '.join(products[:-1]), products[-1])))}"
    return (
        f"“{cut(shown(bare(e.keys[key])), 24)}” at position {key} weighs most, {e.weights[key]:.2f}: "
        f"{named} {'count' if len(features) > 1 else 'counts'} most in its q·k of {number_text(e.similarities[key])}."
    )


def features_text(e: Explanation, key: int) -> str:
    """ "17 +2.1, 3 +1.9, 40 -1.2": the strongest features of a key and their products."""
    features = e.strongest_features(key)
    return ", ".join(f"{feature} {number_text(e.products[key, feature], '+z.1f')}" for feature in features)


def largest_contributions(e: Explanation, most: int = MOST_KEYS) -> list[int]:
    """The positions of the keys that contribute most to the output, the largest first; hidden ones are left out."""
    order: list[int] = np.argsort(-e.sizes, kind="stable").tolist()
    return [key for key in order if e.visible[key]][:most]


def others(e: Explanation, shown_keys: Sequence[int]) -> list[int]:
    """The keys that are not shown."""
    return sorted(set(range(len(e.keys))) - set(shown_keys))


def rest_text(e: Explanation, rest: Sequence[int]) -> str:
    """ "and 288 more, together 0.12": the weight of the keys that are not shown."""
    hidden = len(rest) - int(e.visible[list(rest)].sum())
    text = f"and {len(rest)} more, together {e.weights[list(rest)].sum():.2f}"
    return text if not hidden else f"{text}, {hidden} of them hidden"


def visible_products(e: Explanation) -> NDArray[np.float32]:
    """The products, (k_length, d_key); NaN where the mask hides the key."""
    return np.where(e.visible[:, None], e.products, np.float32(np.nan))


def lengths_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """‖v‖ of each row; in float64, as squares of numbers from 1e19 on are more than float32 can hold."""
    return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=-1))


def _features(e: Explanation) -> str:
    return f"{e.d_key} products of features" if e.d_key > 1 else "one product of features"
