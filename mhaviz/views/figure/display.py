"""The figure for Python and notebooks, in place of the one from the article."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.records import Attention, AttentionMap, Axis, Source
from mhaviz.views.figure.heatmap import heatmap_figure
from mhaviz.views.figure.sheet import house_style
from mhaviz.views.look import Look

_TOLERANCE, _HALF_TOLERANCE = 1e-3, 2e-2  # of a row's sum; half precision rounds each weight to 3 digits


def display_attention(
    sentence: Sequence[str],
    translation: Sequence[str],
    attention: Any,
    n_heads: int = 8,
    n_rows: int = 4,
    n_cols: int = 2,
) -> Figure:
    """Draw one heatmap a head.

    Args:
        sentence: the tokens of the columns (keys).
        translation: the tokens of the rows (queries).
        attention: the weights, a tensor or array, (n_heads, q_length, k_length) or (1, n_heads, q_length, k_length).
        n_heads, n_rows, n_cols: the grid of heads.

    Returns:
        The figure; a notebook shows it, ``savefig`` saves it.

    Raises:
        ArgumentError: an axis does not fit, a weight is NaN, infinite or negative, or a row does not sum to 1 (a row
            of zeros, which sees no key, is allowed). The message names the axis, or the head and row.
    """
    for name, tokens in (("sentence", sentence), ("translation", translation)):
        if isinstance(tokens, str):
            raise ArgumentError(f"{name}: expected a list of tokens, got one string; pass mhaviz.tokenize({name})")
    weights, tolerance = _as_array(attention)
    if weights.ndim == 4:
        if weights.shape[0] != 1:
            raise ArgumentError(
                f"attention: expected axis batch_size to be 1, got {weights.shape[0]}; pass attention[i]"
            )
        weights = weights[0]
    if weights.ndim != 3:
        raise ArgumentError(
            f"attention: expected 3 axes, (n_heads, q_length, k_length), or 4 with batch_size 1, got {weights.ndim}"
        )
    expected = {"n_heads": n_heads, "q_length": len(translation), "k_length": len(sentence)}
    for (axis, size), got in zip(expected.items(), weights.shape, strict=True):
        if size < 1:
            raise ArgumentError(f"{axis}: expected at least 1, got {size}")
        if got != size:
            hint = f"; pass n_heads={got}" if axis == "n_heads" else ""
            raise ArgumentError(f"attention: expected axis {axis} to be {size}, got {got}{hint}")
    if n_rows * n_cols < n_heads:
        raise ArgumentError(f"expected n_rows × n_cols to hold {n_heads} heads, got {n_rows} × {n_cols}")
    _check_weights(weights, tolerance)

    attention_map = AttentionMap(
        weights,
        Axis.of(map(str, translation)),
        Axis.of(map(str, sentence)),
        kind="self" if list(sentence) == list(translation) else "cross",
    )
    with house_style():
        figure = heatmap_figure(Attention(Source(""), (attention_map,)), Look(columns=n_cols))
    for notice in figure.notices:
        warnings.warn(notice, stacklevel=2)
    return figure


def _as_array(attention: Any) -> tuple[NDArray[np.float32], float]:
    """The weights in float32 without importing torch, and how far from 1 a row may sum."""
    if hasattr(attention, "detach"):
        tensor = attention.detach().cpu()
        half = tensor.element_size() == 2
        return tensor.float().numpy(), _HALF_TOLERANCE if half else _TOLERANCE
    array = np.asarray(attention)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"attention: expected numbers, got an array of {array.dtype}")
    return array.astype(np.float32), _HALF_TOLERANCE if array.dtype.itemsize == 2 else _TOLERANCE


def _check_weights(weights: NDArray[np.float32], tolerance: float) -> None:
    sums = weights.sum(axis=-1, dtype=np.float64)
    not_numbers = ~np.isfinite(weights).all(axis=-1)
    wrong_sums = (np.abs(sums - 1) > tolerance) & (weights != 0).any(axis=-1)
    outside = ((weights < 0) | (weights > 1 + tolerance)).any(axis=-1)
    for wrong, what in (
        (not_numbers, "finite weights"),
        (wrong_sums, "weights that sum to 1"),
        (outside, "weights from 0 to 1"),
    ):
        if wrong.any():
            head, row = (int(index) for index in np.argwhere(wrong)[0])
            got = f"a sum of {sums[head, row]:.4g}" if wrong is wrong_sums else f"{_odd_one(weights[head, row])}"
            raise ArgumentError(f"attention: expected {what} in head {head}, row {row}, got {got}")


def _odd_one(row: NDArray[np.float32]) -> float:
    odd = row[~np.isfinite(row) | (row < 0) | (row > 1)]
    return float(odd[0])
