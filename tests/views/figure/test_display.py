import re
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from mhaviz import ArgumentError, display_attention
from mhaviz.views.figure import fonts

TOKENS = ["i", "wonder", "what"]


def softmax(n_heads=8, q_length=3, k_length=3, seed=0):
    return torch.softmax(torch.randn(n_heads, q_length, k_length, generator=torch.Generator().manual_seed(seed)), -1)


def arrays(figure):
    return [image.get_array() for image in figure.page.images if image.get_label().startswith("L")]


@pytest.mark.parametrize("form", ["tensor", "batched", "array", "gradient", "float64", "half", "bfloat16"])
def test_every_form_of_weights(form):
    weights = softmax()
    forms = {
        "tensor": weights,
        "batched": weights[None],
        "array": weights.numpy(),
        "gradient": weights.clone().requires_grad_(),
        "float64": weights.double(),
        "half": weights.half(),
        "bfloat16": weights.bfloat16(),
    }
    figure = display_attention(TOKENS, TOKENS, forms[form])
    assert isinstance(figure, Figure)
    assert len(arrays(figure)) == 8
    np.testing.assert_allclose(np.stack(arrays(figure)), weights.numpy(), atol=5e-3 if "f" in form else 1e-6)


def test_sentence_labels_columns_and_translation_rows():
    figure = display_attention(["a", "black", "cat"], ["un", "chat"], softmax(8, 2, 3))
    texts = {text.get_text(): text for text in figure.page.texts}
    assert texts["chat"].get_ha() == "right", "a label of rows stands left of them"
    assert texts["black"].get_position()[1] > texts["chat"].get_position()[1], "a label of columns below"


def test_rows_and_columns_of_heads():
    figure = display_attention(TOKENS, TOKENS, softmax(6), n_heads=6, n_rows=2, n_cols=3)
    images = [image for image in figure.page.images if image.get_label().startswith("L")]
    assert len({round(image.get_extent()[0], 3) for image in images}) == 3


def wrong(index, value):
    weights = softmax().numpy().copy()
    weights[index] = value
    return weights


@pytest.mark.parametrize(
    ("attention", "options", "message"),
    [
        (softmax(4), {"n_heads": 8}, "axis n_heads to be 8, got 4; leave n_heads out"),
        (softmax(), {"n_heads": 0}, "n_heads: expected at least 1, got 0"),
        (softmax(8, 2, 3), {}, "axis q_length to be 3, got 2"),
        (softmax(8, 3, 4), {}, "axis k_length to be 3, got 4"),
        (softmax()[0], {}, "expected 3 axes"),
        (torch.stack([softmax()] * 2), {}, "axis batch_size to be 1, got 2"),
        (softmax(), {"n_rows": 1, "n_cols": 2}, "to hold 8 heads, got 1 × 2"),
        (softmax(), {"n_rows": 0}, "to hold 8 heads, got 0 × 1"),
        ([softmax()[None], softmax(8, 2)[None]], {}, r"attention\[1\]: expected axis q_length to be 3, got 2"),
        (softmax(), {"ax": Figure().subplots()}, "`ax`: expected one head to draw in it, got 8; choose one"),
        (softmax(1), {"ax": Figure().subplots(2)}, "`ax`: expected one matplotlib Axes, got ndarray; give one of them"),
        (softmax(), {"cmap": "nonsense"}, "nonsense"),
        (wrong((5, 2, 1), np.nan), {}, "weights from 0 to 1 in head 5, row 2, got nan"),
        (wrong((0, 1, 1), np.inf), {}, "weights from 0 to 1 in head 0, row 1, got inf"),
        (wrong((3, 1), [0.5, 0.5, 0.5]), {}, "sum to 1 in head 3, row 1, got a sum of 1.5"),
        (wrong((3, 1), [1.5, -0.5, 0]), {}, "from 0 to 1 in head 3, row 1, got 1.5"),
        (softmax() * 0.9, {}, "sum to 1 in head 0, row 0"),
        (np.array([["a"]]), {}, "expected numbers"),
        (torch.zeros(8, 3, 0), {}, "axis k_length"),
    ],
)
def test_what_is_wrong_is_named(attention, options, message):
    with pytest.raises(ArgumentError, match=message):
        display_attention(TOKENS, TOKENS, attention, **options)


@pytest.mark.parametrize(("shape", "advice"), [((5, 3), "exchange the two"), ((4, 6), "give 4 and 6 tokens")])
def test_words_of_the_other_side_are_named(shape, advice):
    weights, words = softmax(8, *shape), list("abcde")
    message = (
        f"attention: expected axis q_length to be 3, got {shape[0]}; translation labels the rows (queries), 3, and "
        f"sentence the columns (keys), 5: {advice}"
    )
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        display_attention(words, TOKENS, weights)


def test_nothing_to_draw():
    with pytest.raises(ArgumentError, match="q_length: expected at least 1, got 0"):
        display_attention(TOKENS, [], torch.zeros(8, 0, 3))


def test_a_string_is_not_a_list_of_tokens():
    with pytest.raises(ArgumentError, match=r"pass mhaviz\.tokenize\(sentence\)"):
        display_attention("i wonder what", TOKENS, softmax())


def test_a_query_that_sees_nothing_is_allowed():
    weights = softmax()
    weights[2, 1] = 0
    assert not arrays(display_attention(TOKENS, TOKENS, weights))[2][1].any()


def test_a_missing_glyph_is_a_warning(monkeypatch):
    monkeypatch.setattr(fonts, "_installed_fonts", tuple)
    with pytest.warns(UserWarning, match=r"我 \(U\+6211\)"):
        display_attention(["我", "b", "c"], TOKENS, softmax())


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 5), st.integers(0, 100))
def test_any_shape(n_heads, q_length, k_length, seed):
    weights = softmax(n_heads, q_length, k_length, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = display_attention(list("abcde"[:k_length]), list("fghij"[:q_length]), weights, n_heads, n_heads, 1)
    assert np.array_equal(np.stack(arrays(figure)), weights.numpy())


def test_all_layers_of_a_model():
    """``outputs.attentions`` as it is: a tuple of (1, n_heads, q_length, k_length)."""
    layers = tuple(softmax(4, seed=seed)[None] for seed in range(3))
    drawn = arrays(display_attention(TOKENS, TOKENS, layers))
    np.testing.assert_array_equal(np.stack(drawn), torch.cat(layers).flatten(0, 1).numpy())


def test_axes_of_the_user():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    weights = softmax(1)
    assert display_attention(TOKENS, list("abc"), weights, cmap="viridis", ax=right) is figure
    assert not left.images
    (image,) = right.images
    np.testing.assert_array_equal(image.get_array(), weights[0].numpy())
    assert [label.get_text() for label in right.get_yticklabels()] == list("abc")
    assert image.get_cmap().name == "viridis"


def test_three_in_one_cell_of_a_notebook(monkeypatch):
    shown, shell = [], SimpleNamespace(kernel=None, execution_count=7)
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    display = SimpleNamespace(Image=lambda data: data, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    figures = [display_attention(TOKENS, TOKENS, softmax(seed=seed)) for seed in range(3)]
    figures[-1]._ipython_display_()  # what IPython does with a cell's last value
    assert shown == [figure._repr_png_() for figure in figures]
    shell.execution_count += 1
    figures[0]._ipython_display_()
    assert shown[3:] == shown[:1], "another cell shows it again"
    del shell.kernel
    with pytest.raises(NotImplementedError):
        figures[0]._ipython_display_()
