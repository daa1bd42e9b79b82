"""Pooled maps against the plain computation in float64: the whole matrix, its softmax, and then the cells."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from forked import run_forked
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import rounding

import mhaviz
from mhaviz import devices
from mhaviz.attention import short_map
from mhaviz.attention import tiles as module
from mhaviz.attention.blocks import strongest
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.map import attention_map
from mhaviz.attention.pooled_map import Pooling
from mhaviz.attention.tiles import tile_shape
from mhaviz.errors import ArgumentError

CLOSE = rounding(size=40, terms=16)


@pytest.fixture
def in_blocks(monkeypatch):
    """Whatever the length."""
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", 0)


@pytest.fixture(params=["at once", "in blocks"])
def both_ways(request, monkeypatch):
    if request.param == "in blocks":
        monkeypatch.setattr(short_map, "MOST_WEIGHTS", 0)


def draw(batch_size=1, n_heads=2, n_kv_heads=None, q_length=7, k_length=None, d_key=4, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    k_length = q_length if k_length is None else k_length
    query = torch.randn(batch_size, n_heads, q_length, d_key, generator=generator, dtype=torch.float64)
    key = torch.randn(batch_size, n_kv_heads or n_heads, k_length, d_key, generator=generator, dtype=torch.float64)
    return (2 * query).to(dtype), key.to(dtype)


def plain(query, key, causal=False, key_mask=None, scale=None):
    """All weights in float64, by numpy, (batch_size, n_heads, q_length, k_length)."""
    q, k = query.double().numpy(), key.double().numpy()
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        later = np.arange(k.shape[2])[None] > np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores[:, :, later] = -np.inf
    if key_mask is not None:
        scores[np.broadcast_to(key_mask.numpy()[:, None, None] == 0, scores.shape)] = -np.inf
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
    return np.nan_to_num(weights)


def edges(length, cells):
    return [i * length // cells for i in range(cells + 1)]


def pooled(weights, rows, columns, reduce):
    """Of cells none of which is empty, as reduceat asks for."""
    q_edges, k_edges = edges(weights.shape[2], rows), edges(weights.shape[3], columns)
    join = np.add if reduce == "mass" else np.maximum
    cells = join.reduceat(join.reduceat(weights, k_edges[:-1], axis=3), q_edges[:-1], axis=2)
    return cells / np.diff(q_edges)[:, None] if reduce == "mass" else cells


HEADS = [(1, 1, 1), (1, 3, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1)]
"""Batch size, groups and heads of keys: each head costs as much as another, and a few hold what many would."""


@st.composite
def problems(draw_from):
    batch_size, groups, n_kv_heads = draw_from(st.sampled_from(HEADS))
    q_length, k_length = draw_from(st.integers(1, 40)), draw_from(st.integers(1, 40))
    query, key = draw(
        batch_size,
        groups * n_kv_heads,
        n_kv_heads,
        q_length,
        k_length,
        3,
        draw_from(st.integers(0, 99)),
    )
    mask = torch.tensor(
        draw_from(
            st.lists(
                st.lists(st.booleans(), min_size=k_length, max_size=k_length), min_size=len(key), max_size=len(key)
            )
        )
    )
    options = {"causal": draw_from(st.booleans()), "key_mask": mask if draw_from(st.booleans()) else None}
    return query, key, options, draw_from(st.integers(1, 45)), draw_from(st.integers(1, 45))


TILES = st.tuples(st.integers(1, 45), st.integers(1, 45)).filter(lambda tile: tile[0] * tile[1] >= 20)
"""Queries and keys of a tile: of one as well, but not of one of both, which takes most of the time."""


@given(
    problems(),
    TILES,
    st.sampled_from([0, 100]),
    st.sampled_from(["mass", "max", "both"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 10**6]),
    st.booleans(),
)
@settings(max_examples=100)
def test_every_shape_mask_group_and_edge(
    monkeypatch, problem, tile, whole_rows, reduce, entropy, received, local, at_once, are_norms
):
    """Tiles of all sizes, so that rows and columns of cells are split and joined; and all weights at once."""
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", at_once)
    monkeypatch.setattr(module, "_TILE", tile)
    monkeypatch.setattr(module, "_QUERIES", (1, tile[0]))
    monkeypatch.setattr(module, "_WHOLE_ROWS", whole_rows)
    query, key, options, rows, columns = problem
    flags = {"entropy": entropy, "received": received, "local": rows % 4 if local else None}
    norms = draw(len(query), query.shape[1], 1, key.shape[2], d_key=1)[0][..., 0].abs() if are_norms else None
    found = attention_map(query, key, rows=rows, columns=columns, reduce=reduce, value_norms=norms, **flags, **options)
    shares = weights = plain(query, key, **options)
    if norms is not None:
        weights = shares * norms.numpy()[:, :, None]
    rows, columns = min(rows, query.shape[2]), min(columns, key.shape[2])
    assert found.query_edges.tolist() == edges(query.shape[2], rows)
    assert found.key_edges.tolist() == edges(key.shape[2], columns)
    first = "max" if reduce == "max" else "mass"
    np.testing.assert_allclose(found.weights.numpy(), pooled(weights, rows, columns, first), atol=CLOSE)
    if reduce == "both":
        np.testing.assert_allclose(found.largest.numpy(), pooled(weights, rows, columns, "max"), atol=CLOSE)
    if received:
        np.testing.assert_allclose(found.received.numpy(), weights.sum(axis=2), atol=CLOSE)
    if entropy:
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = -np.nansum(shares * np.log(shares), axis=-1)
        np.testing.assert_allclose(found.entropy.numpy(), expected, atol=CLOSE)
    if local:
        later = weights.shape[3] - weights.shape[2] if options["causal"] else 0
        distance = np.abs(np.arange(weights.shape[2])[:, None] + later - np.arange(weights.shape[3]))
        expected = (weights * (distance <= flags["local"])).sum(axis=-1)
        np.testing.assert_allclose(found.local.numpy(), expected, atol=CLOSE)


@given(problems(), st.data())
def test_windows_are_the_exact_weights(monkeypatch, problem, data):
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", data.draw(st.sampled_from([0, 10**6])))
    monkeypatch.setattr(module, "_TILE", (data.draw(st.integers(1, 45)), data.draw(st.integers(1, 45))))
    monkeypatch.setattr(module, "_QUERIES", (1, data.draw(st.integers(1, 45))))
    monkeypatch.setattr(module, "_WHOLE_ROWS", data.draw(st.sampled_from([0, 100])))
    query, key, options, _, _ = problem
    q0, k0 = (data.draw(st.integers(0, x.shape[2] - 1)) for x in (query, key))
    q1, k1 = (data.draw(st.integers(low + 1, x.shape[2])) for low, x in ((q0, query), (k0, key)))
    more = {"entropy": True, "reduce": data.draw(st.sampled_from(["mass", "max", "both"]))}
    found = attention_map(query, key, window=(q0, q1, k0, k1), **more, **options)
    weights = plain(query, key, **options)
    for cells in (found.weights, found.largest):
        if cells is not None:
            np.testing.assert_allclose(cells.numpy(), weights[:, :, q0:q1, k0:k1], atol=CLOSE)
    assert found.query_edges.tolist() == list(range(q0, q1 + 1))
    assert found.key_edges.tolist() == list(range(k0, k1 + 1))
    assert found.entropy.shape[-1] == q1 - q0


@pytest.mark.usefixtures("both_ways")
def test_a_window_larger_than_the_picture_is_pooled():
    query, key = draw(q_length=30, k_length=40)
    found = attention_map(query, key, window=(5, 25, 10, 40), rows=4, columns=7)
    np.testing.assert_allclose(
        found.weights.numpy(), pooled(plain(query, key)[:, :, 5:25, 10:], 4, 7, "mass"), atol=CLOSE
    )


@pytest.mark.parametrize("keys_at_once", [2, 7, 100])
@pytest.mark.parametrize("causal", [False, True])
def test_the_strongest_keys(in_blocks, monkeypatch, causal, keys_at_once):
    monkeypatch.setattr(module, "_TILE", (4, keys_at_once))
    monkeypatch.setattr(module, "_WHOLE_ROWS", 0)
    query, key = draw(n_heads=4, n_kv_heads=2, q_length=20, k_length=25)
    found = attention_map(query, key, top_keys=3, causal=causal)
    weights = plain(query, key, causal)
    np.testing.assert_allclose(found.top_weights.numpy(), -np.sort(-weights, axis=-1)[..., :3], atol=CLOSE)
    gathered = np.take_along_axis(weights, found.top_keys.numpy(), axis=-1)
    np.testing.assert_allclose(gathered, found.top_weights.numpy(), atol=CLOSE)


@given(st.integers(0, 9), st.integers(1, 5), st.integers(1, 1500), st.booleans())
@settings(max_examples=60)
def test_the_strongest_of_many_keys(seed, k, k_length, ties):
    weights = torch.rand(3, k_length, generator=torch.Generator().manual_seed(seed))
    weights = (weights * 20).round() if ties else weights
    k = min(k, k_length)
    found, places = strongest(weights, k)
    torch.testing.assert_close(found, weights.topk(k).values, rtol=0, atol=0)
    torch.testing.assert_close(weights.gather(1, places), found, rtol=0, atol=0)
    assert all(len(set(row)) == k for row in places.tolist())


@pytest.mark.parametrize("memory", [1, 200_000, None])
@pytest.mark.parametrize("received", [False, True])
def test_little_memory_makes_smaller_blocks_of_the_same_map(memory, received):
    query, key = draw(n_heads=1, q_length=700, d_key=8)
    found = attention_map(query, key, rows=9, columns=700, entropy=True, received=received, memory=memory)
    weights = plain(query, key)
    np.testing.assert_allclose(found.weights.numpy(), pooled(weights, 9, 700, "mass"), atol=CLOSE)


@given(st.integers(1, 10**6), st.integers(1, 4096), st.booleans(), st.booleans(), st.integers(1, 2**30))
def test_tiles_keep_to_the_memory_there_is(k_length, columns, entropy, received, memory):
    wanted = Pooling((512, columns), window=(0, 1, 0, k_length), entropy=entropy, received=received)
    shape = tile_shape(torch.device("cpu"), k_length, 64, wanted, memory)
    assert 1 <= shape.queries <= 8192 * 256
    assert 1 <= shape.keys <= max(k_length, 4096)
    kept = k_length if received and shape.keys < k_length else 0
    of_each_query = (3 if entropy else 1) * shape.keys + kept + 4 * min(columns, k_length) + shape.queries
    assert shape.bytes == 4 * (shape.queries * of_each_query + 64 * shape.keys)
    assert shape.bytes <= memory or (shape.queries <= 32 and shape.keys <= 1024)
    assert shape.queries * kept <= max(2**23, 32 * kept)


def test_an_interrupt_stops_the_work():
    query, key = draw(n_heads=4, q_length=1000, d_key=8)
    told = []

    def interrupt(done):
        told.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attention_map(query, key, on_progress=interrupt)
    assert len(told) == 1


@pytest.mark.usefixtures("both_ways")
def test_fewer_visible_keys_than_were_asked_for():
    query, key = draw(q_length=3)
    found = attention_map(query, key, top_keys=3, causal=True)
    assert found.top_weights[0, 0, 0].tolist() == [1, 0, 0]


@pytest.mark.usefixtures("both_ways")
def test_places_without_a_visible_key_hold_filler():
    query, key = draw(q_length=6)
    found = attention_map(query, key, top_keys=4, causal=True, key_mask=torch.tensor([[0, 1, 1, 1, 1, 1]]))
    assert found.top_keys.shape == found.top_weights.shape == (1, 2, 6, 4)
    assert 0 <= found.top_keys.min() <= found.top_keys.max() < 6
    assert bool((found.top_weights.diff(dim=-1) <= 0).all())
    for number, (keys, weights) in enumerate(zip(found.top_keys[0, 0], found.top_weights[0, 0], strict=True)):
        assert int((weights > 0).sum()) == min(number, 4)  # the first sees none, as key 0 is hidden
        assert len(set(keys[weights > 0].tolist())) == min(number, 4)
        assert set(keys[weights > 0].tolist()) <= set(range(1, number + 1))


def test_a_lone_spike_is_seen():
    query, key = torch.zeros(1, 1, 4000, 4), torch.zeros(1, 1, 4000, 4)
    query[0, 0, 1234], key[0, 0, 3210] = 10.0, 10.0
    found = attention_map(query, key, rows=10, columns=10, reduce="both")
    assert found.largest[0, 0, 3, 8] > 0.99
    assert found.weights[0, 0, 3, 8] < 0.11
    rest = found.largest.clone()
    rest[0, 0, 3, 8] = 0
    assert rest.max() < 0.001


def test_rows_sum_to_one():
    query, key = draw(q_length=1000, k_length=700, d_key=16)
    found = attention_map(query, key, rows=13, columns=17)
    torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(1, 2, 13), atol=CLOSE, rtol=0)


@pytest.mark.usefixtures("both_ways")
def test_against_pytorchs_weights():
    query, key = draw(q_length=50, d_key=8)
    value = torch.eye(50).expand(1, 2, 50, 50)  # with these values the output is the weights
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(attention_map(query, key, causal=True).weights, expected, atol=CLOSE, rtol=0)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    """Half precision is that of the inputs alone: the blocks are float32."""
    query, key = draw(q_length=60, d_key=8, dtype=dtype)
    found = attention_map(query, key, rows=7, columns=9)
    assert found.weights.dtype == torch.float32
    np.testing.assert_allclose(found.weights.numpy(), pooled(plain(query, key), 7, 9, "mass"), atol=CLOSE)


@pytest.mark.usefixtures("both_ways")
def test_a_scale_of_ones_own():
    query, key = draw()
    np.testing.assert_allclose(
        attention_map(query, key, scale=0.1).weights.numpy(), plain(query, key, scale=0.1), atol=CLOSE
    )


def test_hidden_blocks_are_not_computed(in_blocks, monkeypatch):
    computed, mm = [], torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b, **more: computed.append(len(a) * b.shape[1]) or mm(a, b, **more))
    monkeypatch.setattr(module, "_TILE", (10, 10))
    monkeypatch.setattr(module, "_WHOLE_ROWS", 0)
    query, key = draw(n_heads=1, q_length=400)
    attention_map(query, key)
    whole = sum(computed)
    computed.clear()
    attention_map(query, key, causal=True)
    assert sum(computed) < 0.52 * whole


def test_progress_is_told(in_blocks):
    told = []
    query, key = draw(n_heads=4)
    attention_map(query, key, on_progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1]


def test_progress_of_a_short_map_is_told_at_its_end():
    told = []
    attention_map(*draw(), on_progress=told.append)
    assert told == [1]


@pytest.mark.parametrize("at_once", [0, 2**21])
@pytest.mark.parametrize(("length", "rows", "columns"), [(700, 512, 512), (300, 9, 8), (130, 100, 3), (90, 1, 90)])
@pytest.mark.parametrize("causal", [False, True])
def test_cells_of_unequal_width(monkeypatch, at_once, length, rows, columns, causal):
    """Of one or two numbers, of some, and of more than are taken in turns."""
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", at_once)
    query, key = draw(q_length=length, d_key=8)
    found = attention_map(query, key, rows=rows, columns=columns, reduce="both", causal=causal)
    weights = plain(query, key, causal)
    np.testing.assert_allclose(found.weights.numpy(), pooled(weights, rows, columns, "mass"), atol=CLOSE)
    np.testing.assert_allclose(found.largest.numpy(), pooled(weights, rows, columns, "max"), atol=CLOSE)


def test_a_short_map_keeps_to_the_memory_that_it_may_take():
    query, key = draw(q_length=100)
    call = AttentionCall(query, key, key, 1.0)
    assert short_map.is_short(call, None)
    assert short_map.is_short(call, 3 * 4 * 2 * 100 * 100)
    assert not short_map.is_short(call, 3 * 4 * 2 * 100 * 100 - 1)


@pytest.mark.parametrize(
    ("queries", "length", "causal", "rows"),
    [(1500, 3000, False, 512), (1000, 4608, True, 7), (600, 8300, False, 1)],
)
@pytest.mark.slow
def test_the_same_bits_each_time_on_any_number_of_cores(in_blocks, monkeypatch, queries, length, causal, rows):
    monkeypatch.setattr(devices, "threads_that_run", lambda: None)
    query, key = draw(n_heads=1, q_length=length, d_key=64)
    options = {"rows": rows, "columns": length // 9, "received": True, "reduce": "both", "entropy": True}
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 2, 3):
            torch.set_num_threads(threads)
            found.append(attention_map(query[:, :, -queries:], key, causal=causal, **options))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for name in ("weights", "largest", "received", "entropy"):
            assert torch.equal(getattr(found[0], name), getattr(other, name)), name


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("queries", [1, 3, 300])
@pytest.mark.slow
def test_the_same_bits_beside_other_programs(monkeypatch, queries):
    monkeypatch.setattr(short_map, "_WORTH_A_LOOK", 0)
    query, key = draw(n_heads=2, q_length=300, k_length=20_000, d_key=128)
    before = torch.get_num_threads()
    found = []
    try:
        torch.set_num_threads(3)
        for others in (0, 1, 99):
            monkeypatch.setattr(devices, "threads_that_run", lambda n=others: torch.get_num_threads() + n)
            monkeypatch.setattr(devices, "usable_cores", lambda: 3)
            found.append(attention_map(query[:, :, :queries], key, rows=7, columns=100, received=True, entropy=True))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for name in ("weights", "received", "entropy"):
            assert torch.equal(getattr(found[0], name), getattr(other, name)), name


@pytest.mark.parametrize("fails", [False, True])
def test_a_core_that_is_taken_is_left_alone(monkeypatch, in_blocks, fails):
    monkeypatch.setattr(devices, "threads_that_run", lambda: torch.get_num_threads() + 2)
    monkeypatch.setattr(devices, "usable_cores", lambda: 3)
    query, key = draw(n_heads=4, q_length=300)
    before = torch.get_num_threads()
    seen = []

    def told(done):
        seen.append(torch.get_num_threads())
        if fails and len(seen) == 3:
            raise KeyboardInterrupt

    try:
        torch.set_num_threads(3)
        with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
            attention_map(query, key, on_progress=told)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [3, 1, 1] if fails else [3, 1, 1, 1]


def test_a_short_map_leaves_a_taken_core_alone(monkeypatch):
    monkeypatch.setattr(short_map, "_WORTH_A_LOOK", 100 * 100 * 2)
    looked = []
    monkeypatch.setattr(devices.FreeCores, "look", lambda self: looked.append(self))
    attention_map(*draw(q_length=99))
    assert not looked
    attention_map(*draw(q_length=100))
    assert len(looked) == 1


@pytest.mark.usefixtures("both_ways")
def test_threads_to_come_have_as_many_threads_as_before():
    query, key = draw(n_heads=4, q_length=300)
    before = torch.get_num_threads()
    attention_map(query, key)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == before


@pytest.mark.usefixtures("both_ways")
def test_the_default_precision_is_not_asked():
    query, key = draw(q_length=30)
    torch.set_default_dtype(torch.float64)
    try:
        found = attention_map(query, key, rows=4, received=True, entropy=True)
    finally:
        torch.set_default_dtype(torch.float32)
    assert {found.weights.dtype, found.received.dtype, found.entropy.dtype} == {torch.float32}


@pytest.mark.usefixtures("both_ways")
def test_float64_is_computed_in_float64():
    query, key = draw(q_length=60, d_key=8, dtype=torch.float64)
    expected = plain(query, key, scale=30)
    np.testing.assert_allclose(
        attention_map(query, key, scale=30).weights.numpy(), expected, atol=rounding(size=1, terms=1)
    )


@pytest.mark.parametrize("causal", [False, True])
def test_more_keys_than_whole_rows_take(causal):
    """Through tiles of the size that they really have, uneven cells and single keys among them."""
    query, key = draw(n_heads=1, q_length=40, k_length=9000, d_key=16)
    weights = plain(query, key, causal)
    for options in ({"columns": 511}, {"window": (0, 40, 4000, 4100)}, {"columns": 9000}):
        found = attention_map(query, key, rows=9, causal=causal, reduce="both", **options)
        k0, k1 = options.get("window", (0, 0, 0, 9000))[2:]
        columns = min(options.get("columns", 512), k1 - k0)
        for cells, reduce in ((found.weights, "mass"), (found.largest, "max")):
            expected = pooled(weights[..., k0:k1], 9, columns, reduce)
            np.testing.assert_allclose(cells.numpy(), expected, atol=CLOSE)


@pytest.mark.usefixtures("both_ways")
def test_what_is_hidden_may_be_anything():
    query, key = draw()
    spoilt_key = key.clone()
    spoilt_key[0, :, 2] = math.nan
    mask = torch.tensor([[1, 1, 0, 1, 1, 1, 1]])
    torch.testing.assert_close(
        attention_map(query, spoilt_key, key_mask=mask).weights, attention_map(query, key, key_mask=mask).weights
    )
    spoilt_key[0, 1, 5, 0] = math.inf
    with pytest.raises(ArgumentError, match=r"key: .* batch 0, head 1, position 5"):
        attention_map(query, spoilt_key, key_mask=mask)


@pytest.mark.usefixtures("both_ways")
def test_norms_of_hidden_keys_may_be_anything(both_ways):
    query, key = draw()
    norms = torch.ones(1, 2, 7).index_fill(2, torch.tensor([3]), math.nan)
    mask = torch.ones(1, 7).index_fill(1, torch.tensor([3]), 0)
    found = attention_map(query, key, key_mask=mask, value_norms=norms)
    torch.testing.assert_close(found.weights, attention_map(query, key, key_mask=mask).weights)
    assert found.to_attention().maps[0].quantity.key == "norm"


def test_the_heads_of_keys_have_their_own_numbers():
    query, key = draw(n_heads=8, n_kv_heads=2)
    key[0, 1, 3, 0] = math.nan
    with pytest.raises(ArgumentError, match=r"key: .* batch 0, head 1, position 3"):
        attention_map(query, key)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("factor", [1e20, 1e25])
def test_scores_that_are_too_large(factor):
    query, key = draw()
    with pytest.raises(ArgumentError, match="expected scores that float32 can hold, got larger ones in batch 0, head"):
        attention_map(query * factor, key * factor)


def test_it_says_what_it_is_in_a_line():
    query, key = draw()
    assert repr(attention_map(query, key, entropy=True)) == (
        "PooledMap(weights=float32[1, 2, 7, 7], query_edges=int64[8], key_edges=int64[8], entropy=float32[1, 2, 7])"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark of the memory is Linux's")
@pytest.mark.slow
def test_memory_stays_small_whatever_is_asked():
    """Uneven cells, hidden keys and all extras at 65,536 keys: 32 MiB a head, of which no copy is made.

    All weights of a head would be 64 MiB: so many queries are two blocks, and more would need no more.
    """
    code = """
import torch
from benchmarks.measure import peak_memory
from mhaviz import attention_map
torch.set_num_threads(1)
query, key = torch.randn(1, 2, 256, 128), torch.randn(1, 2, 65536, 128)
mask = torch.ones(1, 65536)
mask[0, ::100] = 0
more = {"key_mask": mask, "entropy": True, "top_keys": 1, "received": True, "local": 32}
attention_map(query[:, :, :64], key, rows=51, columns=511, **more)
print(peak_memory(lambda: attention_map(query, key, rows=51, columns=511, **more)))
"""
    ((status, out, err),) = run_forked(code)
    assert status == 0, err
    assert float(out) < 60


@pytest.mark.usefixtures("both_ways")
def test_no_gradient_and_no_change():
    query, key = draw()
    query.requires_grad_()
    before, threads = query.detach().clone(), torch.get_num_threads()
    assert not attention_map(query, key).weights.requires_grad
    assert torch.equal(before, query)
    assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("both_ways")
def test_in_inference_mode_and_out_of_it():
    query, key = draw(n_heads=3)
    outside = attention_map(query, key).weights
    with torch.inference_mode():
        torch.testing.assert_close(attention_map(query, key).weights, outside)
        made_inside = query.clone(), key.clone()
    torch.testing.assert_close(attention_map(*made_inside).weights, outside)


def spoilt(x, head, position):
    x = x.clone()
    x[0, head, position, 1] = math.nan if head else math.inf
    return x


QUERY, KEY = draw()


@pytest.mark.parametrize(
    ("query", "key", "options", "message"),
    [
        (QUERY, KEY[..., 0], {}, r"expected query .* got \(1, 2, 7, 4\) and \(1, 2, 7\)"),
        (QUERY, KEY[..., :2], {}, r"and key .* got .* and \(1, 2, 7, 2\)"),
        (QUERY, KEY.expand(3, -1, -1, -1), {}, "expected query"),
        (QUERY, torch.zeros(1, 3, 7, 4), {}, "n_heads a multiple of n_kv_heads, got"),
        (QUERY, KEY[:, :, :0], {}, "expected query"),
        (QUERY, KEY, {"scale": math.nan}, "scale: expected a finite number, got nan"),
        (QUERY, KEY, {"window": (0, 3)}, "`window`: expected four positions, q0, q1, k0 and k1, got 2"),
        (QUERY, KEY, {"rows": 0}, "expected at least 1 row and 1 column, got 0 and 512"),
        (QUERY, KEY, {"columns": -1}, "expected at least 1 row"),
        (QUERY, KEY, {"reduce": "mean"}, "reduce: expected mass, max or both, got 'mean'"),
        (
            QUERY,
            KEY,
            {"window": (0, 8, 0, 7)},
            "`window`: expected query positions .* at most 7, got 0 to 8",
        ),
        (QUERY, KEY, {"window": (0, 7, 5, 2)}, "`window`: expected key positions that go up"),
        (QUERY, KEY, {"value_norms": -torch.ones(1, 2, 7)}, "value_norms: expected finite numbers from 0 on"),
        (QUERY, KEY, {"key_mask": torch.ones(1, 6)}, r"key_mask: expected \(batch_size, k_length\)"),
        (
            spoilt(QUERY, 1, 3),
            KEY,
            {},
            "query: .* NaN or infinity in batch 0, head 1, position 3",
        ),
        (QUERY, spoilt(KEY, 0, 6), {}, "key: expected finite numbers, .* head 0, position 6"),
    ],
)
def test_what_cannot_be_mapped(query, key, options, message):
    with pytest.raises(ArgumentError, match=message):
        attention_map(query, key, **options)


def test_it_is_public():
    assert mhaviz.attention_map is attention_map
