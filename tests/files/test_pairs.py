"""Pairs of words from files."""

import json
from pathlib import Path

import pytest

from mhaviz.errors import MhavizError
from mhaviz.files.pairs import read_pairs
from mhaviz.inputs.pairs import WordPair

FIRST = {"text": 'The "cat", it slept.', "query": "it", "key": "cat"}
SECOND = {"text": "A dog\tbarks.", "query": 2, "key": "dog"}


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (f"\n{json.dumps(FIRST)}\r\n\n{json.dumps(SECOND)}", ("line 2", "line 4")),
        (json.dumps([FIRST, SECOND], indent=2), ("pair 1", "pair 2")),
        (f"\ufeff {json.dumps([FIRST, SECOND | {'note': 'a further field'}])}", ("pair 1", "pair 2")),
    ],
)
def test_lines_and_a_list(tmp_path, content, where):
    path = written(tmp_path / "pairs.json", content)
    given = [(*one.values(), f"{path}, {place}") for one, place in zip((FIRST, SECOND), where, strict=True)]
    assert read_pairs(path) == [WordPair(*fields) for fields in given]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.tsv", 'The "cat", it slept.\tit\tcat\n'),
        ("p.TSV", 'Key\tTEXT\t query\n\ncat\tThe "cat", it slept.\tit'),
        ("p.csv", '"The ""cat"", it slept.",it,cat\r\n'),
        ("p.csv", 'query,key,text\nit,cat,"The ""cat"", it slept."\n'),
    ],
)
def test_tables_with_and_without_names(tmp_path, name, content):
    (pair,) = read_pairs(written(tmp_path / name, content))
    assert (pair.text, pair.query, pair.key) == tuple(FIRST.values())


def test_a_number_of_a_line_within_quotes(tmp_path):
    first, second = read_pairs(written(tmp_path / "p.csv", '"two\nlines here",two,lines\nan end,end,an\n'))
    assert first.text == "two\nlines here"
    assert second.where.endswith("p.csv, line 3")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", "", "p.jsonl: expected at least one pair, such as {"),
        ("p.json", "[]", "p.json: expected at least one pair, such as {"),
        ("p.tsv", "text\tquery\tkey\n", "p.tsv: expected at least one pair, such as {"),
        ("p.jsonl", "\nthe cat", "p.jsonl, line 2: expected JSON such as {"),
        ("p.jsonl", "[" * 100_000, "p.jsonl: expected JSON such as {"),
        ("p.jsonl", '{"text": "a b", "query": "a"}', "p.jsonl, line 1: expected 'key' among the fields, as in {"),
        ("p.json", "[1]", "p.json, pair 1: expected {"),
        ("p.json", '[{"text": "a b", "query": "a", "key": true}]', "p.json, pair 1: key: expected a text, got True"),
        ("p.json", '[{"text": 3, "query": "a", "key": "b"}]', "p.json, pair 1: text: expected a text, got 3"),
        ("p.json", '[{"text": "a b", "query": " ", "key": "b"}]', "p.json, pair 1: query: expected a text, got ' '"),
        ("p.tsv", "a b\ta\tb\na b\ta\n", "p.tsv, line 2: expected text, query, key, got 2 columns"),
        ("p.csv", f"a b,a,{'b' * 200_000}", "p.csv, line 1: expected text, query, key (field larger than"),
        ("p.tsv", b"a\xff\ta\tb", "p.tsv is not UTF-8: byte 0xff in line 1"),
    ],
)
def test_what_is_no_pair_is_one_line(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MhavizError) as raised:
        read_pairs(written(Path(name), content))
    assert str(raised.value).startswith(message)
    assert (raised.value.status, str(raised.value).count("\n")) == (1, 0)
