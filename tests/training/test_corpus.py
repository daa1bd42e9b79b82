from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.errors import MhavizError
from mhaviz.layer.tokens import tokenize
from mhaviz.training.corpus import MOST_WORDS, Pair, read_pairs


@pytest.fixture
def written(tmp_path):
    def write(text, name="pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(text.encode(errors="surrogateescape") if isinstance(text, str) else text)
        return path

    return write


def test_pairs_with_and_without_links(written):
    corpus = read_pairs(written("The cat.\tLe chat.\t0-0 1-1\r\n\na dog\tun chien\n"))
    pairs = {pair.source: pair for pair in corpus.pairs}
    assert pairs["the", "cat"].target == ("le", "chat")
    assert pairs["the", "cat"].alignment == ((0, 0), (1, 1))
    assert pairs["a", "dog"].alignment is None
    assert corpus.name == "pairs.tsv"
    assert len(corpus.held_out) == len(corpus.training) == 1


def test_links_count_what_stands_between_blanks(written):
    """Aligners see "Hello , world !": four words. Two of them are left here, and "well-known" becomes two."""
    corpus = read_pairs(
        written("Hello , world !\tSalut , monde !\t0-0 1-1 2-2 3-3\na well-known dog\tle chien\t1-0 2-1\n")
    )
    links = {pair.source: pair.alignment for pair in corpus.pairs}
    assert links["hello", "world"] == ((0, 0), (1, 1))
    assert links["a", "well", "known", "dog"] == ((1, 0), (2, 0), (3, 1))


@given(st.lists(st.lists(st.text(), min_size=1, max_size=5), min_size=1, max_size=5))
def test_words_are_those_of_tokenize(tmp_path_factory, sides):
    sentences = [" ".join(words).replace("\t", " ").replace("\n", " ").replace("\r", " ") for words in sides]
    lines = [f"{sentence} x{i}\ty {sentence}" for i, sentence in enumerate([*sentences, "a", "b"])]
    try:
        content = "\n".join(lines).encode()
    except UnicodeEncodeError:
        return
    path = tmp_path_factory.mktemp("c") / "p.tsv"
    path.write_bytes(content)
    found = {pair.source for pair in read_pairs(path).pairs}
    assert found == {tuple(tokenize(line.split("\t")[0])) for line in lines}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nonly one column\n", r"line 2: expected source and target with a tab .* got 1 column$"),
        ("a\tb\t0-0\tx\n", "line 1: .* got 4 columns"),
        ("a\tb\n\tb\n", "line 2: expected a source with at least one word"),
        ("a\tb\n\t\n", "line 2: expected a source with at least one word"),
        ("a\tb\nc\t?!\n", "line 2: expected a target with at least one word"),
        ("a b\tc\t0-0 2-0\n", "line 1: the link 2-0 leads to word 2 of the source, which has words 0 to 1"),
        ("a b\tc\t0-1\n", "line 1: the link 0-1 leads to word 1 of the target, which has words 0 to 0"),
        ("a\tb\t0:0\n", "line 1: expected links such as 0-0 1-2, got '0:0'"),
        ("a\tb\t-1-0\n", "line 1: expected links such as"),
        ("a\tb\t0-99999999999\n", "line 1: expected links such as"),
        ("a\tb\n", "at least 2 different sentences, so that one can be held out, got one"),
        ("a\tb\na\tc\n", "got one"),
        ("\n\n", "got none"),
        (
            "a\tb\n" + "w " * (MOST_WORDS + 1) + "\tc\n",
            f"line 2: expected a source of at most {MOST_WORDS} words, got 201",
        ),
    ],
)
def test_lines_that_cannot_be_learnt_from_are_named(written, text, message):
    with pytest.raises(MhavizError, match=message):
        read_pairs(written(text))


def test_files_that_cannot_be_read(tmp_path, written):
    with pytest.raises(MhavizError, match=r"cannot read .*nothing\.txt: No such file"):
        read_pairs(tmp_path / "nothing.txt")
    with pytest.raises(MhavizError, match=r"cannot read .*: Is a directory"):
        read_pairs(tmp_path)
    with pytest.raises(MhavizError, match=r"is not UTF-8: byte 0xff in line 2"):
        read_pairs(written(b"a\tb\n\xff\n"))


def test_no_sentence_is_in_both_parts(written):
    lines = [f"source {i % 40}\ttarget {i}" for i in range(200)]
    corpus = read_pairs(written("\n".join(lines)))
    training, held_out = ({pair.source for pair in part} for part in (corpus.training, corpus.held_out))
    assert not training & held_out
    assert len(held_out) == 4
    assert len(corpus.pairs) == 200


def test_what_is_held_out_follows_from_the_seed(written):
    path = written("\n".join(f"s {i}\tt {i}" for i in range(50)))
    assert read_pairs(path, 0) == read_pairs(path, 0)
    assert read_pairs(path, 0).held_out != read_pairs(path, 1).held_out
    assert read_pairs(path, 0).fingerprint != read_pairs(path, 1).fingerprint


def test_fingerprints_of_hostile_words(tmp_path):
    path = Path(tmp_path / "p.tsv")
    path.write_text("a\x1b\tb\nc\td", encoding="utf-8")
    assert len(read_pairs(path).fingerprint) == 16


def test_what_occurs_twice_is_taken_once(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("a\tb\na\tb\na\tc\nd\te\na\tb\n", encoding="utf-8")
    corpus = read_pairs(path)
    assert len(corpus.pairs) == 3


def test_what_is_read_and_what_is_produced():
    pair = Pair(("s",), ("a", "b"))
    assert pair.read == ("<start>", "a", "b")
    assert pair.produced == ("a", "b", "<end>")
    cut = Pair(("s",), ("a", "b"), ended=False)
    assert (cut.read, cut.produced) == (("<start>", "a"), ("a", "b"))
