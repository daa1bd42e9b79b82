import pytest
from hostile import HOSTILE

from mhaviz.errors import ArgumentError
from mhaviz.results.axis import Axis

TOKENS = ("i", "deposit", "2", "the", "money", "the")


def choose_token(text, tokens):
    return Axis.of(tokens).position(text, "token")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("deposit", 1),
        ("Deposit", 1),
        ("“deposit!”", 1),
        ("4", 4),
        (" 4 ", 4),
        ("2", 2),
        ("#2", 2),
        ("#5", 5),
        ("0", 0),
    ],
)
def test_words_and_positions(text, position):
    assert choose_token(text, TOKENS) == position


def test_a_number_is_first_a_word():
    tokens = ("1", "a", "a")
    assert choose_token("1", tokens) == 0
    assert choose_token("#1", tokens) == 1


@pytest.mark.parametrize("token", [token for token in HOSTILE if not token.startswith("#")])
def test_a_token_as_it_is(token):
    assert choose_token(token, ("x", token)) == (1 if token != "x" else 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there are #0 'i', #1 'deposit', #2 '2', #3 'the', #4 'money', #5 'the'"),
        ("the", "`token`: 'the' occurs 2 times; give a position: #3, #5"),
        ("The", "'The' occurs 2 times; give a position: #3, #5"),
        ("6", "a position from 0 to 5, got '6'"),
        ("#6", "a position from 0 to 5, got '#6'"),
        ("depost", "got 'depost'; try 'deposit'"),
        ("zzzzz", "got 'zzzzz'; there are #0 'i'"),
        ("my money", "got 'my money'; try 'money'"),
        ("?!", "got '?!'"),
        ("", "got ''"),
        ("#", "got '#'"),
        ("#deposit", "try 'deposit'"),
        ("\x1bzz", "got '\\x1bzz'"),
    ],
)
def test_no_such_token(text, message):
    with pytest.raises(ArgumentError) as caught:
        choose_token(text, TOKENS)
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog", "there are #0 'the', #1 'cat', #2 's', #3 'mat', #4 '', #5 'the'"),
        ("The", "'The' occurs 2 times; give a position: #0, #5"),
        ("the", "'the' occurs 2 times; give a position: #0, #5"),
        ("catt", "try 'cat'"),
    ],
)
def test_tokens_that_begin_with_a_blank_are_listed_without_it(text, message):
    with pytest.raises(ArgumentError) as caught:
        choose_token(text, ("the", " cat", "s", " mat", " ", " the"))
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "position"), [(" the", 5), (" ", 4), (" cat", 1), (" s", 2)])
def test_a_blank_that_is_given_counts(text, position):
    assert choose_token(text, ("the", " cat", "s", " mat", " ", " the")) == position


def test_a_long_sentence_is_not_listed_whole():
    with pytest.raises(ArgumentError, match=r"#7 'w7', …$"):
        choose_token(None, [f"w{i}" for i in range(300)])
