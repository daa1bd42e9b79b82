"""Spans that users name, and what is refused of them."""

import re

import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.named_spans import find_spans, named_spans
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.tokens import Tokens

TEXT = "The cat sat. The  dog barked."
PLACES = [found.span() for found in re.finditer(r"\w+|[^\w\s]", TEXT)]
TOKENS = Tokens(tuple(TEXT[a:b] for a, b in PLACES), passage=Passage.given(TEXT, PLACES))


def found(*spans, tokens=TOKENS):
    return [(span.name, span.ranges) for span in find_spans(named_spans(spans), tokens)]


def test_spans_are_named_by_tokens_by_characters_or_by_their_text():
    assert found(
        {"name": "b", "tokens": [[4, 5], [6, 8]]},
        {"name": "a", "characters": [0, 7]},
        {"name": "c", "text": "dog"},
    ) == [("a", ((0, 2),)), ("b", ((4, 5), (6, 8))), ("c", ((5, 6),))]


def test_blanks_do_not_matter_where_a_text_is_looked_up():
    assert found({"name": "a", "text": "The dog\nbarked"}) == [("a", ((4, 7),))]


def test_blank_tokens_inside_a_span_are_of_it():
    """However it is given."""
    places = [(i, i + 1) for i in range(len(TEXT))]
    tokens = Tokens(tuple(TEXT), (14,), passage=Passage.given(TEXT, places))
    whole = [("a", ((0, 11),))]
    assert found({"name": "a", "tokens": [0, 11]}, tokens=tokens) == whole
    assert found({"name": "a", "characters": [0, 13]}, tokens=tokens) == [("a", ((0, 12),))]
    assert found({"name": "a", "text": "The cat sat"}, tokens=tokens) == whole
    assert found({"name": "a", "characters": [[0, 7], [18, 28]]}, tokens=tokens) == [("a", ((0, 7), (18, 28)))]


def test_a_text_is_looked_up_in_labels_where_it_is_not_known():
    tokens = Tokens(("<s>", " The", " c", "at", " sat"), (0,))
    assert found({"name": "a", "text": "cat sat"}, tokens=tokens) == [("a", ((2, 5),))]
    with pytest.raises(ArgumentError, match="expected the text that the tokens are of"):
        found({"name": "a", "characters": [0, 3]}, tokens=tokens)


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([{"name": "a", "tokens": [0, 2]}, {"name": "b", "tokens": [1, 3]}], "got #1 'cat' in both 'a' and 'b'"),
        ([{"name": "a", "tokens": [5, 9]}], "span 'a': expected tokens from 0 to 8, the end not included, got 5 to 9"),
        ([{"name": "a", "tokens": [-1, 2]}], "expected tokens from 0 to 8"),
        ([{"name": "a", "characters": [0, 99]}], "expected characters from 0 to 29, the end not included"),
        ([{"name": "a", "tokens": [3, 3]}], "expected at least one token, got 3 to 3"),
        ([{"name": "a", "characters": [16, 18]}], "expected at least one token, got none in characters 16 to 18"),
        ([{"name": "a", "characters": [5, 11]}], "which cut #1 'cat', characters 4 to 7"),
        ([{"name": "a", "characters": [4, 9]}], "which cut #2 'sat', characters 8 to 11"),
        (
            [{"name": "a", "text": "mouse"}],
            "expected 'mouse' once in the text, got no such text in what begins with 'The cat sat. The dog",
        ),
        ([{"name": "a", "text": ""}], "span 'a': text: expected a text, got an empty one"),
        (
            [{"name": "(rest)", "text": "cat"}],
            "expected another name than '(rest)', which what is in no span is called",
        ),
        ([{"name": "a", "text": "The"}], "expected 'The' once in the text, got it 2 times; give a longer text"),
        ([{"name": "a", "text": " "}], "expected a text, got an empty one"),
        ([{"name": "a", "tokens": [0, 1]}, {"name": "a", "tokens": [2, 3]}], "got 'a' twice; runs of one span are"),
        ([{"name": " ", "tokens": [0, 1]}], "expected a name of each span, got ' '"),
        ([{"name": "a"}], "expected one of tokens, characters and text"),
        ([{"name": "a", "tokens": [0, 1], "text": "The"}], "expected one of tokens, characters and text"),
        ([{"tokens": [0, 1]}], "missing required field `name`"),
        ([{"name": "a", "token": [0, 1]}], "unknown field `token`"),
        ([{"name": "a", "tokens": [0]}], "expected start and end, or a list of these"),
        ([{"name": "a", "tokens": [[0, 2], [1, 3]]}], "expected runs without tokens in common"),
        ([], "expected at least one span such as"),
    ],
)
def test_what_is_no_span(spans, reason):
    with pytest.raises(ArgumentError, match=re.escape(reason)):
        found(*spans)


def test_each_text_may_have_spans_of_its_own():
    choice = SpanChoice.of([[{"name": "a", "tokens": [0, 1]}], [{"name": "a", "tokens": [1, 3]}]])
    assert [choice.of_text(i)(TOKENS)[0].ranges for i in range(2)] == [((0, 1),), ((1, 3),)]
    with pytest.raises(ArgumentError, match="expected spans of text 2, got lists for 2 texts"):
        choice.of_text(2)
    with pytest.raises(ArgumentError, match="expected spans of one text, got lists for 2 texts"):
        choice.of_text(None)


@pytest.mark.parametrize(
    ("by", "got"),
    [
        (3, ", got 3"),
        ({"name": "a"}, ", got {'name': 'a'}"),
        (None, ", got null"),
        ([3], "got `int`"),
        ([None], "got `null`"),
    ],
)
def test_what_is_no_choice_of_spans(by, got):
    with pytest.raises(ArgumentError, match="`by`: expected a list of spans such as") as raised:
        SpanChoice.of(by)
    assert got in str(raised.value)
    assert "None" not in str(raised.value)
