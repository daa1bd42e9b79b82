"""Numbers and names for people."""

import pytest

from mhaviz.errors import quoted
from mhaviz.units import parse_whole, with_article


def test_whole_numbers():
    assert [parse_whole(text) for text in ("0", "-12", "+7", "007", "0" * 5_000 + "3")] == [0, -12, 7, 7, 3]
    assert quoted(parse_whole("-" + "9" * 5_000)) == "a negative number of more than 60 digits"
    assert parse_whole("9" * 60) == int("9" * 60)


@pytest.mark.parametrize(
    "name",
    ["a bert", "a flaubert", "a eurobert", "a llama", "a roberta", "a splinter", "a stablelm", "a umt5", "a GPT2Model"],
)
def test_names_that_begin_with_a_consonant(name):
    assert with_article(name.split()[1]) == name


@pytest.mark.parametrize(
    "name",
    ["an albert", "an electra", "an opt", "an mbart", "an mt5", "an mra", "an mpnet", "an xlm-roberta", "an nllb-moe"],
)
def test_names_that_begin_with_a_vowel(name):
    assert with_article(name.split()[1]) == name
