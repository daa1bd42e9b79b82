"""The difference of two models over many sentences, beside scipy in float64."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rounding import rounding
from scipy.spatial.distance import jensenshannon

from mhaviz.analyses import difference
from mhaviz.analyses.corpus_difference import DifferenceStudy
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Site, SiteCall
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.result import Source

CLOSE = rounding()

jensen_shannon = partial(difference.jensen_shannon, log1p=torch.log1p)
SOURCE = Source("made by a test", {side: {"footnote": side} for side in ("first", "second")})


def softmax(scores):
    A = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


def scipy_bits(p, q):
    """scipy's is the square root of the divergence."""
    return jensenshannon(p, q, axis=-1, base=2) ** 2


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.float64, 2e-14)])
@pytest.mark.parametrize("apart", [30, 1, 1e-2])
def test_beside_scipy(dtype, error, apart):
    random = np.random.default_rng(0)
    scores = random.normal(scale=3, size=(200, 7))
    p, q = (softmax(one) for one in (scores, scores + apart * random.normal(size=scores.shape)))
    p, q = (torch.tensor(one, dtype=dtype) for one in (p, q))
    expected = scipy_bits(p.double().numpy(), q.double().numpy())
    np.testing.assert_allclose(jensen_shannon(p, q).double(), expected, rtol=50 * error, atol=1e-14)


def test_of_rows_that_are_nearly_the_same_the_digits_are_kept():
    """Against the second-order term, Σ (p − q)² / (8 m ln 2): Lin's form in float32 has no digit left."""
    p = torch.full((1, 4), 0.25)
    q = p + torch.tensor([1e-5, -1e-5, 2e-5, -2e-5])
    m, d = ((p + q) / 2).double(), (p - q).double()
    assert jensen_shannon(p, q).item() == pytest.approx(((d**2 / m).sum() / 8 / math.log(2)).item(), rel=1e-2)


def test_at_the_ends():
    one, other = torch.eye(3)[:1], torch.eye(3)[1:2]
    nothing = torch.zeros(1, 3)
    assert jensen_shannon(one, one).item() == jensen_shannon(nothing, nothing).item() == 0
    assert jensen_shannon(one, other).item() == pytest.approx(1, abs=CLOSE)


def batch_of(weights, sides):
    """A call of these sentences; what is padding holds nonsense."""
    n_heads, most = len(weights[0]), max(map(len, sides))
    padded = torch.empty(len(weights), n_heads, most, most).uniform_(-50, 50)
    for number, A in enumerate(weights):
        padded[number][:, : A.shape[1], : A.shape[2]] = torch.tensor(A)
    return SiteCall(Site("self", 0, n_heads, 1), AttentionWeights(padded), tuple(range(n_heads)), sides, sides)


@st.composite
def corpora(draw):
    """Of each sentence its ids, and the weights of both models, (n_heads, length, length)."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_heads = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    return [
        (list(range(n)), *softmax(random.normal(scale=2, size=(2, n_heads, n, n))).astype(np.float32)) for n in lengths
    ]


def studied(sentences, cuts=(), order=None):
    """Add up the sentences in this order, in batches that begin at these places."""
    numbered = [(number, *sentences[number]) for number in order or range(len(sentences))]
    study = DifferenceStudy()
    for start, end in itertools.pairwise(sorted({0, len(numbered), *(cut % len(numbered) for cut in cuts)})):
        numbers, ids, first, second = (list(part) for part in zip(*numbered[start:end], strict=True))
        sides = tuple(Tokens(("",) * len(one), (), tuple(one)) for one in ids)
        study.add_pair(batch_of(first, sides), batch_of(second, sides), numbers)
    return study


@given(corpora(), st.lists(st.integers(0, 5)), st.randoms(use_true_random=False))
def test_beside_plain_loops(sentences, cuts, shuffle):
    order = list(range(len(sentences)))
    shuffle.shuffle(order)
    (kind,) = studied(sentences, cuts, order).result(SOURCE).kinds
    number = kind.divergence
    rows = [scipy_bits(first.astype(float), second.astype(float)) for _, first, second in sentences]  # heads, queries
    each = np.array([bits.mean(axis=1) for bits in rows])
    assert (kind.layers, number.sentences, number.queries) == (
        (0,),
        len(sentences),
        sum(len(ids) for ids, *_ in sentences),
    )
    np.testing.assert_allclose(number.mean[0], each.mean(axis=0), rtol=1e-4, atol=CLOSE)
    spread = each.std(axis=0, ddof=1) if len(each) > 1 else np.full(each.shape[1], np.nan)
    np.testing.assert_allclose(number.spread[0], spread, rtol=1e-4, atol=CLOSE)
    for head in range(each.shape[1]):
        largest = max(bits[head].max() for bits in rows)
        where = rows[number.sentence[0, head]][head, number.query[0, head]]
        assert number.largest[0, head] == pytest.approx(largest, rel=1e-4, abs=CLOSE)
        assert where == pytest.approx(largest, rel=1e-4, abs=CLOSE)


@given(corpora(), st.integers(1, 6))
def test_parts_join_in_any_number(sentences, parts):
    one_by_one = range(len(sentences))
    whole, joined = studied(sentences, one_by_one), DifferenceStudy()
    for part in range(min(parts, len(sentences))):
        chosen = list(range(part, len(sentences), parts))
        arrays = studied(sentences, one_by_one, chosen).arrays()
        joined.join(arrays)
    (one,), (other,) = whole.result(SOURCE).kinds, joined.result(SOURCE).kinds
    for name in ("mean", "spread", "largest"):
        np.testing.assert_allclose(getattr(one.divergence, name), getattr(other.divergence, name), rtol=1e-9, atol=1e-9)
    for name in ("sentence", "query"):
        np.testing.assert_array_equal(getattr(one.divergence, name), getattr(other.divergence, name))


def test_of_equal_rows_the_first_sentence_is_told():
    p, q = np.eye(2, dtype=np.float32)[None], np.eye(2, dtype=np.float32)[None, ::-1].copy()
    for order in ((0, 1, 2), (2, 0, 1)):
        for cuts in ((), (1, 2)):
            (kind,) = studied([([0, 1], p, q)] * 3, cuts, order).result(SOURCE).kinds
            assert (kind.divergence.sentence.item(), kind.divergence.query.item()) == (0, 0)
    (kind,) = studied([([0, 1], p, p)]).result(SOURCE).kinds
    assert (kind.divergence.mean.item(), kind.divergence.sentence.item(), kind.divergence.query.item()) == (0, -1, -1)


def test_what_goes_to_a_sink_is_a_key_of_its_own():
    tokens, site = (Tokens(("", "")),), Site("masked", 0, 1, 1)
    p, q = ([[0.5, 0], [0.25, 0.25]], [[0.25, 0], [0.25, 0.25]])
    calls = [SiteCall(site, AttentionWeights(torch.tensor([[A]]), True), (0,), tokens, tokens) for A in (p, q)]
    study = DifferenceStudy()
    study.add_pair(*calls, [0])
    (kind,) = study.result(SOURCE).kinds
    expected = scipy_bits(np.array([0.5, 0, 0.5]), np.array([0.25, 0, 0.75]))
    assert kind.divergence.largest.item() == pytest.approx(expected, rel=CLOSE)
    assert kind.divergence.mean.item() == pytest.approx(expected / 2, rel=CLOSE)


def test_a_block_of_queries_at_a_time(monkeypatch):
    """Padded, causal, grouped queries: the same in one block and in blocks of a row."""
    torch.manual_seed(0)
    sides = tuple(Tokens(("",) * n) for n in (5, 3))

    def call():
        query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
        return SiteCall(Site("masked", 1, 4, 2), AttentionCall(query, key, key, 0.5, True), (0, 1, 2, 3), sides, sides)

    first, second = call(), call()
    found = []
    for block in (2**22, 1):
        monkeypatch.setattr("mhaviz.analyses.corpus_difference._BLOCK", block)
        study = DifferenceStudy()
        study.add_pair(first, second, [0, 1])
        found.append(study.arrays())
    for name, array in found[0].items():
        np.testing.assert_allclose(array, found[1][name], rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("self.0.mean", None),
        ("self.0.largest", np.zeros(3)),
        ("self.0.largest", np.array([-1.0, 0])),
        ("self.0.largest", np.array([np.nan, 0])),
        ("self.0.query", np.zeros(2, np.int64)),
        ("self.0.queries", np.array([-1.0])),
        ("self.0.count", np.ones(2)),
        ("other.0.mean", np.zeros(2)),
        ("self", np.zeros(2)),
    ],
)
def test_arrays_of_anybody(name, array):
    ones = [[[1.0]], [[1.0]]]
    arrays = dict(studied([([0], np.array(ones, np.float32), np.array(ones, np.float32))]).arrays())
    if array is None:
        del arrays[name]
    else:
        arrays[name] = array
    with pytest.raises(ValueError, match=name.split(".")[0]):
        DifferenceStudy().join(arrays)
