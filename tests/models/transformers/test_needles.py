import pytest
from induction import word_tokenizer

from mhaviz.analyses.head_statistics import reading_of
from mhaviz.errors import ArgumentError
from mhaviz.inputs.probes import Needle
from mhaviz.models.transformers.probe_texts import needle_ids, with_needle

TEXT = "w1 w2. w3 w4 w5. w6"
WORDS = "w1 w2 w3 w4"


def made(text, needle, most=None):
    """Without what begins a text."""
    return [ids[1:] for ids in with_needle(word_tokenizer(), text, needle, most)]


def test_between_words_at_every_depth_and_at_the_end():
    needle = Needle("w20 w21", "w30", (0.0, 0.5, 1.0))
    assert made(WORDS, needle) == [
        [20, 21, 1, 2, 3, 4, 30, 20, 21],
        [1, 2, 20, 21, 3, 4, 30, 20, 21],
        [1, 2, 3, 4, 20, 21, 30, 20, 21],
    ]


def test_between_sentences_where_there_are_several():
    """The tokenizer of the test knows no "w2.", and calls it w1."""
    (ids,) = made(TEXT, Needle("w20", depths=(0.6,)))
    assert ids == [1, 1, 3, 4, 1, 20, 6, 20]


def test_a_text_that_is_too_long_loses_its_end():
    needle = Needle("w20 w21", depths=(0.0, 1.0))
    assert made(WORDS, needle, 8) == [[20, 21, 1, 2, 20, 21], [1, 2, 20, 21, 20, 21]]
    assert max(len(ids) + 1 for ids in made("w5 " * 50, needle, 20)) <= 20
    assert made(WORDS, needle, 4) == 2 * [[20, 21, 20, 21]]


def test_no_text_at_all():
    assert made(" ", Needle("w20", depths=(0.5,))) == [[20, 20]]


def test_who_reads_it():
    ids = (0, 1, 20, 21, 2, 20, 21)
    assert needle_ids(word_tokenizer(), Needle(" w20 w21 ")) == [20, 21]
    assert reading_of(ids, (20, 21)) == [(4, [2]), (5, [3])]
    assert reading_of((0, 20, 20, 1, 20, 20), (20, 20)) == [(3, [1, 2]), (4, [1, 2])]
    assert reading_of((0, 20, 20, 20), (20, 20)) == [], "both would have a token in common"
    assert reading_of(ids, (21, 20)) == []
    assert reading_of((20, 21), (20, 21)) == []


@pytest.mark.parametrize(("needle", "message"), [
    ({"text": " "}, "`needle`: expected a text, got an empty one"),
    ({"text": "a", "depths": ()}, "`depths`: expected numbers from 0 to 1, got "),
    ({"text": "a", "depths": (0.5, 2.0)}, "`depths`: expected numbers from 0 to 1, got "),
])  # fmt: skip
def test_needles_that_cannot_be(needle, message):
    with pytest.raises(ArgumentError, match=message):
        Needle(**needle)
