import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mhaviz.records import Cells
from mhaviz.sources.random_layer import RandomLayer
from mhaviz.studies.following import follow_element
from mhaviz.views.captions import cells_text, following_text, pair_title, pooled_text

WORDS = [f"w{i}" for i in range(1000)]


def test_a_long_text_keeps_its_beginning_and_its_end():
    title = pair_title("self", WORDS, WORDS, 60)
    assert title.startswith("self-attention: w0 w1 w2")
    assert title.endswith("w998 w999")
    assert cell_len(title) <= 60


def test_both_sides_of_a_pair_are_kept():
    title = pair_title("cross", WORDS[:50], ["a", "cat"], 60)
    assert title.startswith("source-target attention: w0")
    assert title.endswith("→ a cat")


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.integers(45, 120), st.booleans())
def test_titles_fit(tokens, width, ascii_only):
    for kind in ("self", "masked", "cross"):
        title = pair_title(kind, tokens, tokens[::-1], width, ascii_only)
        assert cell_len(title) <= width
        assert title.isascii() or not ascii_only


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((10, 10, 10, 10), ""),
        ((10, 10, 4, 10), "each cell is the strongest of up to 3 × 1"),
        ((9, 8, 3, 4), "each cell is the strongest of up to 3 × 2"),
    ],
)
def test_what_pooling_says(sizes, text):
    assert pooled_text(*sizes) == text


@pytest.mark.parametrize(
    ("layer", "sentence", "element", "text"),
    [
        (RandomLayer(8, 4), "a b c", (0, 0, 0), "would leave this one in its place"),
        (RandomLayer(8, 1), "a b c", (0, 1, 1), "would misplace nothing"),
        (RandomLayer(8, 4), "a", (0, 0, 7), "would misplace nothing"),
        (RandomLayer(8, 4), "a b c", (0, 1, 1), "of “b”, position 1"),
    ],
)
def test_what_is_said_of_a_followed_element(layer, sentence, element, text):
    trace = layer.trace([sentence])
    assert text in " ".join(following_text(follow_element(trace, element), trace))


@pytest.mark.parametrize(
    ("query_edges", "key_edges", "reduction", "text"),
    [
        ([0, 1, 2], [0, 1, 2], "mass", ""),
        ([0, 2, 3], [0, 1, 4], "mass", "each cell is the mean over up to 2 queries of their weight on up to 3 keys"),
        ([0, 1, 2], [0, 1, 4], "mass", "each cell is a query's weight on up to 3 keys"),
        ([0, 2, 3], [7, 8, 9], "mass", "each cell is the mean over up to 2 queries of their weight on a key"),
        ([0, 2, 3], [0, 1, 4], "max", "each cell is the largest of up to 2 × 3 weights"),
    ],
)
def test_what_a_cell_is(query_edges, key_edges, reduction, text):
    assert cells_text(Cells(np.array(query_edges), np.array(key_edges), reduction)) == text
