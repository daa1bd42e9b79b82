"""Caches of keys, written by hand in a loop that generates: rows have the positions of their tokens, or none.

The oracle is a second cache of the same class, which keeps the positions of what the program's cache keeps. With it the
program makes its masks, and the tests their names.
"""

import numpy as np
import pytest
import torch
from caches import (
    Chosen,
    Copied,
    CutWindow,
    Indexed,
    Joined,
    Overwritten,
    PaddedLeft,
    Paged,
    ReadSlice,
    RightAligned,
    Ring,
    RingByIndex,
    Rolled,
    Scattered,
    WrittenSlice,
)
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz

B, H, D, N_IDS = 2, 2, 4, 30
CLOSE = rounding()


def by_hand(q, k, v, visible):
    S = q @ k.mT / D**0.5
    return (S if visible is None else S.masked_fill(~visible, -torch.inf)).softmax(-1) @ v


ATTENTIONS = {"by hand": by_hand, "fused": F.scaled_dot_product_attention}


class Decoder(nn.Module):
    """One layer, which is given the ids that it has not read. ``steps``: positions and weights of each call."""

    def __init__(self, cache, attention):
        super().__init__()
        self.embedding, self.places = nn.Embedding(N_IDS, H * D), nn.Embedding(N_IDS, H * D)
        self.out = nn.Linear(H * D, N_IDS)
        self.q, self.k, self.v = (nn.Linear(H * D, H * D) for _ in range(3))
        self.attention, self.caches, self.positions, self.steps = attention, [cache(), cache()], cache(), []

    def forward(self, ids):
        now = torch.arange(self.positions.n, self.positions.n + ids.shape[1])
        x = self.embedding(ids) + self.places(now)
        q, k, v = (W(x).view(*x.shape[:2], H, D).transpose(1, 2) for W in (self.q, self.k, self.v))
        k, v = (cache.update(y) for cache, y in zip(self.caches, (k, v), strict=True))
        keys = self.positions.update((now + 1).view(1, 1, -1, 1).repeat(B, 1, 1, 1)).mT - 1  # -1: nothing was written
        visible = (keys >= 0) & (keys <= now[:, None])
        self.steps.append((now.tolist(), keys[:, 0, 0].tolist(), q, k.clone(), visible))
        y = self.attention(q, k, v, None if visible.all() else visible)
        return self.out(y.transpose(1, 2).flatten(2))

    def crop(self, n):
        for cache in (*self.caches, self.positions):
            cache.crop(n)


def generate(decoder, chunks, n_steps):
    """Read a prompt in chunks, and then so many ids, of each of which the next is chosen."""
    g = torch.Generator().manual_seed(1)
    for n in chunks:
        y = decoder(torch.randint(N_IDS, (B, n), generator=g))
    for _ in range(n_steps):
        y = decoder(y[:, -1:].argmax(-1))


def speculate(decoder, chunks, n_steps):
    """Twice, three ids are read at once, the last two of which are rejected; then the loop goes on."""
    generate(decoder, chunks, 0)
    for seed in (2, 3):
        decoder(torch.randint(N_IDS, (B, 3), generator=torch.Generator().manual_seed(seed)))
        decoder.crop(decoder.positions.n - 2)
    generate(decoder, (), 0)
    for token in range(n_steps):
        decoder(torch.full((B, 1), token))


LOOPS = {
    "a prompt": lambda decoder: generate(decoder, (3,), 5),
    "a prompt of 4": lambda decoder: generate(decoder, (4,), 6),
    "a prompt in chunks of 3": lambda decoder: generate(decoder, (3, 3, 1), 3),
    "one id at a time": lambda decoder: generate(decoder, (1,), 6),
    "rejected drafts": lambda decoder: speculate(decoder, (3,), 3),
}
WHOLE = (
    Joined,
    WrittenSlice,
    Overwritten,
    ReadSlice,
    Copied,
    Indexed,
    Scattered,
    Chosen,
    RightAligned,
    PaddedLeft,
    Paged,
)
WINDOWS = (CutWindow, Ring, RingByIndex, Rolled)
NOT_WRITTEN = ((RightAligned, "rejected drafts"), *((cache, "a prompt of 4") for cache in WHOLE))
CASES = [
    *((cache, loop) for cache in WHOLE for loop in LOOPS if (cache, loop) not in NOT_WRITTEN),
    *((cache, loop) for cache in WINDOWS for loop in ("a prompt", "a prompt of 4", "one id at a time")),
]


def recorded(cache, loop, attention):
    """The maps, and the steps of the program: positions of queries, of keys of each example, and weights."""
    torch.manual_seed(0)
    decoder = Decoder(cache, ATTENTIONS[attention])
    with mhaviz.record(decoder, examples="all", passes="0-") as recording, torch.no_grad():
        LOOPS[loop](decoder)
    steps = [
        (now, keys, (q @ k.mT / D**0.5).masked_fill(~visible, -torch.inf).softmax(-1))
        for now, keys, q, k, visible in decoder.steps
    ]
    return () if recording.is_empty else recording.attention.maps, steps


def errors(maps, steps):
    """What is wrong in the maps, as text, and how many names of rows stand for tokens.

    Steps may be joined in a map, and keys that no query sees may be left out. So a query is looked up among those of
    all steps by its weights, which no other query has, and a key that it sees by the weight of each head.
    """
    read = [
        (t, keys[example], weights[example, :, at].T.numpy(), example)
        for now, keys, weights in steps
        for example in range(B)
        for at, t in enumerate(now)
    ]
    found, unnamed = [], 0
    for m in maps:
        of_map = f"pass {m.pass_number}, example {m.sentence}, queries {','.join(m.queries)}, keys {','.join(m.keys)}"
        tokens = [None] * len(m.keys)
        for query, rows in zip(m.queries, np.moveaxis(m.weights, 0, 2), strict=True):
            seen = np.flatnonzero(rows.any(1))
            same = [(t, at) for t, keys, w, b in read if b == m.sentence and (at := looked_up(rows[seen], keys, w))]
            if not same:
                found.append(f"{of_map}: weights of query {query} are those of no step")
                continue
            position, keys = same[0]
            if not names(query, position):
                found.append(f"{of_map}: query {query} is token {position}")
            unnamed += query.startswith("row")
            for column, token in zip(seen, keys, strict=True):
                if not names(m.keys[column], token):
                    found.append(f"{of_map}: key {m.keys[column]} is token {token} for query {position}")
                tokens[column] = token
        unnamed += sum(key.startswith("row") and t is not None for key, t in zip(m.keys, tokens, strict=True))
    return found, unnamed


def names(name, position):
    return name.startswith("row") or name == str(position)


def looked_up(rows, keys, weights):
    """The positions of the keys with these weights, (keys, heads), or None if a step's query sees others."""
    if len(rows) != np.count_nonzero(weights.any(1)):
        return None
    columns = [np.flatnonzero(np.isclose(weights, row, rtol=0, atol=CLOSE).all(1)) for row in rows]
    return [keys[c[0]] for c in columns] if all(len(c) == 1 for c in columns) else None


@pytest.mark.parametrize(
    ("cache", "loop", "attention"),
    [
        (*case, attention)
        for case in CASES
        for attention in (ATTENTIONS if case[1] in ("a prompt", "a prompt of 4") else ["fused"])
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_rows_of_a_cache_have_their_positions_in_the_text_or_none(cache, loop, attention):
    found, _ = errors(*recorded(cache, loop, attention))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("loop", ["a prompt", "rejected drafts"])
def test_a_cache_of_fixed_length_that_is_overwritten_has_all_names(loop):
    maps, steps = recorded(Overwritten, loop, "by hand")
    assert errors(maps, steps) == ([], 0)
    assert maps


class Static(nn.Module):
    """A layer over a cache of fixed length, all of which is read under a mask."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.qkv = nn.Embedding(N_IDS, H * D), nn.Linear(H * D, 3 * H * D)

    def forward(self, ids, n, cache):
        q, k, v = (x.unflatten(-1, (H, D)).transpose(1, 2) for x in self.qkv(self.embedding(ids)).chunk(3, -1))
        now = torch.arange(n, n + ids.shape[1])
        for held, new in zip(cache, (k, v), strict=True):
            held[:, :, now] = new
        return F.scaled_dot_product_attention(q, *cache, torch.arange(12) <= now[:, None])


@pytest.mark.parametrize("keep", [lambda x: x[1:], lambda x: x.flip(0), lambda x: x[[0, 0, 2]]])
def test_examples_that_change_places_in_a_cache_of_fixed_length(keep):
    net, cache = Static(), [torch.zeros(3, H, 12, D) for _ in range(2)]
    with mhaviz.record(net, examples="all", passes="0-") as recording, torch.no_grad():
        net(torch.randint(N_IDS, (3, 3)), 0, cache)
        net(torch.randint(N_IDS, (3, 1)), 3, cache)
        cache = [keep(x) for x in cache]
        net(torch.randint(N_IDS, (len(cache[0]), 1)), 4, cache)
    last = [m for m in recording.attention.maps if "4" in m.queries]
    assert len(last) == len(cache[0])
    assert {m.keys for m in last} == {tuple("01234")}
