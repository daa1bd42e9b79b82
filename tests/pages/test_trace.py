import numpy as np
import pytest

from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages.trace import following_text, numbers_remark, step_numbers
from mhaviz.results.trace import follow_element


@pytest.mark.parametrize(
    ("layer", "sentence", "element", "text"),
    [
        (RandomLayer(8, 4), "a b c", (0, 0, 0), "would leave this one in its place"),
        (RandomLayer(8, 1), "a b c", (0, 1, 1), "would misplace nothing"),
        (RandomLayer(8, 4), "a", (0, 0, 7), "would misplace nothing"),
        (RandomLayer(8, 4), "a b c", (0, 1, 1), "of “b”, position 1"),
    ],
)
def test_what_is_said_of_a_followed_element(layer, sentence, element, text):
    trace = layer.trace(layer.encode([sentence]))
    assert text in " ".join(following_text(follow_element(trace, element), trace))


def traced(layer, sentences, target=None):
    return layer.trace(layer.encode(sentences, target), values=True)


def numbers(trace, step):
    """The tables of a step: the headings and the labelled rows of each."""
    (tables,) = [tables for heading, tables in step_numbers(trace) if heading.startswith(f"{step} = ")]
    return [(table.headings(), table.rows) for table in tables]


def test_numbers_are_those_of_the_first_sentence_without_its_padding():
    trace = traced(RandomLayer(8, 4, device_name="cpu"), ["the cat sat", "the cat sat on the mat"])
    ((headings, rows),) = numbers(trace, "Q")
    assert headings == ("", *map(str, range(8)))
    assert [row[0] for row in rows] == ["the", "cat", "sat"]
    np.testing.assert_array_equal([row[1:] for row in rows], trace.step("Q").values[0, :3])
    heads = numbers(trace, "A")
    assert [headings for headings, _ in heads] == [(f"L0 H{head}", "the", "cat", "sat") for head in range(4)]
    for head, (_, rows) in enumerate(heads):
        np.testing.assert_array_equal([row[1:] for row in rows], trace.step("A").values[0, head, :3, :3])


def test_keys_of_another_text_have_no_names_of_queries():
    trace = traced(RandomLayer(8, 4, device_name="cpu"), ["the black cat"], "le chat noir")
    assert numbers(trace, "S")[0][0] == ("L0 H0", "0", "1", "2")
    assert [row[0] for row in numbers(trace, "S")[0][1]] == ["le", "chat", "noir"]
    assert [row[0] for row in numbers(trace, "K")[0][1]] == ["0", "1", "2"]


def test_a_hidden_score_is_no_number():
    trace = traced(RandomLayer(8, 4, device_name="cpu", causal=True), ["a b"])
    (tables,) = [tables for heading, tables in step_numbers(trace) if heading.startswith("S masked = ")]
    assert tables[0].texts()[0][2] == "−∞"


def test_what_is_not_printed_is_said():
    several = numbers_remark(traced(RandomLayer(8, 4, device_name="cpu"), ["a b", "c"]))
    assert several[0] == "numbers of the first of 2 sentences; a .json file has those of all"
    assert "Q split, K split, V split, Q heads, K heads, V heads, H swapped, concat" in several[1]
    large = numbers_remark(traced(RandomLayer(64, 4, device_name="cpu"), [" ".join("abcdefghij")]))
    assert large[-1].startswith("not printed, as they are many: E, X, Q, K, V")
