"""Page of the matrices of one layer: X, Q, K, V, then S, A and H of each head, their concatenation, and O."""

from collections.abc import Mapping, Sequence
from itertools import groupby, zip_longest

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Drawn, Grid, Matrices, Page, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.explanation import number_text
from mhaviz.pages.labels import quoted
from mhaviz.pages.panels import WEIGHT, Outline, Panel, Scale, blanked, end_of_scale
from mhaviz.pages.registry import shown
from mhaviz.pages.weight_range import darkest_from
from mhaviz.pages.words import attention_title
from mhaviz.results.attention import AttentionMap, head_name
from mhaviz.results.axis import Axis
from mhaviz.results.matrices import HeadMatrices, LayerMatrices, Matrix
from mhaviz.units import MINUS

PROJECT = "project: each row of X, a token, becomes a row of Q, of K and of V"
PRODUCTS = (
    "score, weigh, mix: a row of Q and a row of K, a column of Kᵀ, meet in one cell of S; "
    "a row of A weighs the rows of V, and their sum is a row of H"
)
JOIN = "concatenate, project out: the H of all heads side by side, then O"
_READING = "rows are tokens, in Kᵀ features; columns of S, A and Kᵀ are keys, of the others features"
_OF_FEATURES = "rows are tokens, columns features"
_OF_KEYS = ("K", "V")  # matrices of the whole layer whose rows are keys

_WRITTEN_OUT = 4  # most features whose products are written one by one
_MOST_TERMS = 6  # most keys whose values are written one by one
_LEAST_TERM = 0.005  # least weight that is not written as 0.00
_QUOTED = 14  # characters of a token in a sum
_MANY = 100.0  # numbers from here on have no decimals, from a tenth of it one


@shown(LayerMatrices)
def matrices_page(m: LayerMatrices) -> Page:
    """Return the page: X, Q, K and V; for each head S between Q and Kᵀ, and H between A and V; the concatenation of
    all H; and O."""
    scales = _scales(m)
    heads = [_head(m, head, scales) for head in m.heads]
    blocks = (
        Text((_marked_text(m),), "subtitle"),
        Text((PROJECT,), "heading"),
        Grid(_wholes(m, m.projected, scales)),
        Text((PRODUCTS,), "heading"),
        Grid(tuple(zip_longest(heads[::2], heads[1::2]))),
        Text((JOIN,), "heading"),
        Grid(_wholes(m, [m.joined, *filter(None, [m.output])], scales)),
    )
    about = _left_out_text(m), m.source.remark

    def reading(drawn: Drawn) -> str:
        of_heads = (_hidden_text(m, drawn.hidden), _others_text(m)) if drawn.shows("S") else ()
        read = _READING if drawn.shows("S") else _OF_FEATURES
        return "; ".join(filter(None, [read, *dict.fromkeys(drawn.pooled), _outlined_text(drawn), *of_heads, *about]))

    layer = "" if m.layer is None else f", layer {m.layer}"
    title = attention_title(m.kind, m.queries, m.keys, f", {m.source.model}{layer}")
    return Page(title, blocks, m.source.footnote, reading)


def _outlined_text(drawn: Drawn) -> str:
    """Return what the outlines that are drawn mean."""
    marks = ", ".join(["the query in orange"] * drawn.outlined("orange") + ["the key in blue"] * drawn.outlined("blue"))
    lines = "lines between columns divide heads" * drawn.outlined("fine")
    return "; ".join(filter(None, [f"outlined: {marks}" * bool(marks), lines]))


def _scales(m: LayerMatrices) -> dict[str, Scale]:
    """Return the scale of each matrix by its name; V and H, a weighted mean of rows of V, share one.

    All but that of weights have 0 in the middle.
    """
    inputs = [x for x in (m.input, m.memory) if x is not None]
    weights = AttentionMap(np.stack([head.weights for head in m.heads]), Axis(m.queries), Axis(m.keys), m.kind)
    return {
        **dict.fromkeys([x.name for x in inputs], _around_zero("X", [x.values for x in inputs])),
        **dict.fromkeys(("Q", "K", "Kᵀ"), _around_zero("Q, K", [m.query.values, m.key.values])),
        "S": _around_zero("S", [head.scores for head in m.heads]),
        "A": Scale(high=darkest_from([weights]), zeros=True, name=WEIGHT),
        **dict.fromkeys(("V", "H", "concat"), _around_zero("V, H", [m.value.values, m.joined.values])),
        "O": _around_zero("O", [m.output.values] if m.output else []),
    }


def _around_zero(name: str, several: Sequence[NDArray[np.float32]]) -> Scale:
    """Return a scale with 0 in the middle, whose zeros are written."""
    end = end_of_scale(several)
    decimals = 0 if end >= _MANY else 1 if end >= _MANY / 10 else 2
    return Scale(DIVERGING, -end, end, decimals, zeros=True, name=name)


def _wholes(
    m: LayerMatrices, matrices: Sequence[Matrix], scales: Mapping[str, Scale]
) -> tuple[tuple[Matrices, ...], ...]:
    """Return rows of blocks of whole matrices: a row for each side's tokens, a block for each number of columns."""

    def tokens(matrix: Matrix) -> Tokens:
        return m.keys if matrix.name in _OF_KEYS or matrix is m.memory else m.queries

    def width(matrix: Matrix) -> int:
        return len(matrix.values[0])

    return tuple(
        tuple(
            _panels([_whole(m, matrix, scales) for matrix in alike], Axis(rows), Axis.numbered(columns))
            for columns, alike in groupby(several, width)
        )
        for rows, several in groupby(matrices, tokens)
    )


def _whole(m: LayerMatrices, matrix: Matrix, scales: Mapping[str, Scale]) -> Panel:
    """Return the panel of a whole matrix, with lines between heads and outlines around the rows of the example."""
    rows, columns = matrix.values.shape
    n_heads = {"Q": m.n_heads, "K": m.n_key_heads, "V": m.n_key_heads, "concat": m.n_heads}.get(matrix.name, 1)
    wide, outlined = columns // n_heads, []
    if n_heads > 1:
        outlined += [Outline(range(rows), range(i * wide, (i + 1) * wide), "fine") for i in range(n_heads)]
    if matrix.name not in _OF_KEYS and matrix is not m.memory:
        outlined.append(Outline(_only(m.position), range(columns), "orange"))
    if matrix.name in _OF_KEYS or matrix is m.memory or (matrix is m.input and m.kind != "cross"):
        outlined.append(Outline(_only(m.key_position), range(columns), "blue"))
    title, short = _titles(matrix.name, matrix.equation, matrix.values)
    return Panel(title, matrix.values, scales[matrix.name], outlined=tuple(outlined), short=short)


def _head(m: LayerMatrices, head: HeadMatrices, scales: Mapping[str, Scale]) -> Grid:
    """Return the grid of one head: the example in numbers, S between Q and Kᵀ, and H between A and V."""
    queries, keys = Axis(m.queries), Axis(m.keys)
    of_key, of_value = Axis.numbered(head.key.shape[1]), Axis.numbered(head.value.shape[1])
    seen = blanked(head.weights, np.isnan(head.scores))

    def panel(name: str, equation: str, values: NDArray[np.float32], *example: str) -> Panel:
        rows, columns = map(range, values.shape)
        marks = {
            "query": Outline(_only(m.position), columns, "orange"),
            "key": Outline(_only(m.key_position), columns, "blue"),
            "key column": Outline(rows, _only(m.key_position), "blue"),
        }
        outlined = tuple(marks[one] for one in example)
        title, short = _titles(name, equation, values)
        return Panel(title, values, scales[name], outlined=outlined, short=short)

    Q = panel("Q", "", head.query, "query")
    K = panel("Kᵀ", "", head.key.T, "key column")
    V = panel("V", "", head.value, "key")
    S = panel("S", _scores_equation(m), head.scores, "query", "key column")
    A = panel("A", "softmax(S)", seen, "query", "key column")
    H = panel("H", "A V", head.output, "query")
    products = Grid(
        (
            (None, _panels([K], of_key, keys), _panels([V], keys, of_value)),
            (_panels([Q], queries, of_key), _panels([S, A], queries, keys), _panels([H], queries, of_value)),
        ),
        by_column=True,
    )
    example = Text((_score_text(m, head), _output_text(m, head)))
    return Grid(((Text((_head_title(m, head),), "subheading"),), (example,), (products,)))


def _panels(panels: Sequence[Panel], rows: Axis, columns: Axis) -> Matrices:
    return Matrices("", tuple(panels), rows, columns, len(panels))


def _only(position: int) -> range:
    return range(position, position + 1)


def _titles(name: str, equation: str, values: NDArray[np.float32]) -> tuple[str, str]:
    """Return "Q = X Wq (6 × 8)", and "Q (6 × 8)" for narrow tiles."""
    rows, columns = values.shape
    short = f"{name} ({rows} × {columns})"
    return f"{name} = {equation} ({rows} × {columns})" if equation else short, short


def _scores_equation(m: LayerMatrices) -> str:
    """Return "Q Kᵀ / √2"."""
    joint = " " if m.rule.startswith(("/", "·")) or not m.rule else ", "
    return f"Q Kᵀ{joint}{m.rule}".rstrip()


def _head_title(m: LayerMatrices, head: HeadMatrices) -> str:
    """Return "L0 H3: columns 6 to 7 of Q, K, V and concat", with its key head if several heads share it."""
    shared = f", with the keys and values of key head {head.key_head}" if m.n_key_heads < m.n_heads else ""
    return f"{head_name(m.layer, head.head)}{shared}: {_columns_text(m, head)}"


def _columns_text(m: LayerMatrices, head: HeadMatrices) -> str:
    """Return which columns of the matrices of all heads belong to this one."""
    d_key, d_value = m.d_key, head.value.shape[1]
    own, shared = _run(head.head, d_key), _run(head.key_head, d_key)
    if m.n_key_heads == m.n_heads and d_key == d_value:
        return f"columns {own} of Q, K, V and concat" if d_key > 1 else f"column {own} of Q, K, V and concat"
    return (
        f"columns {own} of Q, {shared} of K, {_run(head.key_head, d_value)} of V, {_run(head.head, d_value)} of concat"
    )


def _run(head: int, width: int) -> str:
    return f"{head * width} to {(head + 1) * width - 1}" if width > 1 else f"{head}"


def _marked_text(m: LayerMatrices) -> str:
    """Return which query and which key are the example."""
    query, key = quoted(m.queries.texts[m.position], _QUOTED), quoted(m.keys.texts[m.key_position], _QUOTED)
    return (
        f"example: the query “{query}” at position {m.position}, and the key with its largest weight in "
        f"{head_name(m.layer, m.heads[0].head)}, “{key}” at position {m.key_position}"
    )


def _score_text(m: LayerMatrices, head: HeadMatrices) -> str:
    """Return how the cell of the example in S is computed: products of features, written out where they are few."""
    i, j = m.position, m.key_position
    score, q, k = float(head.scores[i, j]), head.query[i], head.key[j]
    tokens = f"S: q(“{quoted(m.queries.texts[i], _QUOTED)}”)·k(“{quoted(m.keys.texts[j], _QUOTED)}”)"
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


def _output_text(m: LayerMatrices, head: HeadMatrices) -> str:
    """Return how the row of the example in H is computed: values times weights, of many keys the largest weights."""
    weights = head.weights[m.position]
    seen = np.flatnonzero(np.isfinite(head.scores[m.position]))
    heaviest = sorted(seen.tolist(), key=lambda key: -float(weights[key]))
    shown = sorted(key for key in heaviest[:_MOST_TERMS] if key == heaviest[0] or weights[key] >= _LEAST_TERM)
    if len(heaviest) <= _MOST_TERMS or len(heaviest) == len(shown) + 1:  # "1 more" takes no less than the term
        shown = seen.tolist()
    terms = [f"{weights[key]:.2f}·v(“{quoted(m.keys.texts[key], _QUOTED)}”)" for key in shown]
    if more := len(seen) - len(shown):
        terms.append(f"{more} more")
    row = head.output[m.position]
    numbers = f" = ({', '.join(map(number_text, row.tolist()))})" if len(row) <= _WRITTEN_OUT else ""
    query = quoted(m.queries.texts[m.position], _QUOTED)
    return f"H: h(“{query}”) = {' + '.join(terms) or '0, as every key is hidden'}{numbers}"


def _left_out_text(m: LayerMatrices) -> str:
    """Return which matrices are left out, and why; "" if none is."""
    names = [name for name, matrix in (("X", m.input), ("O", m.output)) if matrix is None]
    return f"{' and '.join(names)} left out: {m.left_out}" if names else ""


def _hidden_text(m: LayerMatrices, mark: str) -> str:
    """Return how hidden cells look; "" if no key is hidden."""
    return f"{mark}: hidden keys" if any(np.isnan(head.scores).any() for head in m.heads) else ""


def _others_text(m: LayerMatrices) -> str:
    """Return the number of heads whose S, A and H are shown, if they are not all; otherwise ""."""
    n_others = m.n_heads - len(m.heads)
    return f"S, A and H of {len(m.heads)} of {m.n_heads} heads" if n_others else ""


def _signed(number: float) -> str:
    text = number_text(number)
    return f"({text})" if text.startswith(MINUS) else text
