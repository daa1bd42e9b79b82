"""Which heads link two words, beside numpy on the weights of transformers' eager attention."""

import numpy as np
import pytest
import torch
from animal import FOLDER
from scipy import stats
from transformers import AutoModel, AutoTokenizer

import mhaviz
from mhaviz.analyses import head_pairs
from mhaviz.analyses.head_pairs import PairStudy, PlacedPair
from mhaviz.attention.call import AttentionWeights
from mhaviz.attention.model import Inputs, Site, SiteCall
from mhaviz.inputs.pairs import WordPair
from mhaviz.inputs.tokens import Text, Tokens
from mhaviz.results.result import Source

PAIRS = [
    ("The animal did not cross the street because it was too tired.", "it", "animal"),
    ("Mary went to the shop because she needed unpasteurised milk.", "unpasteurised", "Mary"),
    ("The old ship sank when it hit a rock.", "it", "ship"),
    ("The king said that he would leave.", "he", "king"),
]
SOURCE = Source("made by a test")


@pytest.fixture(scope="module")
def minilm():
    return mhaviz.load(FOLDER, dtype="float64")


@pytest.fixture(scope="module")
def found(minilm):
    return minilm.head_pairs(PAIRS).kinds[0]


def by_hand(model, tokenizer, text, query, key):
    """Weight of all heads on a key, (n_layers, n_heads), and by chance, from words as the tokenizer numbers them."""
    read = tokenizer(text, return_tensors="pt")
    names = {text[slice(*read.word_to_chars(i))].strip(): i for i in set(read.word_ids()) - {None}}
    rows, columns = ([i for i, word in enumerate(read.word_ids()) if word == names[one]] for one in (query, key))
    with torch.no_grad():
        weights = [a[0].numpy() for a in model(**read, output_attentions=True).attentions]
    seen = [i + 1 if model.config.model_type == "gpt2" else len(read.word_ids()) for i in rows]
    weight = np.array([a[:, rows][:, :, columns].sum(axis=2).mean(axis=1) for a in weights])
    return weight, np.mean([len(columns) / n for n in seen])


def expected(folder, pairs):
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    weights, chances = zip(*(by_hand(model, tokenizer, *pair) for pair in pairs), strict=True)
    return np.array(weights), np.mean(chances)


def test_weights_and_their_intervals(found):
    weights, chance = expected(FOLDER, PAIRS)
    assert np.array([look.weights for look in found.looks]) == pytest.approx(weights, abs=1e-9)
    weight, half, n = found.weight, found.half, len(PAIRS)
    assert weight.mean == pytest.approx(weights.mean(axis=0), abs=1e-9)
    assert weight.chance == pytest.approx(np.full((6, 12), chance), abs=1e-9)
    low, high = stats.t.interval(0.95, n - 1, weights.mean(axis=0), stats.sem(weights, axis=0))
    assert weight.low == pytest.approx(low.clip(0), abs=1e-8)
    assert weight.high == pytest.approx(high.clip(max=1), abs=1e-8)
    assert half.mean == pytest.approx((weights > 0.5).mean(axis=0))
    share = stats.binomtest(round(half.mean[3, 1] * n), n).proportion_ci(method="wilson")
    assert (half.low[3, 1], half.high[3, 1]) == pytest.approx(tuple(share))


def test_the_rule_of_an_answer_to_one_query(minilm, found):
    for look in found.looks:
        answer = minilm.attend(look.pair.text).answer(look.pair.query).looks[0]
        assert answer.keys.texts == look.words.texts
        for one in answer.heads:
            place = one.layer, one.head
            assert look.targets[place] == one.target
            assert look.target_weights[place] == pytest.approx(one.weight, abs=1e-6)
            assert look.found[place] == (one.target == look.key and one.is_ranked)
            if one.target == look.key:
                assert look.usual[place] == pytest.approx(one.others, abs=1e-6)
    assert found.found.mean[3, 1] == np.mean([look.found[3, 1] for look in found.looks]) > 0


def test_a_block_of_queries_at_a_time(minilm, found, monkeypatch):
    monkeypatch.setattr(head_pairs, "_BLOCK", 500)
    again = minilm.head_pairs(PAIRS).kinds[0]
    for name, number in found.numbers.items():
        assert again.number(name).mean == pytest.approx(number.mean, abs=1e-12), name


def test_masked_attention(model_folder):
    pairs = [("the cat sat on the mat that dog", "dog", "cat"), ("a hat on that mat sat", "sat", "hat")]
    (kind,) = mhaviz.head_pairs(mhaviz.load(model_folder("gpt2"), dtype="float64"), pairs).kinds
    weights, chance = expected(model_folder("gpt2"), pairs)
    assert kind.kind == "masked"
    assert kind.weight.mean == pytest.approx(weights.mean(axis=0), abs=1e-9)
    assert kind.weight.chance == pytest.approx(np.full(weights.shape[1:], chance), abs=1e-9)


def test_from_thirty_pairs_on_intervals_are_of_a_bootstrap(model_folder):
    pairs = [(f"the cat {'sat ' * n}on a mat", "mat", "cat") for n in range(1, 31)]
    model = mhaviz.load(model_folder("bert"))
    few, many = (model.head_pairs(pairs[:n]).kinds[0].weight for n in (29, 30))
    for number, is_of_student in ((few, True), (many, False)):
        error = number.spread / np.sqrt(number.sentences)
        low = number.mean - stats.t.ppf(0.975, number.sentences - 1) * error
        assert (number.low == pytest.approx(low, abs=1e-12)) == is_of_student
        assert number.low == pytest.approx(low, abs=0.5 * error.max())


class Heads:
    """A model of one layer with given weights, (n_heads, length, length), for each text; ``seen``: in the same shape,
    what masks of each head let queries see."""

    def __init__(self, *weights, seen=None):
        self.weights, self.seen = weights, None if seen is None else torch.tensor(seen)[None]

    def sites(self, inputs):
        return (Site("self", 0, len(self.weights[0]), 1),)

    def run(self, inputs, on_attention, batched):
        (site,) = self.sites(inputs)
        for number, (a, text) in enumerate(zip(self.weights, inputs.texts, strict=True)):
            call = AttentionWeights(torch.tensor(a)[None], seen=self.seen)
            heads = tuple(range(site.n_heads))
            on_attention(SiteCall(site, call, heads, (text.source,), (text.source,), sentence=number))


def studied(tokens, weights, query, key, seen=None):
    study, text = PairStudy(), Text(tokens)
    pair = WordPair("".join(tokens.texts), query, key, "a pair")
    study.add(Heads(weights, seen=seen), Inputs((text,)), [PlacedPair.of(pair, tokens, ["self"])], [0])
    return study.result(SOURCE).kinds[0]


def test_a_head_that_looks_there_anyway_finds_nothing():
    tokens = Tokens(("[CLS]", "one", " two", " three", " four", " five", " six", "[SEP]"), (0, 7))
    weights = np.full((4, 8, 8), 0.01)
    weights[0, np.arange(1, 8), np.arange(7)] = 0.93  # the word before
    weights[1, :, 4] = 0.93  # "four", from any word
    weights[2, :, 0] = 0.93
    weights[2, 5, [0, 4]] = 0.01, 0.93  # from "five" alone
    weights[3, :, 0] = 0.93  # a sink
    kind = studied(tokens, weights, "five", "four")
    assert kind.weight.mean[0].tolist() == pytest.approx([0.93, 0.93, 0.93, 0.01])
    assert kind.usual.mean[0].tolist() == pytest.approx([0.93, 0.93, 0.01, 0.01])
    assert kind.found.mean[0].tolist() == [0, 0, 1, 0]
    assert kind.picked.tolist() == [1 / 5]  # of five words that are neither the query nor special
    assert (kind.best.row, kind.best.column, kind.best.by_luck) == (0, 2, True)


def test_a_word_that_is_a_sink_is_no_rival():
    """The first word takes most of the weight of every word, so that it tells nothing of "five"."""
    tokens = Tokens(("one", " two", " three", " four", " five", " six", " seven"))
    weights = np.full((1, 7, 7), 0.01)
    weights[:, :, 0] = 0.94
    weights[:, 4, [0, 3]] = 0.8, 0.15
    kind = studied(tokens, weights, "five", "four")
    assert kind.looks[0].targets.tolist() == [[3]]
    assert kind.found.mean.tolist() == [[1.0]]
    assert kind.picked.tolist() == [1 / 5]


def test_a_sink_that_a_mask_hides_in_some_heads_is_one():
    """The first head sees neighbours alone; the others give most of their weight to the first word."""
    tokens = Tokens(("one", " two", " three", " four", " five", " six", " seven"))
    seen = np.ones((3, 7, 7), bool)
    seen[0] = abs(np.subtract.outer(np.arange(7), np.arange(7))) <= 1
    weights = np.full((3, 7, 7), 0.01)
    weights[:, :, 0] = 0.94
    weights[1:, 4, [0, 3]] = 0.8, 0.15
    weights[0] = seen[0] / seen[0].sum(axis=1, keepdims=True)
    kind = studied(tokens, weights, "five", "four", seen)
    assert kind.looks[0].targets[0, 1:].tolist() == [3, 3]
    assert kind.picked.tolist() == [1 / 5]


def test_too_few_words_are_not_judged():
    tokens = Tokens(("one", " two", " three"))
    kind = studied(tokens, np.full((1, 3, 3), 1 / 3), "three", "one")
    assert np.isnan(kind.found.mean).all()
    assert kind.weight.mean == pytest.approx(1 / 3)
    assert kind.best is None


TEXT = Tokens(("[CLS]", "the", " cat", " saw", " the", " dog", " pay", " 3", ".", "50", "[SEP]"), (0, 10))


@pytest.mark.parametrize(
    ("query", "key", "words"),
    [
        ("saw", "cat", (" saw", " cat")),
        ("the #4", "the #1", (" the", "the")),
        (5, "#2", (" dog", " cat")),
        ("dog", "3.50", (" dog", " 3.50")),
        ("DOG", "[CLS]", (" dog", "[CLS]")),
    ],
)
def test_words_are_named_as_everywhere(query, key, words):
    placed = PlacedPair.of(WordPair("", query, key), TEXT, ["self"])
    assert tuple(placed.words[i].name for i in (placed.query, placed.key)) == words
    assert placed.edges[-1] == len(TEXT)


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        ("the", "cat", "p.tsv, line 3: query: 'the' occurs 2 times; give a position: 'the #1', 'the #4'"),
        ("saw", "cow", "p.tsv, line 3: key: expected a word, or a position from 0 to 10, got 'cow'; "),
        (11, "cat", "p.tsv, line 3: query: expected a word, or a position from 0 to 10, got 11; there are #0 '[CLS]'"),
        ("cat", "#2", "p.tsv, line 3: expected two words, got one, 'cat'"),
        ("3.50", "50", "p.tsv, line 3: expected two words, got one, '3.50'"),
        ("cat", "dog", "p.tsv, line 3: expected a key before the query, as masked self-attention hides later ones"),
    ],
)
def test_pairs_that_are_not_there(query, key, message):
    with pytest.raises(mhaviz.ArgumentError) as raised:
        PlacedPair.of(WordPair("", query, key, "p.tsv, line 3"), TEXT, ["masked"])
    assert str(raised.value).startswith(message)


def test_only_attention_within_a_text(model_folder):
    model, pair = mhaviz.load(model_folder("bart")), ("the cat sat on a mat", "mat", "cat")
    assert [kind.kind for kind in model.head_pairs([pair]).kinds] == ["self"]
    with pytest.raises(mhaviz.ArgumentError, match=r"`kind`: expected attention within a text, .* got cross"):
        model.head_pairs([pair], kind="cross")
