"""B − A against numbers worked out by hand, and against the Jensen–Shannon divergence written out."""

import math

import numpy as np
import pytest
from made import Edges, made_map, remade
from rounding import rounding

from mhaviz.analyses.difference import compare
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.difference import Flaw
from mhaviz.results.result import Source

CLOSE = rounding()


def attention(*maps, footnote="s"):
    return Attention(Source(footnote, {"seed": 1}), maps)


def one(weights, **more):
    weights = np.array(weights, np.float32)
    queries, keys = (tuple("abcdefgh"[:n]) for n in weights.shape[1:])
    return made_map(queries, keys, weights, **more)


def jsd(p, q):
    """In bits, by the definition: ½ Σ p log₂ (p / m) + ½ Σ q log₂ (q / m)."""
    total = 0.0
    for x, other in ((p, q), (q, p)):
        for a, b in zip(x, other, strict=True):
            total += a * math.log2(2 * a / (a + b)) / 2 if a else 0.0
    return total


def test_against_the_definition(random_map):
    before, after = random_map(3, ("a", "b", "c", "d"), seed=0), random_map(3, ("a", "b", "c", "d"), seed=1)
    (m,) = compare(attention(before), attention(after)).maps
    np.testing.assert_array_equal(m.change.weights, after.weights - before.weights)
    pairs = [list(zip(*heads, strict=True)) for heads in zip(before.weights, after.weights, strict=True)]
    expected = [np.mean([jsd(p.tolist(), q.tolist()) for p, q in rows]) for rows in pairs]
    np.testing.assert_allclose(m.divergence, expected, atol=CLOSE)


@pytest.mark.parametrize("n_heads", [2, 3, 4])
def test_chance_is_the_divergence_from_another_head(random_map, n_heads):
    before, after = random_map(n_heads, ("a", "b", "c"), seed=0), random_map(n_heads, ("a", "b", "c"), seed=1)
    (m,) = compare(attention(before), attention(after)).maps
    heads = [(head, (head + n_heads // 2) % n_heads) for head in range(n_heads)]
    rows = [zip(before.weights[one].tolist(), after.weights[other].tolist(), strict=True) for one, other in heads]
    assert m.chance == pytest.approx(np.mean([[jsd(p, q) for p, q in of_pair] for of_pair in rows]), abs=CLOSE)
    assert m.select((1,)).chance == m.chance, "whatever is shown"


def test_chance_of_one_head_is_not_known(random_map):
    before, after = random_map(1, ("a", "b"), seed=0), random_map(1, ("a", "b"), seed=1)
    assert compare(attention(before), attention(after)).maps[0].chance is None


def test_by_hand():
    before = one([[[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]])
    after = one([[[0, 1], [0.5, 0.5]], [[1, 0], [0.5, 0.5]]])
    difference = compare(attention(before), attention(after))
    (m,) = difference.maps
    # disjoint rows: 1, equal ones: 0; m = (1/4, 3/4) of (0, 1) and (½, ½): ¾ log₂ 4/3
    np.testing.assert_allclose(m.divergence, [1 / 2, 0.75 * math.log2(4 / 3) / 2], atol=CLOSE)
    assert [(c.query, c.key, c.before, c.after) for c in (head.largest for head in m.heads)] == [
        (0, 0, 1, 0),
        (1, 0, 0, 0.5),
    ]
    assert [head.head for head in difference.ranking] == [0, 1]


def test_a_sink_is_one_more_key():
    before, after = [[0.5, 0.25], [0, 0]], [[0.25, 0.25], [0.5, 0.5]]
    (m,) = compare(attention(one([before], sink=True)), attention(one([after], sink=True))).maps
    expected = (jsd([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]) + jsd([0, 0, 1], [0.5, 0.5, 0])) / 2
    np.testing.assert_allclose(m.divergence, [expected], atol=CLOSE)
    (m,) = compare(attention(one([before])), attention(one([after]))).maps
    assert m.heads[0].flaw == Flaw(0, 0.5, is_second=True), "without a sink such rows are no distributions"
    assert np.isnan(m.divergence).all()


def test_rows_with_a_sink_sum_to_1_at_most():
    whole, more = ([[[0.5, 0.25], [0, s]]] for s in (1, 1.25))
    (m,) = compare(attention(one(whole, sink=True)), attention(one(more, sink=True))).maps
    assert m.heads[0].flaw == Flaw(1, 1.25, is_second=True)


def test_a_row_that_goes_to_the_sink_is_no_row_of_zeros():
    before, after = [[0.5, 0.25], [0, 0]], [[0.25, 0.25], [0, 0]]
    (m,) = compare(attention(one([before], sink=True)), attention(one([after], sink=True))).maps
    assert [head.zero_rows for head in m.heads] == [0]
    np.testing.assert_allclose(m.divergence, [jsd([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]) / 2], atol=CLOSE)


@pytest.mark.parametrize(
    ("reaches", "reach"), [((None, None), None), ((0, None), None), ((None, 0), None), ((0, 1), 1), ((1, 0), 1)]
)
def test_what_one_of_them_sees_can_have_changed(reaches, reach):
    before, after = (one([np.eye(3)], reach=r) for r in reaches)
    (m,) = compare(attention(before), attention(after)).maps
    assert m.change.reach == reach


def test_words_of_other_pieces_are_compared():
    """As two tokenizers cut them; how many pieces they have is then not said."""
    whole, cut = Tokens(("a", " cats")), Tokens(("a", " cat", "s"))
    before = AttentionMap(np.array([[[0.5, 0.5], [0.25, 0.75]]], np.float32), Axis(whole), Axis(whole)).by("word")
    after = AttentionMap(np.full((1, 3, 3), 1 / 3, np.float32), Axis(cut), Axis(cut)).by("word")
    (m,) = compare(attention(before), attention(after)).maps
    np.testing.assert_allclose(m.change.weights, [[[-1 / 6, 1 / 6], [1 / 12, -1 / 12]]], atol=CLOSE)
    assert m.change.keys == ("a", " cats")
    assert not m.change.columns.tokens.counts
    (same,) = compare(attention(after), attention(after)).maps
    assert same.change.columns.tokens.counts == (1, 2)


def test_a_rollout_is_compared_with_a_rollout():
    weights, rollout = one([np.eye(2)]), one([np.full((2, 2), 0.5)], rollout=True)
    difference = compare(attention(weights, rollout), attention(weights, rollout))
    assert [m.change.name for m in difference.maps] == ["layer 0, self", "layer 0, self, rollout"]
    with pytest.raises(MhavizError, match="no map is in both"):
        compare(attention(weights), attention(rollout))


def test_nothing_has_changed(random_map):
    (m,) = compare(attention(random_map()), attention(random_map())).maps
    assert (m.divergence == 0).all()
    assert not m.change.weights.any()


def test_the_first_and_the_second_file_mirror_each_other(random_map):
    a, b = attention(random_map(seed=0)), attention(random_map(seed=1))
    (there,), (back,) = compare(a, b).maps, compare(b, a).maps
    np.testing.assert_array_equal(there.change.weights, -back.change.weights)
    np.testing.assert_allclose(there.divergence, back.divergence, atol=1e-12)


def test_rows_of_zeros():
    """A query that sees no key counts for nothing before and after, and else is another row altogether.

    Where no row counts, nothing is known of how they differ.
    """
    before = one([[[0, 0], [0, 0], [1, 0]], [[0, 0]] * 3])
    after = one([[[0, 0], [1, 0], [1, 0]], [[0, 0]] * 3])
    (m,) = compare(attention(before), attention(after)).maps
    np.testing.assert_allclose(m.divergence, [1 / 2, np.nan])
    assert [head.zero_rows for head in m.heads] == [1, 3]


def test_many_rows_are_taken_in_blocks(random_map, monkeypatch):
    from mhaviz.analyses import difference

    tokens = tuple(f"w{i}" for i in range(23))
    a, b = attention(random_map(2, tokens, seed=0)), attention(random_map(2, tokens, seed=1))
    (whole,) = compare(a, b).maps
    monkeypatch.setattr(difference, "_BLOCK", 50)
    (parts,) = compare(a, b).maps
    np.testing.assert_allclose(whole.divergence, parts.divergence, atol=1e-12)


@pytest.mark.parametrize("kind", ["sink", "window"])
def test_what_goes_to_no_key_is_that_of_its_own_row_in_every_block(monkeypatch, kind):
    from mhaviz.analyses import difference

    rng = np.random.default_rng(0)
    sides = [rng.dirichlet(np.ones(4), size=7) for _ in range(2)]  # the last of the four is what goes to no key
    more = {"sink": True} if kind == "sink" else {"cells": Edges(np.arange(3, 11), np.arange(5, 9)[:4])}
    before, after = (
        made_map(tuple("abcdefg"), tuple("xyz"), side[None, :, :3].astype(np.float32), "cross", **more)
        for side in sides
    )
    expected = np.mean([jsd(p, q) for p, q in zip(*sides, strict=True)])
    for block in (2**20, 6):  # 6 numbers: two rows of three at a time
        monkeypatch.setattr(difference, "_BLOCK", block)
        (m,) = compare(attention(before), attention(after)).maps
        np.testing.assert_allclose(m.divergence, [expected], atol=CLOSE)


def test_a_sink_in_one_of_them():
    whole, less = [[[0.5, 0.5], [0, 1]]], [[[0.5, 0.25], [0, 1]]]
    for before, after in ((one(less, sink=True), one(whole)), (one(whole), one(less, sink=True))):
        (m,) = compare(attention(before), attention(after)).maps
        np.testing.assert_allclose(m.divergence, [jsd([0.5, 0.25, 0.25], [0.5, 0.5, 0]) / 2], atol=CLOSE)
        assert m.change.sink


def cells_of(weights, reduction="mass", **more):
    """Two rows of 1 and 3 queries, two columns of 2 keys each."""
    cells = Edges(np.array([4, 5, 8]), np.array([0, 2, 4]), reduction)
    return made_map(tuple("abcd"), tuple("wxyz"), np.array(weights, np.float32), cells=cells, **more)


def test_pooled_rows_count_as_many_times_as_they_have_queries():
    before, after = cells_of([[[1, 0], [1, 0]]]), cells_of([[[1, 0], [0, 1]]])
    (m,) = compare(attention(before), attention(after)).maps
    np.testing.assert_allclose(m.divergence, [3 / 4])
    assert (m.heads[0].largest.query, m.heads[0].largest.key) == (5, 0)


def test_what_a_window_leaves_out_is_one_more_key():
    before, after = cells_of([[[0.5, 0], [0.25, 0.25]]]), cells_of([[[0, 0.5], [0.25, 0.25]]])
    (m,) = compare(attention(before), attention(after)).maps
    np.testing.assert_allclose(m.divergence, [jsd((0.5, 0, 0.5), (0, 0.5, 0.5)) / 4], atol=CLOSE)
    assert m.divergence[0] < 1 / 4


def test_pooling_hides_some_of_the_divergence():
    rng = np.random.default_rng(0)
    full = [one(rng.dirichlet(np.ones(8), size=(1, 8))) for _ in range(2)]
    edges = np.arange(0, 9, 2)
    pooled = [
        remade(m, weights=m.weights.reshape(1, 4, 2, 4, 2).sum(4).mean(2), cells=Edges(edges, edges)) for m in full
    ]
    divergences = [compare(attention(a), attention(b)).maps[0].divergence[0] for a, b in (full, pooled)]
    assert 0 < divergences[1] < divergences[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (cells_of([[[0.1, 0.2], [0.3, 0.4]]], "max"), cells_of([[[0.2, 0.2], [0.3, 0.4]]], "max")),
        (one([[[0.5, 0.4], [0, 1]]]), one([[[0.5, 0.5], [0, 1]]])),
        (one([[[0.5, 0.5], [0, 1]]]), one([[[1, 0.5], [0, 1]]])),
        (cells_of([[[0.9, 0.9], [1, 0]]]), cells_of([[[1, 0], [1, 0]]])),
    ],
)
def test_what_is_no_distribution_has_no_divergence(before, after):
    difference = compare(attention(before), attention(after))
    assert np.isnan(difference.maps[0].divergence).all()
    assert difference.ranking[0].divergence is None
    assert difference.maps[0].change.weights.any()


def test_the_ranking_is_over_all_maps():
    equal, swapped = [[[1, 0], [0, 1]]], [[[0, 1], [1, 0]]]
    before = attention(one(equal, layer=0), one(equal, layer=1), cells_of([[[0.1, 0], [0, 0]]] * 2, "max", layer=2))
    after = attention(
        one(equal, layer=0), one(swapped, layer=1), cells_of([[[0.3, 0], [0, 0]], [[0.1, 0.9], [0, 0]]], "max", layer=2)
    )
    ranking = compare(before, after).ranking
    assert [(head.map.layer, head.head) for head in ranking] == [(1, 0), (0, 0), (2, 1), (2, 0)]


def test_maps_are_matched_by_sentence_layer_kind_and_reduction(random_map):
    first = [random_map(layer=0, seed=1), random_map(layer=1, seed=2), random_map(layer=0, sentence=2)]
    second = [random_map(layer=1, seed=4), random_map(layer=0, seed=3), random_map(layer=0, kind="cross")]
    difference = compare(attention(*first, footnote="old"), attention(*second, footnote="new"))
    assert [m.change.layer for m in difference.maps] == [1, 0]
    np.testing.assert_array_equal(difference.maps[0].change.weights, second[0].weights - first[1].weights)
    assert difference.only_before == ("sentence 2, layer 0, self",)
    assert difference.only_after == ("layer 0, cross",)
    assert difference.source.footnote == "A: old; B: new"
    assert difference.source.details["first"] == {"name": "old", "footnote": "old", "seed": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 1}, "no map is in both: the first has layer 0, self, the second layer 1, self; compare"),
        ({"queries": ("a", "B", "C")}, "layer 0, self: expected the same tokens, but query 1 is 'b' in the first"),
        ({"keys": ("a", "\x1b", "\x1b")}, r"but key 1 is 'b' in the first and '\x1b' in the second"),
        ({"heads": (0, 2)}, "expected the same heads, got 0, 1 and 0, 2; choose some with `head`"),
    ],
)
def test_what_differs_first_is_said(random_map, change, message):
    with pytest.raises(MhavizError) as caught:
        compare(attention(random_map()), attention(remade(random_map(), **change)))
    assert message in str(caught.value)


def test_texts_that_differ_in_a_word(random_map):
    before, after = random_map(), remade(random_map(seed=1), queries=("a", " B", "c"), keys=("a", " B", "c"))
    (only,) = compare(attention(before), attention(after)).maps
    assert only.change.queries == only.change.keys == ("a", "b / B", "c")
    np.testing.assert_array_equal(only.change.weights, after.weights - before.weights)


def test_lengths_and_cells_that_differ(random_map):
    with pytest.raises(MhavizError, match="expected the same tokens, got 3 and 2 queries"):
        compare(attention(random_map()), attention(random_map(queries=("a", "b"))))
    moved = remade(cells_of([[[1, 0], [1, 0]]]), cells=Edges(np.array([4, 6, 8]), np.array([0, 2, 4])))
    with pytest.raises(MhavizError, match="got 2 and 2 along the queries, with other edges; pool both"):
        compare(attention(cells_of([[[1, 0], [1, 0]]])), attention(moved))
    narrow = made_map(
        tuple("abcd"), tuple("wxyz"), np.ones((1, 2, 1), np.float32), cells=Edges(np.array([4, 5, 8]), np.array([0, 4]))
    )
    with pytest.raises(MhavizError, match="got 2 and 1 along the keys"):
        compare(attention(cells_of([[[1, 0], [1, 0]]])), attention(narrow))


def test_the_worst_row():
    before = one([[[1, 0], [1, 0], [0.5, 0.5]], [[1, 0]] * 3])
    after = one([[[1, 0], [0, 1], [0, 1]], [[1, 0]] * 3])
    difference = compare(attention(before), attention(after))
    (m,) = difference.maps
    assert (m.heads[0].worst.query, m.heads[0].worst.divergence) == (1, pytest.approx(1))
    assert m.divergence[0] == pytest.approx((1 + jsd((0.5, 0.5), (0, 1))) / 3)
    assert (m.heads[1].worst, m.heads[1].largest) == (None, None), "nothing has changed, in no place"
    (pooled,) = compare(attention(cells_of([[[1, 0], [1, 0]]])), attention(cells_of([[[1, 0], [0, 1]]]))).maps
    assert (pooled.heads[0].worst.query, pooled.heads[0].worst.divergence) == (5, pytest.approx(1))


def test_a_bad_row_is_that_of_its_head_alone():
    before = one([[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]]])
    after = one([[[0, 1], [0, 1]], [[1, 0], [0.5, 0.25]], [[1, 0], [0, 1]]])
    for pair, is_second in (((before, after), True), ((after, before), False)):
        difference = compare(*map(attention, pair))
        (m,) = difference.maps
        np.testing.assert_allclose(m.divergence, [1 / 2, np.nan, 0])
        assert (m.heads[0].flaw, m.heads[2].flaw, m.heads[1].worst) == (None, None, None)
        assert (m.heads[1].flaw.query, m.heads[1].flaw.sum, m.heads[1].flaw.is_second) == (1, 0.75, is_second)
        assert [head.head for head in difference.ranking] == [0, 2, 1]


def test_heads_can_be_chosen_afterwards(random_map):
    whole = compare(attention(random_map(4, seed=0)), attention(random_map(4, seed=1)))
    chosen = whole.select((3, 1))
    (m,), (of_all,) = chosen.maps, whole.maps
    assert m.change.heads == (3, 1)
    np.testing.assert_array_equal(m.change.weights, of_all.change.weights[[3, 1]])
    np.testing.assert_array_equal(m.divergence, of_all.divergence[[3, 1]])
    assert [(one.worst, one.largest) for one in m.heads] == [(one.worst, one.largest) for one in of_all.heads[3::-2]]
    with pytest.raises(MhavizError, match="there is no head 4; both have heads 0 to 3"):
        whole.select((4,))


def test_a_limit_is_for_the_same_tokens(random_map):
    before, after = random_map(), remade(random_map(seed=1), queries=("a", " B", "c"), keys=("a", " B", "c"))
    with pytest.raises(MhavizError, match="expected the same tokens, but query 1 is 'b' in the first"):
        compare(attention(before), attention(after), fail_above=1.0)
    assert compare(attention(before), attention(before), fail_above=1.0).fail_above == 1.0
