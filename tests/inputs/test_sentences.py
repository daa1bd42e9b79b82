"""Sentences, lines and turns of a text, and the places of tokens in it."""

import re
import unicodedata
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.errors import ArgumentError, parameters_named
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.sentence_marks import SENTENCE_MARKS
from mhaviz.inputs.sentences import lines, sentences, turns
from mhaviz.inputs.tokens import Segment, Tokens, patch_tokens, runs_of


def of_text(text, pattern=r"\w+|[^\w\s]"):
    places = [found.span() for found in re.finditer(pattern, text)]
    return Tokens(tuple(text[a:b] for a, b in places), passage=Passage.given(text, places))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It rained. We left.", ["It rained.", "We left."]),
        ("Dr. Who came. J. R. R. Tolkien left!", ["Dr. Who came.", "J. R. R. Tolkien left!"]),
        ("It cost 3.50 francs, e.g. here. Why?", ["It cost 3.50 francs, e.g. here.", "Why?"]),
        ('"Why?" she asked. (He slept.) So…', ['"Why?" she asked.', "(He slept.)", "So…"]),
        ("No end\n\nA new paragraph", ["No end", "A new paragraph"]),
        ("我们走。你们呢？好", ["我们走。", "你们呢？", "好"]),
        ("Die Flut kam. Ölige Wellen.", ["Die Flut kam.", "Ölige Wellen."]),
        ("one line\nof two", ["one line of two"]),
        ("He said it is 5. The dog ran.", ["He said it is 5.", "The dog ran."]),
        ("So do I. Then we left.", ["So do I.", "Then we left."]),
        ("No. Then she left.", ["No.", "Then she left."]),
        ("See No. 5 and Nr. 6. Plan b. Done.", ["See No. 5 and Nr. 6.", "Plan b.", "Done."]),
        ("To do:\n1. Wash.\n12. Dry. 3. Leave.", ["To do: 1. Wash.", "12. Dry.", "3. Leave."]),
        ("Am 3. Tag fuhr er, z. B. Öl holen.", ["Am 3.", "Tag fuhr er, z. B. Öl holen."]),
        ("هل أنت هنا؟ نعم. اذهب", ["هل أنت هنا؟", "نعم.", "اذهب"]),
        ("وہ آیا۔ میں گیا۔", ["وہ آیا۔", "میں گیا۔"]),
        ("वह आया। मैं गया॥ अंत", ["वह आया।", "मैं गया॥", "अंत"]),
        ("「走。」他说", ["「走。」", "他说"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, parts):
    assert [span.name for span in sentences(of_text(text))] == parts


def test_marks_are_those_of_unicode():
    regex = pytest.importorskip("regex")
    characters = [c for c in map(chr, range(0x80, 0x20000)) if unicodedata.category(c) != "Cn"]
    ends = {c for c in characters if regex.match(r"\p{Sentence_Terminal}", c)}
    full_stops = {c for c in ends if regex.match(r"\p{Sentence_Break=ATerm}", c)}
    assert ends - full_stops == {*SENTENCE_MARKS}.intersection(characters)


@given(st.text(alphabet="aB .!?\n1”", max_size=60))
def test_each_token_with_a_letter_is_in_one_sentence_and_one_line(text):
    tokens = of_text(text)
    for found in (sentences, lines):
        owned = [i for span in found(tokens) for run in span.ranges for i in range(*run)] if len(tokens) else []
        assert sorted(owned) == list(range(len(tokens)))


def test_lines_are_those_of_the_text_without_special_tokens():
    passage = Passage.given("first line\n\n  second", [(0, 0), (0, 5), (6, 10), (14, 20), (20, 20)])
    tokens = Tokens(("[CLS]", "first", " line", " second", "[SEP]"), (0, 4), passage=passage)
    assert [(span.name, span.ranges) for span in lines(tokens)] == [("first line", ((1, 3),)), ("second", ((3, 4),))]


def test_blank_tokens_inside_a_sentence_are_of_it():
    """As a tokenizer of bytes has them; not those between two sentences, nor special ones."""
    text = "I  am. O k."
    tokens = of_text(text, r"(?s).")
    assert [span.ranges for span in sentences(tokens)] == [((0, 6),), ((7, 11),)]
    special = replace(tokens, special=(2,))
    assert sentences(special)[0].ranges == ((0, 2), (3, 6))


CHAT = "<u> It rained\n<a> Yes. It did.\n<u> Why? <a>"


def test_sentences_and_lines_end_with_their_turns():
    """And have nothing that a chat template writes."""
    tokens = of_text(CHAT, r"<\w>|\w+|[^\w\s]")
    turns = Segment("user", 1, 3), Segment("assistant", 4, 9), Segment("user", 10, 12)
    chat = replace(tokens, turns=turns)
    assert [(span.name, span.ranges) for span in sentences(chat)] == [
        ("It rained", ((1, 3),)),
        ("Yes.", ((4, 6),)),
        ("It did.", ((6, 9),)),
        ("Why?", ((10, 12),)),
    ]
    assert [span.name for span in lines(chat)] == ["It rained", "Yes. It did.", "Why?"]
    unknown = replace(tokens, turns=(*turns[:2], Segment("user", 0, 0)))
    assert sentences(unknown) == sentences(tokens), "where a turn is not known"


def test_a_sentence_ends_where_a_model_goes_on():
    """Also where the prompt ends in a special token, which is at no place in the text."""
    passage = Passage.given("It rained", [(0, 0), (0, 2), (3, 9), (0, 0)])
    prompt = Tokens(("<s>", "It", " rained", "</s>"), (0, 3), passage=passage)
    whole = replace(prompt + Tokens((" and", " so", " on")), turns=(Segment("prompt", 0, 4), Segment("answer", 4, 7)))
    assert [(span.name, span.ranges) for span in sentences(whole)] == [
        ("It rained", ((1, 3),)),
        ("and so on", ((4, 7),)),
    ]


def test_a_text_that_is_not_known_is_joined_from_labels():
    tokens = Tokens((" It", " rained", ".", " We", " left", "."))
    assert [span.ranges for span in sentences(tokens)] == [((0, 3),), ((3, 6),)]
    with pytest.raises(ArgumentError, match="expected a text with line breaks, got labels of tokens without any"):
        lines(tokens)


@pytest.mark.parametrize("found", [sentences, lines])
@pytest.mark.parametrize(
    ("tokens", "reason"),
    [(Tokens(("0", "1", "2")), "got positions"), (patch_tokens(2, 2), "got patches of an image")],
)
def test_what_has_no_sentences(found, tokens, reason):
    with pytest.raises(ArgumentError, match=reason):
        found(tokens)


def test_turns_of_one_role_are_numbered():
    roles = [Segment("user", 1, 3), Segment("assistant", 4, 5), Segment("user", 6, 7)]
    tokens = Tokens(tuple("abcdefgh"), turns=tuple(roles))
    assert [(span.name, span.ranges) for span in turns(tokens)] == [
        ("user 1", ((1, 3),)),
        ("assistant", ((4, 5),)),
        ("user 2", ((6, 7),)),
    ]


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ((), "expected a chat, a pair of texts, or a text that the model continues, got one text"),
        ((Segment("user", 0, 2), Segment("user", 0, 0)), r"expected message 1 \('user'\) in the text of the chat"),
    ],
)
def test_what_has_no_turns(segments, reason):
    with pytest.raises(ArgumentError, match=reason):
        turns(Tokens(("a", "b"), turns=segments))


def test_options_that_a_command_lacks_are_not_advised():
    with parameters_named("--{}".format, lambda name: name == "by"), pytest.raises(ArgumentError) as raised:
        turns(Tokens(("a", "b")))
    assert str(raised.value).endswith("got one text; give a file of spans")


def test_turns_follow_tokens_that_are_cut_and_joined():
    tokens = Tokens(tuple("abcdef"), turns=(Segment("user", 1, 3), Segment("assistant", 4, 6)))
    assert tokens[2:5].turns == (Segment("user", 0, 1), Segment("assistant", 2, 3))
    assert (tokens[:3] + tokens).turns[1] == Segment("user", 4, 6)


def test_passages_are_joined_behind_each_other():
    given_text = Passage.given("the cat ", [(0, 3), (4, 7)])
    whole = given_text + Passage.joined(("[S]", " sat", " on"), (0,))
    assert whole.text == "the cat  sat on"
    assert [whole.place(i) for i in range(5)] == [(0, 3), (4, 7), (8, 8), (9, 12), (13, 15)]
    assert whole.tokens_in(4, 13) == [1, 3]
    assert whole.n_given == len(given_text.text)
    assert (given_text + given_text).n_given == 16


@given(st.sets(st.integers(0, 30)))
def test_runs_are_the_same_positions(positions):
    runs = runs_of(sorted(positions))
    assert [i for run in runs for i in range(*run)] == sorted(positions)
    assert all(end < start for (_, end), (start, _) in pairwise(runs))
