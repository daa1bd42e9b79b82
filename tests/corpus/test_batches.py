import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.corpus import batches as corpus_batches
from mhaviz.corpus.batches import CorpusBatches
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Sentence
from mhaviz.results.corpus_part import Progress, Shard


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
    block=st.integers(1, 20),
)
def test_every_sentence_once_in_batches_that_fit(lengths, most, max_length, block):
    sentences = corpus(lengths)
    batches = CorpusBatches(iter(sentences), of_words, max_length, most, block=block)
    all_batches = list(batches)
    fitting = [i for i, n in enumerate(lengths) if 1 <= n <= (max_length or 12)]
    assert sorted(number for batch in all_batches for number in batch.numbers) == fitting
    for batch in all_batches:
        assert batch.texts == tuple(sentences[number].text for number in batch.numbers)
        assert len({number // block for number in batch.numbers}) == 1, "a batch never crosses a block"
        tokens = of_words(batch.texts)
        assert tokens == sorted(tokens, reverse=True)
        assert len(tokens) == 1 or len(tokens) * tokens[0] <= most
    too_long = [n for n in lengths if max_length is not None and n > max_length]
    progress = batches.progress
    assert (progress.taken, progress.too_long, progress.empty) == (len(fitting), len(too_long), lengths.count(0))
    assert (progress.longest, progress.read, progress.is_all) == (max(too_long, default=0), len(lengths), True)
    done = [batch.done for batch in all_batches]
    assert done == sorted(done)
    assert all(0 < share <= 1 + 1e-9 for share in done)


@given(lengths=st.lists(st.integers(0, 6), max_size=60), n=st.integers(1, 7), block=st.integers(1, 5))
def test_shards_have_the_batches_of_the_whole(lengths, n, block):
    def read(shard):
        batches = CorpusBatches(corpus(lengths), of_words, 5, 9, shard, block=block)
        return [(batch.numbers, batch.texts, batch.ends_block) for batch in batches], batches.progress

    whole, progress = read(None)
    shards = [read(Shard(number, n)) for number in range(1, n + 1)]
    assert sorted(whole) == sorted(itertools.chain.from_iterable(batches for batches, _ in shards))
    together = shards[0][1]
    for _, other in shards[1:]:
        together = together.joined(other)
    assert together == progress


@given(
    lengths=st.lists(st.integers(0, 6), max_size=40),
    n=st.integers(1, 3),
    block=st.integers(1, 5),
    stop=st.integers(0, 40),
)
def test_who_goes_on_after_a_block_reads_the_rest(lengths, n, block, stop):
    shard = Shard(n, n)
    batches = CorpusBatches(corpus(lengths), of_words, 5, 9, shard, block=block)
    read, progress, so_far = [], Progress(), 0
    for batch in batches:
        read.append(batch)
        if batch.ends_block and len(read) <= stop:
            progress, so_far = batches.progress, len(read)
    rest = CorpusBatches(corpus(lengths), of_words, 5, 9, shard, progress, block=block)
    assert [(b.numbers, b.texts) for b in rest] == [(b.numbers, b.texts) for b in read[so_far:]]
    assert rest.progress == batches.progress
    assert not list(CorpusBatches(corpus(lengths), of_words, 5, 9, shard, batches.progress, block=block))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda texts: texts[:3], "got 3 sentences"),
        (lambda texts: [texts[0] + "x", *texts[1:]], "got others"),
        (lambda texts: [texts[0] + texts[1], "", *texts[2:]], "got others"),
        (lambda texts: [*texts, "more"], "got others|expected all 4 sentences"),
    ],
)
def test_another_text_cannot_be_gone_on_with(change, got):
    texts = ["a", "b c", "d", "e"]
    whole = CorpusBatches([Sentence(text, 0.0) for text in texts], of_words)
    list(whole)
    changed = CorpusBatches([Sentence(text, 0.0) for text in change(texts)], of_words, after=whole.progress)
    with pytest.raises(MhavizError, match=got):
        list(changed)


@pytest.mark.parametrize(("number", "count"), [(0, 4), (5, 4), (1, 0), (-1, 2)])
def test_there_is_no_such_shard(number, count):
    with pytest.raises(ValueError, match="expected a shard from 1/"):
        Shard(number, count)


def test_each_block_is_sorted_and_cut():
    batches = CorpusBatches(corpus([1, 5, 2, 5, 1, 3]), of_words, most_tokens=10, block=4)
    read = list(batches)
    assert [of_words(batch.texts) for batch in read] == [[5, 5], [2, 1], [3, 1]]
    assert [batch.numbers for batch in read] == [(1, 3), (2, 0), (5, 4)]
    assert [batch.ends_block for batch in read] == [False, True, True]


def test_done_is_the_share_of_the_corpus_that_is_behind():
    batches = CorpusBatches(corpus([1, 5, 2, 5, 1, 3]), of_words, most_tokens=10, block=4)
    assert [batch.done for batch in batches] == pytest.approx([4 / 6 * 10 / 13, 4 / 6, 1])


def test_no_more_is_read_than_a_block():
    read = []

    def sentences():
        for number in range(10**9):
            read.append(number)
            yield Sentence("a b", 0.0)

    batch = next(iter(CorpusBatches(sentences(), of_words, most_tokens=4, block=10)))
    assert batch.texts == ("a b", "a b")
    assert len(read) == 10


def test_half_characters_are_text_too():
    batches = CorpusBatches([Sentence("a \udce9", 0.0)], of_words)
    assert [batch.texts for batch in batches] == [("a \udce9",)]


@pytest.mark.parametrize(
    ("lengths", "cuts"),
    [
        ([90, 70, 8, 8, 8, 8], [(0, 2), (2, 6)]),  # 82 of padding for the third
        ([50] * 7, [(0, 5), (5, 7)]),  # 250 tokens
        ([300, 290], [(0, 1), (1, 2)]),
        ([], []),
    ],
)
def test_where_batches_end(lengths, cuts):
    assert list(corpus_batches._cuts(lengths, 250)) == cuts


@pytest.mark.parametrize(("n", "block"), [(0, 4), (1, 4), (28, 4), (1000, 125), (2047, 256), (2048, 256), (9000, 256)])
def test_a_few_parts_of_a_small_corpus_are_even(n, block):
    texts = corpus([1] * n)
    read, found = corpus_batches.with_block_size(iter(texts))
    assert (list(read), found) == (texts, block)
    for shards in (2, 4, 8):
        parts = [
            CorpusBatches(texts, of_words, shard=Shard(number + 1, shards), block=block) for number in range(shards)
        ]
        sizes = [sum(len(batch.numbers) for batch in part) for part in parts]
        assert sum(sizes) == n
        assert max(sizes) - min(sizes) <= block


def test_a_large_corpus_is_not_read_ahead():
    taken = []
    read, _ = corpus_batches.with_block_size(Sentence("x", 0.0) for number in range(10**6) if not taken.append(number))
    next(read)
    assert len(taken) == 2048
