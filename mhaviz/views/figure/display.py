"""Heatmaps of weights that are given as arrays, for Python and notebooks."""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.files.errors import ContentError
from mhaviz.files.generated_steps import are_steps, join
from mhaviz.inputs.tokens import Kind
from mhaviz.pages.attention import attention_page
from mhaviz.pages.colormaps import INK
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.figure.axes import draw_head
from mhaviz.views.figure.page import draw_page
from mhaviz.views.figure.sheet import house_style
from mhaviz.views.style import Style

_TOLERANCE, _HALF_TOLERANCE = 1e-3, 2e-2  # deviation of a row's sum from 1; half precision has 3 digits


def display_attention(
    sentence: Sequence[str],
    translation: Sequence[str],
    attention: Any,
    n_heads: int | None = None,
    n_rows: int | None = None,
    n_cols: int | None = None,
    cmap: str = INK,
    ax: Axes | None = None,
) -> Figure:
    """Draw a heatmap for each head, or that of one head on Axes of yours.

    Args:
        sentence: tokens of the columns (keys).
        translation: tokens of the rows (queries).
        attention: weights, a tensor or array, (n_heads, q_length, k_length) or (1, n_heads, q_length, k_length); or a
            list of these, one for each layer, as the ``attentions`` of a model of transformers; or a list for each step
            of such lists, as those of its ``generate``, which are joined to one map for each layer.
        n_heads: expected number of heads; None: any.
        n_rows, n_cols: grid of heads; None: as it fits.
        cmap: "ink", or a colormap of matplotlib, such as "bone".
        ax: Axes to draw in, for one head; None: a new figure.

    Returns:
        The new figure, or that of ``ax``, whose image is ``ax.images[-1]``; ``savefig`` saves it. A notebook shows each
        new figure, also where a cell makes several.

    Raises:
        ArgumentError: an axis has the wrong size, a weight is NaN, infinite or negative, or a row does not sum to 1.
            Rows of zeros, of queries that see no key, are allowed. The message names the axis, or the head and row.
            Or ``ax`` is given, and there is more than one head; or lists of layers are not the steps of one text.

    Examples:
        >>> words = mhaviz.tokenize("the cat sat")
        >>> figure = mhaviz.display_attention(words, words, np.full((8, 3, 3), 1 / 3), n_heads=8, n_rows=4, n_cols=2)
        >>> figure.savefig("attention.png")

        A head between plots of yours:

        >>> import matplotlib.pyplot as plt
        >>> own, (left, right) = plt.subplots(1, 2)
        >>> own is mhaviz.display_attention(words, words, np.full((1, 3, 3), 1 / 3), cmap="bone", ax=left)
        True
        >>> plt.close(own)
    """
    for name, tokens in (("sentence", sentence), ("translation", translation)):
        if isinstance(tokens, str):
            raise ArgumentError(f"{name}: expected a list of tokens, got one string; pass mhaviz.tokenize({name})")
    kind: Kind = "self" if list(sentence) == list(translation) else "cross"
    maps = tuple(
        AttentionMap(
            _checked(given, n_heads, len(translation), len(sentence)),
            Axis.of(map(str, translation)),
            Axis.of(map(str, sentence)),
            kind=given.kind or kind,
            layer=layer,
            reach=given.reach,
        )
        for layer, given in enumerate(_layers(attention))
    )
    most = max(len(m.heads) for m in maps)
    if n_rows is not None and n_cols is None:
        n_cols = math.ceil(most / n_rows) if n_rows > 0 else None
    if n_rows is not None and (n_cols is None or n_rows * n_cols < most):
        raise ArgumentError(f"expected n_rows × n_cols to hold {most} heads, got {n_rows} × {n_cols or 1}")
    style, result = Style(cmap, columns=n_cols), Attention(Source(""), maps)
    if ax is not None:
        image, notices = draw_head(result, style, ax)
        figure = image.get_figure(root=True)
        assert figure is not None, "Axes that can be drawn in belong to a figure"
    else:
        with house_style():
            sheet = draw_page(attention_page(result), style)
        sheet.show_in_cell()
        figure, notices = sheet, sheet.notices
    for notice in notices:
        warnings.warn(notice, stacklevel=2)
    return figure


class _Layer(NamedTuple):
    """Weights of one layer, (n_heads, q_length, k_length), and how far from 1 a row may sum.

    ``kind`` and ``reach`` are as in ``JoinedSteps``.
    """

    name: str
    weights: NDArray[np.float32]
    tolerance: float
    kind: Kind | None = None
    reach: int | None = None


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and len(x) > 0


def _layers(attention: Any) -> list[_Layer]:
    """Return the weights of each layer, those of steps joined."""
    if not _is_list(attention) or not _is_list(attention[0]) or getattr(attention[0][0], "ndim", 0) < 3:
        several = _is_list(attention) and np.ndim(attention[0]) >= 3
        given = enumerate(attention) if several else [("", attention)]
        return [_as_layer(weights, f"attention[{layer}]" if several else "attention") for layer, weights in given]
    steps = [
        [_as_layer(weights, f"attention[{step}][{layer}]") for layer, weights in enumerate(layers)]
        for step, layers in enumerate(attention)
    ]
    if not are_steps([[(1, *one.weights.shape) for one in layers] for layers in steps]):
        raise ArgumentError(
            "attention: expected weights of each layer for each step of a text, which adds one query, got lists of "
            "other shapes; choose one list, as attention[0]"
        )
    joined = []
    for layer, of_layer in enumerate(zip(*steps, strict=True)):
        try:
            found = join([one.weights for one in of_layer])
        except ContentError as error:
            raise ArgumentError(f"attention: {error}") from error
        tolerance = max(one.tolerance for one in of_layer)
        joined.append(_Layer(f"layer {layer} of attention", found.weights, tolerance, found.kind, found.reach))
    return joined


def _as_layer(attention: Any, name: str) -> _Layer:
    weights, tolerance = _as_array(attention, name)
    if weights.ndim == 4:
        if weights.shape[0] != 1:
            raise ArgumentError(
                f"{name}: expected axis batch_size to be 1, got {weights.shape[0]}; choose one sentence, "
                f"as weights[i] of the weights of each layer"
            )
        weights = weights[0]
    if weights.ndim != 3:
        raise ArgumentError(
            f"{name}: expected 3 axes, (n_heads, q_length, k_length), or 4 with batch_size 1, got {weights.ndim}"
        )
    return _Layer(name, weights, tolerance)


def _checked(layer: _Layer, n_heads: int | None, q_length: int, k_length: int) -> NDArray[np.float32]:
    """Return the weights of a layer. Raises ArgumentError unless these are weights of so many heads and tokens."""
    name, weights = layer.name, layer.weights
    expected = {"n_heads": len(weights) if n_heads is None else n_heads, "q_length": q_length, "k_length": k_length}
    for (axis, size), got in zip(expected.items(), weights.shape, strict=True):
        if size < 1:
            raise ArgumentError(f"{axis}: expected at least 1, got {size}")
        if got != size:
            hint = "; leave n_heads out" if axis == "n_heads" else _hint(q_length, k_length, weights.shape[1:])
            raise ArgumentError(f"{name}: expected axis {axis} to be {size}, got {got}{hint}")
    _check_weights(weights, layer.tolerance, name)
    return weights


def _hint(q_length: int, k_length: int, shape: tuple[int, ...]) -> str:
    """Return which argument labels which side of weights of another shape, and what to do."""
    labels = f"translation labels the rows (queries), {q_length}, and sentence the columns (keys), {k_length}"
    fits = shape == (k_length, q_length)
    advice = "exchange the two" if fits else f"give {shape[0]} and {shape[1]} tokens"
    return f"; {labels}: {advice}"


def _as_array(attention: Any, name: str) -> tuple[NDArray[np.float32], float]:
    """Return the weights in float32, without importing torch, and how far from 1 a row may sum."""
    if hasattr(attention, "detach"):
        tensor = attention.detach().cpu()
        half = tensor.element_size() == 2
        return tensor.float().numpy(), _HALF_TOLERANCE if half else _TOLERANCE
    array = np.asarray(attention)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"{name}: expected numbers, got an array of {array.dtype}")
    return array.astype(np.float32), _HALF_TOLERANCE if array.dtype.itemsize == 2 else _TOLERANCE


def _check_weights(weights: NDArray[np.float32], tolerance: float, name: str) -> None:
    sums = weights.sum(axis=-1, dtype=np.float64)
    outside = ~((weights >= 0) & (weights <= 1 + tolerance))  # also NaN
    others = (np.abs(sums - 1) > tolerance) & (weights != 0).any(axis=-1)
    for wrong, numbers, what in ((outside, weights, "weights from 0 to 1"), (others, sums, "weights that sum to 1")):
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0])
            got = f"a sum of {numbers[place]:.4g}" if wrong is others else f"{numbers[place]:.4g}"
            raise ArgumentError(f"{name}: expected {what} in head {place[0]}, row {place[1]}, got {got}")
