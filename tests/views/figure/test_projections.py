import numpy as np
import pytest
from drawn import inside, texts
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from shown import number_text

from mhaviz.analyses.projections import compare_projections
from mhaviz.models.single_layer import RandomLayer
from mhaviz.views.figure.sheet import INK
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style


def comparison(sentence="one two three", n_heads=2, include_self=True):
    return compare_projections(RandomLayer(16, n_heads, device_name="cpu").projection_inputs(sentence), include_self)


def images(sheet, part):
    """Those that have this in their label, in the order in which they are drawn."""
    return [image for image in sheet.page.images if part in image.get_label() and "scale" not in image.get_label()]


def test_scores_and_weights_of_each_stage_on_one_scale_each():
    c = comparison()
    sheet = figure_of(c)
    scores, weights = images(sheet, ": S"), images(sheet, "A = softmax(S)")
    for stage, score, weight in zip(c.stages, scores, weights, strict=True):
        assert np.array_equal(score.get_array(), stage.scores)
        assert np.array_equal(weight.get_array(), stage.weights)
        assert score.get_extent()[0] == weight.get_extent()[0], "one below the other"
    largest = max(np.abs(stage.scores[~np.eye(3, dtype=bool)]).max() for stage in c.stages)
    assert {score.get_clim() for score in scores} == {(-largest, largest)}
    assert {weight.get_clim() for weight in weights} == {(0, 1)}
    assert sorted(image.get_extent()[0] for image in scores) == [image.get_extent()[0] for image in scores]


def test_outputs_of_each_stage_under_its_weights_on_one_scale():
    c = comparison("one two three four")
    sheet = figure_of(c)
    outputs, weights = images(sheet, " O"), images(sheet, "A = softmax(S)")
    for stage, output, weight in zip(c.stages, outputs, weights, strict=True):
        assert np.array_equal(output.get_array(), stage.outputs)
        left, _, _, top = output.get_extent()
        assert left == weight.get_extent()[0]
        assert top > weight.get_extent()[2], "below"
    largest = max(np.abs(stage.outputs).max() for stage in c.stages)
    assert {output.get_clim() for output in outputs} == {(-largest, largest)}


def test_of_many_features_the_first():
    inputs = RandomLayer(512, 8, device_name="cpu").projection_inputs("one two three")
    c = compare_projections(inputs)
    sheet = figure_of(c)
    for i, (stage, output) in enumerate(zip(c.stages, images(sheet, " O"), strict=True), 1):
        n_features = output.get_array().shape[1]
        assert np.array_equal(output.get_array(), stage.outputs[:, :n_features])
        assert output.get_label() == f"stage {i}: O"
        assert f"feature, the first {n_features} of 512" in texts(sheet)


def test_the_pair_is_outlined_in_every_stage_and_has_the_only_numbers():
    c = comparison("one two three four five", include_self=False, n_heads=1)
    sheet = figure_of(c)
    written = [text.get_label() for text in sheet.page.collections if (text.get_label() or "").startswith("numbers ")]
    scores = {number_text(stage.scores[pair], "z.1f") for stage in c.stages for pair in (c.pair, c.pair[::-1])}
    assert {label.removeprefix("numbers ") for label in written} == scores
    (marks,) = (
        found
        for found in sheet.page.collections
        if isinstance(found, LineCollection) and np.allclose(found.get_colors()[0], to_rgba(INK))
    )
    expected = []
    for image in images(sheet, ": S") + images(sheet, "A = softmax(S)"):
        left, right, bottom, top = image.get_extent()
        for row, column in (c.pair, c.pair[::-1]):
            expected.append((left + (column + 0.5) * (right - left) / 5, top + (row + 0.5) * (bottom - top) / 5))
    middles = [np.mean([line.min(axis=0), line.max(axis=0)], axis=0) for line in marks.get_segments()]
    np.testing.assert_allclose(middles, expected, atol=0.01)
    said = " ".join(texts(sheet))
    assert "in thick outlines, with their scores in or above the cells: the two words" in said
    assert "outside the thin outline: a word with itself, left out" in said
    assert "a word with itself" not in " ".join(texts(figure_of(comparison("one two", include_self=True, n_heads=1))))


def test_nothing_is_outlined_where_a_cell_is_of_several_words():
    sheet = figure_of(comparison(" ".join(f"w{i}" for i in range(300))), Style(dpi=72))
    assert not any("outlined" in text for text in texts(sheet))


def test_heads_and_their_divergence():
    c = comparison(n_heads=4)
    sheet = figure_of(c, Style(vmax=None))
    for i, image in enumerate(images(sheet, "L0 H")):
        assert np.array_equal(image.get_array(), c.heads[i])
    (divergence,) = images(sheet, "divergence of heads")
    np.testing.assert_allclose(divergence.get_array(), c.divergence, atol=1e-7)
    assert divergence.get_clim() == (0, 1)
    drawn = {artist.get_label() for artist in sheet.page.collections}
    assert f"numbers {c.divergence[1, 0]:.2f}" in drawn


def test_numbers_in_the_divergence_up_to_12_heads():
    drawn = []
    for n_heads in (12, 16):
        inputs = RandomLayer(48, n_heads, device_name="cpu").projection_inputs(" ".join(f"w{i}" for i in range(20)))
        sheet = figure_of(compare_projections(inputs))
        numbers = [group for group in sheet.page.collections if (group.get_label() or "").startswith("numbers ")]
        drawn.append(sum(len(group.get_offsets()) for group in numbers))
    assert drawn == [12 * 11, 0], "all but the zeros of the diagonal; 20 words have none in the other tiles"


def test_left_out_is_blank():
    sheet = figure_of(comparison(include_self=False))
    for image in (*images(sheet, ": S"), *images(sheet, "A = softmax(S)"), *images(sheet, "L0 H")):
        assert np.array_equal(np.isnan(np.asarray(image.get_array())), np.eye(3, dtype=bool))
        assert tuple(image.get_cmap().get_bad()) == (1, 1, 1, 1)


@pytest.mark.parametrize(("length", "n_heads", "include_self"), [
    (1, 1, True), (2, 16, False), (12, 8, True), (60, 2, False), (300, 1, True),
])  # fmt: skip
def test_any_size_stays_on_the_sheet(length, n_heads, include_self):
    c = comparison(" ".join(f"w{i}" for i in range(length)), n_heads, include_self)
    sheet = figure_of(c, Style(dpi=72))
    inside(sheet)
    assert bool(images(sheet, "divergence of")) == (n_heads > 1)
    if length == 300:
        assert any("strongest of up to" in text for text in texts(sheet))
