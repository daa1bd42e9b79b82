"""Tokens as people read them: joined, they are the text again, whatever the tokenizer."""

import pytest
from families import bytes_and_words, sentence_pieces, word_pieces
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.errors import ArgumentError
from mhaviz.sources.pretrained.reading import name_tokens, read, read_without_names

TOKENIZERS = {"bytes": bytes_and_words(), "words": word_pieces(), "sentences": sentence_pieces()}


def joined(reading):
    """The text, with each character that is spread over several tokens once."""
    text = ""
    for i, token in enumerate(reading.tokens):
        piece, _, part = token.rpartition(" ")
        if part and "/" in part and part.split("/")[0].isdigit() and piece:
            token = piece if part.startswith("1/") else ""
        text += "" if i in reading.special else token
    return text


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", ["the cat sat", "playing", "naïve cat 😀 ran", "  the  cat", "the\ncat", "猫 the"])
def test_joined_they_are_the_text(name, text):
    tokenizer = TOKENIZERS[name]
    shown = joined(read(tokenizer, text))
    assert "".join(shown.split()) == "".join(text.split())
    assert shown.strip().startswith(text.split()[0][:1])


def test_words_begin_with_their_blank():
    assert read(TOKENIZERS["words"], "the cat playing").tokens == ("[CLS]", "the", " cat", " play", "ing", "[SEP]")
    assert read(TOKENIZERS["words"], "the cat").special == (0, 3)
    assert read(TOKENIZERS["sentences"], "the cat").tokens == ("the", " cat", "</s>")
    assert read(TOKENIZERS["bytes"], "a the cat").tokens == ("a", " the", " cat")


def test_bytes_of_one_character():
    assert read(TOKENIZERS["bytes"], "a 😀").tokens == ("a", " ", "😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4")
    assert read(TOKENIZERS["bytes"], "ï").tokens == ("ï 1/2", "ï 2/2")


@pytest.mark.parametrize("name", TOKENIZERS)
def test_what_a_model_has_written(name):
    tokenizer = TOKENIZERS[name]
    reading = read(tokenizer, "the cat sat")
    named = name_tokens(tokenizer, reading.ids)
    assert "".join(joined(named).split()) == "thecatsat"
    assert set(reading.special) <= set(named.special)
    half = name_tokens(TOKENIZERS["bytes"], read(TOKENIZERS["bytes"], "😀").ids[:2])
    assert len(half.tokens) == 2


@given(st.text(min_size=1, max_size=30), st.sampled_from(sorted(TOKENIZERS)))
def test_any_text(text, name):
    tokenizer = TOKENIZERS[name]
    if not len(read_without_names(tokenizer, [text])[0]):
        with pytest.raises(ArgumentError, match="expected a text with at least one token"):
            read(tokenizer, text)
        return
    reading = read(tokenizer, text)
    assert len(reading.tokens) == len(reading.ids) == len(tokenizer(text)["input_ids"])
    assert all(token for token in reading.tokens)
