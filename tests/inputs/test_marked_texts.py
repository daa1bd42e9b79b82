"""Texts with spans as a user gives them, and what is none."""

import re

import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.given import Given
from mhaviz.inputs.marked_texts import MarkedText, marked_texts
from mhaviz.inputs.named_spans import named_spans
from mhaviz.inputs.span_choice import ROLES

CHAT = ({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Bye"})
SPANS = ({"name": "a", "text": "It"}, {"name": "b", "tokens": [1, 3]})


def test_a_chat_has_its_roles_and_a_text_the_spans_that_are_named():
    chat, messages, text = marked_texts([list(CHAT), {"messages": CHAT}, {"text": "It rained.", "spans": SPANS}], "t")
    assert (chat.given, chat.choice, chat.where) == (Given(chat=CHAT), ROLES, "t, text 1")
    assert (messages.given, messages.choice) == (chat.given, ROLES)
    assert (text.given, text.choice.named, text.where) == (
        Given(("It rained.",)), (named_spans(SPANS),), "t, text 3"
    )  # fmt: skip


def test_texts_that_are_made_already_stay_as_they_are():
    made = MarkedText.of(list(CHAT), "here")
    assert marked_texts(iter([made]), "t") == [made]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (3, "t: expected texts, such as [{"),
        ("hello", "t: expected texts, such as [{"),
        ({"messages": list(CHAT)}, "t: expected texts, such as [{"),
        ([], "t: expected at least one text, such as [{"),
        ([3], 't, text 1: expected [{"role": "user", "content": "Hello"}, …], or {"text": '),
        (["hello"], "t, text 1: expected [{"),
        ([list(CHAT), {"text": "hello"}], "t, text 2: expected [{"),
        ([{"messages": "hello"}], "t, text 1: expected [{"),
        ([[]], "t, text 1: expected a list of messages such as {"),
        ([[{"role": "user"}]], "t, text 1: expected a list of messages such as {"),
        ([[{"role": "user", "content": 3}]], "t, text 1: expected a list of messages such as {"),
        ([{"spans": SPANS}], "t, text 1: text: expected a text, got none"),
        ([{"text": None, "spans": SPANS}], "t, text 1: text: expected a text, got null"),
        ([{"text": "", "spans": SPANS}], "t, text 1: text: expected a text, got an empty one"),
        ([{"text": "It", "spans": None}], "t, text 1: `by`: expected a list of spans such as {"),
        ([None], "t, text 1: expected [{"),
        ([{"text": "\n", "spans": SPANS}], r"t, text 1: text: expected a text, got '\n'"),
        ([{"text": "It", "spans": []}], "t, text 1: `by`: expected at least one span such as {"),
        ([{"text": "It", "spans": 3}], "t, text 1: `by`: expected a list of spans such as {"),
        ([{"text": "It", "spans": [{"name": "a"}]}], "t, text 1: `by`: span 'a': expected one of tokens"),
    ],
)
def test_what_is_no_text_is_one_line_that_says_where(given, reason):
    with pytest.raises(ArgumentError, match=re.escape(reason)) as raised:
        marked_texts(given, "t")
    assert str(raised.value).startswith(reason)
    assert "\n" not in str(raised.value)
    assert "None" not in str(raised.value)
