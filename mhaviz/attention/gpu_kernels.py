"""The kernels of ``gpu_pass``, in Triton: products of half precision on tensor cores, all sums in float32.

They are imported where they run alone: Triton comes with PyTorch for GPUs. Comments give the axes of a program's own
tile; ``later`` is how many positions a causal query sees beyond its own number, k_length - q_length.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(pointer, stride, places, end, features, D: tl.constexpr):
    """Rows of queries or keys, (places, features); 0 behind the last row and the last feature."""
    column = tl.arange(0, D)
    inside = (places[:, None] < end) & (column[None] < features)
    return tl.load(pointer + places[:, None].to(tl.int64) * stride + column[None], mask=inside, other=0.0)


@triton.jit
def _scores(q, k, queries, keys, k_length, scale, later, CAUSAL: tl.constexpr):
    """S = scale · Q Kᵀ in float32, (queries, keys); −∞ where a key is hidden."""
    S = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    seen = keys[None] < k_length
    if CAUSAL:
        seen = seen & (keys[None] <= queries[:, None] + later)
    return tl.where(seen, S, float("-inf"))


@triton.jit
def normalisers(
    query, key, lse, mean_score, top_weight, top_key,
    batch_stride_q, head_stride_q, stride_q, batch_stride_k, head_stride_k, stride_k,
    first_head, n_heads, group, q0, q1, k_length, features, scale, later,
    CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Of each query log Σ exp(S), the mean of its scores by its weights, and its largest weight, (heads, queries).

    The sums are rescaled whenever a larger score comes (Milakov and Gimelshein 2018, arXiv 1805.02867).
    """
    place = tl.program_id(1)
    head = (first_head + place).to(tl.int64)
    b, h = head // n_heads, head % n_heads
    query += b * batch_stride_q + h * head_stride_q
    key += b * batch_stride_k + (h // group) * head_stride_k
    queries = q0 + tl.program_id(0) * M + tl.arange(0, M)
    q = _tile(query, stride_q, queries, q1, features, D)
    highest = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    scores = tl.zeros((M,), tl.float32)
    strongest = tl.zeros((M,), tl.int32)
    end = k_length
    if CAUSAL:
        end = tl.maximum(tl.minimum(k_length, q0 + (tl.program_id(0) + 1) * M + later), 0)
    for start in range(0, end, N):
        keys = start + tl.arange(0, N)
        k = _tile(key, stride_k, keys, k_length, features, D)
        S = _scores(q, k, queries, keys, k_length, scale, later, CAUSAL)
        largest = tl.max(S, axis=1)
        where = tl.min(tl.where(largest[:, None] == S, keys[None], k_length), axis=1)
        strongest = tl.where(largest > highest, where, strongest)
        new = tl.maximum(highest, largest)
        shift = tl.where(new == float("-inf"), 0.0, new)
        rescale = tl.exp(highest - shift)
        E = tl.exp(S - shift[:, None])
        total = total * rescale + tl.sum(E, axis=1)
        scores = scores * rescale + tl.sum(tl.where(E > 0, E * S, 0.0), axis=1)
        highest = new
    sees = total > 0
    divisor = tl.where(sees, total, 1.0)
    out = place.to(tl.int64) * (q1 - q0) + queries - q0
    there = queries < q1
    tl.store(lse + out, tl.where(sees, highest + tl.log(divisor), float("inf")), mask=there)
    tl.store(mean_score + out, scores / divisor, mask=there)
    tl.store(top_weight + out, tl.where(sees, 1 / divisor, 0.0), mask=there)
    tl.store(top_key + out, strongest, mask=there)


@triton.jit
def column_sums(
    query, key, lse, edges, sums, largest,
    batch_stride_q, head_stride_q, stride_q, batch_stride_k, head_stride_k, stride_k,
    first_head, n_heads, group, q0, q1, k0, k1, k_length, rows, features, scale, later,
    CAUSAL: tl.constexpr, SUMS: tl.constexpr, LARGEST: tl.constexpr, ROWS: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A = exp(S − lse) of each key, summed over the queries of a row of cells, and the largest: (heads, rows, keys)."""
    place = tl.program_id(2)
    head = (first_head + place).to(tl.int64)
    b, h = head // n_heads, head % n_heads
    query += b * batch_stride_q + h * head_stride_q
    key += b * batch_stride_k + (h // group) * head_stride_k
    lse += place.to(tl.int64) * (q1 - q0)
    first_key = k0 + tl.program_id(0) * N
    keys = first_key + tl.arange(0, N)
    k = _tile(key, stride_k, keys, k1, features, D)
    there = keys < k1
    first_row = tl.program_id(1) * ROWS
    for row in range(first_row, tl.minimum(first_row + ROWS, rows)):
        start, end = tl.load(edges + row), tl.load(edges + row + 1)
        if CAUSAL:  # the first query that sees one of the keys
            start = tl.maximum(start, first_key - later)
        total = tl.zeros((N,), tl.float32)
        most = tl.zeros((N,), tl.float32)
        for first in range(start, end, M):
            queries = first + tl.arange(0, M)
            own = queries < end
            q = _tile(query, stride_q, queries, end, features, D)
            S = _scores(q, k, queries, keys, k_length, scale, later, CAUSAL)
            A = tl.exp(S - tl.load(lse + queries - q0, mask=own, other=float("inf"))[:, None])
            if SUMS:
                total += tl.sum(A, axis=0)
            if LARGEST:
                most = tl.maximum(most, tl.max(A, axis=0))
        out = (place.to(tl.int64) * rows + row) * (k1 - k0) + keys - k0
        if SUMS:
            tl.store(sums + out, total, mask=there)
        if LARGEST:
            tl.store(largest + out, most, mask=there)


@triton.jit
def local_sums(
    query, key, lse, local,
    batch_stride_q, head_stride_q, stride_q, batch_stride_k, head_stride_k, stride_k,
    first_head, n_heads, group, q0, q1, k_length, features, scale, later, distance,
    CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The weight that each query gives to keys at most ``distance`` positions away, (heads, queries)."""
    place = tl.program_id(1)
    head = (first_head + place).to(tl.int64)
    b, h = head // n_heads, head % n_heads
    query += b * batch_stride_q + h * head_stride_q
    key += b * batch_stride_k + (h // group) * head_stride_k
    first = q0 + tl.program_id(0) * M
    queries = first + tl.arange(0, M)
    own = queries < q1
    q = _tile(query, stride_q, queries, q1, features, D)
    out = place.to(tl.int64) * (q1 - q0) + queries - q0
    norm = tl.load(lse + out, mask=own, other=float("inf"))
    aligned = queries
    if CAUSAL:
        aligned = queries + later
    total = tl.zeros((M,), tl.float32)
    begin = tl.maximum(tl.min(aligned, axis=0) - distance, 0)
    for start in range(begin, tl.minimum(tl.max(aligned, axis=0) + distance + 1, k_length), N):
        keys = start + tl.arange(0, N)
        k = _tile(key, stride_k, keys, k_length, features, D)
        S = _scores(q, k, queries, keys, k_length, scale, later, CAUSAL)
        near = tl.abs(keys[None] - aligned[:, None]) <= distance
        total += tl.sum(tl.where(near, tl.exp(S - norm[:, None]), 0.0), axis=1)
    tl.store(local + out, total, mask=own)
