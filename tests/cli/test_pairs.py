"""mhaviz heads --pairs as a user types it."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

LINES = "the cat sat on a mat\tsat\tcat\nhello a dog ran\tran\tdog\n"


@pytest.fixture(autouse=True)
def folder(model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bert").symlink_to(model_folder("bert"))
    Path("p.tsv").write_text(LINES)


def test_every_format(mhaviz):
    names = [f"pairs.{suffix}" for suffix in ("png", "json", "csv")]
    outputs = [word for name in names for word in ("-o", name)]
    result = mhaviz("heads", "--model", "bert", "--pairs", "p.tsv", "--top", "3", *outputs)
    assert result.status == 0, result.err
    assert result.err.splitlines() == [f"mhaviz: saved {name}" for name in names]
    assert "heads by weight, highest first: 3 of 8" in result.out
    (kind,) = json.loads(Path("pairs.json").read_text())["kinds"]
    assert [pair["text"] for pair in kind["pairs"]] == [line.split("\t")[0] for line in LINES.splitlines()]
    weights = np.mean([pair["weights"] for pair in kind["pairs"]], axis=0)
    assert kind["numbers"]["weight"]["mean"] == [pytest.approx(row) for row in weights.tolist()]
    rows = [row for row in csv.DictReader(Path("pairs.csv").read_text().splitlines()) if row["number"] == "weight"]
    assert [float(row["mean"]) for row in rows] == pytest.approx(weights.flatten())


def test_standard_input_is_json(mhaviz):
    pair = b'{"text": "hello a dog ran", "query": "ran", "key": "dog"}'
    result = mhaviz("heads", "--model", "bert", "--pairs", "-", "--json", stdin=pair)
    assert json.loads(result.out)["kinds"][0]["pairs"][0]["key"] == " dog"


def test_texts_too_long_are_left_out(mhaviz):
    Path("p.tsv").write_text(f"{LINES}{'cat ' * 6_000}\tcat #1\tcat #2\n")
    result = mhaviz("heads", "--model", "bert", "--pairs", "p.tsv", "--json")
    assert result.err == "mhaviz: 1 sentence was left out: expected at most 5,000 tokens, got up to 6,002\n"
    data = json.loads(result.out)
    assert (data["too_long"], len(data["kinds"][0]["pairs"])) == (1, 2)


BAD = [
    ("--file p.tsv", 2, "--pairs takes the place of sentences; leave out one of them"),
    ("hello", 2, "--pairs takes the place of sentences; leave out one of them"),
    ("--sort previous", 2, "--pairs takes the place of sentences, and of their numbers; leave out --sort"),
    ("--needle x", 2, "--pairs takes the place of sentences, and of their numbers; leave out --needle"),
    ("--random-repeat 5", 2, "--pairs takes the place of sentences, and of their numbers; leave out --random-repeat"),
    ("--resume", 2, "--pairs takes the place of sentences, and of their numbers; leave out --resume"),
    ("-o x.html", 2, "expected a name ending in .png, .svg, .pdf, .json, .csv"),
    ("-o p.tsv", 2, ""),
    ("--pairs none.tsv", 1, "cannot read none.tsv: No such file or directory"),
    ("--pairs twice.tsv", 1, "twice.tsv, line 2: key: 'a' occurs 2 times; give a position: 'a #1', 'a #4'"),
    ("--pairs nobody.tsv", 1, "nobody.tsv, line 1: query: expected a word, or a position from 0 to 4, got 'cow'"),
    ("--pairs blank.jsonl", 1, "blank.jsonl, line 1: text: the model's tokenizer finds no token of it; give another"),
    ("--kind cross", 2, "--kind: expected a kind of attention that the model has, self, got cross"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=[words for words, _, _ in BAD])
def test_bad_input_is_one_line_and_the_right_status(mhaviz, arguments, status, message):
    Path("twice.tsv").write_text("the dog ran\tran\tdog\na cat sat a\tsat\ta\n")
    Path("nobody.tsv").write_text("the cat sat\tcow\tcat\n")
    Path("blank.jsonl").write_text('{"text": "\\u200b", "query": "a", "key": "b"}')
    result = mhaviz("heads", "--model", "bert", "--pairs", "p.tsv", *arguments.split())
    assert result.status == status, result.err
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert not result.out
    assert Path("p.tsv").read_text() == LINES


def test_what_users_write_is_shown_as_it_is(mhaviz):
    Path("p.jsonl").write_text(
        json.dumps({"text": "a [bold]cat $x$\x1b[31m sat the dog ran", "query": "ran", "key": "dog"})
    )
    result = mhaviz("heads", "--model", "bert", "--pairs", "p.jsonl", "-o", "p.png")
    assert result.status == 0
    assert "\x1b" not in result.out
