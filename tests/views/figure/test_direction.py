"""Where words of right-to-left scripts stand in a line, by matplotlib's own layout of it."""

import re

import pytest
from drawn import texts
from matplotlib._text_helpers import layout
from matplotlib.font_manager import findfont, get_font

from mhaviz.analyses.explanation import explain
from mhaviz.models.single_layer import RandomLayer
from mhaviz.views.figure.measuring import DEFAULT_FAMILY, text_width
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.showing import figure_of
from mhaviz.views.text import left_to_right

SENTENCE = "أحب آلية الانتباه كثيرا"
LIKE, MECHANISM, ATTENTION, MUCH = SENTENCE.split()


def seen(line):
    """The characters from left to right, as matplotlib lays the line out."""
    items = layout(left_to_right(line), get_font(findfont(DEFAULT_FAMILY)))
    return re.sub("[\u2066-\u2069]", "", "".join(item.char[::-1] for item in items))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (SENTENCE, SENTENCE[::-1]),
        (f"self-attention: {SENTENCE}", f"self-attention: {SENTENCE[::-1]}"),
        (f"“{SENTENCE}” weighs 0.36.", f"“{SENTENCE[::-1]}” weighs 0.36."),
        (f"2 {ATTENTION} → 3 {MUCH}", f"2 {ATTENTION[::-1]} → 3 {MUCH[::-1]}"),
        (f"{LIKE}, {MUCH}: 12", f"{LIKE[::-1]}, {MUCH[::-1]}: 12"),
        (f"“{LIKE} attention {MUCH}” at 0", f"“{MUCH[::-1]} attention {LIKE[::-1]}” at 0"),
        (f"{LIKE} … {MUCH}", f"{MUCH[::-1]} … {LIKE[::-1]}"),
        ("אני אוהב 5", "בהוא ינא 5"),
        ("plain, “quoted” → 3", "plain, “quoted” → 3"),
    ],
)
def test_words_read_from_right_to_left_and_the_line_from_left_to_right(line, expected):
    assert seen(line) == expected


def test_what_is_no_such_script_is_left_alone():
    for text in ("abc", "“猫” → é", "नमस्ते 😀"):
        assert left_to_right(text) == text


def test_the_user_cannot_turn_a_line():
    """What a user brings of such marks is shown, and not obeyed."""
    sheet = Sheet(3, 1, 72)
    (text,) = (sheet.write(0, 0, f"a\u2067{LIKE}\u202e").get_text(),)
    assert text == f"a\\u2067\u2068{LIKE}\u2069\\u202e"


def test_marks_take_no_room():
    assert text_width(f"2 {LIKE}", 8) == pytest.approx(text_width("2 ", 8) + text_width(LIKE, 8), abs=0.02)


def test_a_remark_that_begins_with_an_arabic_word():
    layer = RandomLayer(16, 2, device_name="cpu")
    sheet = figure_of(explain(layer, layer.encode([SENTENCE]), 2, 0))
    (remark,) = (text for text in texts(sheet) if "weighs most" in text)
    assert seen(re.sub("[\u2066-\u2069]", "", remark)).startswith("“")
    assert remark.endswith(".")
