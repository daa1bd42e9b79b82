from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import Edges, hiding, remade
from rich.cells import cell_len

from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.pages.blocks import Drawn
from mhaviz.pages.labels import title_text
from mhaviz.pages.map_words import (
    cells_text,
    hidden_text,
    map_title,
    pooled_text,
    reading_text,
)
from mhaviz.pages.words import attention_title, position_text
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import Cells, Quantity
from mhaviz.results.result import Source


def pair(kind, queries, keys):
    return attention_title(kind, Tokens(tuple(queries)), Tokens(tuple(keys)))


WORDS = [f"w{i}" for i in range(1000)]


def test_a_long_text_keeps_its_beginning_and_its_end():
    title = title_text(pair("self", WORDS, WORDS), 60)
    assert title.startswith("self-attention: w0 w1 w2")
    assert title.endswith("w998 w999")
    assert cell_len(title) <= 60


def test_both_sides_of_a_pair_are_kept():
    title = title_text(pair("cross", WORDS[:50], ["a", "cat"]), 80)
    assert title.startswith("source-target attention; queries: w0")
    assert title.endswith(", keys: a cat")
    assert cell_len(title) > 80 - len(" w49 …"), "the long text takes what the short one leaves"


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.integers(45, 120))
def test_titles_fit(tokens, width):
    for kind in ("self", "masked", "cross"):
        title = title_text(pair(kind, tokens, tokens[::-1]), width)
        assert cell_len(title) <= width


@pytest.mark.parametrize("width", range(60, 130, 7))
@pytest.mark.parametrize("kind", ["self", "cross"])
def test_a_wide_name_of_a_model_is_not_cut(kind, width):
    """Each of its characters takes two cells: the texts are shortened, or the short head stands for it."""
    tokens = Tokens(("黑猫", *WORDS[:30]))
    title = attention_title(kind, tokens, tokens, ", 注意力模型注意力模型, layer 0", brief="")
    shown = title_text(title, width)
    assert shown.startswith((title.head, title.short))
    assert width - len(" w30 …") < cell_len(shown) <= width


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((10, 10, 10, 10), ""),
        ((10, 10, 4, 10), "each cell is the strongest of up to 3"),
        ((9, 8, 3, 4), "each cell is the strongest of up to 3 × 2"),
    ],
)
def test_what_pooling_says(sizes, text):
    assert pooled_text(*sizes) == text


def cells_between(query_edges, key_edges, reduction):
    sides = (Axis(Tokens(("a",) * (edges[-1] - edges[0])), np.array(edges)) for edges in (query_edges, key_edges))
    return Cells(*sides, Quantity(reduction=reduction))


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
    assert cells_text(cells_between(query_edges, key_edges, reduction)) == text


def test_the_title_of_a_rollout(random_map):
    m = random_map(1, ("[CLS]", "a", " cat", "[SEP]"), special_queries=(0, 3), special_keys=(0, 3), rollout=True)
    assert title_text(map_title(m, "minilm"), 80) == "rollout of self-attention, minilm: [CLS] a cat [SEP]"
    assert title_text(map_title(m, "layers 0 to 5"), 80).startswith("rollout of self-attention, layers 0 to 5: [CLS]")


SUMS = [
    ((False, False), "a row sums to 1"),
    ((True, True), "a row sums to less than 1, the rest goes to the head's sink"),
    (
        (False, True),
        "a row sums to 1; a row of layers with sinks sums to less than 1, the rest goes to the head's sink",
    ),
]


@pytest.mark.parametrize(("sinks", "text"), SUMS)
def test_what_a_row_sums_to(random_map, sinks, text):
    maps = tuple(random_map(layer=i, sink=sink) for i, sink in enumerate(sinks))
    assert reading_text(Attention(Source("s"), maps), Drawn()) == f"rows are queries, columns keys; {text}"


def test_a_row_of_cells_with_a_sink(random_map):
    cells = Edges(np.array([0, 2, 3, 4]), np.array([0, 2, 3, 4]))
    m = random_map(1, sink=True)
    m = remade(m, queries=("a",) * 4, keys=("a",) * 4, cells=cells)
    text = reading_text(Attention(Source("s"), (m,)), Drawn((m.cells,)))
    assert text.endswith("; what goes to no key goes to the head's sink")
    assert "sums" not in text


HIDDEN = [
    ("masked", [None], "blank: later keys, hidden"),
    ("self", [None], ""),
    ("self", [1], "blank: hidden keys, more than 1 position away"),
    ("masked", [2], "blank: hidden keys, later or more than 2 positions away"),
    ("masked", [5], "blank: later keys, hidden"),  # five tokens: nothing is farther away than 4
    ("self", [2, 1], "blank: hidden keys, more than 1 or 2 positions away"),
    ("masked", [2, None, 2], "blank: hidden keys, later, or more than 2 positions away in layers 0, 2"),
    ("self", [None, 2, 2], "blank: hidden keys, more than 2 positions away in layers 1 to 2"),
    ("self", [2, None] * 7, "blank: hidden keys, more than 2 positions away in some layers"),
]


@pytest.mark.parametrize(("kind", "reaches", "text"), HIDDEN)
def test_what_is_hidden(random_map, kind, reaches, text):
    maps = tuple(hiding(random_map(1, "abcde", kind=kind, layer=i, reach=reach)) for i, reach in enumerate(reaches))
    assert hidden_text(maps, "blank") == text


def test_how_many_rows_weigh_what_a_mask_hides(random_map):
    m = hiding(random_map(2, "abcde", kind="masked"))
    leaking = m.weights.copy()
    leaking[1, 2, 4] = 0.1
    several = hiding(random_map(2, "abcde", kind="masked", layer=1))
    text = hidden_text((replace(m, weights=leaking), several), "blank")
    assert text == "blank: later keys, hidden, though 1 of 10 rows gives weight to some"
    leaking[0, 0, 3] = 0.1
    text = hidden_text((replace(m, weights=leaking, reach=1),), "blank")
    assert text.endswith("hidden keys, later or more than 1 position away, though 4 of 5 rows give weight to some")


def test_sentences_that_a_window_is_longer_than(random_map):
    maps = tuple(hiding(random_map(1, "abcde"[:n], reach=2, sentence=i)) for i, n in enumerate((5, 2)))
    assert hidden_text(maps, "blank") == "blank: hidden keys, more than 2 positions away in some maps"


def test_what_weights_of_words_are():
    axis = Axis(Tokens(("a", " cat", "s", " c")))
    m = AttentionMap(np.tri(4, dtype=np.float32)[None], axis, axis, "masked", reach=1)
    said = reading_text(Attention(Source("s"), (hiding(m).by("word"),)), Drawn())
    assert "; a key has the sum over its tokens, a query the mean over its tokens; (2): of 2 tokens; " in said
    assert said.endswith("hidden keys, later or more than 1 token away")
    alone = replace(m, rows=Axis.of("abcd"), columns=Axis.of("abcd")).by("word")
    assert "of its tokens" not in reading_text(Attention(Source("s"), (alone,)), Drawn())


def test_what_a_rollout_is(random_map):
    text = reading_text(Attention(Source("s"), (random_map(1, reach=1, rollout=True),)), Drawn())
    assert "rollout: through this layer and all before it (Abnar and Zuidema 2020)" in text
    assert "outline" not in text


def test_a_patch_is_named_as_one():
    axis = Axis(patch_tokens(2, 2, 1))
    m = AttentionMap(np.full((1, 5, 5), 0.2, np.float32), axis, axis).of_query(3)
    said = str(map_title(m, ""))
    assert ", patch 1,0" in said
    assert "query 3" not in said
    assert [position_text(3, text) for text in ("1,0", "frame 2 1,0", "cat", "3")] == [
        "patch 1,0",
        "patch 1,0 of frame 2",
        "3 cat",
        "3",
    ]
