import dataclasses

import numpy as np
import pytest
from looking import encoded
from rich.cells import cell_len
from shown import number_text

from mhaviz.analyses.matrices import layer_matrices
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.views.showing import view_of


def matrices(sentence=WORKED_EXAMPLE[0], heads=range(4), target=None, **options):
    return layer_matrices(*encoded(RandomLayer(8, 4, device_name="cpu", **options), [sentence], target), heads)


@pytest.mark.parametrize("width", [60, 100])
def test_every_head_with_its_example(show, width):
    m = matrices()
    shown = show(view_of(m), width, None)
    assert max(cell_len(line) for line in shown.split("\n")) <= width
    flat = " ".join(shown.split())
    for head in m.heads:
        assert f"L0 H{head.head}: columns {2 * head.head} to {2 * head.head + 1} of Q, K, V and concat" in flat
        score = head.scores[m.position, m.key_position]
        assert "/ √2 = " + number_text(score, "z.2f") in flat
    assert m.source.footnote in flat


def test_the_numbers_of_all_matrices_where_there_is_room(show):
    m = matrices()
    shown = show(view_of(m), 100)
    for matrix in (*m.projected, m.joined, m.output):
        assert f"{matrix.name} = {matrix.equation} (6 × 8)" in shown
        assert all(number_text(number, "z.2f") in shown for number in matrix.values.ravel())
    for head in m.heads:
        assert all(number_text(number, "z.2f") in shown for number in (*head.scores.ravel(), *head.weights.ravel()))
    for title in ("Q (6 × 2)", "Kᵀ (2 × 6)", "V (6 × 2)", "H = A V (6 × 2)"):
        assert shown.count("  " + title) == len(m.heads)


def test_each_side_has_its_own_tokens(show):
    shown = show(view_of(matrices("the small cat", target="le chat")), 100)
    for title, row in (("Q = X Wq (2 × 8)", "le "), ("K = X Wk (3 × 8)", "the ")):
        assert shown.split(title)[1].splitlines()[2].strip().startswith(row)


def test_what_is_left_out_and_hidden_is_said(show):
    m = dataclasses.replace(matrices(heads=[0], causal=True), input=None, output=None, left_out="nobody knows them")
    shown = " ".join(show(view_of(m), 100).split())
    assert "X and O left out: nobody knows them" in shown
    assert "S, A and H of 1 of 4 heads" in shown
    assert "·: hidden keys" in shown
    assert np.isnan(m.heads[0].scores).any()
