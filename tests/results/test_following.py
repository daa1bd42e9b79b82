"""Where elements go, against tensors whose numbers are their own places."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from looking import traced

from mhaviz.errors import ArgumentError
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.results.trace import follow_element


@given(st.data())
def test_against_tagged_tensors(data):
    batch, length, n_heads, d_key = (data.draw(st.integers(1, top)) for top in (3, 7, 5, 4))
    element = tuple(data.draw(st.integers(0, size - 1)) for size in (batch, length, n_heads * d_key))
    followed = follow_element(RandomLayer(n_heads * d_key, n_heads).trace_sizes(batch, length), element)

    Q = torch.arange(batch * length * n_heads * d_key).view(batch, length, n_heads * d_key)
    split = Q.view(batch, length, n_heads, d_key)
    tensors = {"Q": Q, "Q split": split, "Q heads": split.transpose(1, 2)}
    wrong = Q.view(batch, n_heads, length, d_key)

    for visit in followed.visits:
        if visit.step in tensors:
            assert visit.same_number
            assert tensors[visit.step][visit.coordinates] == Q[element]
            assert visit.offset == Q[element].item(), "a view moves nothing in memory"
    assert wrong[followed.wrong] == Q[element]
    assert wrong[followed.right] == Q[followed.intruder]
    assert tensors["Q heads"][followed.right] == Q[element]
    share = (wrong != tensors["Q heads"]).double().mean().item()
    assert followed.misplaced == pytest.approx(share)


def test_the_worked_example():
    followed = follow_element(traced(RandomLayer(8, 4), WORKED_EXAMPLE), (0, 2, 5))
    assert followed.right == (0, 2, 2, 1)
    assert followed.wrong == (0, 1, 4, 1)
    assert followed.intruder == (0, 3, 5)
    assert [visit.step for visit in followed.visits] == ["Q", "Q split", "Q heads", "H", "H swapped", "concat"]
    assert followed.visits[-1].coordinates == (0, 2, 5), "the slot comes back to where it was"
    assert not followed.visits[-1].same_number


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ((3, 0, 0), "expected a coordinate from 0 to 2 on axis batch_size, got 3"),
        ((0, 6, 0), "axis q_length"),
        ((0, 0, 8), "axis d_model"),
        ((0, 0, -1), "axis d_model"),
        ((0, 0), "expected 3 coordinates"),
    ],
)
def test_an_element_that_is_not_there(element, message):
    with pytest.raises(ArgumentError, match=message):
        follow_element(traced(RandomLayer(8, 4), WORKED_EXAMPLE), element)
