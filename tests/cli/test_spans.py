"""Sentences, lines, turns and spans of a file on the command line, of one text and over many."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from mhaviz.api.saved_maps import read

CHATS = [
    [("system", "the mat"), ("user", "hello cat"), ("assistant", "a dog ran")],
    [("user", "the cat sat on a mat"), ("assistant", "hello the world")],
]
TEXT = "The cat sat. A dog ran\non the mat. Hello!"
SPANS = [{"name": "first", "text": "The cat sat."}, {"name": "last", "text": "Hello!"}]
GPT = ("--model", "chat")


def messages(chat):
    return [{"role": role, "content": content} for role, content in chat]


@pytest.fixture(autouse=True)
def folder(model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("chat").symlink_to(model_folder("chat"))
    Path("chats.jsonl").write_text("\n".join(json.dumps(messages(chat)) for chat in CHATS))
    Path("one.json").write_text(json.dumps(messages(CHATS[0])))
    Path("spans.json").write_text(json.dumps(SPANS))
    Path("text.txt").write_text(TEXT)
    Path("texts.json").write_text(json.dumps([{"text": TEXT, "spans": SPANS}, messages(CHATS[0])]))


def test_heads_by_turn_in_every_format(mhaviz):
    outputs = [word for suffix in ("json", "csv", "svg") for word in ("-o", f"h.{suffix}")]
    result = mhaviz("heads", *GPT, "--by", "turn", "--file", "chats.jsonl", "--top", "3", *outputs)
    assert result.status == 0, result.err
    assert result.err.splitlines() == [f"mhaviz: saved h.{suffix}" for suffix in ("json", "csv", "svg")]
    assert "of 8" in result.out
    assert "“assistant”" in result.out.splitlines()[0]
    document = json.loads(Path("h.json").read_text())
    assert (document["query"], document["texts"], document["without_query"]) == ("assistant", 2, 0)
    (kind,) = document["kinds"]
    assert [*kind["spans"]] == ["system", "user", "assistant"]
    rows = list(csv.DictReader(Path("h.csv").read_text().splitlines()))
    for name, number in kind["spans"].items():
        found = [float(row["mean"]) for row in rows if row["number"] == name]
        assert found == pytest.approx(np.ravel(number["mean"]))
    assert "<svg" in Path("h.svg").read_text()


def test_heads_by_the_spans_of_a_file_and_of_another_query(mhaviz):
    result = mhaviz("heads", *GPT, "--by", "texts.json", "--query", "user", "--json")
    assert result.err == "mhaviz: 1 text of 2 left out: without a span “user”\n"
    assert json.loads(result.out)["query"] == "user"
    usual = json.loads(mhaviz("heads", *GPT, "--by", "texts.json", "--json").out)
    assert (usual["query"], usual["without_query"]) == ("last", 1)
    piped = mhaviz("heads", *GPT, "--by", "turn", "--file", "-", "--json", stdin=Path("chats.jsonl").read_bytes())
    assert json.loads(piped.out)["texts"] == 2


BAD = [
    ("--query user hello", 2, "--query chooses a span of texts; add --by turn or --by FILE"),
    ("--by turn", 2, "--by turn reads chats; add --file chats.jsonl"),
    ("--by turn hello --file chats.jsonl", 2, "--by turn takes the place of sentences and pairs; leave them out"),
    ("--by turn --pairs p.tsv", 2, "--by turn takes the place of sentences and pairs"),
    ("--by turn --pairs p.tsv --file chats.jsonl", 2, "--by turn takes the place of sentences and pairs"),
    ("--by texts.json --file chats.jsonl", 2, "--by texts.json takes the place of sentences and pairs"),
    ("--by turn --file chats.jsonl --sort entropy", 2, "of their numbers; leave out --sort"),
    ("--by turn --file chats.jsonl --needle x", 2, "of their numbers; leave out --needle"),
    ("--by turn --file chats.jsonl --resume", 2, "of their numbers; leave out --resume"),
    ("--by turn --file chats.jsonl --languages a,b", 2, "--by reads texts as they are; leave out --languages"),
    ("--by turn --file chats.jsonl -o out.html", 2, "expected a name ending in .png, .svg, .pdf, .json, .csv"),
    ("--by turn --file chats.jsonl -o chats.jsonl", 2, ""),
    ("--by turn --file chats.jsonl --kind cross -o out.json", 2, ""),
    ("--by sentence --file chats.jsonl", 2, "--by: expected turn, or a file of texts with spans, got 'sentence'"),
    (
        "--by turn --file chats.jsonl --query tool -o out.json",
        2,
        "--query: expected texts with a span 'tool', got none",
    ),
    ("--by none.json", 1, "cannot read none.json: No such file or directory"),
    ("--by turn --file empty.json -o out.json", 1, "empty.json is empty: expected [{"),
    ("--by turn --file text.txt -o out.json", 1, "text.txt, line 1: expected JSON such as"),
    ("--by spans.json -o out.json", 1, "spans.json, text 1: expected [{"),
    ("--by wrong.jsonl -o out.json", 1, "wrong.jsonl, line 2: --by: span 'a': expected 'cow' once in the text"),
    ("--by unread.jsonl -o out.json", 1, "unread.jsonl: --by turn: expected message 0"),
]


@pytest.mark.parametrize(("words", "status", "message"), BAD, ids=[words for words, *_ in BAD])
def test_heads_refuses_in_one_line_and_leaves_nothing(mhaviz, words, status, message):
    Path("empty.json").touch()
    wrong = {"text": TEXT, "spans": [{"name": "a", "text": "cow"}]}
    Path("wrong.jsonl").write_text("\n".join(map(json.dumps, ({"text": TEXT, "spans": SPANS}, wrong))))
    Path("unread.jsonl").write_text(json.dumps([{"role": "user", "content": ""}]))
    before = Path("chats.jsonl").read_text()
    result = mhaviz("heads", *GPT, *words.split())
    assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), result.err
    assert message in result.err
    assert "Traceback" not in result.err
    assert Path("chats.jsonl").read_text() == before
    assert not Path("out.json").exists()


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("sentence", ["The cat sat.", "A dog ran on the mat.", "Hello!"]),
        ("line", ["The cat sat. A dog ran", "on the mat. Hello!"]),
        ("spans.json", ["first", "last"]),
    ],
)
def test_a_heatmap_by_span_and_the_same_of_its_tokens(mhaviz, by, names):
    given = ("heatmap", *GPT, "--file", "text.txt", "--whole")
    saved = mhaviz(*given, "--by", by, "-o", "m.json", "-o", "m.csv", "-o", "m.html")
    assert saved.status == 0, saved.err
    maps = json.loads(Path("m.json").read_text())["maps"]
    assert [m["queries"] for m in maps] == [names] * 2
    assert mhaviz(*given, "-q", "-o", "t.safetensors").status == 0
    tokens = read("t.safetensors")
    for m, of_tokens in zip(maps, tokens, strict=True):
        ranges, rows = (
            [np.concatenate([np.arange(*run) for run in runs]) for runs in m[f"{side}_token_ranges"]]
            for side in ("key", "query")
        )
        sums = np.stack([of_tokens.weights[..., those].sum(axis=2, dtype=np.float64) for those in ranges], axis=2)
        expected = np.stack([sums[:, those].mean(axis=1) for those in rows], axis=1)
        np.testing.assert_allclose(m["weights"], expected, atol=1e-6)
    again = mhaviz("show", "t.safetensors", "--by", by, "-q", "-o", "again.json")
    assert again.status == 0, again.err
    found = json.loads(Path("again.json").read_text())["maps"]
    for name in ("weights", "chance"):
        np.testing.assert_allclose(*(np.array(maps[1][name], float) for maps in (found, maps)), atol=1e-6)
    rows = list(csv.DictReader(Path("m.csv").read_text().splitlines()))
    assert [float(row["weight"]) for row in rows] == pytest.approx(np.ravel([m["weights"] for m in maps]), abs=1e-6)


def test_a_heatmap_by_turn_of_one_query(mhaviz):
    result = mhaviz("heatmap", *GPT, "--chat", "one.json", "--by", "turn", "--query", "assistant", "-o", "m.json")
    assert result.status == 0, result.err
    assert "what “assistant” looks at, mean of 8 heads" in result.out
    (first, _) = json.loads(Path("m.json").read_text())["maps"]
    assert first["keys"][:3] == ["system", "user", "assistant"]
    assert first["queries"][-1:] == ["assistant"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("--by none.json", 1, "none.json"),
        ("--by text.txt", 1, "text.txt"),
        ("--by wrong.json", 1, "wrong.json: "),
        ("--by lost.json", 2, "--by: span 'a': expected 'cow' once in the text, got no such text"),
        ("--by turn", 2, "--by turn: expected a chat, a pair of texts, or a text that the model continues, got one"),
        ("--by spans.json --pool max", 2, "--pool"),
        ("--by spans.json --window 0:3,:", 2, "--window"),
        ("--by spans.json --show uniform", 2, "--show uniform"),
        ("--by spans.json --show rollout", 2, ""),
    ],
)
def test_a_heatmap_refuses_in_one_line_and_leaves_nothing(mhaviz, words, status, message):
    Path("wrong.json").write_text('{"name": "a"}')
    Path("lost.json").write_text(json.dumps([{"name": "a", "text": "cow"}]))
    result = mhaviz("heatmap", *GPT, "--file", "text.txt", "--whole", *words.split(), "-o", "out.json")
    assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), result.err
    assert message in result.err
    assert not Path("out.json").exists()


PROGRAM = """
import torch
torch.manual_seed(0)
q, k = torch.randn(2, 1, 2, 600, 8)
torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
torch.save({"q": q, "k": k}, "qk.pt")
"""


def test_a_recording_by_span_is_kept_whole(mhaviz):
    """Of more tokens than are kept in other recordings."""
    import torch

    Path("program.py").write_text(PROGRAM)
    Path("parts.json").write_text('[{"name": "a", "tokens": [0, 300]}, {"name": "b", "tokens": [300, 600]}]')
    result = mhaviz("record", "--by", "parts.json", "-o", "m.json", "program.py")
    assert result.status == 0, result.err
    (m,) = json.loads(Path("m.json").read_text())["maps"]
    q, k = (x[0].double().numpy() for x in torch.load("qk.pt").values())
    S = np.where(np.tri(600, dtype=bool), q @ k.transpose(0, 2, 1) / np.sqrt(8), -np.inf)
    A = np.exp(S - S.max(axis=2, keepdims=True))
    A /= A.sum(axis=2, keepdims=True)
    halves = slice(0, 300), slice(300, 600)
    expected = [[[head[i, j].sum(axis=1).mean() for j in halves] for i in halves] for head in A]
    np.testing.assert_allclose(m["weights"], expected, atol=1e-6)
    assert m["key_token_ranges"] == [[[0, 300]], [[300, 600]]]


def test_a_recording_is_not_lost_for_a_wrong_span(mhaviz):
    Path("program.py").write_text(PROGRAM.replace("600", "8"))
    Path("parts.json").write_text('[{"name": "a", "tokens": [0, 9]}]')
    result = mhaviz("record", "--by", "parts.json", "-o", "m.npz", "program.py")
    assert result.status == 2
    assert "span 'a': expected tokens from 0 to 8" in result.err
    assert read("m.npz")[0].weights.shape == (2, 8, 8)


def test_what_changes_without_the_messages_of_a_role(mhaviz):
    words = ("heatmap", *GPT, "--by", "turn", "--query", "assistant")
    result = mhaviz(*words, "--chat", "one.json", "--without", "system", "-o", "change.json")
    assert (result.status, result.err.splitlines()) == (
        0,
        ["mhaviz: only in the whole chat: system", "mhaviz: saved change.json"],
    )
    Path("rest.json").write_text(json.dumps(messages(CHATS[0][1:])))
    for chat in ("one", "rest"):
        mhaviz(*words, "--chat", f"{chat}.json", "-o", f"{chat}.safetensors")
    before, after = read("one.safetensors"), read("rest.safetensors")
    for old, new, change in zip(before, after, json.loads(Path("change.json").read_text())["differences"], strict=True):
        keys = change["keys"]
        was, now = (dict(zip(m.keys, np.moveaxis(m.weights, 2, 0), strict=True)) for m in (old, new))
        assert keys[:3] == ["system", "user", "assistant"]
        for j, key in enumerate(keys):
            expected = now.get(key, 0) - was.get(key, np.zeros_like(now["user"]))
            np.testing.assert_allclose(np.array(change["change"])[..., j], expected, atol=1e-6)


def test_a_query_is_the_same_span_in_the_whole_chat_and_in_the_rest(mhaviz):
    words = ("heatmap", *GPT, "--chat", "one.json", "--by", "turn", "--without", "system")
    queries = [m["queries"] for number in ("#1", "#2") if not mhaviz(*words, "--query", number, "-o", "a.json").status
               for m in json.loads(Path("a.json").read_text())["differences"][:1]]  # fmt: skip
    assert queries == [["user"], ["assistant"]]
    for query in ("system", "0"):
        result = mhaviz(*words, "--query", query, "-o", "b.json")
        assert (result.status, result.err) == (
            2,
            "mhaviz: --query: 'system' is left out by --without; give one that stays, such as 'assistant'\n",
        )
    assert not Path("b.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--by turn --without robot", "--without: expected a role of some messages, not all, got 'robot'; there are "
         "'system', 'user', 'assistant'"),
        ("--without system", "--without compares spans by their names; add --by turn"),
        ("--by spans.json --without system", "--without compares spans by their names; add --by turn"),
        ("--by turn --without system --as lines", "--without draws what changes; leave out --as"),
    ],
)  # fmt: skip
def test_what_cannot_be_left_out(mhaviz, words, message):
    result = mhaviz("heatmap", *GPT, "--chat", "one.json", *words.split(), "-o", "out.json")
    assert (result.status, result.err, result.out) == (2, f"mhaviz: {message}\n", "")
    assert not Path("out.json").exists()


def test_nothing_is_left_out_of_a_text(mhaviz):
    result = mhaviz("heatmap", *GPT, "the cat", "--by", "turn", "--without", "system")
    assert (result.status, result.err) == (
        2,
        "mhaviz: --without leaves messages out of a chat; add --chat messages.json\n",
    )
