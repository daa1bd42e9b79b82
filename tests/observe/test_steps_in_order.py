"""Steps of decoders whose tokens are told by little: they have their places, or are rows, but never those of others."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.attention.call import AttentionCall

D, H, N_IDS, WINDOW = 8, 2, 23, 5


def heads(x):
    return x.view(*x.shape[:2], H, -1).transpose(1, 2)


class Decoder(nn.Module):
    """One layer; ``forward`` takes the ids that it has not read, and the place of the first."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(N_IDS, D), nn.Embedding(64, D)
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.cache = None


def by_slices(held, n, new):
    held[:, n : n + new.shape[1]] = new


def by_copy(held, n, new):
    held.narrow(1, n, new.shape[1]).copy_(new)


class Buffer(Decoder):
    """Keys and values in one tensor, which is made when it is first needed, with heads and examples in one axis."""

    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, ids, n):
        x = self.words(ids).transpose(0, 1)
        q, k, v = (f(x).view(len(x), -1, D // H).transpose(0, 1) for f in (self.q, self.k, self.v))
        if self.cache is None:
            self.cache = torch.zeros(2, len(q), 16, D // H)
        keys, values = self.cache[0], self.cache[1]
        self.write(keys, n, k)
        self.write(values, n, v)
        mask = torch.ones(len(x), n + len(x), dtype=torch.bool).tril(n)
        A = (q @ keys[:, : n + len(x)].mT).masked_fill(~mask, -torch.inf).softmax(-1)
        return self.out((A @ values[:, : n + len(x)]).transpose(0, 1).reshape(x.shape))


class Ring(Decoder):
    """Keeps the last tokens, each in the place of the oldest. ``number``: makes the places that are looked up."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, ids, n):
        size, length = ids.shape
        x = self.words(ids) + self.places(self.number(n, length, size))
        q, k, v = (heads(f(x)) for f in (self.q, self.k, self.v))
        if self.cache is None:
            self.cache = [torch.zeros(size, H, WINDOW, D // H) for _ in range(2)]
        now = torch.arange(n, n + length)
        for held, new in zip(self.cache, (k, v), strict=True):
            held[:, :, now % WINDOW] = new
        last = n + length - 1
        there = last - (last - torch.arange(WINDOW)) % WINDOW
        mask = (there >= 0) & (there <= now[:, None])
        A = (q @ self.cache[0].mT).masked_fill(~mask, -torch.inf).softmax(-1)
        return self.out((A @ self.cache[1]).transpose(1, 2).flatten(2))


NUMBERS = {
    "arange": lambda n, length, size: torch.arange(n, n + length),
    "a list": lambda n, length, size: torch.tensor([*range(n, n + length)]),
    "full": lambda n, length, size: torch.full((size, length), n) + torch.arange(length),
    "cumsum": lambda n, length, size: torch.ones(size, length, dtype=torch.long).cumsum(1) - 1 + n,
}


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("write", [by_slices, by_copy])
@pytest.mark.parametrize("first", [1, 4])
def test_a_buffer_that_is_written_through_its_views(first, write, size, mode):
    net, ids = Buffer(write), torch.randint(1, N_IDS, (size, 7), generator=torch.Generator().manual_seed(0))
    with mhaviz.record(net, examples="all") as recording, mode():
        net(ids[:, :first], 0)
        for n in range(first, 7):
            net(ids[:, n : n + 1], n)
    for m in recording.attention.maps:
        assert m.queries == m.keys == tuple("0123456")


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_ring_whose_places_are_looked_up_in_other_ways(name, size):
    net, g = Ring(NUMBERS[name]), torch.Generator().manual_seed(0)
    with mhaviz.record(net, examples="all", passes="0-") as recording, torch.no_grad():
        for n, length in ((0, 4), (4, 1), (5, 1), (6, 1)):
            net(torch.randint(1, N_IDS, (size, length), generator=g), n)
    rings = {5: ("5", "1", "2", "3", "4"), 6: ("5", "6", "2", "3", "4")}
    for m in (m for m in recording.attention.maps if m.pass_number):
        expected = rings[4 + m.pass_number]
        rows = tuple(f"row {row}" for row in range(WINDOW))
        assert (m.queries, m.keys) in [((str(4 + m.pass_number),), expected), (("row 0",), rows)]
        assert name != "arange" or m.keys == expected


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("n_sources", [1, 2])
def test_queries_over_a_memory_of_a_single_token_keep_their_places(n_sources, is_turned):
    class Translator(Decoder):
        def __init__(self):
            super().__init__()
            self.others, self.cross_q, self.cross_k = nn.Embedding(29, D), nn.Linear(D, D), nn.Linear(D, D)

        def forward(self, ids, source, n):
            x = self.words(ids)
            new = [heads(f(x)) for f in (self.k, self.v)]
            self.cache = (
                new if self.cache is None else [torch.cat(pair, 2) for pair in zip(self.cache, new, strict=True)]
            )
            mask = torch.ones(ids.shape[1], n + ids.shape[1], dtype=torch.bool).tril(n)
            A = (heads(self.q(x)) @ self.cache[0].mT).masked_fill(~mask, -torch.inf).softmax(-1)
            x = x + (A @ self.cache[1]).transpose(1, 2).flatten(2)
            memory = heads(self.cross_k(self.others(source)))
            q = heads(self.cross_q(x))
            S = (memory @ q.mT).mT if is_turned else q @ memory.mT
            return (S.softmax(-1) @ memory).transpose(1, 2).flatten(2)

    net, source = Translator(), torch.randint(29, (1, n_sources), generator=torch.Generator().manual_seed(0))
    with mhaviz.record(net) as recording, torch.no_grad():
        for n, length in ((0, 3), (3, 1), (4, 1)):
            net(torch.randint(1, N_IDS, (1, length), generator=torch.Generator().manual_seed(n)), source, n)
    queries = [m.queries for m in recording.attention.maps if m.kind == "cross"]
    assert queries
    assert {name for names in queries for name in names if not name.startswith("row")} <= {*"01234"}
    assert all(len({*names}) == len(names) or "row 0" in names for names in queries), "no place twice"


class Loop(nn.Module):
    """Attends from one token at a time; ``window`` gives the keys of each. ``move`` moves the whole text before."""

    def __init__(self, move, window):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.qkv, self.move, self.window = nn.Embedding(N_IDS, D), nn.Linear(D, 3 * D), move, window

    def forward(self, ids):
        q, k, v = self.qkv(self.move(self.words(ids))).chunk(3, dim=-1)
        rows = [(q[:, t : t + 1], *(x[:, self.window(t)] for x in (k, v))) for t in range(q.shape[1])]
        return torch.cat([(one @ keys.mT).softmax(-1) @ values for one, keys, values in rows], 1)


PLACES = [*range(6)]
MOVES = {
    "none": (lambda x: x, PLACES),
    "cut": (lambda x: x[:, 2:], PLACES[2:]),
    "every second": (lambda x: x[:, ::2], PLACES[::2]),
    "turned": (lambda x: x.flip(1), PLACES[::-1]),
    "in another order": (lambda x: x[:, [3, 0, 5, 1, 2, 4]], [3, 0, 5, 1, 2, 4]),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_loop_over_a_text_that_was_moved(name):
    move, places = MOVES[name]
    with mhaviz.record(net := Loop(move, lambda t: slice(t + 1))) as recording, torch.no_grad():
        net(torch.randint(1, N_IDS, (1, 6), generator=torch.Generator().manual_seed(0)))
    (m,) = recording.attention.maps
    assert [*m.queries] == [*m.keys] == [*map(str, places)]


@pytest.mark.parametrize("window", [lambda t: slice(max(0, t - 1), t + 2), lambda t: slice(t, t + 3)])
def test_windows_that_look_ahead_have_their_tokens(window):
    with mhaviz.record(net := Loop(lambda x: x, window)) as recording, torch.no_grad():
        net(torch.randint(1, N_IDS, (1, 6), generator=torch.Generator().manual_seed(0)))
    seen = {
        query: {key for key, weight in zip(m.keys, row, strict=True) if weight}
        for m in recording.attention.maps
        for query, row in zip(m.queries, m.weights[0], strict=True)
    }
    assert seen == {str(t): {*map(str, PLACES[window(t)])} for t in PLACES}


def test_a_stream_whose_cache_begins_with_zeros():
    class Stream(Decoder):
        def forward(self, ids, n):
            x = self.words(ids)
            if self.cache is None:
                self.cache = torch.zeros(len(x), 7, D)
            self.cache = torch.cat([self.cache[:, 1:], x], 1)
            S = (self.q(x) @ self.k(self.cache).mT).masked_fill(torch.arange(7) < 6 - n, -torch.inf)
            return self.out(S.softmax(-1) @ self.v(self.cache))

    net, g = Stream(), torch.Generator().manual_seed(0)
    with mhaviz.record(net, passes="0-") as recording, torch.no_grad():
        for n in range(5):
            net(torch.randint(1, N_IDS, (1, 1), generator=g), n)
    for m in recording.attention.maps:
        assert {name for name in (*m.queries, *m.keys) if not name.startswith("row")} <= {*"01234"}


@pytest.mark.parametrize("n_sinks", [0, 1, 2])
def test_a_ring_that_keeps_its_first_tokens_names_no_token_as_one_before_those_it_sees(n_sinks):
    class Sinks(Decoder):
        """The first places of the cache stay; the others are a ring."""

        def forward(self, ids, n):
            x = self.words(ids)
            q, k, v = (heads(f(x)) for f in (self.q, self.k, self.v))
            if self.cache is None:
                self.cache = [torch.zeros(len(x), H, WINDOW, D // H) for _ in range(2)]
            now = torch.arange(n, n + ids.shape[1])
            places = torch.where(now < WINDOW, now, n_sinks + (now - n_sinks) % (WINDOW - n_sinks))
            for held, new in zip(self.cache, (k, v), strict=True):
                held[:, :, places] = new
            mask = torch.arange(WINDOW) <= now[:, None]
            A = (q @ self.cache[0].mT).masked_fill(~mask, -torch.inf).softmax(-1)
            return self.out((A @ self.cache[1]).transpose(1, 2).flatten(2))

    net, g = Sinks(), torch.Generator().manual_seed(0)
    with mhaviz.record(net, examples="all", passes="0-") as recording, torch.no_grad():
        for n, length in ((0, 5), (5, 1), (6, 1)):
            net(torch.randint(1, N_IDS, (2, length), generator=g), n)
    for m in recording.attention.maps:
        assert {name for name in m.queries if not name.startswith("row")} <= {"0", "1", "2", "3", "4", "5", "6"}
        if m.pass_number:
            assert m.queries[0] in (str(4 + m.pass_number), "row 0")


def test_a_causal_rule_is_read_without_a_mask_of_all_queries(monkeypatch):
    """Which for long inputs would take more memory than all else."""

    def refuse(call, *args):
        raise AssertionError("a mask of all queries and keys was made")

    class Causal(Decoder):
        def forward(self, ids):
            q, k, v = (heads(f(self.words(ids))) for f in (self.q, self.k, self.v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    monkeypatch.setattr(AttentionCall, "visible", refuse)
    with mhaviz.record(net := Causal()) as recording, torch.no_grad():
        net(torch.randint(1, N_IDS, (2, 6)))
    assert recording.missed == []
    assert recording.attention.maps[0].kind == "masked"
