import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.models import corpus_batches
from mhaviz.models.corpus_batches import CorpusBatches, Sentence


def of_words(texts):
    return [len(text.split()) for text in texts]


def corpus(lengths):
    """Sentences of so many words, each another."""
    return [
        Sentence(" ".join([f"s{number}"] * length), (number + 1) / len(lengths))
        for number, length in enumerate(lengths)
    ]


@given(
    lengths=st.lists(st.integers(0, 12), max_size=60),
    most=st.integers(1, 40),
    max_length=st.none() | st.integers(1, 12),
    chunk=st.integers(1, 20),
)
def test_every_sentence_once_in_batches_that_fit(lengths, most, max_length, chunk):
    sentences = corpus(lengths)
    batches = CorpusBatches(iter(sentences), of_words, max_length, most, chunk)
    all_batches = list(batches)
    fitting = [s.text for s, n in zip(sentences, lengths, strict=True) if 1 <= n <= (max_length or 12)]
    assert sorted(text for batch in all_batches for text in batch.texts) == sorted(fitting)
    too_long = [n for n in lengths if max_length is not None and n > max_length]
    assert (batches.taken, batches.too_long, batches.empty) == (len(fitting), len(too_long), lengths.count(0))
    assert batches.longest == max(too_long, default=0)
    for batch in all_batches:
        tokens = of_words(batch.texts)
        assert tokens == sorted(tokens, reverse=True)
        assert len(tokens) == 1 or len(tokens) * tokens[0] <= most
    done = [batch.done for batch in all_batches]
    assert done == sorted(done)
    assert all(0 < share <= 1 + 1e-9 for share in done)


def test_each_chunk_is_sorted_and_cut():
    batches = CorpusBatches(corpus([1, 5, 2, 5, 1, 3]), of_words, most_tokens=10, chunk=4)
    assert [of_words(batch.texts) for batch in batches] == [[5, 5], [2, 1], [3, 1]]


def test_done_is_the_share_of_the_corpus_that_is_behind():
    batches = CorpusBatches(corpus([1, 5, 2, 5, 1, 3]), of_words, most_tokens=10, chunk=4)
    assert [batch.done for batch in batches] == pytest.approx([4 / 6 * 10 / 13, 4 / 6, 1])


def test_no_more_is_read_than_a_chunk():
    read = []

    def sentences():
        for number in range(10**9):
            read.append(number)
            yield Sentence("a b", 0.0)

    batch = next(iter(CorpusBatches(sentences(), of_words, most_tokens=4, chunk=10)))
    assert batch.texts == ("a b", "a b")
    assert len(read) == 10


def test_long_texts_make_short_chunks(monkeypatch):
    monkeypatch.setattr(corpus_batches, "_CHUNK_CHARACTERS", 10)
    asked = []

    def lengths(texts):
        asked.append(len(texts))
        return of_words(texts)

    list(CorpusBatches([Sentence("x" * 6, 0.0)] * 5, lengths))
    assert asked == [2, 2, 1]
