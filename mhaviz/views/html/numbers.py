"""What the heads of one map look at: the numbers of ``mhaviz heads``, by which the page sorts its overview.

``HeadStatistics`` defines them, over many texts; here are those of a map that has the weights of all its tokens.
"""

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import OF_ONE_TEXT, Tokens
from mhaviz.results.attention import AttentionMap


def numbers_of_map(m: AttentionMap) -> dict[str, list[float | None]]:
    """Each number that the map has, of each of its heads; of a map that lacks the weights of some tokens, none."""
    if not m.is_whole or not (m.quantity.is_distribution or m.to_special is None):
        return {}
    copies = _earlier_copies(m.columns.tokens)
    heads = [_numbers(np.asarray(weights, np.float64), m, copies) for weights in m.weights]
    return {name: [head[name] if np.isfinite(head[name]) else None for head in heads] for name in heads[0]}


def _numbers(weights: NDArray[np.float64], m: AttentionMap, copies: NDArray[np.bool_]) -> dict[str, float]:
    """The means over the queries of one head, (queries, keys); ``copies``: see ``_earlier_copies``."""
    shares = weights if m.quantity.is_distribution else _shares(weights)
    whole = _shares(shares)  # rows of a softmax with a sink sum to less than 1
    (n_queries, n_keys), special = weights.shape, list(m.columns.tokens.special)
    numbers = dict[str, float]()
    if m.to_special is None:
        logarithms = np.log(whole, out=np.zeros_like(whole), where=whole != 0)
        numbers["entropy"] = float(-(whole * logarithms).sum(axis=1).mean())
        numbers["first"] = float(shares[:, 0].mean())
        if special:
            numbers["separators"] = float(shares[:, special].sum(axis=1).mean())
    if m.kind not in OF_ONE_TEXT or n_queries != n_keys:
        return numbers
    if m.to_special is None:
        positions = np.arange(n_keys)
        numbers["distance"] = float((whole * np.abs(positions - positions[:, None])).sum(axis=1).mean())
    numbers["itself"] = float(shares.diagonal().mean())
    if n_keys > 1:
        numbers["previous"] = float(shares.diagonal(-1).mean())
    if n_keys > 1 and m.kind == "self":
        numbers["next"] = float(shares.diagonal(1).mean())
    queries = copies.any(axis=1)
    if queries.any():
        numbers["copies"] = float((shares * copies)[queries].sum(axis=1).mean())
        numbers["induction"] = float((shares[:, 1:] * copies[:, :-1])[queries].sum(axis=1).mean())
    return numbers


def _shares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row as shares of its sum; rows of zeros stay."""
    sums = rows.sum(axis=1, keepdims=True)
    return rows / np.where(sums == 0, 1.0, sums)


def _earlier_copies(tokens: Tokens) -> NDArray[np.bool_]:
    """Which keys are earlier copies of a query's token, (queries, keys); special tokens have none."""
    names = np.unique(np.array(tokens.ids or tokens.texts), return_inverse=True)[1]
    same: NDArray[np.bool_] = np.tril(names[:, None] == names, -1)
    special = list(tokens.special)
    same[special] = same[:, special] = False
    return same
