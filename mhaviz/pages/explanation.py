"""One query taken apart, in words and as tables."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Column, Quote, Table
from mhaviz.records.explanation import Explanation

_LONG = 1e5  # with two decimals and a sign from here on wider than any power of ten in float32
_QUOTED = 24  # cells of a terminal
_LABEL, _BAR = 24, 16  # likewise
MOST_KEYS = 16  # of a longer sentence the keys that matter most are shown, and the rest are summed up


def number_text(value: float, form: str = "z.2f") -> str:
    """A score, a product or a length: in this form, or, where its digits would fill a column, as "1.23e+19"."""
    return f"{value:{form}}" if abs(value) < _LONG else f"{value:{'+' if '+' in form else ''}.3g}"


def heading(e: Explanation, quote: Quote) -> str:
    """Which query of which head."""
    return f"head {e.head}, query “{quote(e.token, _QUOTED)}” at position {e.position}"


def rows_remark(e: Explanation) -> str:
    """What the query is named after, where that is not the word that the decoder reads; else nothing."""
    return e.source.remark if e.kind == "cross" else ""


def scores_heading(e: Explanation) -> str:
    """Over the scores."""
    rule = e.rule.replace("/ √", "divided by √").replace("·", "times") or "unscaled"
    return f"scores: q·k, the sum of {_features(e)}; {rule}; softmax"


def output_heading(e: Explanation) -> str:
    """Over the contributions."""
    return "output: the values v times their weights a, the largest contributions first"


def strongest_text(e: Explanation, quote: Quote) -> str:
    """What made the score of the key with the largest weight."""
    if not e.visible.any():
        return "Every key is hidden: the weights and the output are zeros."
    key = int(np.argmax(e.weights))
    features = e.strongest_features(key)
    products = [f"{feature} ({number_text(e.products[key, feature], '+z.2f')})" for feature in features]
    named = f"feature{'s' * (len(features) > 1)} {' and '.join(filter(None, (', '.join(products[:-1]), products[-1])))}"
    return (
        f"“{quote(e.keys[key], _QUOTED)}” at position {key} weighs most, {e.weights[key]:.2f}: "
        f"{named} {'count' if len(features) > 1 else 'counts'} most in its q·k of {number_text(e.similarities[key])}."
    )


def features_text(e: Explanation, key: int) -> str:
    """ "17 +2.1, 3 +1.9, 40 -1.2": the strongest features of a key and their products."""
    features = e.strongest_features(key)
    return ", ".join(f"{feature} {number_text(e.products[key, feature], '+z.1f')}" for feature in features)


def largest_contributions(e: Explanation) -> list[int]:
    """The positions of the keys that contribute most to the output, the largest first; hidden ones are left out."""
    order: list[int] = np.argsort(-e.sizes, kind="stable").tolist()
    return [key for key in order if e.visible[key]][:MOST_KEYS]


def others(e: Explanation, shown_keys: Sequence[int]) -> list[int]:
    """The keys that are not shown."""
    return sorted(set(range(len(e.keys))) - set(shown_keys))


def rest_text(e: Explanation, rest: Sequence[int]) -> str:
    """ "and 288 more, together 0.12": the weight of the keys that are not shown."""
    hidden = len(rest) - int(e.visible[list(rest)].sum())
    text = f"and {len(rest)} more, together {e.weights[list(rest)].sum():.2f}"
    return text if not hidden else f"{text}, {hidden} of them hidden"


Labels = Callable[[int], Sequence[str]]
"""One label a key, in at most so many cells of a terminal."""


def scores_table(e: Explanation, keys: Sequence[int], labels: Labels, rule: str) -> Table:
    """These keys: scores, weights and the features that made them; ``rule``: what becomes of q·k, over a column."""
    shown = labels(_LABEL)
    columns = (
        Column("#", is_key=True),
        Column("key", _nth(shown), "left", is_key=True),
        Column("q·k", number_text),
        Column(rule, lambda score: score if isinstance(score, str) else number_text(score)),
        Column("weight", "{:.2f}".format),
        Column("", align="left", bar=_BAR),
        Column("strongest features", lambda key: features_text(e, key), "left"),
    )
    rows = []
    for key in keys:
        score, weight = (e.scores[key] if e.visible[key] else "hidden"), float(e.weights[key])
        rows.append((key, key, e.similarities[key], score, weight, weight, key))
    return Table(columns, tuple(rows))


def contributions_table(e: Explanation, keys: Sequence[int], labels: Labels) -> Table:
    """These keys by what they contribute, and the sum of all."""
    shown = labels(_LABEL)
    columns = (
        Column("#", is_key=True),
        Column("value of", _nth(shown), "left", is_key=True),
        Column("weight", "{:.2f}".format),
        Column("‖v‖", number_text),
        Column("‖a v‖", number_text),
        Column("share", "{:.0%}".format),
        Column("", align="left", bar=_BAR),
    )
    norms = lengths_of(e.value)
    rows: list[tuple[object, ...]] = [
        (key, key, e.weights[key], norms[key], e.sizes[key], e.shares[key], float(e.shares[key])) for key in keys
    ]
    if rest := [key for key in others(e, keys) if e.visible[key]]:
        size = float(lengths_of(e.contributions[rest].sum(axis=0)))
        rows.append(("", f"{len(rest)} more", e.weights[rest].sum(), "", size, e.shares[rest].sum(), 0.0))
    rows.append(("", "= output", e.weights.sum(), "", float(lengths_of(e.output)), "", 0.0))
    return Table(columns, tuple(rows), has_total=True)


def _nth(labels: Sequence[str]) -> Callable[[int | str], str]:
    """The label of a key; of several keys together the words that stand there."""
    return lambda key: key if isinstance(key, str) else labels[key]


def visible_products(e: Explanation) -> NDArray[np.float32]:
    """The products, (k_length, d_key); NaN where the mask hides the key."""
    return np.where(e.visible[:, None], e.products, np.float32(np.nan))


def lengths_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """‖v‖ of each row; in float64, as squares of numbers from 1e19 on are more than float32 can hold."""
    return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=-1))


def _features(e: Explanation) -> str:
    return f"{e.d_key} products of features" if e.d_key > 1 else "one product of features"
