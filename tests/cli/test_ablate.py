"""mhaviz ablate as a user types it, with a model that has learnt to copy."""

import csv
import json

import pytest
from induction_model import as_texts, repeats


@pytest.fixture(scope="module")
def folder(induction_model, tmp_path_factory):
    """The model's, with sentences in which it can copy beside it."""
    path = tmp_path_factory.mktemp("copying")
    model, tokenizer = induction_model
    model.save_pretrained(path / "model")
    tokenizer.save_pretrained(path / "model")
    (path / "text.txt").write_text("\n".join(as_texts(repeats(8, 10))) + "\n")
    return path


@pytest.fixture
def ablate(mhaviz, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *arguments: mhaviz("ablate", "--model", "model", "--file", "text.txt", *arguments)


def test_a_head_that_others_need_stands_first(ablate, folder):
    result = ablate("-o", "a.png", "-o", "a.csv", "-o", "a.json")
    assert (result.status, "saved a.png" in result.err) == (0, True)
    assert "4 heads, each zeroed by itself, means over 8 sentences, 168 tokens" in " ".join(result.out.split())
    found = json.loads((folder / "a.json").read_text())
    assert found["prediction"] == "next token"
    lines = list(csv.DictReader((folder / "a.csv").read_text().splitlines()))
    first = max((line for line in lines if line["number"] == "change"), key=lambda line: float(line["mean"]))
    assert first["layer"] == "0"
    rows = [line.split() for line in result.out.splitlines() if line.startswith(" L") and "±" in line]
    assert rows[0][:2] == [f"L{first['layer']}", f"H{first['head']}"]


def test_json_and_chosen_heads(ablate):
    result = ablate("--layer", "1", "--head", "1", "--sort", "loss", "--json")
    (kind,) = json.loads(result.out)["kinds"]
    assert kind["layers"] == [1]
    assert kind["change"]["mean"][0][0] is None
    assert kind["change"]["mean"][0][1] > 0


def test_several_processes_would_do_the_same(ablate, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    result = ablate()
    assert (result.status, result.out) == (2, "")
    assert "ablate reads all sentences in one process; start it without torchrun" in result.err


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["ablate", "--sort", "entropy"], 2, "'entropy' is not one of 'change', 'loss'"),
        (["ablate", "--head", "2"], 2, "--head: there is no head 2; the layer has heads 0 to 1"),
        (["ablate", "-o", "a.html"], 2, "cannot tell the format of a.html"),
    ],
)
def test_wrong_command_lines(mhaviz, folder, monkeypatch, arguments, status, expected):
    monkeypatch.chdir(folder)
    result = mhaviz(*arguments, "--model", "model", "--file", "text.txt")
    assert (result.status, result.out) == (status, "")
    assert expected in result.err
    assert result.err.count("\n") == 1
