import pytest
from hostile import HOSTILE

from mhaviz.api.choosing import choose_token
from mhaviz.errors import ArgumentError

TOKENS = ("i", "deposit", "2", "the", "money", "the")


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
        (None, "it has #0 i, #1 deposit, #2 2, #3 the, #4 money, #5 the"),
        ("the", "“the” occurs 2 times; give one of its positions, #3, #5"),
        ("6", "a position from 0 to 5, got 6"),
        ("#6", "a position from 0 to 5, got 6"),
        ("depost", "“depost” is not in the sentence; try deposit"),
        ("zzzzz", "“zzzzz” is not in the sentence; it has #0 i"),
        ("my money", "expected one word, got 2"),
        ("?!", "“?!” is not in the sentence"),
        ("", "is not in the sentence"),
        ("#", "“#” is not in the sentence"),
        ("#deposit", "“#deposit” is not in the sentence; try deposit"),
        ("\x1bzz", "“\\x1bzz” is not in the sentence"),
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
        ("dog", '“dog” is not in the sentence; it has #0 the, #1 cat, #2 s, #3 mat, #4 " ", #5 the'),
        ("The", "“the” occurs 2 times; give one of its positions, #0, #5"),
        ("catt", "“catt” is not in the sentence; try cat"),
    ],
)
def test_tokens_that_begin_with_a_blank_are_listed_without_it(text, message):
    with pytest.raises(ArgumentError) as caught:
        choose_token(text, ("the", " cat", "s", " mat", " ", " the"))
    assert message in str(caught.value)
    assert "  " not in str(caught.value)


def test_a_long_sentence_is_not_listed_whole():
    with pytest.raises(ArgumentError, match=r"#11 w11, … 288 more$"):
        choose_token(None, [f"w{i}" for i in range(300)])
