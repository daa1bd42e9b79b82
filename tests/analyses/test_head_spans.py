"""How heads look at spans of many texts, beside the means that numpy makes of the maps of each."""

import numpy as np
import pytest
import torch
from families import FAMILIES, OTHERS
from looking import GivenModel
from made import span_map
from rounding import rounding

import mhaviz
from mhaviz.analyses import head_spans as module
from mhaviz.analyses.averages import averages
from mhaviz.analyses.head_spans import SpanStudy
from mhaviz.analyses.span_numbers import MapBesideUniform
from mhaviz.attention.call import AttentionCall
from mhaviz.errors import ArgumentError
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.results.result import Source
from mhaviz.results.sinks import sinks_at

CLOSE = rounding(depth=2)


def message(role, content):
    return {"role": role, "content": content}


CHATS = [
    [message("system", "the mat"), message("user", "hello cat"), message("assistant", "a dog ran")],
    [message("user", "the cat sat on a mat"), message("assistant", "hello the world and the dog")],
    [message("system", "sat"), message("user", "the cat"), message("assistant", "hello a"),
     message("user", "the dog ran on the mat"), message("assistant", "the end")],
    [message("user", "nobody answers")],
    [message("user", "too long " * 50), message("assistant", "a")],
]  # fmt: skip
QUERY = "assistant"
ROLES = ("system", "user", "assistant")


@pytest.fixture(scope="module")
def chatting():
    kind, config, words = OTHERS["chat"]
    torch.manual_seed(0)
    model = kind(config()).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return mhaviz.load(model, words())


@pytest.fixture(scope="module")
def found(chatting):
    notices = []
    return chatting.head_spans(CHATS, QUERY, on_notice=notices.append), notices


def spans_of(attention):
    """The messages of each role, from a map by turn: "user 1" and "user 2" are of the user."""
    roles = {}
    for name, ranges in zip(attention[0].queries, attention[0].rows.tokens.ranges, strict=True):
        roles.setdefault(name.split()[0], []).extend(map(list, ranges))
    return [{"name": role, "tokens": runs} for role, runs in roles.items()]


@pytest.fixture(scope="module")
def of_texts(chatting):
    """Maps by span of each chat that is read, whose spans are given by their tokens."""
    by_turn = [chatting.attend(chat=chat, by="turn") for chat in CHATS[:3]]
    return [chatting.attend(chat=chat, by=spans_of(a)) for chat, a in zip(CHATS, by_turn, strict=False)]


def columns(m, names):
    return [j for j, key in enumerate(m.keys) if key in names and not np.isnan(m.chance[..., j]).all()]


def test_means_are_those_of_the_maps_of_each_text(found, of_texts):
    (kind,) = found[0].kinds
    assert (kind.kind, kind.layers, tuple(kind.spans), kind.query) == ("masked", (0, 1), ROLES, QUERY)
    for name in ROLES:
        masses, chances = [], []
        for attention in of_texts:
            if name in attention[0].keys:
                rows = [m.queries.index(QUERY) for m in attention]
                places = [columns(m, [name])[0] for m in attention]
                each = list(zip(attention, rows, places, strict=True))
                masses.append(np.stack([m.weights[:, row, j] for m, row, j in each]))
                chances.append(np.stack([m.chance[:, row, j] for m, row, j in each]))
        number = kind.spans[name]
        assert number.sentences == len(masses) == (2 if name == "system" else 3)
        np.testing.assert_allclose(number.mean, np.mean(masses, axis=0), atol=CLOSE)
        np.testing.assert_allclose(number.chance, np.mean(chances, axis=0), atol=CLOSE)
        np.testing.assert_allclose(number.spread, np.std(masses, axis=0, ddof=1), atol=CLOSE)
        np.testing.assert_allclose(kind.ratios(name), np.mean(masses, axis=0) / np.mean(chances, axis=0), rtol=1e-3)


def test_the_rest_the_sinks_and_what_looks_back(found, of_texts):
    (kind,) = found[0].kinds
    rest, sinks, lookback = [], [], []
    for attention in of_texts:
        row = attention[0].queries.index(QUERY)
        of_sinks = [list(m.sinks.keys) if m.sinks else [] for m in attention]
        others = [[j for j in range(len(m.keys)) if np.isnan(m.chance[..., j]).all()] for m in attention]
        each = list(zip(attention, of_sinks, others, strict=True))
        sinks.append([m.weights[:, row, those].sum(axis=1) for m, those, _ in each])
        rest.append([m.weights[:, row, [j for j in j_s if j not in those]].sum(axis=1) for m, those, j_s in each])
        lookback.append([m.lookback[:, row] for m in attention])
    np.testing.assert_allclose(kind.rest, np.mean(rest, axis=0), atol=CLOSE)
    np.testing.assert_allclose(kind.sinks, np.mean(sinks, axis=0), atol=CLOSE)
    assert kind.rest.min() > 0, "what the template adds"
    ratios = np.array(lookback, np.float64)
    assert np.isnan(ratios[2]).all(), "two answers, which begin at no one position"
    assert kind.lookback.sentences == 2
    np.testing.assert_allclose(kind.lookback.mean, np.nanmean(ratios, axis=0), atol=CLOSE)


def test_texts_that_are_left_out_are_counted(found):
    result, notices = found
    assert (result.texts, result.without, result.too_long) == (3, 1, 1)
    assert notices == [
        "1 text of 5 left out: longer than the model can read",
        "1 text of 5 left out: without a span “assistant”",
    ]
    assert result.to_dict()["without_query"] == 1


def test_the_query_is_the_last_span_of_the_first_text(chatting):
    assert chatting.head_spans(CHATS[:1]).query == "assistant"
    assert chatting.head_spans(CHATS[3:4]).query == "user"


@pytest.mark.parametrize(
    ("texts", "query", "reason"),
    [
        (CHATS[:2], "tool", "`query`: expected texts with a span 'tool', got none among 2 texts"),
        (
            CHATS[3:],
            "tool",
            "`query`: expected texts with a span 'tool', got none among 1 text; 1 text left out: longer than the model "
            "can read",
        ),
        *(
            (
                CHATS[4:],
                query,
                "expected at least one text that the model can read, got none: 1 text left out: longer than the model "
                "can read",
            )
            for query in (None, "tool")
        ),
    ],
)
def test_why_no_text_is_left_is_said(chatting, texts, query, reason):
    with pytest.raises(ArgumentError) as raised:
        chatting.head_spans(texts, query)
    assert str(raised.value) == reason


TEXT = "the cat sat on a mat and the dog ran"
MARKED = [
    {"text": TEXT, "spans": [{"name": "sinks", "text": "the cat"}, {"name": "rest", "text": "on a"},
                             {"name": "lookback", "text": "ran"}]},
    {"text": "hello the world ran", "spans": [{"name": "sinks", "tokens": [0, 3]},
                                              {"name": "lookback", "text": "ran"}]},
]  # fmt: skip


@pytest.mark.parametrize("name", ["chat", "bert"])
def test_spans_may_have_any_name(chatting, name):
    """Also those of what is counted besides spans."""
    if name == "chat":
        loaded = chatting
    else:
        kind, config, words = FAMILIES[name]
        torch.manual_seed(0)
        loaded = mhaviz.load(kind(config()).eval(), words())
    result = loaded.head_spans(MARKED, "lookback")
    (of_kind,) = result.kinds
    maps = [loaded.attend(one["text"], by=one["spans"]) for one in MARKED]
    assert tuple(of_kind.spans) == ("sinks", "rest", "lookback")
    of_both = [m.weights[:, m.queries.index("lookback"), columns(m, ["sinks"])[0]] for m in (a[0] for a in maps)]
    np.testing.assert_allclose(of_kind.spans["sinks"].mean[0], np.mean(of_both, axis=0), atol=CLOSE)
    first = maps[0][1]
    own = first.weights[:, first.queries.index("lookback"), first.keys.index("rest")]
    np.testing.assert_allclose(of_kind.spans["rest"].mean[1], own, atol=CLOSE)
    looks_back = np.isfinite(of_kind.lookback.mean)
    assert looks_back.all() if name == "chat" else not looks_back.any()


def test_some_layers_and_an_order_of_spans(chatting):
    (kind,) = chatting.head_spans(CHATS[1:3], layer=1).kinds
    assert kind.layers == (1,)
    assert tuple(kind.spans) == ("user", "assistant", "system"), "in the order in which they come"
    assert kind.others == ["user", "system"]


def of_maps(monkeypatch, texts):
    """The study of texts whose maps by span, of layers, are given."""
    given = iter(texts)
    monkeypatch.setattr(
        module, "maps_beside_uniform", lambda *_: [MapBesideUniform(m, m.lookback) for m in next(given)]
    )
    model = GivenModel("masked", AttentionCall(*[torch.zeros(1, 1, 20, 4)] * 3, 0.5, True))
    study = SpanStudy(None)
    for _ in texts:
        study.add(
            model, model.encode(), SpanChoice.of([{"name": "a", "tokens": [0, 9]}, {"name": "b", "tokens": [9, 20]}])
        )
    (kind,) = study.result(Source("made by hand"), 0).kinds
    return kind


@pytest.mark.parametrize("window", [None, 6, 13])
def test_the_lookback_ratio_is_beside_that_of_uniform_attention(window):
    """Over two texts, and one whose first span looks back to nothing; in a window not all that is before is seen."""
    positions, study, expected = np.arange(20), SpanStudy("answer"), []
    distance = positions[:, None] - positions
    seen = (distance >= 0) & (distance < (window or 20))
    given = AttentionCall(*[torch.zeros(1, 2, 20, 4)] * 3, 0.5, mask=torch.from_numpy(seen)[None, None])
    model = GivenModel("masked", given)
    for first in (8, 12, 0):
        study.add(model, model.encode(), SpanChoice.of([{"name": "answer", "tokens": [first, 20]}]))
        A = seen / seen.sum(axis=1, keepdims=True)
        each = ((A[i, :first].sum() / max(first, 1), A[i, first : i + 1].mean()) for i in range(first, 20))
        expected += [np.mean([c / (c + w) for c, w in each])] * bool(first)
    (kind,) = study.result(Source("made by hand"), 0).kinds
    np.testing.assert_allclose(kind.lookback.chance, np.full((1, 2), np.mean(expected)), atol=CLOSE)
    np.testing.assert_allclose(kind.lookback.mean, kind.lookback.chance, atol=CLOSE)
    assert (abs(kind.lookback.chance - 0.5) < CLOSE).all() == (window is None)


def test_what_has_no_lookback_ratio_has_no_chance_of_one():
    model, study = GivenModel("self", AttentionCall(*[torch.zeros(1, 2, 20, 4)] * 3, 0.5)), SpanStudy("b")
    study.add(model, model.encode(), SpanChoice.of([{"name": "b", "tokens": [9, 20]}]))
    assert np.isnan(study.result(Source("made by hand"), 0).kinds[0].lookback.chance).all()


def by_span(random, n_heads=3, layer=0, lookback=None):
    mass = random.dirichlet(np.ones(3), (n_heads, 2))
    return span_map(("a", "b"), mass, [[0.5, 0], [0.2, 0.6]], apart=("(rest)",), layer=layer, lookback=lookback)


@pytest.mark.parametrize("n_texts", [1, 3, 30])
def test_intervals_are_those_of_few_or_many_texts(monkeypatch, n_texts):
    random = np.random.default_rng(0)
    texts = [(by_span(random),) for _ in range(n_texts)]
    number = of_maps(monkeypatch, texts).spans["a"]
    own = np.array([m.weights[None, :, 1, 0] for (m,) in texts], np.float64)
    (expected,) = averages(own[..., None], np.ones((n_texts, 1, 1), bool), ["a"]).values()
    for name in ("mean", "spread", "low", "high", "sentences"):
        np.testing.assert_allclose(getattr(number, name), expected[name], atol=1e-12)
    assert np.isfinite(number.low).all() == (n_texts > 1)


def test_sinks_are_no_rest(monkeypatch):
    """One text has both, one has two sinks, of which one has the name of the rest."""
    random, texts = np.random.default_rng(0), []
    for apart, sinks in ((("(rest)", "<s>"), [3]), (("(rest)", "."), [2, 3])):
        mass = random.dirichlet(np.ones(4), (3, 2))
        texts.append((span_map(("a", "b"), mass, [[0.5, 0], [0.2, 0.6]], apart=apart, sinks=sinks_at(sinks)),))
    kind = of_maps(monkeypatch, texts)
    (first,), (second,) = texts
    np.testing.assert_allclose(kind.rest[0], first.weights[:, 1, 2] / 2, atol=1e-7)
    both = (first.weights[:, 1, 3] + second.weights[:, 1, 2:].sum(axis=1)) / 2
    np.testing.assert_allclose(kind.sinks[0], both, atol=1e-7)


def test_heads_that_a_layer_lacks_have_no_number(monkeypatch):
    random = np.random.default_rng(0)
    maps = by_span(random, 3), by_span(random, 2, layer=4)
    kind = of_maps(monkeypatch, [maps])
    assert kind.layers == (0, 4)
    for numbers, j in ((kind.spans["a"].mean, 0), (kind.spans["b"].mean, 1), (kind.rest, 2)):
        np.testing.assert_allclose(numbers[0], maps[0].weights[:, 1, j], atol=1e-7)
        np.testing.assert_allclose(numbers[1, :2], maps[1].weights[:, 1, j], atol=1e-7)
        assert np.isnan(numbers[1, 2])
    assert np.isnan(kind.lookback.mean).all()


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([], "`texts`: expected at least one text, such as"),
        ([CHATS[0], []], "`texts`, text 2: expected a list of messages"),
        ([{"text": " ", "spans": [{"name": "a", "text": "b"}]}], "`texts`, text 1: text: expected a text, got ' '"),
        ([{"text": "a b", "spans": []}], "`texts`, text 1: "),
        (
            [CHATS[0], {"text": "a b", "spans": [{"name": "a", "text": "c"}]}],
            "`texts`, text 2: `by`: span 'a': expected",
        ),
    ],
)
def test_texts_that_are_wrong_are_named(chatting, texts, reason):
    with pytest.raises(ArgumentError) as raised:
        chatting.head_spans(texts)
    assert str(raised.value).startswith(reason)
    assert "\n" not in str(raised.value)


def test_best_heads_are_those_with_the_largest_ratio_and_some_weight(found):
    (kind,) = found[0].kinds
    told = {
        (name, row, column): kind.spans[name].mean[row, column] / kind.spans[name].chance[row, column]
        for name in ("system", "user")
        for row in range(2)
        for column in range(4)
        if kind.spans[name].mean[row, column] >= 0.05
    }
    assert kind.best == max(told, key=told.get)
    assert kind.turns(*kind.best) == (told[kind.best] >= 2)
