"""What the masks of a map hide, against a loop over every query and key."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import Edges, made_map

from mhaviz.errors import ArgumentError
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source

lengths = st.integers(1, 9)
reaches = st.none() | st.integers(0, 10)


def edges(draw, length):
    start = draw(st.integers(0, 6))
    inner = draw(st.sets(st.integers(1, length - 1))) if length > 1 else set()
    return np.array([start, *(start + i for i in sorted(inner)), start + length])


def names(n):
    return tuple(f"t{i}" for i in range(n))


def is_hidden(query, key, kind, reach):
    return (kind == "masked" and key > query) or (reach is not None and abs(query - key) > reach)


@given(st.sampled_from(["self", "masked", "cross"]), reaches, lengths, lengths)
def test_what_a_mask_hides(kind, reach, q_length, k_length):
    weights = np.zeros((1, q_length, k_length), np.float32)
    hidden = made_map(names(q_length), names(k_length), weights, kind, reach=reach).hidden
    if kind != "masked" and reach is None:
        assert hidden is None
        return
    past = k_length - q_length if kind == "masked" else 0
    expected = [[is_hidden(i + past, j, kind, reach) for j in range(k_length)] for i in range(q_length)]
    assert hidden.tolist() == expected


@given(st.data(), st.sampled_from(["self", "masked", "cross"]), reaches, lengths, lengths)
def test_a_cell_is_hidden_if_all_in_it_is(data, kind, reach, q_length, k_length):
    cells = Edges(edges(data.draw, q_length), edges(data.draw, k_length))
    q_edges, k_edges = cells.query_edges.tolist(), cells.key_edges.tolist()
    weights = np.zeros((1, len(q_edges) - 1, len(k_edges) - 1), np.float32)
    hidden = made_map(names(q_length), names(k_length), weights, kind, cells=cells, reach=reach).hidden
    if kind != "masked" and reach is None:
        assert hidden is None
        return
    for row, queries in enumerate(pairwise(q_edges)):
        for column, keys in enumerate(pairwise(k_edges)):
            pairs = [(i, j) for i in range(*queries) for j in range(*keys)]
            assert hidden[row, column] == all(is_hidden(i, j, kind, reach) for i, j in pairs)


def test_no_cell_with_weight_is_hidden_where_a_cache_holds_earlier_keys():
    """Four queries behind eight keys of a cache, two tokens a cell: nothing says which keys they are lined up with."""
    seen = np.arange(12) <= np.arange(4)[:, None] + 8
    A = seen / seen.sum(axis=1, keepdims=True)
    weights = A.reshape(2, 2, 6, 2).sum(axis=(1, 3))[None].astype(np.float32)
    cells = Edges(np.arange(0, 5, 2), np.arange(0, 13, 2))
    hidden = made_map(names(4), names(12), weights, "masked", cells=cells).hidden
    assert not hidden[weights[0] > 0].any()
    assert hidden.sum() == (weights == 0).sum() == 1


@pytest.mark.parametrize(("kind", "hidden"), [("self", None), ("masked", [[False, True], [False, False]])])
def test_a_rollout_reaches_farther_than_the_window_of_a_layer(kind, hidden):
    m = made_map(names(2), names(2), np.eye(2, dtype=np.float32)[None], kind, reach=0, rollout=True)
    assert (None if m.hidden is None else m.hidden.tolist()) == hidden


def test_special_tokens_are_some_of_those_that_there_are():
    with pytest.raises(ArgumentError, match="special_keys: expected positions from 0 to 1, got 0 to 2"):
        made_map(names(3), names(2), np.zeros((1, 3, 2), np.float32), special_queries=(2,), special_keys=(0, 2))


def test_a_place_without_a_map():
    attention = Attention(Source("test"), (made_map(names(2), names(2), np.eye(2, dtype=np.float32)[None]),))
    assert [attention[0], attention[-1]] == [*attention, *attention]
    for place in (1, -2):
        with pytest.raises(IndexError):
            attention[place]


def test_records_print_themselves_in_a_line():
    m = made_map(names(600), names(600), np.zeros((3, 600, 600), np.float32), "masked", layer=2)
    attention = Attention(Source("weights of the test"), (m, m))
    assert repr(m) == (
        "AttentionMap(weights=float32[3, 600, 600], rows=Axis of 600, columns=Axis of 600, kind='masked', "
        "layer=2, heads=(0, 1, 2))"
    )
    assert repr(attention) == "Attention(source='weights of the test', maps=2 × AttentionMap)"


def test_a_share_of_special_tokens_of_each_head():
    m = made_map(("a", "b"), ("a", "b"), np.full((2, 2, 2), 0.25, np.float32))
    m = replace(m, to_special=np.array([0.5, 0.25], np.float32))
    assert m.select((1,)).to_special.tolist() == [0.25]
    with pytest.raises(ArgumentError, match=r"to_special: expected a share for each of 2 heads, got \(3,\)"):
        replace(m, to_special=np.ones(3, np.float32))
