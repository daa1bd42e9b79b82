"""Names of keys that are made of tokens in many ways: exact, or "row i"."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from truth import tokens_of_rows

import mhaviz
from mhaviz.observe import regions
from mhaviz.observe.region_numbers import none_of
from mhaviz.observe.regions import NOTHING, SeenTokens, Traced, shared, tokens_of
from mhaviz.observe.tracing import Tracer

T, D = 5, 8
IDS = torch.tensor([[11, 7, 3, 9, 4]])


def by_hand(q, k, v):
    return (q @ k.mT / D**0.5).softmax(-1) @ v


def by_sdpa(q, k, v):
    return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


class Program(nn.Module):
    """Attention of the words of a text to what ``make`` makes of them."""

    def __init__(self, make, attend=by_hand):
        super().__init__()
        self.words, self.positions = nn.Embedding(50, D), nn.Embedding(50, D)
        self.q, self.k, self.make, self.attend = nn.Linear(D, D), nn.Linear(D, D), make, attend

    def forward(self, ids):
        x = self.words(ids)
        keys = self.make(x)
        return self.attend(self.q(x), self.k(keys), keys)


def recorded(program, *args, **options):
    with mhaviz.record(program, **options) as recording, torch.no_grad():
        program(*args)
    return recording


def ema(x):
    rows = [x[:, 0]]
    for t in range(1, x.shape[1]):
        rows.append(0.9 * rows[-1] + 0.1 * x[:, t])
    return torch.stack(rows, 1)


MIXED = {
    "sum of two": lambda x: x[:, 1:] + x[:, :-1],
    "sum of three": lambda x: x[:, :-2] + x[:, 1:-1] + x[:, 2:],
    "with those that were turned": lambda x: x + x.flip(1) + x.roll(1, 1),
    "largest of three": lambda x: torch.maximum(torch.maximum(x[:, :-2], x[:, 1:-1]), x[:, 2:]),
    "lerp of three": lambda x: torch.lerp(torch.lerp(x[:, :-2], x[:, 1:-1], 0.5), x[:, 2:], 0.5),
    "features of three": lambda x: torch.cat([x[:, :-2, :3], x[:, 1:-1, :3], x[:, 2:, :2]], 2),
    "features that were shifted": lambda x: torch.cat([x[..., :4], F.pad(x, (0, 0, 1, 0))[:, :-1, 4:]], -1),
    "running mean": ema,
    "running mean of pairs": lambda x: 0.2 * x + 0.8 * F.pad(x[:, :-1], (0, 0, 1, 0)),
    "written into": lambda x: x.clone().add_(x.flip(1)).add_(x.roll(2, 1)),
    "pooled, beside positions": lambda x: F.avg_pool1d(x.mT, 2).mT + torch.arange(2.0)[:, None],
    "sums, beside a table": lambda x: x.cumsum(1) + nn.functional.embedding(torch.arange(T).flip(0), torch.randn(9, D)),
    "by a matrix": lambda x: torch.eye(T)[[3, 1, 0, 4, 2]] @ x,
    "by a matrix, beside positions": lambda x: torch.ones(T, T) @ x + torch.arange(float(T))[:, None],
}
"""Rows of which most are made of tokens of different places."""

MOVED = {
    "transposed, by index": lambda x: x.mT.index_select(-1, torch.tensor([3, 1, 0])).mT,
    "transposed, turned": lambda x: x.mT.flip(-1).mT,
    "transposed, gathered": lambda x: x.mT.gather(-1, torch.tensor([4, 2]).expand(1, D, 2)).mT,
    "vector by vector": lambda x: torch.cat([x[0, i] for i in (4, 3, 2, 1, 0)]).view(1, T, D),
    "as complex numbers": lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * 1j).flatten(2),
    "one": lambda x: x[:, 3:4],
}


@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
@pytest.mark.parametrize("name", [*MIXED, *MOVED])
def test_keys_have_the_name_of_their_token_or_none(name, attend):
    make = (MIXED | MOVED)[name]
    torch.manual_seed(0)
    (m,) = recorded(Program(make, attend), IDS).attention.maps
    (truth,) = tokens_of_rows(make, torch.randn(1, T, D), 1)
    assert m.kind != "cross"
    assert m.queries == tuple(map(str, range(T)))
    for row, (key, token) in enumerate(zip(m.keys, truth, strict=True)):
        assert key in ({f"row {row}"} if token is None or name in MIXED else set()) | {str(token)}


@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
@pytest.mark.parametrize(
    "make", [lambda x: x.take(torch.arange(x.numel())).view_as(x), lambda x: (x * 100).long().sort(1).values.float()]
)
def test_keys_of_which_nothing_is_known_are_rows(make, attend):
    (m,) = recorded(Program(make, attend), IDS).attention.maps
    assert m.keys == tuple(f"row {row}" for row in range(T))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p, x: x[:, 3:4] + p.positions(torch.tensor([3])), "row 0"),
        (lambda p, x: x.mean(1, keepdim=True) + p.positions(torch.tensor([0])), "row 0"),
        (lambda p, x: x[:, 3:4] + p.positions(torch.tensor(3)), "3"),
    ],
)
def test_positions_that_are_looked_up_are_no_names_of_what_they_are_added_to(make, name):
    program = Program(None)
    with mhaviz.record() as recording, torch.no_grad():  # outside of modules, nothing tells positions from words
        x = program.words(IDS)
        by_hand(make(program, x), x, x)
    (m,) = recording.attention.maps
    assert (m.queries[0] in (name, "row 0"), m.kind) == (True, "self" if m.queries == ("3",) else "other")


def test_cumulated_tokens_of_a_second_look_up_are_of_the_same_text():
    program = Program(None)
    program.make = lambda x: program.words(IDS).cumsum(1)
    assert recorded(program, IDS).attention.maps[0].kind != "cross"


@pytest.mark.parametrize("is_flat", [True, False])
def test_a_batch_that_is_packed_is_numbered_from_its_first_token_on(is_flat):
    """It was not drawn, as of all words those of the first example were asked for."""
    ids, model = torch.arange(10).view(2, 5), nn.Embedding(10, D)
    with mhaviz.record() as recording, torch.no_grad():
        x = model(ids).reshape(1, -1, D) if is_flat else model(ids.reshape(1, -1))
        by_hand(x, x, x)
    assert recording.attention.maps[0].keys == tuple(map(str, range(10)))


@pytest.mark.parametrize("batch_size", [2, 5])
def test_words_are_those_of_the_example_where_tokens_come_first(batch_size):
    """PyTorch's layers take (length, batch_size, features) by default."""
    words, layer = nn.Embedding(30, D), nn.MultiheadAttention(D, 2)
    ids = torch.randint(30, (3 if batch_size > 3 else 5, batch_size))
    with mhaviz.record(examples="all") as recording, torch.no_grad():
        layer(*3 * [words(ids)])
    assert [m.keys for m in recording.attention.maps] == [tuple(map(str, range(len(ids))))] * batch_size
    assert not recording.notices


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda x: x.flip(1), "edcba"),
        (lambda x: x.roll(1, 1), "eabcd"),
        (lambda x: x[:, [4, 2, 0]], "eca"),
        (lambda x: x, "abcde"),
    ],
)
def test_the_users_names_go_with_their_tokens(make, names):
    recording = recorded(Program(make), IDS, tokens=list("abcde"))
    assert recording.attention.maps[0].keys == tuple(names)
    assert not recording.notices


class Cached(nn.Module):
    """A decoder that puts the examples of its prompt in another order, and keeps what its weights are."""

    def __init__(self, order=None, is_turned=False):
        super().__init__()
        self.words, self.k, self.v = nn.Embedding(50, D), nn.Linear(D, D), nn.Linear(D, D)
        self.order, self.is_turned, self.cache, self.weights = order, is_turned, None, []

    def forward(self, ids):
        x = self.words(ids)
        if self.cache is None and self.order is not None:
            x = x[self.order]
        new = self.k(x).mT if self.is_turned else self.k(x), self.v(x)
        axes = 2 if self.is_turned else 1, 1
        pairs = new if self.cache is None else map(torch.cat, zip(self.cache, new, strict=True), axes)
        k, v = self.cache = tuple(pairs)
        scores = x @ (k if self.is_turned else k.mT)
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1 + scores.shape[2] - scores.shape[1])
        A = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        self.weights.append(A)
        return A @ v


def whole(weights):
    """The weights of a prompt and its steps, (batch_size, length, length)."""
    rows = torch.cat([F.pad(A, (0, weights[-1].shape[2] - A.shape[2])) for A in weights], 1)
    return rows.numpy()


def test_steps_belong_to_the_examples_with_which_their_pass_has_begun():
    """Steps were drawn in the map of another example than their prompt."""
    torch.manual_seed(0)
    order = torch.tensor([2, 0, 1])
    decoder, ids = Cached(order), torch.randint(50, (3, 5))
    with mhaviz.record(decoder, examples="all") as recording, torch.no_grad():
        for part in ids.split([3, 1, 1], 1):
            decoder(part)
    weights, maps = whole(decoder.weights), recording.attention.maps
    assert [m.sentence for m in maps] == [0, 1, 2]
    for m, place in zip(maps, order.argsort().tolist(), strict=True):
        np.testing.assert_allclose(m.weights[0], weights[place], atol=1e-6)


@pytest.mark.parametrize("n_first", [1, 2])
@pytest.mark.parametrize("is_turned", [False, True])
def test_each_key_of_a_cache_that_begins_with_few_has_its_name(n_first, is_turned):
    decoder = Cached(is_turned=is_turned)
    with mhaviz.record(decoder) as recording, torch.no_grad():
        for part in torch.randint(50, (2, 5)).split([n_first] + [1] * (5 - n_first), 1):
            decoder(part)
    (m,) = recording.attention.maps
    assert (m.queries, m.keys) == (tuple("01234"), tuple("01234"))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_next_token_in_the_same_memory_is_another(mode):
    """A decoder may write the ids of its steps into one tensor, and the same id again."""
    decoder, buffer = Cached(), torch.zeros(1, 1, dtype=torch.long)
    with mode(), mhaviz.record(decoder) as recording:
        for number in (7, 7, 3, 3):
            buffer[0, 0] = number
            decoder(buffer)
    assert recording.attention.maps[0].keys == tuple("0123")


def test_two_texts_in_one_array_of_numpy_are_two():
    words, array = nn.Embedding(50, D), np.arange(5)[None]
    with mhaviz.record() as recording, torch.no_grad():
        x = words(torch.from_numpy(array))
        array += 9
        y = words(torch.from_numpy(array))
        by_hand(x, y, y)
    assert recording.attention.maps[0].kind != "self"


@pytest.mark.parametrize("shape", [(3, 9, 16), (3, 16, 16), (2, 3, 9, 8)])
def test_three_texts_are_no_image(shape):
    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(shape[-1], shape[-1]), nn.Linear(shape[-1], shape[-1])

        def forward(self, x):
            return (self.q(x) @ self.k(x).mT).softmax(-1) @ x

    (m,) = recorded(Attend(), torch.randn(shape)).attention.maps
    assert (m.kind, m.keys) == ("self", tuple(map(str, range(shape[-2]))))


@pytest.mark.parametrize("ids", [IDS, IDS[0]])
@pytest.mark.parametrize("look_up", [F.embedding, lambda ids, table: table[ids]])
@pytest.mark.parametrize("kind", [torch.Tensor, nn.Parameter])
def test_a_table_that_is_a_plain_tensor_has_no_tokens(kind, look_up, ids):
    table = torch.randn(50, D)
    table = nn.Parameter(table) if kind is nn.Parameter else table
    with mhaviz.record() as recording, torch.no_grad():
        x = look_up(ids, table)
        by_hand(x, x, x)
    is_unclear = kind is torch.Tensor and ids.ndim == 1 and look_up is not F.embedding  # or tokens, some of them kept
    assert recording.attention.maps[0].keys == tuple(f"row {i}" if is_unclear else f"{i}" for i in range(T))


def test_what_is_asked_of_a_document_is_numbered_by_itself():
    """A document that was read before is no text that goes on, as the keys of a cache are."""
    words, names = nn.Embedding(50, D), []
    with mhaviz.record() as recording, torch.no_grad():
        document, question = words(torch.arange(4)[None]), None
        document = by_hand(document, document, document)
        question = words(torch.tensor([[9, 8, 7]]))
        both = torch.cat([document, question], 1)
        both = by_hand(both, both, both)
        by_hand(document, question, question)
    names = [m.keys for m in recording.attention.maps]
    assert names == [tuple("0123"), tuple("0123456"), tuple("012")]


def test_queries_among_the_keys_are_no_other_text():
    words, memory = nn.Embedding(50, D), torch.randn(1, 3, D)
    q, k = nn.Linear(D, D), nn.Linear(D, D)
    kinds = []
    for order in (1, -1):
        with mhaviz.record() as recording, torch.no_grad():
            x = words(IDS)
            x = by_hand(q(x), k(x), x)
            keys = torch.cat([memory, x][::order], 1)
            by_hand(q(x), k(keys), keys)
        kinds.append(recording.attention.maps[-1].kind)
    assert kinds == ["other", "other"]


def test_statistics_count_no_keys_of_which_nothing_is_known():
    recording = recorded(Program(lambda x: x.sort(1).values), IDS, statistics=True)
    with pytest.raises(mhaviz.MhavizError, match="which tokens its keys are is not known"):
        _ = recording.head_statistics


def test_what_a_program_multiplies_into_a_factor_is_freed():
    kept = []
    with mhaviz.record(), torch.no_grad():
        for _ in range(3):
            x, y = torch.randn(1, T, D), torch.randn(1, 1, D).repeat(1, T, 1)
            kept.append(weakref.ref(y))
            torch.mul(x, y, out=y)
            del x, y
        gc.collect()
        assert [one() for one in kept] == [None] * 3


@pytest.mark.parametrize("name", ["read", "begins"])
def test_an_error_of_ours_where_a_module_begins_does_not_reach_the_program(monkeypatch, name):
    def fail(*_):
        raise MemoryError("ours")

    monkeypatch.setattr(Tracer, name, fail)
    layer = nn.MultiheadAttention(D, 2, batch_first=True)
    with mhaviz.record(layer) as recording, torch.no_grad():
        layer(*3 * [torch.randn(1, T, D)])
    assert recording.attention.maps[0].keys


def test_more_tokens_than_any_attention_has_are_not_numbered(monkeypatch):
    monkeypatch.setattr(regions, "_MOST_TOKENS", 4)
    (m,) = recorded(Program(lambda x: x), IDS).attention.maps
    assert m.keys == tuple(f"row {row}" for row in range(T))


def test_regions_of_nothing_are_joined_to_no_others():
    """Those of nothing are on the CPU, and others may be on a GPU."""
    found, numbers = tokens_of(SeenTokens((1, 1, T), 1, 2), torch.device("cpu"))
    traced = Traced(found, numbers.view(T, 1))
    for several in ([Traced(NOTHING, none_of(torch.empty(1, 1))), traced], [traced, Traced(NOTHING, traced.numbers)]):
        assert all(one.regions.rows is found.rows for one in shared(several))


def test_one_tensor_may_be_the_cache_of_all_layers():
    torch.manual_seed(0)
    words, layers = nn.Embedding(50, D), nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(2))
    cache = torch.zeros(2, 2, 1, 6, D)

    class Decoder(nn.Module):
        def forward(self, ids, place):
            x = words(ids)
            for number, layer in enumerate(layers):
                q, k, v = layer(x).chunk(3, -1)
                end = place + ids.shape[1]
                cache[number, 0, :, place:end], cache[number, 1, :, place:end] = k, v
                x = by_sdpa(q, cache[number, 0, :, :end], cache[number, 1, :, :end])
            return x

    decoder = Decoder()
    for _ in range(2):  # the second text is written over the first
        with mhaviz.record(decoder) as recording, torch.no_grad():
            for place in range(4):
                decoder(torch.tensor([[place]]), place)
        assert [m.keys for m in recording.attention.maps] == [tuple("0123")] * 2


@pytest.mark.parametrize("axis", [0, 1])
def test_a_softmax_over_another_axis_than_the_keys_is_said_to_be_so(axis):
    q, k = nn.Linear(D, D), nn.Linear(D, D)
    with mhaviz.record() as recording, torch.no_grad():
        x = torch.randn(2, T, D)
        query, key, value = (y.unflatten(-1, (2, -1)).transpose(1, 2) for y in (q(x), k(x), x))
        (query @ key.mT).softmax(axis) @ value
    assert "runs over another axis than its product with values" in recording.notices[0]


def test_keys_that_stay_unfilled_are_those_that_no_step_has_filled():
    cache = torch.zeros(1, 6, D)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.q, self.k = nn.Embedding(50, D), nn.Linear(D, D), nn.Linear(D, D)

        def forward(self, ids, place):
            x = self.words(ids)
            cache[:, place : place + ids.shape[1]] = self.k(x)
            mask = torch.arange(6) <= torch.arange(place, place + ids.shape[1])[:, None]
            return F.scaled_dot_product_attention(self.q(x)[:, None], cache[:, None], cache[:, None], mask)

    decoder = Decoder()
    with mhaviz.record(decoder) as recording, torch.no_grad():
        decoder(IDS[:, :2], 0)
        decoder(IDS[:, 2:3], 2)
        decoder(IDS[:, 3:4], 3)
    assert recording.notices == ["Decoder, pass 0: left out keys 4 to 5: the mask hides them from all queries"]


def test_scores_of_two_tensors_may_be_joined_wherever_these_stand_in_memory():
    words, q, k = nn.Embedding(50, D), nn.Linear(D, D), nn.Linear(D, D)
    with mhaviz.record() as recording, torch.no_grad():
        x, y = words(IDS), words(IDS[:, :4] + 9)
        queries = q(x)[:, 1:], q(y)
        torch.cat([one @ k(y).mT for one in queries], 1).softmax(-1) @ y
    (m,) = recording.attention.maps
    assert (m.weights.shape, m.queries[:4]) == ((1, 8, 4), tuple("1234"))


def test_a_feed_forward_layer_of_plain_tensors_is_no_attention():
    x, up, down = torch.randn(T, D), torch.randn(D, 4 * D), torch.randn(4 * D, D)
    with mhaviz.record() as recording:
        F.gelu(x @ up) @ down
    assert recording.notices == []
    with mhaviz.record() as recording:
        F.relu(x @ torch.randn(T, D).T) @ torch.randn(T, D)
    assert "multiplied by relu and no softmax, which looks like attention" in recording.notices[0]


def test_layers_without_parameters_that_read_one_another_are_two():
    x = nn.Embedding(50, D)(IDS)
    with mhaviz.record() as recording, torch.no_grad():
        y = by_sdpa(x, x, x)
        by_sdpa(y, y, y)
    assert [m.layer for m in recording.attention.maps] == [0, 1]


def test_examples_that_are_packed_in_another_order_keep_their_places():
    """The maps of the shortest and of the longest text were exchanged."""
    words, layer, lengths = nn.Embedding(50, D), nn.MultiheadAttention(D, 1, batch_first=True), torch.tensor([2, 3, 5])
    with mhaviz.record(examples="all") as recording, torch.no_grad():
        packed = nn.utils.rnn.pack_padded_sequence(
            words(torch.randint(50, (3, 5))), lengths, batch_first=True, enforce_sorted=False
        )
        x, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        hidden = torch.arange(5) >= lengths[:, None]
        _, A = layer(x, x, x, hidden)
    for m in recording.attention.maps:
        n = int(lengths[m.sentence])
        np.testing.assert_allclose(m.weights[0], A[m.sentence, :n, :n], atol=1e-6)


@pytest.mark.parametrize("batch_size", [2, 3])
def test_a_first_token_of_each_text_is_token_0_where_tokens_come_first(batch_size):
    words, layer, memory = nn.Embedding(50, D), nn.MultiheadAttention(D, 2), nn.MultiheadAttention(D, 2)
    with mhaviz.record(examples="all") as recording, torch.no_grad():
        x, y = words(torch.randint(50, (1, batch_size))), words(torch.randint(50, (4, batch_size)))
        layer(x, x, x)
        memory(x, y, y)
    assert [(m.queries, m.keys) for m in recording.attention.maps if m.layer == 0 and m.kind == "self"] == [
        (("0",), ("0",))
    ] * batch_size
    assert [m.keys for m in recording.attention.maps if m.kind == "cross"] == [tuple("0123")] * batch_size


@pytest.mark.parametrize("width", [4, D])
def test_rows_that_a_mask_of_one_writes_have_their_names(width):
    words, mask = nn.Embedding(50, width), torch.tensor([[False, True, False, False]])
    with mhaviz.record() as recording, torch.no_grad():
        x = words(IDS[:, :4])
        y = x.flip(1).clone()
        y[mask] = x[:, 0]
        by_hand(x, y, y)
    assert (recording.attention.maps[0].keys, recording.notices) == (tuple("3010"), [])


def test_memories_of_one_token_are_no_causal_mask():
    """As fairseq computes them, tokens first, and heads in the batch axis."""
    q, k = nn.Linear(D, D), nn.Linear(D, D)
    x, y = torch.randn(3, 2, D), torch.randn(3, 2, D)
    with mhaviz.record() as recording, torch.no_grad():
        query, key = (layer(z).reshape(3, 4, -1).transpose(0, 1) for layer, z in ((q, x), (k, y)))
        scores = torch.bmm(query, key.mT).view(2, 2, 3, 3)
        scores = scores.masked_fill(torch.arange(3) > 0, -torch.inf).view(4, 3, 3)
        torch.bmm(scores.softmax(-1), key)
    assert recording.attention.maps[0].kind != "masked"
    assert not any("queries and keys, as padding" in line for line in recording.notices)


def test_a_layer_that_reads_each_token_by_itself_keeps_names():
    conv = nn.Conv1d(D, D, 1)
    (m,) = recorded(Program(lambda x: conv(x[:, [4] * 5].mT).mT), IDS).attention.maps
    assert m.keys == ("4",) * 5


def test_rows_of_states_that_are_chosen_by_example_are_of_their_example():
    """They were drawn as heads of one map."""
    words, index = nn.Embedding(50, D), torch.tensor([[1, 3], [0, 4], [2, 2]])
    q, k = nn.Linear(D, D), nn.Linear(D, D)
    with mhaviz.record(examples="all") as recording, torch.no_grad():
        x = words(torch.randint(50, (3, T)))
        chosen = torch.stack([F.embedding(one, states) for one, states in zip(index, x, strict=True)])
        by_sdpa(q(chosen), k(x), x)
    found = [(m.sentence, m.heads, m.queries) for m in recording.attention.maps]
    assert found == [(0, (0,), ("1", "3")), (1, (0,), ("0", "4")), (2, (0,), ("2", "2"))]


@pytest.mark.parametrize("hidden", [-torch.inf, -1e9])
@pytest.mark.parametrize(
    "softmax",
    [
        lambda x: x.log_softmax(-1).exp(),
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        lambda x: (e := (x - x.amax(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
    ],
)
def test_a_causal_mask_is_seen_however_the_softmax_is_written(softmax, hidden):
    q, k = nn.Linear(D, D), nn.Linear(D, D)
    with mhaviz.record() as recording, torch.no_grad():
        x = torch.randn(1, T, D)
        scores = (q(x) @ k(x).mT).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), hidden)
        softmax(scores) @ x
    assert recording.attention.maps[0].kind == "masked"


def test_the_second_text_that_a_model_writes_is_numbered_as_the_first():
    """Positions that a loop computes of the ids that it has chosen were taken for other tokens."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "pad_token_id": 0}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).eval()
    with mhaviz.record(model, passes="0-") as recording, torch.no_grad():
        ids = model.generate(IDS[:, :4], max_new_tokens=3, do_sample=False, eos_token_id=None)
        model.generate(ids, max_new_tokens=3, do_sample=False, eos_token_id=None)
    assert [m.keys for m in recording.attention.maps] == [tuple(map(str, range(n))) for n in (6, 9)]


def test_tokens_of_a_text_without_a_batch_that_an_index_keeps_are_of_that_text():
    class Pruned(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(D, D), nn.Linear(D, D)

        def forward(self, x):
            kept = x[x[:, 0].topk(3).indices]
            return (self.q(kept) @ self.k(x).mT).softmax(-1) @ x

    (m,) = recorded(Pruned(), torch.randn(6, D)).attention.maps
    assert (m.kind, m.queries) == ("other", ("row 0", "row 1", "row 2"))


def test_a_large_vocabulary_is_a_table_as_a_small_one(monkeypatch):
    monkeypatch.setattr(regions, "_MOST_TOKENS", 40)
    table = torch.randn(50, D)
    with mhaviz.record() as recording, torch.no_grad():
        x = table[IDS]
        by_hand(x, x, x)
    assert recording.attention.maps[0].keys == tuple(map(str, range(T)))


@pytest.mark.parametrize(("n_names", "names"), [(8, "cdef"), (4, "abcd"), (3, "2345")])
def test_the_users_names_are_of_the_whole_text_or_of_the_map(n_names, names):
    ids = torch.tensor([[11, 7, 3, 9, 4, 1, 2, 6]])
    words = nn.Embedding(50, D)
    with mhaviz.record(tokens=list("abcdefgh"[:n_names])) as recording, torch.no_grad():
        x = words(ids)[:, 2:6]
        by_hand(x, x, x)
    assert recording.attention.maps[0].keys == tuple(names)


def test_one_name_is_not_that_of_each_step():
    decoder = Cached()
    with mhaviz.record(decoder, tokens=["a"]) as recording, torch.no_grad():
        for part in torch.randint(50, (1, 6)).split([3, 1, 1, 1], 1):
            decoder(part)
    assert recording.attention.maps[0].keys == tuple("012345")


@pytest.mark.parametrize("view", [lambda c: c[:, None].expand(1, 3, T, D)[:, 1], lambda c: c[:, 1:]])
def test_views_of_a_cache_that_is_written_over_hold_what_was_written(view):
    words, cache = nn.Embedding(50, D), torch.zeros(1, T, D)
    with mhaviz.record() as recording, torch.no_grad():
        x = words(IDS)
        cache[:] = x
        seen, number = view(cache), cache[0, 0, 0]
        cache[:] = x.flip(1)
        by_hand(x, seen, seen)
        assert number.ndim == 0
    assert (recording.attention.maps[0].keys, recording.notices) == (tuple("43210"[-seen.shape[1] :]), [])


def test_a_state_that_adds_token_after_token_stays_one_mixture():
    """Of each step a source was kept, and regions of all steps were joined pair by pair."""
    words, n = nn.Embedding(50, D), 300
    with mhaviz.record() as recording, torch.no_grad():
        x, rows = words(torch.randint(50, (2, n))), []
        state = torch.zeros(2, D)
        for t in range(n):
            state = 0.9 * state + 0.1 * x[:, t]
            rows.append(state)
        states = torch.stack(rows, 1)
        assert len(recording._observer._tracer.known(states).regions.sources) < 9
        by_sdpa(states, states, states)
    (m,) = recording.attention.maps
    assert m.keys == ("0", *(f"row {i}" for i in range(1, n)))


def test_keys_of_a_cache_that_is_held_transposed_are_no_channels():
    words, cache = nn.Embedding(50, D), torch.zeros(1, D, T)
    with mhaviz.record() as recording, torch.no_grad():
        x = words(IDS)
        cache.transpose(1, 2)[:] = x
        by_sdpa(*3 * [cache.mT])
    assert (recording.attention.maps[0].keys, recording.notices) == (tuple("01234"), [])


@pytest.mark.parametrize("attend", [by_sdpa, by_hand])
@pytest.mark.parametrize(
    "reduce",
    [lambda y: F.avg_pool1d(y, 2), lambda y: y.unflatten(2, (3, 2)).mean(-1), lambda y: nn.Conv1d(D, D, 2, 2)(y)],
)
def test_rows_that_a_layer_has_made_of_all_tokens_are_no_heads(reduce, attend):
    words, mix, q, k = nn.Embedding(50, D), nn.Linear(6, 6), nn.Linear(D, D), nn.Linear(D, D)

    class Pools(nn.Module):
        def forward(self, ids):
            x = words(ids)
            queries = q(reduce(mix(x.mT)).mT)
            return attend(queries, k(x), x)

    (m,) = recorded(Pools(), torch.randint(50, (2, 6))).attention.maps
    assert (m.weights.shape, m.queries) == ((1, 3, 6), ("row 0", "row 1", "row 2"))


@pytest.mark.parametrize("add", [lambda a, b: a + b.roll(1, 1), lambda a, b: b.roll(1, 1) + a])
def test_what_is_mixed_of_two_texts_is_of_both(add):
    """Only the first was kept, and attention to the second was called cross-attention."""
    words, q, k = nn.Embedding(50, D), nn.Linear(D, D), nn.Linear(D, D)
    for which in (0, 1):
        with mhaviz.record() as recording, torch.no_grad():
            texts = words(IDS), words(IDS + 9)
            by_hand(q(add(*texts)), k(texts[which]), texts[which])
        assert recording.attention.maps[0].kind == "other"
