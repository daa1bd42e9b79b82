import itertools
import math
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rounding import rounding

from mhaviz.analyses import head_statistics
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Site, SiteCall
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.head_statistics import STATISTICS
from mhaviz.results.result import Source

CLOSE = rounding()

SOURCE = Source("made by a test")
OF_NEEDLES = {"retrieval", "needle"}
MEANING = {
    "self": set(STATISTICS) - OF_NEEDLES,
    "masked": set(STATISTICS) - {"next"} - OF_NEEDLES,
    "cross": {"entropy", "first", "separators", "sink"},
}


def one_by_one(weights, query_ids, key_ids, special, kind, places=None):
    """Every number of one sentence of one head, in plain Python: the mean over its queries, and how many they are.

    ``places``: of the queries; None: all.
    """
    rows = {name: [] for name in STATISTICS}
    for i, row in enumerate(weights):
        if places is not None and i not in places:
            continue
        shares = [a / sum(row) for a in row]  # a sink may have taken some of it
        rows["entropy"].append(-sum(a * math.log(a) for a in shares if a > 0))
        rows["first"].append(row[0])
        if any(special):
            rows["separators"].append(sum(a for a, is_special in zip(row, special, strict=True) if is_special))
        if kind == "cross":
            continue
        rows["distance"].append(sum(a * abs(i - j) for j, a in enumerate(shares)))
        rows["itself"].append(row[i])
        if i > 0:
            rows["previous"].append(row[i - 1])
        if i + 1 < len(row) and kind != "masked":
            rows["next"].append(row[i + 1])
        copies = [j for j in range(i) if key_ids[j] == query_ids[i] and not special[j] and not special[i]]
        if copies:
            rows["copies"].append(sum(row[j] for j in copies))
            rows["induction"].append(sum(row[j + 1] for j in copies))
    means = {name: (sum(values) / len(values), len(values)) for name, values in rows.items() if values}
    first, queries = means["first"]
    return means | {"sink": (float(first > 0.3), queries)}


def side(sentences):
    """(ids, special) of each sentence."""
    return tuple(
        Tokens(("",) * len(ids), tuple(i for i, is_special in enumerate(special) if is_special), tuple(ids))
        for ids, special in sentences
    )


def batch_of(weights, queries, keys, kind="self", layer=0):
    """``weights``: (n_heads, q_length, k_length) of each sentence; what is padding holds nonsense."""
    has_sink = any(bool((a.sum(axis=-1) < 1 - 1e-6).any()) for a in weights)
    q = side(queries)
    k = q if keys is queries else side(keys)
    n_heads = len(weights[0])
    padded = torch.empty(len(queries), n_heads, max(map(len, q)), max(map(len, k))).uniform_(-50, 50)
    for number, a in enumerate(weights):
        padded[number][:, : a.shape[1], : a.shape[2]] = torch.tensor(a)
    call = AttentionWeights(padded, has_sink)
    return SiteCall(Site(kind, layer, n_heads, 1), call, tuple(range(n_heads)), q, k)


@st.composite
def corpora(draw):
    """Kind, and of each sentence its weights, its queries and its keys."""
    kind, n_heads = draw(st.sampled_from(["self", "masked", "cross"])), draw(st.integers(1, 3))
    sink = draw(st.sampled_from([0.0, 2.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sentences = []
    for _ in range(draw(st.integers(1, 5))):
        lengths = draw(st.integers(1, 6)), draw(st.integers(1, 6))
        q, k = ((random.integers(1, 4, n).tolist(), (random.random(n) < 0.2).tolist()) for n in lengths)
        k = k if kind == "cross" else q
        scores = random.normal(scale=3, size=(n_heads, len(q[0]), len(k[0])))
        scores[random.random(scores.shape) < 0.1] = -np.inf
        scores[..., 0] = np.maximum(scores[..., 0], -9)
        if kind == "masked":
            scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        a = np.exp(scores) / (np.exp(scores).sum(axis=-1, keepdims=True) + sink)
        sentences.append((a.astype(np.float32), q, k))
    return kind, sentences


def studied(kind, sentences, cuts):
    """Count the sentences in batches that begin at these places."""
    study = HeadStudy()
    edges = sorted({0, len(sentences), *(cut % len(sentences) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        weights, queries, keys = (list(part) for part in zip(*sentences[start:end], strict=True))
        study.add(batch_of(weights, queries, queries if kind != "cross" else keys, kind, 3), range(start, end))
    (averages,) = study.result(SOURCE).kinds
    return averages


@given(
    corpus=corpora(),
    cuts=st.lists(st.integers(0, 4)),
    shuffle=st.randoms(use_true_random=False),
)
def test_against_plain_loops(corpus, cuts, shuffle):
    kind, sentences = corpus
    shuffled = list(sentences)
    shuffle.shuffle(shuffled)
    averages = studied(kind, shuffled, cuts)
    assert (averages.kind, averages.layers, averages.sentences) == (kind, (3,), len(sentences))
    n_heads = len(sentences[0][0])
    for name in STATISTICS:
        average = averages.number(name)
        for head in range(n_heads):
            each = [one_by_one(a[head].astype(float), q[0], k[0], k[1], kind).get(name) for a, q, k in sentences]
            values = [entry for entry in each if entry]
            assert (average.sentences, average.queries) == (len(values), sum(n for _, n in values))
            if name == "sink" and any(abs(a[head][:, 0].mean() - 0.3) < 1e-6 for a, _, _ in sentences):
                continue  # rounding decides
            mean = np.mean([value for value, _ in values]) if values else np.nan
            spread = np.std([value for value, _ in values], ddof=1) if len(values) > 1 else np.nan
            np.testing.assert_allclose(average.mean[0, head], mean, rtol=CLOSE, atol=CLOSE)
            np.testing.assert_allclose(average.spread[0, head], spread, rtol=1e-4, atol=CLOSE)


@pytest.mark.parametrize("places", [range(1), range(4, 5), range(0, 5, 2), range(3, 0, -1)])
@pytest.mark.parametrize("kind", ["self", "masked"])
def test_queries_that_are_some_of_the_keys(kind, places):
    """As a class token that alone reads all tokens."""
    ids, special = [7, 3, 4, 3, 4], [True, False, False, False, False]
    a = np.random.default_rng(0).dirichlet(np.ones(5), (2, 5)).astype(np.float32)
    side_of_keys, side_of_queries = side([(ids, special)]), side([([ids[i] for i in places], [False] * len(places))])
    call = AttentionWeights(torch.tensor(a[None][:, :, list(places)]))
    study = HeadStudy()
    study.add(SiteCall(Site(kind, 0, 2, 1), call, (0, 1), side_of_queries, side_of_keys, places=places), [0])
    (averages,) = study.result(SOURCE).kinds
    for head in range(2):
        expected = one_by_one(a[head].astype(float), ids, ids, special, kind, places)
        for name in STATISTICS:
            mean, queries = expected.get(name, (np.nan, 0))
            assert averages.number(name).queries == queries
            np.testing.assert_allclose(averages.number(name).mean[0, head], mean, rtol=CLOSE, atol=CLOSE)


@given(corpus=corpora(), cuts=st.lists(st.integers(0, 4), max_size=4))
def test_batches_do_not_matter(corpus, cuts):
    whole, cut = studied(*corpus, []), studied(*corpus, cuts)
    for name in STATISTICS:
        for one, other in ((getattr(x.number(name), part) for x in (whole, cut)) for part in ("mean", "spread")):
            np.testing.assert_allclose(one, other, rtol=CLOSE, atol=CLOSE)


SENTENCES = [
    ([9, 1, 2, 1, 2, 3, 1, 9], [True, *[False] * 6, True]),
    ([9, 4, 5, 4, 9], [True, False, False, False, True]),
]


def to_key(ids, j_of):
    """A head that gives all its weight to one key, here in a sentence of these tokens."""
    a = np.zeros((len(ids), len(ids)), np.float32)
    for i in range(len(ids)):
        a[i, j_of(ids, i)] = 1
    return a


def latest_copy(ids, i):
    return max((j for j in range(i) if ids[j] == ids[i]), default=0)


HEADS = {
    "itself": lambda ids, i: i,
    "previous": lambda ids, i: max(i - 1, 0),
    "next": lambda ids, i: min(i + 1, len(ids) - 1),
    "first": lambda ids, i: 0,
    "separators": lambda ids, i: len(ids) - 1,
    "copies": latest_copy,
    "induction": lambda ids, i: min(latest_copy(ids, i) + 1, len(ids) - 1),
}


def test_heads_of_known_behaviour_have_exactly_1():
    weights = [np.stack([to_key(ids, head) for head in HEADS.values()]) for ids, _ in SENTENCES]
    study = HeadStudy()
    for _ in range(3):
        study.add(batch_of(weights, SENTENCES, SENTENCES), range(2))
    (averages,) = study.result(SOURCE).kinds
    for number, name in enumerate(HEADS):
        assert averages.number(name).mean[0, number] == 1.0
        assert averages.number(name).spread[0, number] == 0.0
        assert averages.entropy.mean[0, number] == 0.0
    assert averages.distance.mean[0, 0] == 0.0
    assert averages.itself.mean[0, 1] == np.mean([1 / 8, 1 / 5]), "the first query has no previous token"
    assert (averages.copies.sentences, averages.copies.queries) == (6, 12)
    assert (averages.previous.sentences, averages.previous.queries) == (6, 33)


def test_by_hand():
    """a b a, every query looks everywhere alike; then one query that halves its weight."""
    study = HeadStudy()
    plain = ([1, 2, 1], [False] * 3)
    study.add(batch_of([np.full((1, 3, 3), 1 / 3, np.float32)], *[[plain]] * 2), [0])
    study.add(batch_of([np.full((1, 2, 2), 1 / 2, np.float32)], *[[([1, 2], [False] * 2)]] * 2), [1])
    (averages,) = study.result(SOURCE, too_long=4).kinds
    for name, mean, spread in (
        ("entropy", (math.log(3) + math.log(2)) / 2, math.log(1.5) / math.sqrt(2)),
        ("distance", (8 / 9 + 1 / 2) / 2, (8 / 9 - 1 / 2) / math.sqrt(2)),
        ("previous", 5 / 12, 1 / 6 / math.sqrt(2)),
        ("copies", 1 / 3, np.nan),
        ("induction", 1 / 3, np.nan),
        ("separators", np.nan, np.nan),
    ):
        assert averages.number(name).mean[0, 0] == pytest.approx(mean, nan_ok=True), name
        assert averages.number(name).spread[0, 0] == pytest.approx(spread, nan_ok=True), name
    assert (averages.sentences, averages.queries, averages.copies.queries) == (2, 5, 1)
    assert study.result(SOURCE, too_long=4).too_long == 4


@pytest.mark.parametrize("kind", list(MEANING))
def test_what_has_no_meaning_is_nan(kind):
    a = np.full((1, 8, 8), 1 / 8, np.float32)
    study = HeadStudy()
    study.add(batch_of([a], SENTENCES[:1], SENTENCES[:1], kind), [0])
    (averages,) = study.result(SOURCE).kinds
    assert {name for name in STATISTICS if averages.number(name).is_known} == MEANING[kind]


def test_layers_and_kinds_in_order():
    a = np.full((2, 5, 5), 1 / 5, np.float32)
    study = HeadStudy()
    for kind, layer, heads in (("cross", 0, 2), ("masked", 4, 1), ("masked", 1, 2), ("self", 0, 2)):
        study.add(batch_of([a[:heads]], SENTENCES[1:], SENTENCES[1:], kind, layer), [0])
    self_, masked, cross = study.result(SOURCE).kinds
    assert (self_.kind, masked.kind, cross.kind) == ("self", "masked", "cross")
    assert masked.layers == (1, 4)
    assert np.isnan(masked.entropy.mean).tolist() == [[False, False], [False, True]]
    assert list(masked.heads()) == [(0, 0), (0, 1), (1, 0)]


def test_sides_that_layers_share_are_looked_at_once(monkeypatch):
    a = np.full((2, 5, 5), 1 / 5, np.float32)
    batch = batch_of([a], SENTENCES[1:], SENTENCES[1:])
    calls = []
    factors = head_statistics._factors
    monkeypatch.setattr(head_statistics, "_factors", lambda *x: calls.append(1) or factors(*x))
    study = HeadStudy()
    for layer in range(4):
        study.add(replace(batch, site=replace(batch.site, layer=layer)), [0])
    study.add(replace(batch, site=replace(batch.site, kind="masked")), [0])
    study.add(batch_of([a], SENTENCES[1:], SENTENCES[1:]), [0])
    assert len(calls) == 3


@pytest.mark.parametrize("way", ["weights", "mask of each", "mask of all"])
def test_tensors_of_a_layer_are_let_go(way, monkeypatch):
    """All layers of a batch share what was found of its tokens, and a mask what was found of it, but keep neither."""
    random, side_of_all, made, found = torch.Generator().manual_seed(0), side([([1, 2, 3, 4, 5], [False] * 5)]), [], []
    chance = head_statistics._Counted._chance
    monkeypatch.setattr(head_statistics._Counted, "_chance", lambda *x: found.append(1) or chance(*x))
    study, of_all = HeadStudy(), torch.ones(1, 1, 5, 5).tril().bool()
    for layer in range(4):
        x = torch.randn(3, 1, 2, 5, 5, generator=random)
        mask = of_all if way == "mask of all" else x[0].clone()
        call = AttentionWeights(mask.softmax(-1)) if way == "weights" else AttentionCall(*x, 1.0, mask=mask)
        study.add(SiteCall(Site("self", layer, 2, 5), call, (0, 1), side_of_all, side_of_all), [0])
        made.append(ref(call.given if way == "weights" else mask))
        del x, mask, call
    is_shared = way == "mask of all"
    assert (len(found), [one() is not None for one in made]) == (1 if is_shared else 4, [is_shared] * 4)


def test_in_blocks(monkeypatch):
    corpus = [(np.random.default_rng(0).dirichlet(np.ones(5), (4, 5)).astype(np.float32), *SENTENCES[1:] * 2)] * 2
    whole = studied("self", corpus, [])
    monkeypatch.setattr(head_statistics, "_BLOCK", 1)
    np.testing.assert_allclose(studied("self", corpus, []).entropy.mean, whole.entropy.mean, rtol=CLOSE)


def test_many_sentences_lose_no_digits():
    """A spread that is tiny beside the mean."""
    study = HeadStudy()
    for number in range(400):
        a = np.array([[[1 - (number % 2) / 1024]]], np.float32)
        study.add(batch_of([a], *[[([1], [False])]] * 2), [number])
    (averages,) = study.result(SOURCE).kinds
    assert averages.itself.mean[0, 0] == pytest.approx(1 - 1 / 2048, rel=1e-12)
    assert averages.itself.spread[0, 0] == pytest.approx(math.sqrt(400 / 399) / 2048, rel=1e-9)


@given(corpus=corpora(), at=st.integers(0, 5))
def test_parts_are_joined_and_saved_without_a_bit_of_loss(corpus, at):
    kind, sentences = corpus

    def part(start, end):
        study = HeadStudy()
        for number in range(start, end):
            weights, queries, keys = ([part] for part in sentences[number])
            study.add(batch_of(weights, queries, queries if kind != "cross" else keys, kind), [number])
        return study

    whole, joined = part(0, len(sentences)), HeadStudy()
    for one in (part(0, at % len(sentences)), part(at % len(sentences), len(sentences))):
        restored = HeadStudy()
        restored.join(one.arrays())
        for name, array in one.arrays().items():
            assert restored.arrays()[name].tobytes() == array.tobytes()
        joined.join(one.arrays())
    for name, array in whole.arrays().items():
        np.testing.assert_allclose(joined.arrays()[name], array, rtol=1e-12, atol=1e-13)


def test_of_other_heads_and_of_other_arrays():
    studies = []
    for n_heads in (1, 2):
        a = np.full((n_heads, 5, 5), 1 / 5, np.float32)
        study = HeadStudy()
        study.add(batch_of([a], SENTENCES[1:], SENTENCES[1:]), [0])
        studies.append(study)
    with pytest.raises(ValueError, match=r"mean: expected numbers of shape \(1, 12\), got \(2, 12\)"):
        studies[0].join(studies[1].arrays())
    arrays = studies[0].arrays()
    for changes, message in (
        ({"x": arrays["self.0.mean"]}, "expected names such as self.0.mean, got 'x'"),
        (
            {"self.0.queries": np.ones(3)},
            r"self.0.queries: expected float64 of shape \(12,\), got float64 of \(3,\)",
        ),
        ({"self.0.mean": np.ones((2, 3))}, r"self.0.mean: expected float64 of shape \(2, 12\)"),
        ({"self.0.drawn": -arrays["self.0.drawn"]}, "self.0.drawn: expected numbers from 0 to"),
        ({"self.0.bins": np.ones((1, 12, 3))}, "self.0.bins: expected float64 of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            HeadStudy().join(arrays | changes)


def test_in_float64_if_the_model_is():
    a = np.random.default_rng(0).dirichlet(np.ones(5), (4, 5))
    sides, study = side(SENTENCES[1:]), HeadStudy()
    call = AttentionWeights(torch.tensor(a)[None])
    study.add(SiteCall(Site("self", 0, 4, 1), call, (0, 1, 2, 3), sides, sides), [0])
    entropy = study.arrays()["self.0.mean"][:, STATISTICS.index("entropy")]
    np.testing.assert_allclose(entropy, -(a * np.log(a)).sum(axis=-1).mean(axis=-1), rtol=1e-13)
