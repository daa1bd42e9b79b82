"""Steps of recurrent decoders, which read the same keys again and again, and what only looks like them."""

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

from mhaviz import record
from mhaviz.analyses.growing_map import GrowingMap
from mhaviz.inputs.tokens import Tokens

CLOSE = rounding()
D, LENGTH, STEPS = 8, 6, 4


class Dot(nn.Module):
    """Luong et al. 2015: the weights are a softmax of products of the query and the keys."""

    def forward(self, q, k, mask=None):
        scores = q @ k.mT
        A = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
        return A @ k, A


class Summed(nn.Module):
    """The same, as the chatbot tutorial of PyTorch writes it: (length, batch, features)."""

    def forward(self, q, k, mask=None):
        q, k = q.transpose(0, 1), k.transpose(0, 1)
        A = (q * k).sum(dim=2).t().softmax(dim=1).unsqueeze(1)
        return A.bmm(k.transpose(0, 1)), A


class Fused(nn.Module):
    def forward(self, q, k, mask=None):
        scores = q @ k.mT * D**-0.5
        A = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
        return F.scaled_dot_product_attention(q[:, None], k[:, None], k[:, None], mask and mask[:, None])[:, 0], A


class Layer(nn.Module):
    """Projects the keys anew in each step."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, batch_first=True)

    def forward(self, q, k, mask=None):
        return self.attention(q, k, k, average_attn_weights=False)


class Decoder(nn.Module):
    """Reads the output of attention in each step, unless it is taught with the right words and reads these."""

    def __init__(self, attend, cell=nn.GRU, is_taught=False):
        super().__init__()
        self.embed, self.encoder, self.attend = nn.Embedding(20, D), nn.GRU(D, D, batch_first=True), attend
        self.cell, self.out, self.is_taught = (
            cell(D if is_taught else 2 * D, D, batch_first=True),
            nn.Linear(D, 20),
            is_taught,
        )
        self.weights = []

    def encode(self, source):
        return self.encoder(self.embed(source))

    def step(self, words, context, state, keys):
        """Return the next words, the output of attention and the state."""
        x = self.embed(words) if self.is_taught else torch.cat([self.embed(words), context], dim=-1)
        y, state = self.cell(x, state)
        context, A = self.attend(y, keys)
        self.weights.append(A.detach())
        return self.out(context + y).argmax(-1), context, state

    def start(self, hidden):
        return (hidden, hidden) if isinstance(self.cell, nn.LSTM) else hidden

    def forward(self, source, n_steps=STEPS):
        keys, hidden = self.encode(source)
        words, context, state = source[:, :1], torch.zeros(len(source), 1, D), self.start(hidden)
        for _ in range(n_steps):
            found, context, state = self.step(words, context, state, keys)
            words = torch.full_like(found, 3) if self.is_taught else found
        return words

    def taken(self):
        """Weights of all steps so far, (batch_size, n_heads, n_steps, k_length)."""
        found = torch.cat([A if A.ndim == 4 else A[:, None] for A in self.weights], dim=2)
        self.weights.clear()
        return found.numpy()


def sources(n=1, seed=0):
    return torch.randint(1, 20, (n, LENGTH), generator=torch.Generator().manual_seed(seed))


def decoder(attend=None, seed=0, **how):
    torch.manual_seed(seed)
    return Decoder(attend or Dot(), **how).eval()


@torch.no_grad()
@pytest.mark.parametrize("is_taught", [False, True])
@pytest.mark.parametrize("cell", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize("attend", [Dot, Fused, Layer])
def test_all_steps_of_a_text_are_one_map(attend, cell, is_taught):
    model = decoder(attend(), cell=cell, is_taught=is_taught)
    with record(model) as recording:
        model(sources(2))
    expected = model.taken()
    (m,) = recording.attention.maps
    np.testing.assert_allclose(m.weights, expected[0], atol=CLOSE)
    assert m.queries == tuple(f"step {i}" for i in range(STEPS))
    assert not any("not known" in line for line in recording.notices)


class Bahdanau(nn.Module):
    """Bahdanau et al. 2015: the state before a step is its query, that of the encoder in the first step."""

    def __init__(self, cell, is_fast):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(20, D), nn.GRU(D, D, batch_first=True)
        self.attention, self.cell = nn.MultiheadAttention(D, 2, batch_first=is_fast), cell(2 * D, D)
        self.is_fast, self.weights = is_fast, []

    def step(self, words, state, keys):
        query = (state[0] if isinstance(state, tuple) else state)[:, None]
        query, keys = (x if self.is_fast else x.transpose(0, 1) for x in (query, keys))
        context, A = self.attention(query, keys, keys, average_attn_weights=False)
        self.weights.append(A)
        context = context[:, 0] if self.is_fast else context[0]
        return self.cell(torch.cat([self.embed(words), context], -1), state)

    def forward(self, source):
        keys, hidden = self.encoder(self.embed(source))
        state = (hidden[0], hidden[0]) if isinstance(self.cell, nn.LSTMCell) else hidden[0]
        for _ in range(STEPS):
            state = self.step(source[:, 0], state, keys)
        return state


@torch.no_grad()
@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "no fast path"])
@pytest.mark.parametrize("cell", [nn.GRUCell, nn.LSTMCell, nn.RNNCell])
def test_the_state_of_the_encoder_is_the_query_of_the_first_step(cell, is_fast):
    torch.manual_seed(0)
    model = Bahdanau(cell, is_fast).eval()
    with record(model, passes="0-") as recording:
        model(sources(2))
    (m,) = recording.attention.maps
    np.testing.assert_allclose(m.weights, torch.cat(model.weights, 2)[0], atol=CLOSE)
    assert not any(UNKNOWN in line for line in recording.notices)


class Additive(nn.Module):
    """Bahdanau et al. 2015, where scores are no products of queries and keys."""

    def __init__(self):
        super().__init__()
        self.of_query, self.of_key, self.score = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 1)

    def forward(self, q, k, mask=None):
        A = self.score(torch.tanh(self.of_query(q) + self.of_key(k))).mT.softmax(-1)
        return A.bmm(k), A


class ByElements(Additive):
    """The output as Xu et al. 2015, Show, Attend and Tell, arXiv 1502.03044, is mostly written."""

    def forward(self, q, k, mask=None):
        A = self.score(torch.tanh(self.of_query(q) + self.of_key(k))).softmax(1)
        return (A * k).sum(1, keepdim=True), A.mT


@torch.no_grad()
@pytest.mark.parametrize("attend", [Additive, Summed, ByElements])
def test_weights_that_are_asked_for_by_name_join_as_well(attend):
    model = decoder(attend())
    with record(model, module="attend") as recording:
        model(sources())
    (m,) = recording.attention.maps
    np.testing.assert_allclose(m.weights, model.taken()[0], atol=CLOSE)


def steps_of(model, source, moved=lambda state: state, n_steps=STEPS):
    """The same as the model's own loop, in a script."""
    keys, hidden = model.encode(source)
    words, context, state = source[:, :1], torch.zeros(len(source), 1, D), hidden
    for _ in range(n_steps):
        words, context, state = model.step(words, context, moved(state), keys)


@torch.no_grad()
def test_each_text_is_a_pass_also_of_a_script():
    model = decoder()
    with record(passes="0-", examples="all") as recording:
        for seed in (0, 0, 1):
            steps_of(model, sources(2, seed))
    expected = model.taken().reshape(2, 1, 3, STEPS, LENGTH)
    assert [(m.pass_number, m.sentence) for m in recording.attention] == [(i, j) for i in range(3) for j in range(2)]
    for m in recording.attention:
        np.testing.assert_allclose(m.weights, expected[m.sentence, :, m.pass_number], atol=CLOSE)
        assert (m.queries, m.keys) == (tuple(f"step {i}" for i in range(STEPS)), tuple(map(str, range(LENGTH))))


@torch.no_grad()
def test_a_source_of_one_token_is_written_from_in_as_many_steps():
    model = decoder()
    with record() as recording:
        steps_of(model, sources()[:, :1])
    (m,) = recording.attention.maps
    np.testing.assert_array_equal(m.weights, np.ones((1, STEPS, 1)))


@torch.no_grad()
def test_a_long_text_is_pooled_as_it_grows():
    model = decoder()
    with record(model, size=8) as recording:
        model(sources(), n_steps=20)
    (m,) = recording.attention.maps
    edges = m.rows.edges
    assert (len(m.rows), edges[-1], m.hidden) == (5, 20, None)
    expected = np.add.reduceat(model.taken()[0], edges[:-1], axis=1) / np.diff(edges)[:, None]
    np.testing.assert_allclose(m.weights, expected, atol=CLOSE)


@torch.no_grad()
def test_words_that_leave_pytorch_break_no_chain_of_states():
    model = decoder(is_taught=True)
    keys, state = model.encode(sources())
    words = torch.tensor([[1]])
    with record() as recording:
        for _ in range(STEPS):
            found, _, state = model.step(words, None, state, keys)
            words = torch.tensor([[int(found)]])
    (m,) = recording.attention.maps
    assert m.weights.shape == (1, STEPS, LENGTH)


@torch.no_grad()
def test_padding_of_the_source_is_no_key_of_any_step():
    model, is_token = decoder(), torch.tensor([[[True] * LENGTH], [[True] * 4 + [False] * 2]])
    model.attend.register_forward_pre_hook(lambda module, args: (*args, is_token))
    with record(model, examples="all") as recording:
        model(sources(2))
    expected = model.taken()
    for m, n_keys in zip(recording.attention, (LENGTH, 4), strict=True):
        np.testing.assert_allclose(m.weights, expected[m.sentence, :, :, :n_keys], atol=CLOSE)


@torch.no_grad()
def test_a_mask_that_moves_hides_no_weight():
    """As of local attention; what it hides from one query is no padding of the others."""
    model, calls = decoder(), iter(range(STEPS))
    places = torch.arange(LENGTH)
    model.attend.register_forward_pre_hook(lambda module, args: (*args, (places - next(calls)).abs() < 2))
    with record(model, passes="0-") as recording:
        model(sources())
    for m in recording.attention:
        np.testing.assert_allclose(m.weights.sum(-1), 1, atol=CLOSE)
        assert len(m.rows) == 1


@torch.no_grad()
def test_statistics_count_the_query_of_each_step():
    model = decoder()
    with record(model, statistics=True) as recording:
        model(sources(2))
    A = model.taken()
    (statistics,) = recording.head_statistics.kinds
    assert recording.head_statistics.source.details["queries"] == 2 * STEPS
    np.testing.assert_allclose(statistics.entropy.mean.ravel(), -(A * np.log(A)).sum(-1).mean(), atol=1e-5)


UNKNOWN = "it is not known whether these are steps of one text"


@torch.no_grad()
def test_several_inputs_that_read_one_memory_stay_apart():
    model = decoder(is_taught=True)
    keys, hidden = model.encode(sources())
    with record() as recording:
        for word in range(3):
            model.step(torch.tensor([[word]]), None, hidden, keys)
    assert len(recording.attention[0].rows) == 1
    (line, first) = recording.notices
    assert line.startswith(f"attend: runs again with one query and the same keys, and {UNKNOWN}: no query is known")
    assert first.startswith("drawn is the first of 3 forward passes")


@torch.no_grad()
@pytest.mark.parametrize("attend", [Dot, Fused])
def test_nothing_is_said_of_a_query_that_is_read_again(attend):
    """As a benchmark does."""
    model = decoder(attend(), is_taught=True)
    keys, hidden = model.encode(sources())
    with record() as recording:
        for _ in range(3):
            model.step(torch.tensor([[3]]), None, hidden, keys)
    assert not any(UNKNOWN in line for line in recording.notices)
    assert recording.notices[-1] == "drawn is the first of 3 forward passes; `passes` chooses others"


@torch.no_grad()
def test_queries_of_one_text_that_is_read_before_stay_apart():
    """All share the state of the layer that has read them, and none is made of another."""
    model = decoder()
    keys, _ = model.encode(sources())
    queries, _ = model.encode(sources(seed=1))
    with record() as recording:
        for query in (queries[:, :1], queries[:, 3:4]):
            model.attend(query, keys)
    assert len(recording.attention[0].rows) == 1


@torch.no_grad()
def test_a_state_that_is_not_seen_to_be_made_of_another_joins_nothing():
    """The text is that of the decoder, but the states were made before the recording began."""
    model = decoder(is_taught=True)
    keys, state = model.encode(sources())
    found = []
    for _ in range(STEPS):
        y, state = model.cell(model.embed(torch.tensor([[3]])), state)
        found.append(y)
    with record() as recording:
        for y in found:
            model.attend(y, keys)
    assert len(recording.attention[0].rows) == 1
    assert any(UNKNOWN in line for line in recording.notices)


@torch.no_grad()
@pytest.mark.parametrize("choose", ["index_select", "getitem", "gather"])
def test_examples_that_change_places_are_no_text(choose):
    model, places = decoder(), torch.tensor([1, 0])

    def moved(state):
        if choose == "gather":
            return state.gather(1, places.view(1, 2, 1).expand(1, 2, D))
        return state.index_select(1, places) if choose == "index_select" else state[:, places]

    with record() as recording:
        steps_of(model, sources(1).expand(2, -1), moved)
    assert len(recording.attention[0].rows) == 1
    assert any("changed their places, as the beams of a search do" in line for line in recording.notices)
    with record() as recording:
        steps_of(model, sources(1), lambda state: state[:, torch.tensor([0])])
    assert len(recording.attention[0].rows) == STEPS, "one example stays where it is"


def test_training_has_a_pass_for_each_text():
    model = decoder()
    with record(model, passes="0-") as recording:
        for _ in range(3):
            keys, hidden = model.encode(sources())
            context, state, total = torch.zeros(1, 1, D), hidden, 0
            for _ in range(STEPS):
                y, state = model.cell(torch.cat([model.embed(sources()[:, :1]), context], dim=-1), state)
                context, _ = model.attend(y, keys)
                total = total + context.sum()
            total.backward()
            for parameter in model.parameters():
                parameter.data -= 1e-4 * (0 if parameter.grad is None else parameter.grad)
    assert [len(m.rows) for m in recording.attention] == [STEPS] * 3


@torch.no_grad()
def test_a_cell_written_by_hand_goes_on_by_the_output_of_attention():
    model, layer = decoder(), nn.Linear(3 * D, D)
    keys, _ = model.encode(sources())
    with record() as recording:
        state = context = torch.zeros(1, 1, D)
        for _ in range(STEPS):
            state = torch.tanh(layer(torch.cat([state, context, keys[:, :1]], dim=-1)))
            context, _ = model.attend(state, keys)
    assert recording.attention[0].weights.shape == (1, STEPS, LENGTH)


@torch.no_grad()
def test_nothing_is_kept_of_a_program_that_has_run():
    model = decoder()
    with record(model) as recording:
        model(sources())
        model.taken()
        marked = recording._observer._recurrence._marks.objects()
        assert not [x for x in marked if x.is_floating_point()], "ids are kept for names"


@torch.no_grad()
def test_branches_of_a_search_that_begin_from_one_state_stay_apart():
    """Whose runs follow one another, as of a hand-written search with beams: a path ends where another goes on."""
    model = decoder(is_taught=True)
    with record(passes="0-") as recording:
        keys, hidden = model.encode(sources())
        _, _, state = model.step(torch.tensor([[3]]), None, hidden, keys)
        for word in (4, 5):
            model.step(torch.tensor([[word]]), None, state, keys)
        for word in (4, 5):
            model.step(torch.tensor([[word]]), None, hidden, keys)
    assert [len(m.rows) for m in recording.attention] == [2, 1, 1, 1]
    expected = np.split(model.taken()[0], [2, 3, 4], axis=1)
    for m, A in zip(recording.attention, expected, strict=True):
        np.testing.assert_allclose(m.weights, A, atol=CLOSE)


@torch.no_grad()
def test_keys_that_change_begin_a_new_pass():
    model = decoder()
    keys, hidden = model.encode(sources())
    words, context, state = sources()[:, :1], torch.zeros(1, 1, D), hidden
    with record(passes="0-") as recording:
        for _ in range(STEPS):
            words, context, state = model.step(words, context, state, keys)
            keys = keys * 1.01
    assert [len(m.rows) for m in recording.attention] == [1] * STEPS


@torch.no_grad()
def test_all_steps_in_one_call_of_a_module_with_padding():
    is_token = torch.tensor([[[True] * 4 + [False] * 2]])
    model = decoder(lambda q, k: Dot.forward(None, q, k, is_token))
    with record(model) as recording:
        model(sources())
    (m,) = recording.attention.maps
    np.testing.assert_allclose(m.weights, model.taken()[0, :, :, :4], atol=CLOSE)


def test_a_map_that_grows_by_queries_alone_keeps_its_kind(random_map):
    row = random_map(1, ("a",), ("x", "y"), kind="other")
    for grows, kind in ((False, "other"), (True, "masked")):
        growing = GrowingMap(row, 8)
        growing.add(np.full((1, 1, 2 + grows), 0.5, np.float32), grows)
        keys = Tokens(tuple("xyz"[: 2 + grows]))
        assert growing.result(Tokens(("a", "b")), keys).kind == kind


class InOneForward(nn.Module):
    """Reads one memory with several queries, which none is seen to be made of another."""

    def __init__(self, attend, cut):
        super().__init__()
        self.attend, self.cut, self.queries, self.keys = attend, cut, nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, y):
        keys = self.keys(y)
        return [self.attend(query, keys)[0] for query in self.cut(self.queries(x))]


@torch.no_grad()
def test_queries_of_one_forward_pass_that_may_be_steps_are_no_layers_of_a_module():
    model = InOneForward(Dot(), lambda q: [torch.from_numpy(row)[:, None] for row in q.transpose(0, 1).numpy()])
    with record(model, passes="0-") as recording:
        model(torch.randn(1, 3, D), torch.randn(1, LENGTH, D))
    assert [m.module for m in recording.attention] == ["attend"] * 3
    assert [m.pass_number for m in recording.attention] == [0, 1, 2]
    assert any(UNKNOWN in line and line.endswith("a new pass begins") for line in recording.notices)


@torch.no_grad()
@pytest.mark.parametrize("attend", [Dot(), Fused(), Layer()])
def test_a_loop_over_queries_is_one_layer(attend):
    model, x, y = InOneForward(attend, lambda q: q.split(1, 1)), torch.randn(1, 3, D), torch.randn(1, LENGTH, D)
    with record(model) as recording:
        model(x, y)
    assert [(m.layer, m.queries) for m in recording.attention] == [(0, (str(i),)) for i in range(3)]
    assert not any(UNKNOWN in line for line in recording.notices)
