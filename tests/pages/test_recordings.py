"""Which attention of a program a page is of: its name, its forward pass, its example."""

from dataclasses import replace

import numpy as np
import pytest
from made import made_map

from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.pages.attention import attention_page, by_attention
from mhaviz.pages.labels import title_text
from mhaviz.pages.map_words import map_title, passes_text
from mhaviz.pages.words import unnamed_text
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.module_names import common_name
from mhaviz.results.quantity import ROLLOUT
from mhaviz.results.result import Source


def maps_of(modules, n_heads=2, length=4, **more):
    tokens = tuple(map(str, range(length)))
    weights = np.full((n_heads, length, length), 1 / length, np.float32)
    return [made_map(tokens, tokens, weights, layer=i, module=name, **more) for i, name in enumerate(modules)]


def titles(maps):
    page = attention_page(Attention(Source("recorded"), tuple(maps)))
    return [(block.title.head, block.module) for block in page.blocks if hasattr(block, "maps")]


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (["blocks.3.attn"], "blocks.3.attn"),
        (["blocks.0.attn", "blocks.1.attn", "blocks.2.attn"], "blocks.*.attn"),
        (["0", "1"], "*"),
        (["attn", "attn #2", "attn #12"], "attn #1 to #12"),
        (["a.0.attn #2", "a.1.attn #2"], "a.*.attn #2"),
        (["a.0.attn", "a.1.attn #2"], None),
        (["a.0.b.0.attn", "a.1.b.1.attn"], None),
        (["a.0.self", "a.0.cross"], None),
        (["a.0", "a.0.b"], None),
        (["train.py:12", "train.py:13, attend"], None),
        (["", "a"], None),
        (["", ""], ""),
        (["a\n.0", "a\n.1"], "a\n.*"),
    ],
)
def test_layers_have_one_name_in_common_if_they_differ_in_one_number(names, common):
    assert common_name(names) == common


def test_layers_of_one_name_stand_together_with_it():
    maps = maps_of(["enc.0.attn", "enc.1.attn", "dec.0.attn", "dec.1.attn", "model.py:3, f"])
    assert titles(maps) == [
        ("self-attention, recorded, layers 0 to 1", "enc.*.attn"),
        ("self-attention, recorded, layers 2 to 3", "dec.*.attn"),
        ("self-attention, recorded, layer 4", "model.py:3, f"),
    ]


def test_a_rollout_goes_through_all_modules_and_stands_together():
    maps = [replace(m, quantity=ROLLOUT) for m in maps_of(["encoder.first", "encoder.second", "head.0"], n_heads=1)]
    assert titles(maps) == [("rollout of self-attention, recorded, layers 0 to 2", "")]


def test_one_of_several_attentions_names_its_layer():
    source = Source("recorded", {"n_attentions": 2})
    page = attention_page(Attention(source, tuple(maps_of(["b.0"]))))
    assert page.blocks[0].title.head == "self-attention, recorded, layer 0"


def test_maps_without_names_stand_together_as_ever():
    assert titles(maps_of([""] * 3)) == [("self-attention, recorded, layers 0 to 2", "")]


def test_a_film_has_a_row_a_head_with_the_passes_from_left_to_right():
    names = ["blocks.0.attn", "blocks.1.attn"]
    maps = [m for number in (0, 100, 200) for m in maps_of(names, pass_number=number)]
    page = attention_page(Attention(Source("recorded"), tuple(maps)))
    first = page.blocks[0]
    assert (first.title.head, first.module) == (
        "self-attention, recorded, layer 0, passes 0, 100, 200",
        "blocks.0.attn",
    )
    assert [panel.title for panel in first.panels] == [
        f"pass {number} · L0 H{head}" for head in range(2) for number in (0, 100, 200)
    ]
    assert first.across == 3
    for panel, m in zip(first.panels, first.maps, strict=True):
        assert panel.title == f"pass {m.pass_number} · L0 H{m.heads[0]}"
        assert panel.short == f"P{m.pass_number} H{m.heads[0]}"
        np.testing.assert_array_equal(panel.values, m.weights[0])
    assert [list(group) for group in by_attention(maps)] == [[0, 2, 4], [1, 3, 5]]


def test_rollouts_of_several_passes_are_rows_of_layers():
    maps = [m for number in (0, 1) for m in maps_of(["b.0", "b.1"], 1, rollout=True, pass_number=number)]
    assert maps[0].quantity.key == ROLLOUT.key
    assert [head for head, _ in titles(maps)] == [
        f"rollout of self-attention, recorded, layers 0 to 1, pass {i}" for i in (0, 1)
    ]


def test_examples_of_a_batch_are_called_so_in_recordings_alone():
    (recorded,) = maps_of(["attn"], sentence=2)
    assert map_title(recorded, "").head == "self-attention, example 2"
    (other,) = maps_of([""], sentence=2)
    assert map_title(other, "").head == "self-attention, sentence 2", "its positions do not tell"
    words = Axis.of(["the", "cat", "sat", "down"])
    assert map_title(replace(other, rows=words, columns=words), "").head == "self-attention"


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        ([100], "pass 100"),
        ([0, 1, 2], "passes 0 to 2"),
        ([0, 100], "passes 0, 100"),
        ([*range(0, 2100, 100)], "21 passes from 0 to 2,000"),
    ],
)
def test_passes_are_named(passes, text):
    assert passes_text(passes) == text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (Tokens(tuple("0123")), "4 tokens"),
        (Tokens(("0",)), "1 token"),
        (Tokens(("7", "8", "9")), "3 tokens"),
        (Tokens(("2025", "2026")), ""),
        (Tokens(("0", "2")), ""),
        (Tokens(("0", "one")), ""),
        (Tokens(("٠", "1")), ""),
        (Tokens(("9" * 5000,)), ""),
        (Tokens(()), ""),
        (Tokens(("row 0", "row 1", "row 2")), "3 rows"),
        (Tokens(("fixed 0", "fixed 1")), "2 fixed rows"),
        (Tokens(("row 0", "row")), ""),
        (patch_tokens(14, 14, 1), "14 × 14 patches of an image"),
    ],
)
def test_tokens_without_names_are_counted(tokens, text):
    assert unnamed_text(tokens) == text


def test_a_long_map_of_tokens_without_names_is_counted_once():
    edges = np.arange(0, 3001, 30)
    tokens = tuple(map(str, range(3000)))
    m = made_map(tokens, tokens, np.full((1, 100, 100), 0.01, np.float32), cells=(edges, edges, "mass"), module="attn")
    assert title_text(map_title(m, ""), 80) == "self-attention: 3,000 tokens"
    part = tuple(map(str, range(3000, 6000)))
    later = made_map(part, part, m.weights, cells=(edges + 3000, edges + 3000, "mass"))
    assert title_text(map_title(later, ""), 80) == "self-attention, tokens 3,000 to 5,999: 3,000 tokens"
