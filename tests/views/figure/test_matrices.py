"""The picture of a layer's matrices: what stands where, in which colours, with which words."""

import dataclasses

import numpy as np
import pytest
from drawn import inside, texts
from looking import encoded
from shown import number_text

from mhaviz.analyses.matrices import layer_matrices
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.views.figure.sheet import ACCENT
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style


def matrices(sentence=WORKED_EXAMPLE[0], heads=(0,), target=None, d_model=8, n_heads=4, **options):
    layer = RandomLayer(d_model, n_heads, device_name="cpu", **options)
    return layer_matrices(*encoded(layer, [sentence], target), heads)


def drawn(sheet):
    """The matrices by their titles: numbers, and (left, top, right, bottom) in inches."""
    found = {}
    for image in sheet.page.images:
        if not image.get_label().startswith("scale of"):
            left, right, bottom, top = image.get_extent()
            found[image.get_label()] = (
                np.ma.filled(image.get_array().astype(float), np.nan),
                (left, top, right, bottom),
            )
    return found


def test_all_matrices_have_their_equation_and_shape():
    m = matrices()
    head = m.heads[0]
    expected = {
        "X = dropout(E + PE) (6 × 8)": m.input.values,
        "Q = X Wq (6 × 8)": m.query.values,
        "K = X Wk (6 × 8)": m.key.values,
        "V = X Wv (6 × 8)": m.value.values,
        "Q (6 × 2)": head.query,
        "Kᵀ (2 × 6)": head.key.T,
        "S = Q Kᵀ / √2 (6 × 6)": head.scores,
        "A = softmax(S) (6 × 6)": head.weights,
        "V (6 × 2)": head.value,
        "H = A V (6 × 2)": head.output,
        "concat = H of all heads (6 × 8)": m.joined.values,
        "O = concat Wo (6 × 8)": m.output.values,
    }
    sheet = figure_of(m)
    shown = drawn(sheet)
    assert set(shown) == set(expected)
    for title, values in expected.items():
        np.testing.assert_array_equal(shown[title][0], values.astype(float))
        assert title in texts(sheet)


@pytest.mark.parametrize(("sentence", "target", "d_model"), [(WORKED_EXAMPLE[0], None, 8), ("a b c", "d e", 64)])
def test_a_product_lines_up_with_its_factors(sentence, target, d_model):
    shown = {
        title.split(" ")[0] + title[-9:]: box
        for title, (_, box) in drawn(figure_of(matrices(sentence, target=target, d_model=d_model))).items()
    }
    n, k, d = len((target or sentence).split()), len(sentence.split()), d_model // 4
    of = {
        name: next(box for title, box in shown.items() if title.startswith(name) and title.endswith(shape))
        for name, shape in (
            ("Q", f"({n} × {d})"),
            ("Kᵀ", f"({d} × {k})"),
            ("S", f"({n} × {k})"),
            ("A", f"({n} × {k})"),
            ("V", f"({k} × {d})"),
            ("H", f"({n} × {d})"),
        )
    }
    for row in ("S", "A", "H"):
        assert of[row][1::2] == of["Q"][1::2], "the same rows"
    assert of["Kᵀ"][0::2] == of["S"][0::2]
    assert of["V"][0::2] == of["H"][0::2]
    assert of["Q"][2] < of["S"][0] < of["S"][2] < of["A"][0] < of["A"][2] < of["H"][0]
    assert of["Kᵀ"][3] < of["S"][1]
    assert of["V"][3] < of["H"][1]


def test_numbers_are_in_the_cells_of_small_matrices():
    m = matrices()
    labels = {artist.get_label() for artist in figure_of(m).page.collections}
    for number in (*m.heads[0].scores.ravel(), *m.output.values.ravel()):
        assert "numbers " + number_text(number, "z.2f") in labels
    sheet = figure_of(matrices(" ".join("abcdefghijklm"), d_model=64))
    assert not any(artist.get_label().startswith("numbers") for artist in sheet.page.collections)


def test_a_few_large_features_leave_the_others_their_colours():
    m = matrices(d_model=256)
    m.input.values[:, 7] = 1000
    sheet = figure_of(m)
    (low, high) = next(i.get_clim() for i in sheet.page.images if i.get_label().startswith("X = "))
    assert -low == high < 10
    assert f"≥ {high:g}" in texts(sheet)


def test_zero_is_in_the_middle_of_all_scales_but_that_of_weights():
    m = matrices(heads=(0, 2))
    sheet = figure_of(m)
    limits = {image.get_label(): image.get_clim() for image in sheet.page.images}
    low, high = limits.pop("A = softmax(S) (6 × 6)")
    assert (low, limits.pop("scale of weight")) == (0, (low, high))
    assert all(low == -high for low, high in limits.values())
    assert limits["V (6 × 2)"] == limits["H = A V (6 × 2)"], "a mean of values is no larger than they are"
    largest = max(np.abs(head.scores).max() for head in m.heads)
    assert largest <= limits["S = Q Kᵀ / √2 (6 × 6)"][1] <= 1.1 * largest


def test_hidden_cells_are_no_numbers():
    m = matrices(causal=True)
    sheet = figure_of(m)
    for title in ("S = Q Kᵀ / √2 (6 × 6)", "A = softmax(S) (6 × 6)"):
        np.testing.assert_array_equal(np.isnan(drawn(sheet)[title][0]), ~np.tri(6, dtype=bool))
    assert "outside the thin outline: hidden keys" in " ".join(texts(sheet)[::-1])  # lines of the foot, the last first


def test_the_marked_row_is_that_of_the_query():
    sheet = figure_of(dataclasses.replace(matrices(), position=4))
    _, (left, top, right, bottom) = drawn(sheet)["S = Q Kᵀ / √2 (6 × 6)"]
    orange = tuple(int(ACCENT[i : i + 2], 16) / 255 for i in (1, 3, 5))
    boxes = [
        path.get_extents()
        for artist in sheet.page.collections
        if len(artist.get_edgecolor()) and tuple(artist.get_edgecolor()[0][:3]) == orange
        for path in artist.get_paths()
    ]
    cell = (bottom - top) / 6
    (box,) = [
        box for box in boxes if box.x0 == pytest.approx(left) and box.x1 == pytest.approx(right) and box.y0 >= top
    ]
    assert (box.y0, box.y1) == (pytest.approx(top + 4 * cell), pytest.approx(top + 5 * cell))


@pytest.mark.parametrize(
    ("length", "d_model", "n_heads"), [(1, 1, 1), (1, 512, 1), (13, 96, 12), (200, 8, 4), (200, 512, 1)]
)
def test_any_size_stays_on_the_sheet(length, d_model, n_heads):
    m = matrices(" ".join(f"w{i}" for i in range(length)), range(min(n_heads, 2)), d_model=d_model, n_heads=n_heads)
    sheet = figure_of(m, Style(dpi=60))
    inside(sheet)
    assert max(sheet.get_size_inches()) < 40
    for values, (left, top, right, bottom) in drawn(sheet).values():
        assert values.shape[1] <= (right - left) * sheet.dpi + 1, "no more cells than pixels"
        assert values.shape[0] <= (bottom - top) * sheet.dpi + 1


def test_tokens_that_neighbours_share_are_written_once():
    shown = texts(figure_of(matrices(), Style(width=19)))
    of_rows, of_columns = ("X, Q, K and V", "Q, S, A and H", "V", "concat and O"), ("S", "A")
    assert shown.count("wonder") == len(of_rows) + len(of_columns)
    assert shown.count("7") == len(("X", "Q", "K", "V", "concat", "O"))
