import math

import pytest
import torch

from mhaviz.inputs.tokens import END, START
from mhaviz.training.corpus import Pair, PairBatch
from mhaviz.training.evaluation import held_out_score, perplexity, translate
from mhaviz.training.grammar import translation_corpus
from mhaviz.training.loading import load_checkpoint

CPU = torch.device("cpu")


@pytest.fixture
def shipped():
    return load_checkpoint("translation")


def test_the_sentence_of_the_readme(shipped):
    (pair,) = translate(shipped, [["the", "small", "black", "cat", "does", "not", "see", "my", "red", "car"]], CPU)
    assert " ".join(pair.target) == "le petit chat noir ne voit pas ma voiture rouge"


def test_what_comes_with_mhaviz_translates_what_it_has_not_seen(shipped):
    corpus = translation_corpus(shipped.plan.seed)
    assert corpus.fingerprint == shipped.fingerprint
    assert held_out_score(shipped, corpus.held_out, CPU) >= 0.99


def test_exact_match_counts_whole_sentences(shipped):
    right = Pair(("the", "cat", "sees", "my", "car"), ("le", "chat", "voit", "ma", "voiture"))
    wrong = Pair(right.source, (*right.target[:-1], "vache"))
    assert held_out_score(shipped, [right, wrong, right, right], CPU) == 0.75


def test_perplexity_word_by_word(shipped):
    pairs = [
        Pair(("the", "cat", "sees", "my", "car"), ("le", "chat", "voit", "ma", "vache")),
        Pair(("some", "cats", "see", "a", "small", "car"), ("des", "chats", "voient", "une", "petite", "voiture")),
    ]
    model, losses = shipped.model, []
    for pair in pairs:
        memory, _ = model.encode(torch.tensor([shipped.source_vocabulary.ids(pair.source)]))
        target = shipped.target_vocabulary.ids([START, *pair.target, END])
        logits = model.decode(torch.tensor([target[:-1]]), memory).logits[0]
        chances = torch.softmax(logits.detach().double(), dim=-1)
        losses += [-math.log(chances[i, word]) for i, word in enumerate(target[1:])]
    assert perplexity(shipped, pairs, CPU) == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-4)


def test_a_batch_of_pairs(shipped):
    pairs = [Pair(("the", "cat"), ("le",)), Pair(("a", "dog", "and"), ("un", "chien"))]
    source, target = shipped.source_vocabulary, shipped.target_vocabulary
    batch = PairBatch(pairs, source, target, CPU)
    assert batch.source_ids.tolist() == [source.ids(["the", "cat"], 3), source.ids(["a", "dog", "and"])]
    assert batch.read_ids.tolist() == [target.ids([START, "le"], 3), target.ids([START, "un", "chien"])]
    assert batch.expected_ids.tolist() == [target.ids(["le", END], 3), target.ids(["un", "chien", END])]
    assert batch.source_mask[:, 0, 0].tolist() == [[True, True, False], [True, True, True]]
    assert PairBatch(pairs[:1], source, target, CPU).source_mask is None
