import pytest

from mhaviz.training.grammar import _AFTER_THE_NOUN, _FEMININE, _MASCULINE, _VERBS, translation_corpus


@pytest.fixture(scope="module")
def corpus():
    return translation_corpus()


@pytest.fixture(scope="module")
def large():
    return translation_corpus(1, 20_000, 1)


def test_what_is_held_out_is_never_trained_on(corpus):
    for side in ("source", "target"):
        training, held_out = ({getattr(p, side) for p in part} for part in (corpus.training, corpus.held_out))
        assert not training & held_out
    assert len({pair.source for pair in corpus.pairs}) == len(corpus.pairs) == 8000
    assert len(corpus.held_out) == 500


def test_a_seed_writes_the_same_corpus():
    assert translation_corpus(1, 50, 5) == translation_corpus(1, 50, 5) != translation_corpus(2, 50, 5)


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("a small girl", "une petite fille"),
        ("my cats", "mes chats"),
        ("these heavy horses", "ces chevaux lourds"),
        ("new white house", "nouvelle maison blanche"),
        ("the red hats", "les chapeaux rouges"),
        ("your mouse", "ta souris"),
        ("your mice", "tes souris"),
        ("this old king", "ce vieux roi"),
        ("and some boats", "et des bateaux"),
        ("does not see", "ne voit pas"),
        ("do not want", "ne veulent pas"),
    ],
)
def test_phrases_whose_translation_anybody_can_check(large, english, french):
    found = [pair for pair in large.pairs if f" {english} " in f" {' '.join(pair.source)} "]
    assert found
    assert all(f" {french} " in f" {' '.join(pair.target)} " for pair in found)


def test_verbs_agree_with_their_subject(corpus):
    for pair in corpus.held_out:
        words = " ".join(pair.target)
        plural = pair.target[0] in ("les", "mes", "tes", "ces", "des")
        assert any(f" {form[plural]} " in words for form in (verb.french for verb in _VERBS)), words


def test_every_target_word_has_one_source_word(corpus):
    for pair in corpus.pairs:
        assert [target for _, target in pair.alignment] == list(range(len(pair.target)))
        assert all(0 <= source < len(pair.source) for source, _ in pair.alignment)


def test_alignment_links_translations(corpus):
    dictionary = {
        form: word.english
        for words in (_MASCULINE, _FEMININE, _AFTER_THE_NOUN)
        for word in words
        for form in word.french
    }
    negated = 0
    for pair in corpus.held_out:
        for i, j in pair.alignment:
            if pair.target[j] in dictionary:
                assert pair.source[i] in dictionary[pair.target[j]]
            if pair.target[j] in ("ne", "pas"):
                assert pair.source[i] == "not"
                negated += 1
    assert negated > 100


def test_adjectives_stand_where_they_belong(corpus):
    for pair in corpus.held_out:
        for adjective in _AFTER_THE_NOUN:
            for form in adjective.french:
                if form in pair.target:
                    before = pair.target[pair.target.index(form) - 1]
                    assert any(before in noun.french for noun in (*_MASCULINE, *_FEMININE)), pair
