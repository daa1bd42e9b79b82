"""mhaviz budget as a user types it."""

import csv
import json
from io import StringIO

import numpy as np
import pytest
from families import WORDS

import mhaviz as package
from mhaviz.results.cache_budget import POLICY_NAMES

TEXT = " ".join(WORDS[(i * i) % len(WORDS)] for i in range(60))
OTHER = " ".join(WORDS[(i * 7) % len(WORDS)] for i in range(50))
SLOW = pytest.mark.slow  # models that say nothing new of the command: 3 s


@pytest.fixture
def folder(model_folder, tmp_path, monkeypatch):
    """Models, and texts beside them."""
    monkeypatch.chdir(tmp_path)
    for name in ("llama", "gpt2", "bert", "t5", "bart", "mistral"):
        (tmp_path / name).symlink_to(model_folder(name))
    (tmp_path / "a.txt").write_text(f"{TEXT}\n\n{TEXT}\n")
    (tmp_path / "b.txt").write_text(OTHER)
    return tmp_path


def test_files_and_terminal(mhaviz, folder):
    result = mhaviz(
        *("budget", "--model", "llama", "--file", "a.txt", "--keep", "32,8", "--policy", "rows,window"),
        *("-o", "b.png", "-o", "b.json", "-o", "b.csv"),
    )
    assert result.status == 0
    assert all(f"saved b.{suffix}" in result.err for suffix in ("png", "json", "csv"))
    found = json.loads((folder / "b.json").read_text())
    assert (found["budgets"], found["policies"], found["groups"]) == ([8, 32], ["rows", "window"], [2, 2])
    (length,) = found["lengths"]
    assert found["queries"] == length - 32
    said = " ".join(result.out.split())
    assert f"8 of {length} keys hold " in said
    assert "8 heads of 2 layers, in groups of 2 that share keys and a budget; 1 text" in said
    assert "a share of the weights is no measure of quality" in said
    rows = list(csv.DictReader(StringIO((folder / "b.csv").read_text())))
    assert len(rows) == 8 * 2 * 2
    for row in rows:
        share = found["share"][row["policy"]][found["budgets"].index(int(row["budget"]))]
        assert float(row["share"]) == share[int(row["layer"])][int(row["head"])]


@pytest.mark.parametrize("model", ["llama", pytest.param("gpt2", marks=SLOW), pytest.param("mistral", marks=SLOW)])
def test_it_gives_what_python_does(mhaviz, folder, model):
    result = mhaviz("budget", TEXT, "--model", model, "--keep", "4,16", "--layer", "1", "--json")
    found = package.budget(model, TEXT, keep=[16, 4, 4], layer=1)
    document = json.loads(result.out)
    assert found.layers == (1,)
    assert list(document["share"]) == list(POLICY_NAMES)
    for policy in POLICY_NAMES:
        np.testing.assert_allclose(document["share"][policy], found.share[policy])
        assert ((found.share[policy] > 0) & (found.share[policy] <= 1 + 1e-6)).all()
    assert len(found.to_dataframe()) == 4 * 2 * len(POLICY_NAMES)


def test_several_texts_are_averaged(mhaviz, folder):
    arguments = "--file", "b.txt", "--model", "gpt2", "--keep", "8", "--policy", "h2o", "--json"
    result = mhaviz("budget", TEXT, "-", *arguments, stdin=OTHER.encode())
    model = package.load("gpt2")
    one, other = (model.budget(text, keep=8, policies="h2o").share["h2o"] for text in (TEXT, OTHER))
    np.testing.assert_allclose(json.loads(result.out)["share"]["h2o"], (one + 2 * other) / 3)


def test_of_a_long_text_the_first_tokens_are_read(mhaviz, folder, monkeypatch):
    from mhaviz.models.transformers.texts import Texts

    monkeypatch.setattr(Texts, "max_length", 40)
    result = mhaviz("budget", "--file", "a.txt", "--model", "gpt2", "--keep", "8", "--json", "--policy", "rows")
    assert json.loads(result.out)["lengths"] == [40]
    assert "mhaviz: read the first 40 of " in result.err
    assert " tokens, as many as the model is built for" in result.err


@SLOW
def test_a_decoder_with_an_encoder_keeps_what_it_writes(folder):
    found = package.budget("t5", TEXT, keep=2, policies="window")
    assert found.lengths[0] > 2
    assert found.share["window"].shape == (1, len(found.layers), 4)
    with pytest.raises(package.ArgumentError, match="`layer`: expected a layer whose queries see no later keys"):
        package.budget("bart", TEXT, keep=2, layer=1)  # of the encoder alone


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["--keep", "9999"], 2, "--keep: expected fewer keys than the text has tokens, "),
        (["--keep", "0"], 2, "--keep: expected numbers of keys from 1 on, such as 64 and 256, got 0"),
        (["--keep", "8,x"], 2, "--keep: expected numbers of keys such as 64,256,1024, got '8,x'; see mhaviz budget"),
        (["--keep", "8", "--policy", "lru"], 2, "--policy: expected some of columns, rows, window, h2o, snapkv, got"),
        (["--keep", "8", "--model", "bert"], 2, "expected a model that keeps keys in a cache, as its queries"),
        (["--keep", "8", "--layer", "7"], 2, "--layer: there is no layer 7"),
        (["--keep", "8", "-o", "a.html"], 2, "cannot tell the format of a.html"),
        (["--keep", "8", "--file", "none.txt"], 1, "none.txt"),
        (["--keep", "8", "--file", "-", "--file", "-"], 2, "standard input can be read once"),
        ([], 2, "Missing option '--keep'"),
    ],
)  # fmt: skip
def test_wrong_command_lines(mhaviz, folder, arguments, status, expected):
    model = [] if "--model" in arguments else ["--model", "gpt2"]
    result = mhaviz("budget", TEXT, *model, *arguments)
    assert (result.status, result.out) == (status, "")
    assert expected in result.err
    assert result.err.count("\n") == 1


def test_the_longest_budget_is_told_of_the_text_that_is_too_short(mhaviz, folder):
    result = mhaviz("budget", TEXT, "the cat", "--model", "gpt2", "--keep", "8")
    assert (result.status, result.out) == (2, "")
    assert "--keep: expected fewer keys than text 2 has tokens, " in result.err


def test_no_text(mhaviz, folder):
    result = mhaviz("budget", "--model", "gpt2", "--keep", "8")
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "no sentence: give one in quotes, --file sentences.txt, or - for standard input" in result.err


def test_several_processes_would_do_the_same(mhaviz, folder, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    result = mhaviz("budget", TEXT, "--model", "gpt2", "--keep", "8")
    assert (result.status, result.out) == (2, "")
    assert "start it without torchrun" in result.err
