"""Words of a text: which tokens belong to one, by their labels and by the tokenizer."""

import re
from itertools import pairwise

import families
import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.spans import Span, span_tokens, words
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.models.transformers.read import read


def counted(tokens):
    """The words, each with the number of its tokens."""
    spans = words(tokens)
    assert [place for span in spans for start, end in span.ranges for place in range(start, end)] == [
        *range(len(tokens))
    ]
    return [(span.name, end - start) for span in spans for start, end in span.ranges]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([" The", " didn", "'", "t", " stop", "."], [(" The", 1), (" didn't", 3), (" stop", 1), (".", 1)]),
        ([" state", "-", "of", "-", "the", "-", "art"], [(" state-of-the-art", 7)]),
        ([" Donau", "dampf", "schiff", ",", " ab"], [(" Donaudampfschiff", 3), (",", 1), (" ab", 1)]),
        ([" M", "ü 1/2", "ü 2/2", "ller", " und"], [(" Müller", 4), (" und", 1)]),
        ([" a", " 😀 1/2", " 😀 2/2", "b"], [(" a", 1), (" 😀", 2), ("b", 1)]),
        ([" हि", "न्", "दी", " भाषा"], [(" हिन्दी", 3), (" भाषा", 1)]),
        (["c", "a", "t", " ", "n", "o", "."], [("cat", 3), (" ", 1), ("no", 2), (".", 1)]),
        (["the", "small", "cat"], [("the", 1), ("small", 1), ("cat", 1)]),
        ([" w12", "3", " '", "tis", "'"], [(" w123", 2), (" '", 1), ("tis", 1), ("'", 1)]),
        ([" 猫", " is", " a", " cat"], [(" 猫", 1), (" is", 1), (" a", 1), (" cat", 1)]),
        ([" The", " 日", "本", " flag"], [(" The", 1), (" 日", 1), ("本", 1), (" flag", 1)]),
        (
            [" Mr", "李", "小", "s", "'", " son", "s"],
            [(" Mr", 1), ("李", 1), ("小", 1), ("s", 1), ("'", 1), (" sons", 2)],
        ),
        (
            [" a", " 日 1/3", " 日 2/3", " 日 3/3", "本", "s", " b"],
            [(" a", 1), (" 日", 3), ("本", 1), ("s", 1), (" b", 1)],
        ),
        ([" on", " 10", "月", "s"], [(" on", 1), (" 10月s", 3)]),
        (["ü 2/2", " a", "b"], [("ü 2/2", 1), (" ab", 2)]),
        (["", " a", "b"], [("", 1), (" ab", 2)]),
    ],
)
def test_words_by_their_labels(texts, found):
    assert counted(Tokens(tuple(texts))) == found


def test_special_tokens_stay_single():
    tokens = Tokens(("[CLS]", " un", "done", "x", "[SEP]", "y"), (0, 3, 4))
    assert counted(tokens) == [("[CLS]", 1), (" undone", 2), ("x", 1), ("[SEP]", 1), ("y", 1)]
    assert span_tokens(words(tokens), tokens).special == (0, 2, 3)


@pytest.mark.parametrize(
    ("tokenizer", "text", "found"),
    [
        ("word_pieces", "playings", [("[CLS]", 1), ("playings", 3), ("[SEP]", 1)]),
        ("word_pieces", "the token's", [("[CLS]", 1), ("the", 1), (" token's", 3), ("[SEP]", 1)]),
        ("bytes_and_words", "Müller 😀 the", [("Müller", 7), (" 😀", 5), (" the", 1)]),
        ("sentence_pieces", "the playing cats!", [("the", 1), (" playing", 4), (" cats!", 3), ("</s>", 1)]),
        ("sentence_pieces", "zoo the", [(" zoo", 4), (" the", 1), ("</s>", 1)]),
        ("sentence_pieces_and_bytes", "the cat ü", [("<s>", 1), ("the", 1), (" cat", 1), (" ü", 3)]),
    ],
)
def test_words_by_the_tokenizer(tokenizer, text, found):
    assert counted(read(getattr(families, tokenizer)(), text)) == found


@pytest.mark.parametrize("text", ["the playing cat.", "zoo sat on a mat", "world"])
def test_pieces_with_one_number_of_the_tokenizer_are_one_word(text):
    tokenizer = families.sentence_pieces()
    numbers = tokenizer(text).word_ids()
    of_words = [i for i, span in enumerate(words(read(tokenizer, text))) for _ in range(*span.ranges[0])]
    same = [a == b is not None for a, b in pairwise(numbers)]
    assert [a == b for a, b in pairwise(of_words)] == same


def test_parts_of_tokens_keep_their_words():
    tokens = read(families.word_pieces(), "playings")
    assert tokens.continued == (2, 3)
    assert counted(tokens[1:4]) == [("playings", 3)]
    assert counted(tokens[2:4]) == [("ings", 2)]
    assert counted(tokens + tokens)[3:] == counted(tokens)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (Tokens(("0", "1", "2")), "expected names of tokens, to know where words begin, got positions, such as '0'"),
        (Tokens(("row 0", "row 1")), "expected names of tokens"),
        (Tokens(()), "expected names of tokens"),
        (patch_tokens(2, 2, 1), "expected tokens of a text, got patches of an image"),
        (Tokens(("我", "爱", "你")), "expected blanks between words, got '我爱', which needs a segmenter"),
        (Tokens((" The", " 日", "本", "語", " flag")), "expected blanks between words, got '日本'"),
        (Tokens((" the", "日 1/3", "日 2/3", "日 3/3", "本")), "expected blanks between words, got '日本'"),
        (Tokens(("[CLS]", "日", "本", "[SEP]"), (0, 3)), "expected blanks between words, got '日本'"),
        (Tokens((" สวัส", "ดี")), "expected blanks between words"),
        (Tokens((" ดี", "จ้า")), "expected blanks between words"),
    ],
)
def test_what_has_no_known_words(tokens, reason):
    with pytest.raises(ArgumentError, match=reason):
        words(tokens)


def test_other_spans_are_refused():
    assert SpanChoice.of("word").of_text(None) is words
    expected = "word, sentence, line, turn, or a list of named spans (on the command line, a JSON file of it)"
    with pytest.raises(ArgumentError, match=re.escape(f"`by`: expected {expected}, got 'page'")):
        SpanChoice.of("page")


def test_a_span_of_special_tokens_alone_is_special():
    tokens = Tokens(("<a>", "<b>", "c", "<d>"), (0, 1, 3))
    spans = Span("marks", ((0, 2), (3, 4))), Span("rest", ((2, 3),))
    found = span_tokens(spans, tokens)
    assert (found.texts, found.special, found.counts) == (("marks", "rest"), (0,), (3, 1))
