"""Page of an explanation of one query of one head: its scores by features, and its output by keys."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Block, Column, Drawn, Grid, Matrices, Page, Table, Text
from mhaviz.pages.labels import quoted, title_text
from mhaviz.pages.panels import Outline, Panel, Scale, blanked
from mhaviz.pages.registry import shown
from mhaviz.pages.words import rule_text, study_title
from mhaviz.results.attention import head_name
from mhaviz.results.axis import Axis
from mhaviz.results.explanation import Explanation
from mhaviz.units import with_minus

_LONG = 1e5  # from here on a number with two decimals is longer than one with an exponent
_QUOTED, _BAR, _STUDY = 24, 12, 140  # characters of a token, of a bar, and of the line that says what is studied
MOST_KEYS = 16  # of a longer sentence, the keys with the largest weights are shown, and the sum of the others


@shown(Explanation)
def explanation_page(e: Explanation) -> Page:
    """Return the page: the query's features and their products with those of keys, scores and weights, then the
    contribution of each value to the output."""
    keys, largest = e.heaviest(MOST_KEYS), _largest_contributions(e)
    rest = [key for key in _others(e, largest) if e.visible[key]]
    sums, more = ([e.contributions[rest].sum(axis=0)], [f"{len(rest)} more"]) if rest else ([], [])
    parts, names = np.stack([*e.contributions[largest], *sums, e.output]), [*_labels(e, largest), *more, "= output"]
    total = Outline(range(len(parts) - 1, len(parts)), range(e.d_key), "fine")
    products = blanked(e.products, ~e.visible[:, None])[keys]
    of_keys = _strips("q ∘ k", products, _labels(e, keys))
    blocks: tuple[Block, ...] = (
        Text((title_text(study_title(e), _STUDY),), "subtitle"),
        Text((_scores_text(e), _strongest_text(e))),
        Grid(((Grid(((_strips("q", e.query[None], ["q"]),), (of_keys,))), _scores_table(e, keys)),)),
        *([Text((_rest_text(e, left),))] if (left := _others(e, keys)) else []),
        Text(("output: the values v times their weights a, the largest contributions first",)),
        Grid(((_strips("a v", parts, names, total), _contributions_table(e, largest, rest, parts)),)),
    )

    def reading(drawn: Drawn) -> str:
        sides = "columns are features, counted from 0; rows are keys"
        return "; ".join(filter(None, [sides, *dict.fromkeys(drawn.pooled), e.source.remark]))

    return Page(_lesson(e), blocks, e.source.footnote, reading)


def _strips(name: str, values: NDArray[np.float32], labels: Sequence[str], *outlined: Outline) -> Matrices:
    """Return a block of one matrix whose columns are features."""
    panel = Panel(name, values, Scale.around_zero(values, name), outlined=outlined)
    return Matrices("", (panel,), Axis.of(labels), Axis.numbered(values.shape[1]), 1)


def _labels(e: Explanation, keys: Sequence[int]) -> list[str]:
    """Return "4 deposit" for each of these keys."""
    texts = (e.keys[key].removeprefix(" ") for key in keys)
    return [f"{key} {text}" if text.strip() else f'{key} "{text}"' for key, text in zip(keys, texts, strict=True)]


def number_text(value: float, form: str = "z.2f") -> str:
    """Return a number in this format, or as "1.23e+19" where that would be too long for a column."""
    return with_minus(f"{value:{form}}" if abs(value) < _LONG else f"{value:{'+' if '+' in form else ''}.3g}")


def _lesson(e: Explanation) -> str:
    """Return the title of the page: the head and the query, and what it looks at most."""
    query = f"{head_name(e.layer, e.head)}: “{quoted(e.token, _QUOTED)}” at position {e.position}"
    if not e.visible.any():
        return f"{query} sees no key"
    largest = np.flatnonzero(e.weights == e.weights.max())
    key = f"“{quoted(e.keys[largest[0]], _QUOTED)}” at position {largest[0]}"
    what, each = (key, "") if len(largest) == 1 else (f"{len(largest)} keys", " each")
    return f"{query} looks most at {what}, {e.weights.max():.2f}{each}"


def _scores_text(e: Explanation) -> str:
    """Return what is above the scores: how they are computed."""
    rule = e.rule.replace("/ √", "divided by √").replace("·", "times") or "unscaled"
    features = f"{e.d_key} products of features" if e.d_key > 1 else "one product of features"
    return f"scores: q·k, the sum of {features}; {rule}; softmax"


def _strongest_text(e: Explanation) -> str:
    """Name the features that count most in the score of the key with the largest weight."""
    if not e.visible.any():
        return "Every key is hidden: the weights and the output are zeros."
    key = int(np.argmax(e.weights))
    features = e.strongest_features(key)
    products = [f"{feature} ({number_text(e.products[key, feature], '+z.2f')})" for feature in features]
    named = f"feature{'s' * (len(features) > 1)} {' and '.join(filter(None, (', '.join(products[:-1]), products[-1])))}"
    return (
        f"“{quoted(e.keys[key], _QUOTED)}” at position {key} weighs most, {e.weights[key]:.2f}: "
        f"{named} {'count' if len(features) > 1 else 'counts'} most in its q·k of {number_text(e.similarities[key])}."
    )


def _features_text(e: Explanation, key: int) -> str:
    """Return "17 +2.1, 3 +1.9, 40 -1.2": the strongest features of a key and their products."""
    features = e.strongest_features(key)
    return ", ".join(f"{feature} {number_text(e.products[key, feature], '+z.1f')}" for feature in features)


def _largest_contributions(e: Explanation) -> list[int]:
    """Return the positions of the visible keys that contribute most to the output, the largest first."""
    order: list[int] = np.argsort(-e.sizes, kind="stable").tolist()
    return [key for key in order if e.visible[key]][:MOST_KEYS]


def _others(e: Explanation, shown_keys: Sequence[int]) -> list[int]:
    """Return the positions of the keys that are not shown."""
    return sorted(set(range(len(e.keys))) - set(shown_keys))


def _rest_text(e: Explanation, rest: Sequence[int]) -> str:
    """Return "and 288 more, together 0.12": the total weight of the keys that are not shown."""
    hidden = len(rest) - int(e.visible[list(rest)].sum())
    text = f"and {len(rest)} more, together {e.weights[list(rest)].sum():.2f}"
    return text if not hidden else f"{text}, {hidden} of them hidden"


def _scores_table(e: Explanation, keys: Sequence[int]) -> Table:
    """Return the table of these keys with their scores, weights and strongest features."""
    columns = (
        Column("#", is_key=True),
        Column("key", lambda key: quoted(e.keys[key], _QUOTED), "left", is_key=True),
        Column("q·k", number_text),
        Column(rule_text(e), number_text),
        Column("weight", "{:.2f}".format),
        Column("", align="left", bar=_BAR),
        Column("strongest features", lambda key: _features_text(e, key), "left"),
    )
    rows = []
    for key in keys:
        score, weight = (e.scores[key] if e.visible[key] else "hidden"), float(e.weights[key])
        rows.append((key, key, e.similarities[key], score, weight, weight, key))
    return Table(columns, tuple(rows))


def _contributions_table(e: Explanation, keys: Sequence[int], rest: Sequence[int], parts: NDArray[np.float32]) -> Table:
    """Return the table of what these keys contribute to the output, and of the total.

    ``rest``: the other keys; ``parts``: contribution of each key, of the rest together if there is any, and the output.
    """
    columns = (
        Column("#", is_key=True),
        Column("value of", lambda key: quoted(e.keys[key], _QUOTED), "left", is_key=True),
        Column("weight", "{:.2f}".format),
        Column("‖v‖", number_text),
        Column("‖a v‖", number_text),
        Column("share of all ‖a v‖", "{:.0%}".format),
        Column("", align="left", bar=_BAR),
    )
    norms, sizes = _lengths_of(e.value), _lengths_of(parts)
    rows: list[tuple[object, ...]] = [
        (key, key, e.weights[key], norms[key], e.sizes[key], e.shares[key], float(e.shares[key])) for key in keys
    ]
    if rest:
        share = float(e.shares[rest].sum())
        rows.append(("", f"{len(rest)} more", e.weights[rest].sum(), "", sizes[-2], share, share))
    rows.append(("", "= output", e.weights.sum(), "", sizes[-1], "", 0.0))
    return Table(columns, tuple(rows))


def _lengths_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return ‖v‖ of each row, computed in float64, as squares of numbers from 1e19 on overflow float32."""
    return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=-1))
