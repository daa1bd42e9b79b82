"""The matrices of one layer: their titles and scales, and the words that say how to read them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Quote, Title
from mhaviz.pages.explanation import number_text
from mhaviz.pages.panels import DIVERGING, Scale
from mhaviz.pages.words import attention_title
from mhaviz.records.matrices import HeadMatrices, LayerMatrices, Matrix

PROJECT = "project: each row of X, a token, becomes a row of Q, of K and of V"
PRODUCTS = (
    "score, weigh, mix: a row of Q and a row of K, a column of Kᵀ, meet in one cell of S; "
    "a row of A weighs the rows of V, and their sum is a row of H"
)
JOIN = "concatenate, project out: the H of all heads side by side, then O"

_WRITTEN_OUT = 4  # features whose products are written one by one
_MOST_TERMS = 6  # keys whose values are
_LEAST_TERM = 0.005  # a weight that is not written as 0.00
_QUOTED = 14  # cells of a terminal, of a token in a sum
_MANY = 100.0  # from here on numbers have no decimals, a tenth of it one


@dataclass(frozen=True)
class MatrixScales:
    """The scale of each kind of matrix; a value and a weighted mean of values, H, share one."""

    inputs: Scale
    projected: Scale
    scores: Scale
    values: Scale
    output: Scale

    @classmethod
    def of(cls, m: LayerMatrices) -> "MatrixScales":
        """Zero in the middle of each."""
        inputs = [x.values for x in (m.input, m.memory) if x is not None]
        return cls(
            _around_zero(inputs),
            _around_zero([m.query.values, m.key.values]),
            _around_zero([head.scores for head in m.heads]),
            _around_zero([m.value.values, m.joined.values]),
            _around_zero([m.output.values] if m.output else []),
        )

    def of_whole(self, matrix: Matrix) -> Scale:
        """That of a matrix of the whole layer."""
        by_name = {"Q": self.projected, "K": self.projected, "V": self.values, "concat": self.values, "O": self.output}
        return by_name.get(matrix.name, self.inputs)


def _around_zero(several: Sequence[NDArray[np.float32]]) -> Scale:
    """A scale for numbers of two signs, of which 0 is one."""
    largest = max([1e-6, *(float(np.nanmax(np.abs(x), initial=0.0)) for x in several)])
    decimals = 0 if largest >= _MANY else 1 if largest >= _MANY / 10 else 2
    return Scale(DIVERGING, -largest, largest, decimals, zeros=True)


def matrices_title(m: LayerMatrices) -> Title:
    """Which attention, and of which texts."""
    return attention_title(m.kind, m.queries, m.keys, "" if m.layer is None else f", layer {m.layer}")


def titled(name: str, equation: str, values: NDArray[np.float32]) -> str:
    """ "Q = X Wq (6 × 8)"."""
    rows, columns = values.shape
    return f"{name} = {equation} ({rows} × {columns})" if equation else f"{name} ({rows} × {columns})"


def whole_title(matrix: Matrix) -> str:
    """The same of a matrix of the whole layer."""
    return titled(matrix.name, matrix.equation, matrix.values)


def scores_title(m: LayerMatrices, head: HeadMatrices) -> str:
    """ "S = Q Kᵀ / √2 (6 × 6)"."""
    joint = " " if m.rule.startswith(("/", "·")) or not m.rule else ", "
    return titled("S", f"Q Kᵀ{joint}{m.rule}".rstrip(), head.scores)


def head_title(m: LayerMatrices, head: HeadMatrices) -> str:
    """ "head 3", with the key head that it shares with others, if it does."""
    shared = f", with the keys and values of key head {head.key_head}" if m.n_key_heads < m.n_heads else ""
    return f"head {head.head}{shared}"


def columns_text(m: LayerMatrices, head: HeadMatrices) -> str:
    """Which columns of the matrices of all heads are the head's own."""
    d_key, d_value = m.d_key, head.value.shape[1]
    own, shared = _run(head.head, d_key), _run(head.key_head, d_key)
    if m.n_key_heads == m.n_heads and d_key == d_value:
        return f"columns {own} of Q, K, V and concat" if d_key > 1 else f"column {own} of Q, K, V and concat"
    return (
        f"columns {own} of Q, {shared} of K, {_run(head.key_head, d_value)} of V, {_run(head.head, d_value)} of concat"
    )


def _run(head: int, width: int) -> str:
    return f"{head * width} to {(head + 1) * width - 1}" if width > 1 else f"{head}"


def marked_text(m: LayerMatrices, quote: Quote, how: tuple[str, str] = ("", "")) -> str:
    """Which query and which key are the example; ``how``: how a picture marks each."""
    query, key = quote(m.queries.texts[m.position], _QUOTED), quote(m.keys.texts[m.key_position], _QUOTED)
    of_query, of_key = (f", {mark}" if mark else "" for mark in how)
    return (
        f"example: the query “{query}” at position {m.position}{of_query}, and the key with its largest weight in head "
        f"{m.heads[0].head}, “{key}” at position {m.key_position}{of_key}"
    )


def score_text(m: LayerMatrices, head: HeadMatrices, quote: Quote) -> str:
    """How the marked cell of S is made: products of features, written out where they are few."""
    i, j = m.position, m.key_position
    score, q, k = float(head.scores[i, j]), head.query[i], head.key[j]
    tokens = f"S: q(“{quote(m.queries.texts[i], _QUOTED)}”)·k(“{quote(m.keys.texts[j], _QUOTED)}”)"
    if np.isnan(score):
        return f"{tokens}: the key is hidden, and no number stands in S"
    product = number_text(float(q.astype(np.float64) @ k.astype(np.float64)))
    text = f"{tokens} = {product}, a sum of {len(q)} products"
    if len(q) <= _WRITTEN_OUT:
        products = " + ".join(f"{_signed(a)}·{_signed(b)}" for a, b in zip(q.tolist(), k.tolist(), strict=True))
        text = f"{tokens} = {products} = {product}"
    if not m.rule:
        return text
    return f"{text}; {m.rule} = {number_text(score)}"


def output_text(m: LayerMatrices, head: HeadMatrices, quote: Quote) -> str:
    """How the marked row of H is made: the values, each times its weight, of many keys the heaviest."""
    weights = head.weights[m.position]
    seen = np.flatnonzero(np.isfinite(head.scores[m.position]))
    heaviest = sorted(seen.tolist(), key=lambda key: -float(weights[key]))[:_MOST_TERMS]
    shown = sorted(key for key in heaviest if key == heaviest[0] or weights[key] >= _LEAST_TERM)
    terms = [f"{weights[key]:.2f}·v(“{quote(m.keys.texts[key], _QUOTED)}”)" for key in shown]
    if more := len(seen) - len(shown):
        terms.append(f"{more} more")
    row = head.output[m.position]
    numbers = f" = ({', '.join(map(number_text, row.tolist()))})" if len(row) <= _WRITTEN_OUT else ""
    query = quote(m.queries.texts[m.position], _QUOTED)
    return f"H: h(“{query}”) = {' + '.join(terms) or '0, as every key is hidden'}{numbers}"


def left_out_text(m: LayerMatrices) -> str:
    """Which matrices are not there, and why."""
    names = [name for name, matrix in (("X", m.input), ("O", m.output)) if matrix is None]
    return f"{' and '.join(names)} left out: {m.left_out}" if names else ""


def hidden_text(m: LayerMatrices, mark: str = "blank") -> str:
    """What stands where a mask hides a key; nothing if it hides none."""
    return f"{mark}: hidden keys" if any(np.isnan(head.scores).any() for head in m.heads) else ""


def others_text(m: LayerMatrices) -> str:
    """Whose S, A and H are not shown, if there are such heads."""
    n_others = m.n_heads - len(m.heads)
    return f"S, A and H of {len(m.heads)} of {m.n_heads} heads" if n_others else ""


def weights_of(head: HeadMatrices) -> NDArray[np.float32]:
    """A, with NaN where the key is hidden."""
    return np.where(np.isnan(head.scores), np.float32(np.nan), head.weights)


def _signed(number: float) -> str:
    text = number_text(number)
    return f"({text})" if text.startswith("-") else text
