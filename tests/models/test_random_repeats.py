import pytest
import transformers as hf
from induction import word_tokenizer
from tokenizers import Tokenizer, models

from mhaviz.errors import ArgumentError
from mhaviz.models.transformers.probe_texts import random_repeats


def letters(**special):
    """A tokenizer that puts nothing around a text by itself, as that of GPT-2; "a" is a token."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2, "<s>": 3}, "a"))
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def test_each_is_repeated_once_after_the_beginning():
    made = random_repeats(word_tokenizer(), 12, sequences=200, seed=4)
    assert len(made) == 200
    for ids in made:
        assert len(ids) == 25
        assert ids[0] == 0, "<s> begins a text"
        assert ids[1:13] == ids[13:]
        assert len(set(ids[1:13])) == 12
        assert 0 not in ids[1:]
    counts = [sum(token in ids for ids in made) for token in range(1, 32)]
    assert min(counts) > 40, "every word is drawn about as often, 200 · 12 / 31 times"
    assert max(counts) < 120


def test_a_sequence_depends_on_the_seed_and_its_number_alone():
    tokenizer = word_tokenizer()
    assert random_repeats(tokenizer, 9, 3) == random_repeats(tokenizer, 9, 8)[:3]
    assert random_repeats(tokenizer, 9, 3, seed=1) != random_repeats(tokenizer, 9, 3)


def test_what_begins_a_text():
    assert {ids[0] for ids in random_repeats(letters(bos_token="<s>"), 2, 4)} == {3}
    assert [len(ids) for ids in random_repeats(letters(), 4, 2)] == [8, 8], "all four tokens, and none before them"


def test_as_many_tokens_as_the_model_knows():
    assert all(set(ids) == {0, 1} for ids in random_repeats(letters(), 2, 8, most_ids=2))


@pytest.mark.parametrize(("sizes", "message"), [
    ((1,), "`random_repeat`: expected a number from 2 on, got 1"),
    ((4, 0), "`sequences`: expected a number from 1 on, got 0"),
    ((4, 1, -1), r"`seed`: expected a number from 0 to 2\^63 - 1, got -1"),
    ((4, 1, 2**64), r"`seed`: expected a number from 0 to 2\^63 - 1, got 18446"),
    ((32,), "`random_repeat`: expected at most 31 tokens, as the vocabulary has that are not special, got 32"),
])  # fmt: skip
def test_sizes_that_cannot_be(sizes, message):
    with pytest.raises(ArgumentError, match=message):
        random_repeats(word_tokenizer(), *sizes)
