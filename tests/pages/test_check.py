"""What is said and drawn of the findings of a check, before anybody draws it."""

from dataclasses import replace

import checked
import numpy as np
import pytest
from checked import ALL, made_check
from hostile import HOSTILE, acts
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.pages.blocks import Drawn, Grid, Text, matrices
from mhaviz.pages.check import check_page
from mhaviz.pages.colormaps import DIVERGING, INK
from mhaviz.pages.panels import WEIGHT
from mhaviz.results.check import Contrast, Finding, Line


def lines(page):
    return [line for block in page.blocks if isinstance(block, Text) for line in block.lines]


def panels(page):
    return [panel for block in matrices(page.blocks) for panel in block.panels]


def drawn_alone(found, expected, quantity="weight", code="scale", **more):
    """The panels of a page with this contrast alone."""
    found, expected = (np.asarray(side, np.float32) for side in (found, expected))
    rows, columns = (tuple(map(str, range(length))) for length in found.shape[1:])
    contrast = Contrast(quantity, found, expected, ("query", "key"), rows, columns, **more)
    return check_page(made_check(Finding(code, "error", "tried", "found", "mistake", "mend", contrast=contrast)))


@pytest.mark.parametrize(("findings", "title"), [
    ((checked.mask_side(),), "MyAttention: the padding mask hides queries in place of keys"),
    ((checked.mask_side(), checked.uniform_row()), "MyAttention: the padding mask hides queries in place of keys"),
    ((checked.missing_scale(), checked.nan_rows()), "2 errors in MyAttention: scale, nan"),
    ((checked.missing_scale(), checked.missing_scale()), "2 errors in MyAttention: scale"),
    ((checked.uniform_row(), checked.uniform_row()), "2 notices in MyAttention: uniform-row"),
    (
        (checked.uniform_row(),),
        "MyAttention, a notice: −1e9 in place of −∞ makes a row that is wholly hidden uniform in silence",
    ),
    (
        (replace(checked.uniform_row(), mistake="", severity="error"),),
        "MyAttention: it gets the weight 0.25 on each of 4 keys",
    ),
    ((), "MyAttention: nothing wrong in 10 probes"),
])  # fmt: skip
def test_the_title_answers(findings, title):
    assert check_page(made_check(*findings)).title == title


def test_what_was_not_probed_is_not_right():
    assert check_page(made_check(probed=("scale",))).title == "MyAttention: nothing wrong in 1 probe"
    page = check_page(made_check(probed=(), ignored=("nan", "scale")))
    assert page.title == "MyAttention: nothing is probed"
    assert lines(page) == [
        "probed: nothing",
        "not probed: packed (takes no numbers of documents); cache (takes no cache)",
        "ignored: nan, scale",
    ]


def test_each_finding_is_said():
    page = check_page(made_check(*ALL))
    said = lines(page)
    assert [block.lines[0] for block in page.blocks if isinstance(block, Text) and block.heading] == [
        f"{finding.severity} {finding.code}: {finding.mistake}" for finding in ALL
    ]
    for finding in ALL:
        assert {f"tried: {finding.tried}", f"found: {finding.found}", f"mend: {finding.mend}"} < set(said)
    assert "where: attention.py:31, in MyAttention: scores = scores.masked_fill(~keep[:, None, :, None], -1e9)" in said
    assert "where: attention.py:28: scores = q @ k.transpose(-2, -1)" in said
    assert "where: attn" in said
    assert said[-2:] == [
        "probed: scale, softmax-axis, heads-layout, causal, padding, mask-side, row-sum, batch, nan, eval",
        "not probed: packed (takes no numbers of documents); cache (takes no cache)",
    ]
    assert sum(line.startswith("where") for line in said) == 4


def test_the_title_says_what_the_only_finding_is():
    page = check_page(made_check(checked.mask_side()))
    assert lines(page)[0] == "error mask-side"


def test_words_of_a_finding_stand_above_its_picture_and_never_of_the_next():
    kinds = [type(block).__name__ for block in check_page(made_check(*ALL)).blocks]
    assert kinds == [*["Text", "Text", "Text", "Grid"] * 5, "Text", "Text", "Text", "Text"]
    assert check_page(made_check(*ALL)).blocks[-2].lines == ("",)
    (alone,) = (block for block in check_page(made_check(checked.mask_side())).blocks if not isinstance(block, Text))
    assert not isinstance(alone, Grid)  # in which cells are small


def test_a_map_as_it_is_stands_beside_the_map_as_it_should_be():
    contrast = checked.mask_side(2).contrast
    (block,) = matrices(check_page(made_check(checked.mask_side(2))).blocks)
    assert [panel.title for panel in block.panels] == [
        f"head {head} {side}" for head in range(2) for side in ("as it is", "as it should be")
    ]
    for panel, values in zip(
        block.panels, np.stack([contrast.found, contrast.expected], 1).reshape(4, 6, 6), strict=True
    ):
        np.testing.assert_array_equal(panel.values, values)
    assert (block.across, block.names) == (2, ("query", "key"))
    assert block.rows.tokens.texts == block.columns.tokens.texts == checked.TOKENS
    (scale,) = block.scales
    assert (scale.colormap, scale.low, scale.name) == (INK, 0, WEIGHT)
    assert max(contrast.found.max(), contrast.expected.max()) <= scale.high <= 1


def test_weights_of_a_page_share_a_scale_and_other_numbers_have_their_own():
    page = check_page(made_check(*ALL))
    scales = {panel.scale.name: panel.scale for panel in panels(page)}
    assert list(scales) == ["weight", "token", "influence"]
    assert len({panel.scale for panel in panels(page)}) == 3
    assert (scales["token"].low, scales["token"].high, scales["token"].decimals) == (0, 5, 0)
    assert scales["token"].colormap != INK  # in which token 0 would be paper
    assert (scales["influence"].low, scales["influence"].high) == (0, 1)
    above = drawn_alone([[[14.2, 0], [1, 1]]], [[[0.5, 0], [1, 1]]], code="row-sum")
    assert {(panel.scale.name, panel.scale.high) for panel in panels(above)} == {("weight of row-sum", 15)}
    below = drawn_alone([[[-0.5, 0.5]]], [[[0.5, 0.5]]])
    assert {(one.scale.colormap, one.scale.low, one.scale.high) for one in panels(below)} == {(DIVERGING, -0.5, 0.5)}


def test_at_most_two_heads_are_drawn_those_that_differ_most():
    expected = np.full((4, 2, 2), 0.5)
    found = expected.copy()
    found[1, 0], found[2, 1], found[3, 1] = [0.4, 0.6], [0.1, 0.9], [0.2, 0.8]
    page = drawn_alone(found, expected, panels=tuple(f"head {i}" for i in range(4)))
    assert [panel.title for panel in panels(page)][::2] == ["head 2 as it is", "head 3 as it is"]
    assert "shown: head 2 and head 3 of 4; 3 of them differ" in lines(page)
    page = drawn_alone(found[:2], expected[:2], panels=("head 0", "head 1"))
    assert [panel.title for panel in panels(page)] == ["head 1 as it is", "head 1 as it should be"]
    assert "shown: head 1 of 2; no other is seen to differ" in lines(page)
    page = drawn_alone(found[2:], expected[2:])
    assert [panel.title for panel in panels(page)] == ["as it is", "as it should be"] * 2
    assert not any(line.startswith("shown") for line in lines(page))


def test_the_head_that_the_remark_is_about_is_drawn():
    page = check_page(made_check(*ALL))
    assert [panel.title for panel in panels(page)][:4:2] == ["head 1 as it is", "head 0 as it is"]
    assert "shown: head 1 of 2; all of them differ" in lines(page)
    names = tuple(f"head {i}" for i in range(11))
    found, expected = np.zeros((11, 1, 2)), np.ones((11, 1, 2))
    page = drawn_alone(found, expected, panels=names, note="query 0 of head 10 sees nothing")
    assert panels(page)[2].title == "head 10 as it is"


def outlines(page):
    return [[(one.rows, one.columns) for one in panel.outlined] for panel in panels(page)]


def test_the_cells_that_tell_the_mistake_are_outlined():
    keys_of_padding = [(range(6), range(4, 6))]
    assert outlines(check_page(made_check(checked.mask_side()))) == [keys_of_padding] * 2
    diagonal = [(range(i, i + 1), range(i, i + 1)) for i in range(6)]
    assert outlines(check_page(made_check(checked.causal_off_by_one()))) == [diagonal] * 2
    assert outlines(check_page(made_check(checked.nan_rows()))) == [[(range(3, 4), range(4))]] * 2
    layout = check_page(made_check(checked.heads_layout()))
    assert outlines(layout) == [[(range(5, 6), range(2))]] * 2 + [[]] * 2  # most cells differ
    lost = drawn_alone([[[1, 0, 0], [0.5, 0, 0.5]]], [[[0.5, 0.5, 0], [0.3, 0.4, 0.3]]])
    assert outlines(lost) == [[(range(2), range(1, 2))]] * 2
    same = drawn_alone(np.full((1, 3, 3), 1 / 3), np.full((1, 3, 3), 1 / 3))
    assert outlines(same) == [[]] * 2
    assert {outline.colour for page in (lost, layout) for panel in panels(page) for outline in panel.outlined} == {
        "orange"
    }


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_outlines_hold_cells_that_differ_alone(n_rows, n_columns, data):
    cells = st.lists(st.sampled_from([0, 1]), min_size=n_rows * n_columns, max_size=n_rows * n_columns)
    found, expected = (np.reshape(data.draw(cells), (1, n_rows, n_columns)) for _ in range(2))
    page = drawn_alone(found, expected, "influence")
    inside = np.zeros((n_rows, n_columns), int)
    for rows, columns, _ in panels(page)[0].outlined:
        inside[rows.start : rows.stop, columns.start : columns.stop] += 1
    assert inside.max(initial=0) <= 1
    differ = found[0] != expected[0]
    assert not (inside.astype(bool) & ~differ).any()
    assert inside.any() == differ.any()
    assert ("outlined: cells that differ" in page.reading(Drawn())) == (inside.any() and np.array_equal(inside, differ))


def test_numbers_that_are_none_are_told_apart():
    (found, _) = panels(check_page(made_check(checked.nan_rows())))
    assert [found.text(3, column) for column in range(4)] == ["NaN"] * 4
    assert found.text(0, 0) == "0.23"
    reading = check_page(made_check(checked.nan_rows())).reading
    assert reading(Drawn()) == (
        "weight: a row for each query, a column for each key; a line through a cell: no number; "
        "outlined: cells that differ"
    )
    assert "; NaN: no number" in reading(Drawn(hidden="·"))
    unknown = drawn_alone([[[np.nan, 1]]], [[[0, 1]]])
    assert panels(unknown)[0].text(0, 0) == ""
    assert "outside the thin outline: not known" in unknown.reading(Drawn())
    mixed = drawn_alone([[[-1, 1]]], [[[0, 1]]], "token")
    assert np.isnan(panels(mixed)[0].values[0, 0])
    assert (panels(mixed)[0].text(0, 0), panels(mixed)[0].text(0, 1)) == ("–", "1")
    assert "–: no token, or more than one" in mixed.reading(Drawn(hidden="·"))


def test_infinite_numbers_have_a_scale():
    page = drawn_alone([[[np.inf, 2]]], [[[1, 0]]], code="row-sum")
    assert panels(page)[0].scale.high == 2
    assert outlines(page) == [[(range(1), range(1, 2))]] * 2  # a weight where there should be none


def test_how_to_read_is_said_of_what_is_drawn():
    page = check_page(made_check(*ALL))
    assert "influence" not in page.reading(Drawn(scales=frozenset({"weight"})))
    assert "1: the output changes with the input, 0: it does not" in page.reading(Drawn())
    assert "a cell has the number of the token that it is made of" in page.reading(Drawn())
    assert "outlined" not in page.reading(Drawn(outlines=frozenset()))
    assert page.reading(Drawn(scales=frozenset())) == ""
    assert check_page(made_check()).reading(Drawn()) == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_said_safely(text):
    contrast = replace(
        checked.mask_side(2).contrast, note=text, panels=(text, text), axes=(text, text), rows=(text,) * 6
    )
    finding = Finding(text, "error", text, text, text, text, text, Line(text, 1, text), contrast)
    name = replace(checked.SOURCE, details={"name": text})
    page = check_page(made_check(finding, finding, probed=(text,), ignored=(text,), source=name))
    assert page.blocks
    for said in (*lines(page), str(page.title), page.reading(Drawn()), *(panel.title for panel in panels(page))):
        assert not acts(said)
        assert len(said) < 3000
