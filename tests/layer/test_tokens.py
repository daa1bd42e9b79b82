import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.inputs.tokens import END, START
from mhaviz.layer.tokens import Vocabulary, tokenize


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("I wonder what will come next!", ["i", "wonder", "what", "will", "come", "next"]),
        ("This is a basic example paragraph.", ["this", "is", "a", "basic", "example", "paragraph"]),
        ("Hello, what is a basic split?", ["hello", "what", "is", "a", "basic", "split"]),
        ("Don't stop -- it's 3.14, 'quoted'.", ["don't", "stop", "it's", "3.14", "quoted"]),
        ("well-known snake_case a/b", ["well", "known", "snake", "case", "a", "b"]),
        ("$5 + 5% [bold] <b>", ["5", "5", "bold", "b"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("我喜欢学习。", list("我喜欢学习")),
        ("ありがとう", list("ありがとう")),
        ("love😀you 👨‍👩‍👧 ❤️ 👍🏽 🇩🇪🇫🇷", ["love", "😀", "you", "👨‍👩‍👧", "❤️", "👍🏽", "🇩🇪", "🇫🇷"]),
        ("naïve Ünïcode", ["naïve", "ünïcode"]),
        ("a\x1bb \udcff", ["a\x1bb", "\udcff"]),
        ("", []),
        (" \t\n", []),
        ("?!…", []),
    ],
)
def test_words(sentence, words):
    assert tokenize(sentence) == words


def test_a_german_noun_is_a_noun():
    assert tokenize("Der Hund, 'Bello', bellt.", keep_case=True) == ["Der", "Hund", "Bello", "bellt"]


@given(st.text(st.characters(), max_size=40))
def test_any_text_gives_clean_words(sentence):
    assert [word.lower() for word in tokenize(sentence, keep_case=True)] == tokenize(sentence)
    for word in tokenize(sentence):
        assert word
        assert not any(character.isspace() for character in word)
        assert word == word.lower()
        punctuation = {c for c in word if unicodedata.category(c)[0] == "P"}
        assert punctuation <= set("'’.,"), "only inside don't and 3.14"
        assert word.strip("'’.,") == word


@given(st.lists(st.sampled_from(["the", "cat", "sat", "on"]), max_size=8))
def test_blanks_separate(words):
    assert tokenize("  ".join(words)) == words


def test_vocabulary_numbers_words_as_they_appear_and_pads():
    vocabulary = Vocabulary([["the", "cat", "the"], ["a", "cat"]])
    assert len(vocabulary) == 4
    assert vocabulary.ids(["the", "cat", "the"]) == [1, 2, 1]
    assert vocabulary.ids(["a"], length=3) == [3, Vocabulary.PADDING, Vocabulary.PADDING]
    with pytest.raises(KeyError):
        vocabulary.ids(["dog"])


def test_vocabulary_knows_its_words():
    vocabulary = Vocabulary([[START, END], ["the", "cat"]])
    assert vocabulary.words == (START, END, "the", "cat")
    assert [vocabulary.word(number) for number in vocabulary.ids(["cat", "the"])] == ["cat", "the"]
    assert "cat" in vocabulary
    assert "dog" not in vocabulary


def test_no_sentence_has_a_word_like_a_mark():
    assert tokenize(f"{START} a {END}") == ["start", "a", "end"]
