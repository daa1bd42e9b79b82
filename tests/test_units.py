"""Numbers and names for people."""

import pytest

from mhaviz.units import with_article


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
