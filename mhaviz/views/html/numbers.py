"""Statistics of the heads of one map, by which the page for the browser sorts its overview.

``HeadStatistics`` defines them over many texts. Here they are computed from a single map, which must have the weights
of all its tokens.
"""

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import OF_ONE_TEXT, Tokens
from mhaviz.results.attention import AttentionMap, row_entropies


def numbers_of_map(m: AttentionMap) -> dict[str, list[float | None]]:
    """Return the statistics of all heads by name; empty if the map lacks the weights of some tokens."""
    if not m.is_whole or not (m.quantity.is_distribution or m.to_special is None):
        return {}
    positions = np.arange(len(m.keys), dtype=np.float32)
    distances = np.abs(positions[: len(m.queries), None] - positions)
    copies = _earlier_copies(m.columns.tokens)
    heads = [_numbers(weights, m, distances, copies) for weights in m.weights]
    return {name: [head[name] if np.isfinite(head[name]) else None for head in heads] for name in heads[0]}


def _numbers(
    weights: NDArray[np.float32], m: AttentionMap, distances: NDArray[np.float32], copies: NDArray[np.bool_]
) -> dict[str, float]:
    """Return the means over the queries of one head, whose weights are (queries, keys)."""
    shares = weights if m.quantity.is_distribution else _shares(weights)
    (n_queries, n_keys), special = weights.shape, list(m.columns.tokens.special)
    numbers = dict[str, float]()
    if m.to_special is None:
        numbers["entropy"] = float(np.nansum(row_entropies(weights))) / n_queries
        if m.begins:
            numbers["first"] = float(shares[:, 0].mean())
        if special:
            numbers["separators"] = float(shares[:, special].sum()) / n_queries
    if m.kind not in OF_ONE_TEXT or n_queries != n_keys:
        return numbers
    if m.to_special is None and not m.rows.tokens.images:
        # With an attention sink, rows of a softmax sum to less than 1.
        numbers["distance"] = float(np.einsum("ij,ij", _shares(shares), distances)) / n_queries
    numbers["itself"] = float(shares.diagonal().mean())
    if m.rows.tokens.images:  # patches, none of which is before another
        return numbers
    if n_keys > 1:
        numbers["previous"] = float(shares.diagonal(-1).mean())
    if n_keys > 1 and m.kind == "self":
        numbers["next"] = float(shares.diagonal(1).mean())
    if queries := np.count_nonzero(copies.any(axis=1)):
        numbers["copies"] = float(shares[copies].sum()) / queries
        numbers["induction"] = float(shares[:, 1:][copies[:, :-1]].sum()) / queries
    return numbers


def _shares(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row divided by its sum; rows of zeros are unchanged."""
    sums = rows.sum(axis=1, keepdims=True)
    shares: NDArray[np.float32] = np.divide(rows, sums, out=rows.copy(), where=sums != 0)
    return shares


def _earlier_copies(tokens: Tokens) -> NDArray[np.bool_]:
    """Return whether each key is an earlier copy of the query's token, (queries, keys); never for special tokens."""
    names = np.unique(np.array(tokens.ids or tokens.texts), return_inverse=True)[1]
    same: NDArray[np.bool_] = np.tril(names[:, None] == names, -1)
    special = list(tokens.special)
    same[special] = same[:, special] = False
    return same
