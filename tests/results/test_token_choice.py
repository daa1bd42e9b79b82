import numpy as np
import pytest
from hostile import HOSTILE

from mhaviz.errors import ArgumentError
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.labels import token_labels
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
        ("the", "`token`: 'the' occurs 2 times; give a position: '#3', '#5'"),
        ("The", "'The' occurs 2 times; give a position: '#3', '#5'"),
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
        ("The", "'The' occurs 2 times; give a position: '#0', '#5'"),
        ("the", "'the' occurs 2 times; give a position: '#0', '#5'"),
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


LABELLED = ("lamp", "the", "w12", " lamp", "w12", "the", "lamp #3", "\n", " ", " ", "x₂", "x", "x", ",", ",")


@pytest.mark.parametrize("lowered", [True, False])
def test_a_label_of_a_picture_names_its_token(lowered):
    tokens = [text if lowered else text.replace(" #", " ") for text in LABELLED]  # a token precedes a label as it
    for i, label in enumerate(token_labels(tokens, 24, lowered=lowered)):
        if tokens[i] != "\n":  # an escape
            assert choose_token(label, tokens) == i
            assert choose_token(f"“{label}”", tokens) == i


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("lamp #0", 0),
        ("Lamp#0", 0),
        ("lamp #3", 6),  # a token of this text
        ("lamp₃", 3),
        ("“lamp₃”", 3),
        ('"the #5"', 5),
        ("the₁ (2)", 1),
        ("lamp #3 (3 pieces)", 3),
        ("“lamp #3” (3 pieces)", 6),
    ],
)
def test_labels_with_positions(text, position):
    assert choose_token(text, LABELLED) == position


@pytest.mark.parametrize("text", ["f (3) (2)", "“f (3)” (2)", "“f (3) (2)”", "f (3)"])
def test_a_number_of_tokens_is_left_out_of_a_label_only_once(text):
    assert choose_token(text, ("f", " f (3)")) == 1


@pytest.mark.parametrize("text", ["lamp #1", "lamp₉₉", "dog #3", "lamp #-3", "₃"])
def test_labels_of_other_positions(text):
    with pytest.raises(ArgumentError, match="expected a token, or a position from 0 to 14, got"):
        choose_token(text, LABELLED)


def test_a_shortened_label_is_that_of_a_longer_text():
    tokens = ("Rindfleischetikettierung", " x", " Rindfleischetikettierung", "Rind…ung")
    assert choose_token("Rindf…ung #2", tokens) == 2
    assert choose_token("“Rindf…ung₀ (14)”", tokens) == 0
    assert choose_token("Rind…ung", tokens) == 3
    with pytest.raises(ArgumentError, match="occurs 2 times; give a position: '#0', '#2'"):
        choose_token("Rindf…ung", tokens)
    for text in ("…", "R…x", "…ung"):
        assert not Axis.of(tokens).places(text)


def test_a_label_of_a_part_has_positions_in_the_whole():
    part = Axis(Tokens(("a", "b", "a")), np.arange(10, 14))
    assert part.position("a₁₂") == 12
    assert part.places("a #2") == []


PIECES = ("we", " did", "n't", " 3", "1", " say", " did", "n't", " or", " Un", "do", "ne")


@pytest.mark.parametrize("start", [0, 10])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("undone", "got 'undone', a word of 3: #{9} 'Un', #{10} 'do', #{11} 'ne'; give one of these"),
        ("undone #{10}", "a word of 3: #{9} 'Un', #{10} 'do', #{11} 'ne'; give one of these"),
        (
            "didn't",
            "got \"didn't\", a word that occurs 2 times: #{1} 'did', #{2} \"n't\", or #{6} 'did', #{7} \"n't\"; give",
        ),
        ("didn't #{6}", "a word of 2: #{6} 'did', #{7} \"n't\"; give one of these"),
        ("didn't #{7} (2)", "a word of 2: #{6} 'did', #{7} \"n't\"; give one of these"),
        ("didn't #{3}", "expected a token, or a position from {0} to {11}, got"),
        ("31", "got '31', a word of 2: #{3} '3', #{4} '1'; give one of these"),
        ("99", "expected a token, or a position from {0} to {11}, got '99'"),
    ],
)
def test_a_word_of_pieces_is_listed_by_its_text(text, message, start):
    part = Axis(Tokens(PIECES), np.arange(start, start + len(PIECES) + 1))
    places = range(start, start + len(PIECES))
    with pytest.raises(ArgumentError) as caught:
        part.position(text.format(*places))
    assert message.format(*places) in str(caught.value)


@pytest.mark.parametrize("text", ["0", "#1", "9"])
def test_a_position_outside_a_part_is_that_of_no_word(text):
    part = Axis(Tokens(PIECES[:3]), np.arange(10, 14))
    with pytest.raises(ArgumentError, match=f"expected a token, or a position from 10 to 12, got '{text}'; there are"):
        part.position(text)


def test_a_long_sentence_is_not_listed_whole():
    with pytest.raises(ArgumentError, match=r"#7 'w7', …$"):
        choose_token(None, [f"w{i}" for i in range(300)])
