"""mhaviz train, and what is looked at with --model afterwards."""

import contextlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from mhaviz.cli.commands.train import filmed_pair
from mhaviz.training.checkpoint import Checkpoint
from mhaviz.training.corpus import Corpus, Pair
from mhaviz.training.loading import load_checkpoint
from mhaviz.training.trainer import Trainer

pytestmark = pytest.mark.slow

SMALL = ("--steps", "4", "--d-model", "8", "--n-heads", "2", "--device", "cpu")
SENTENCE = "the small black cat does not see my red car"


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    lines = [f"a{i} b\tB A{i}\t0-1 1-0" for i in range(30)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def checkpoint(mhaviz, pairs, tmp_path):
    path = tmp_path / "c.safetensors"
    assert mhaviz("train", str(pairs), "-o", str(path), "-q", *SMALL).status == 0
    return path


def test_the_built_in_grammar(mhaviz, tmp_path):
    path = tmp_path / "t.safetensors"
    result = mhaviz("train", "translation", "-o", str(path), "--steps", "20", "--device", "cpu")
    assert result.status == 0
    saved, next_command = result.err.splitlines()
    assert saved == f"mhaviz: saved {path}"
    assert "trained on 7,500 sentences; scored on 50 of the 500 held out" in " ".join(result.out.split())
    milestones = load_checkpoint(str(path)).milestones
    assert [m.step for m in milestones] == list(range(1, 21))
    assert milestones[-1].loss < 0.9 * milestones[0].loss, "the sizes and the learning rate by default learn"
    command = next_command.removeprefix("mhaviz: to see its maps: ")
    assert command.startswith(f"mhaviz heatmap --model {path} ")
    assert mhaviz(*shlex.split(command)[1:]).status == 0
    shown = mhaviz("heatmap", "--model", str(path), SENTENCE, "--target", "le petit chat", "--json")
    assert [m["kind"] for m in json.loads(shown.out)["maps"]] == ["self", "masked", "cross"]


def test_pictures_and_data_of_a_training(mhaviz, pairs, tmp_path):
    names = ["c.safetensors", "a.png", "a.svg", "a.pdf", "a.json"]
    outputs = [part for name in names for part in ("-o", str(tmp_path / name))]
    result = mhaviz("train", str(pairs), *outputs, "--json", *SMALL)
    assert result.status == 0
    assert sorted(result.err.splitlines()) == sorted(f"mhaviz: saved {tmp_path / name}" for name in names)
    data = json.loads(result.out)
    assert data == json.loads((tmp_path / "a.json").read_text())
    assert [point["step"] for point in data["points"]] == [1, 2, 3, 4]
    assert (data["training_sentences"], data["held_out_sentences"]) == (27, 3)
    assert data["source"]["corpus"] == "pairs.tsv"


def test_every_look_changes_the_picture_of_a_training_alone(mhaviz, pairs, tmp_path):
    looks = "", "--dpi 50", "--width 5in", "--font-size 9", "--title Mine", "--for page"
    made = []
    for i, look in enumerate(looks):
        names = [str(tmp_path / f"{i}{suffix}") for suffix in (".safetensors", ".png")]
        outputs = [part for name in names for part in ("-o", name)]
        assert mhaviz("train", str(pairs), *outputs, "-q", *SMALL, *shlex.split(look)).status == 0
        made.append([Path(name).read_bytes() for name in names])
    checkpoints, pictures = (len(set(files)) for files in zip(*made, strict=True))
    assert (checkpoints, pictures) == (1, len(looks))


def test_the_same_command_writes_the_same_checkpoint(mhaviz, pairs, tmp_path):
    for name in ("a", "b"):
        mhaviz("train", str(pairs), "-o", str(tmp_path / f"{name}.safetensors"), "-q", *SMALL)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_resume_goes_on(mhaviz, pairs, checkpoint, tmp_path):
    result = mhaviz("train", str(pairs), "-o", str(checkpoint), "--resume", "--steps", "6", "-q")
    assert result.status == 0
    assert [m.step for m in load_checkpoint(str(checkpoint)).milestones] == [1, 2, 3, 4, 5, 6]
    done = mhaviz("train", str(pairs), "-o", str(checkpoint), "--resume")
    assert (done.status, "expected more steps than the 6 that this checkpoint has taken, got" in done.err) == (2, True)


def test_capitals_are_kept_from_the_corpus_to_the_map(mhaviz, pairs, tmp_path):
    path = tmp_path / "c.safetensors"
    assert mhaviz("train", str(pairs), "-o", str(path), "-q", "--keep-case", *SMALL).status == 0
    trained = load_checkpoint(str(path))
    assert trained.plan.keep_case
    assert {"B", "A3"} <= set(trained.target_vocabulary.words)
    shown = mhaviz("heatmap", "--model", str(path), "a1 b", "--target", "B A1", "--kind", "cross", "--json")
    assert json.loads(shown.out)["maps"][0]["queries"] == ["B", "A1", "<end>"]
    assert mhaviz("heatmap", "--model", str(path), "a1 b", "--keep-case", "-q").status == 0, "it does anyway"
    unknown = mhaviz("heatmap", "--model", str(path), "a1 b", "--target", "b", "--keep-case")
    assert (unknown.status, 'has not learnt "b"' in unknown.err) == (2, True)
    evaluated = json.loads(mhaviz("evaluate", str(path), str(pairs), "--json").out)
    assert evaluated["held_out"] is True, "it is the same corpus"
    resumed = mhaviz("train", str(pairs), "-o", str(path), "--resume", "--steps", "5", "-q")
    assert (resumed.status, load_checkpoint(str(path)).plan.keep_case) == (0, True)


def test_a_film(mhaviz, pairs, tmp_path):
    film = tmp_path / "film.gif"
    result = mhaviz("train", str(pairs), "-o", str(tmp_path / "c.safetensors"), "--animate", str(film), *SMALL)
    assert f"mhaviz: saved {film}" in result.err.splitlines()
    with Image.open(film) as opened:
        assert opened.n_frames == 5  # before the first step, and after each of four
        assert opened.info["loop"] == 0
        first = np.asarray(opened.convert("RGB"))
        opened.seek(4)
        assert opened.info["duration"] > 1000
        assert (np.asarray(opened.convert("RGB")) != first).any()


def test_the_sentence_that_is_filmed():
    def pair(length):
        return Pair(("s",) * length, ("t",) * length)

    corpus = Corpus("", (), (pair(3), pair(30), pair(10), pair(5)))
    assert filmed_pair(corpus) == pair(10)
    assert filmed_pair(Corpus("", (), (pair(30), pair(20)))) == pair(20)


def test_evaluate_ones_own_pairs(mhaviz, pairs, checkpoint, tmp_path):
    result = mhaviz("evaluate", str(checkpoint), str(pairs), "-o", str(tmp_path / "e.png"))
    assert result.status == 0
    assert "3 held-out sentences: exact match" in result.out
    assert "heads averaged" in result.out
    assert (tmp_path / "e.png").stat().st_size > 0
    unnamed = mhaviz("evaluate", str(checkpoint))
    assert unnamed.status == 2
    assert f"was trained on pairs.tsv; name it: mhaviz evaluate {checkpoint} pairs.tsv" in unnamed.err
    (tmp_path / "other.tsv").write_text("a1 b\tB A1\na2 b\tB A2\n", encoding="utf-8")
    other = mhaviz("evaluate", str(checkpoint), str(tmp_path / "other.tsv"))
    assert "may hold sentences of the training" in other.err
    assert "2 sentences: exact match" in other.out
    (tmp_path / "unknown.tsv").write_text("zebra b\tB A1\na2 b\tB A2\n", encoding="utf-8")
    unknown = mhaviz("evaluate", str(checkpoint), str(tmp_path / "unknown.tsv"))
    assert (unknown.status, '"zebra"' in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "Missing argument 'CORPUS'"),
        (("translation",), 2, "expected a file for the checkpoint, such as -o translation.safetensors, got none"),
        (("translation", "-o", "a.safetensors", "-o", "b.safetensors"), 2, "got 2"),
        (("translation", "-o", "a.pth"), 2, "expected a name ending in"),
        (("nothing.tsv", "-o", "a.safetensors"), 1, "cannot read nothing.tsv: No such file"),
        (("translation", "-o", "no/a.safetensors"), 1, "there is no folder"),
        (("translation", "-o", "a.safetensors", "--animate", "a.mp4"), 2, "expected a name ending in .gif"),
        (
            ("translation", "-o", "a.safetensors", "--steps", "x"),
            2,
            "--steps: Input should be a valid integer",
        ),
        (
            ("translation", "-o", "a.safetensors", "--learning-rate", "x"),
            2,
            "--learning-rate: Input should be a valid number",
        ),
        (("translation", "-o", "a.safetensors", "--steps", "0"), 2, "--steps: Input should be greater"),
        (("translation", "-o", "a.safetensors", "--n-heads", "3"), 2, "expected heads that divide d_model"),
        (("translation", "-o", "a.safetensors", "--learning-rate", "0"), 2, "--learning-rate: Input should be greater"),
        (("translation", "-o", "a.safetensors", "--learning-rate", "nan"), 2, "--learning-rate: Input should be"),
        (("translation", "-o", "a.safetensors", "--d-model", "1000000", "--n-heads", "1"), 1, "memory"),
        (("translation", "-o", "a.safetensors", "--device", "cuda:99"), 1, "device cuda:99 is missing"),
        (("translation", "-o", "a.safetensors", "--dpi", "3"), 2, "dpi: expected at least 20, got 3"),
        (("translation", "-o", "a.safetensors", "--for", "page", "--width", "3in"), 2, "--for has a width"),
        (("translation", "-o", "a.safetensors", "--resume"), 1, "No such file or directory"),
        (("translation", "-o", "a.safetensors", "--resume", "--n-heads", "2"), 2, "leave out --n-heads"),
        (("translation", "-o", "a.safetensors", "--resume", "--keep-case"), 2, "leave out --keep-case"),
        (("translation", "-o", "a.safetensors", "--keep-case"), 2, "--keep-case: the sentences of the built-in gramm"),
    ],
)
def test_what_cannot_be_trained(mhaviz, tmp_path, monkeypatch, words, status, message):
    monkeypatch.chdir(tmp_path)
    result = mhaviz("train", *words)
    assert result.status == status
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not result.out
    assert not list(tmp_path.iterdir())


def test_a_diverging_loss_is_an_error_and_not_a_checkpoint(mhaviz, pairs, tmp_path):
    path = tmp_path / "c.safetensors"
    words = ("train", str(pairs), "-o", str(path), *SMALL, "--learning-rate", "1e30", "--steps", "400")
    result = mhaviz(*words)
    assert result.status == 1
    assert "the loss is no longer a number" in result.err
    assert "smaller than 1e+30" in result.err
    assert not path.exists()


def interrupt(words):
    """Ctrl-C for the program on a terminal, once its progress bar shows a score: its status, and what it wrote."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mhaviz", *words],
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "140"},
    )
    os.close(follower)
    seen, stopped = b"", False
    with contextlib.suppress(OSError):  # as a terminal tells that the program has ended
        while piece := os.read(leader, 4096):
            seen += piece
            if b"exact match" in seen and not stopped:
                process.send_signal(signal.SIGINT)
                stopped = True
    return process.wait(timeout=60), seen.decode()


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal of its own")
@pytest.mark.usefixtures("default_signals")
@pytest.mark.slow
def test_ctrl_c_keeps_the_last_checkpoint(mhaviz, pairs, tmp_path):
    path = tmp_path / "c.safetensors"
    words = ["train", str(pairs), "-o", str(path), *SMALL[2:], "--steps", "2000"]
    status, seen = interrupt(words)
    assert status == 130
    assert "loss" in seen
    kept = load_checkpoint(str(path)).step
    assert kept % 100 == 0
    assert 100 <= kept < 2000
    message = f"mhaviz: interrupted; {path} holds step {kept:,}, continue with --resume"
    assert message in seen
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.safetensors", "pairs.tsv"]
    result = mhaviz("train", str(pairs), "-o", str(path), "--resume", "--steps", str(kept + 1))
    assert result.status == 0


def test_ctrl_c_before_anything_was_saved(mhaviz, pairs, tmp_path, monkeypatch):
    def stop(self, step):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_take", stop)
    result = mhaviz("train", str(pairs), "-o", str(tmp_path / "c.safetensors"), *SMALL)
    assert (result.status, result.err) == (130, "mhaviz: interrupted; nothing new was saved\n")
    assert [p.name for p in tmp_path.iterdir()] == ["pairs.tsv"]


def test_ctrl_c_while_the_checkpoint_is_written(mhaviz, pairs, tmp_path, monkeypatch):
    """The step whose checkpoint is not there yet is not one that was kept."""
    save, saved = Checkpoint.save, []

    def stop(self, path):
        if saved:
            raise KeyboardInterrupt
        saved.append(self.step)
        save(self, path)

    monkeypatch.setattr(Checkpoint, "save", stop)
    path = tmp_path / "c.safetensors"
    result = mhaviz("train", str(pairs), "-o", str(path), *SMALL)
    assert result.err == f"mhaviz: interrupted; {path} holds step 1, continue with --resume\n"
    assert load_checkpoint(str(path)).step == 1


def test_what_is_replaced_is_said(mhaviz, pairs, checkpoint):
    result = mhaviz("train", str(pairs), "-o", str(checkpoint), *SMALL)
    assert result.err.splitlines() == [
        f"mhaviz: {checkpoint} will be replaced; --resume would continue from it",
        f"mhaviz: saved {checkpoint}",
        result.err.splitlines()[-1],
    ]


@pytest.mark.parametrize("name", ["my model.safetensors", "$x's.safetensors", "-c.safetensors"])
def test_the_next_command_is_one_that_works(mhaviz, tmp_path, monkeypatch, name):
    """The words of the held-out sentence need not be known, and a word may be anything."""
    monkeypatch.chdir(tmp_path)
    lines = [f"$w{i} 猫 it's\tB A{i}" for i in range(30)]
    Path("p.tsv").write_text("\n".join(lines), encoding="utf-8")
    command = mhaviz("train", "p.tsv", f"--output={name}", *SMALL).err.splitlines()[-1]
    words = shlex.split(command.partition("maps: ")[2])
    assert words[:2] == ["mhaviz", "heatmap"]
    result = mhaviz(*words[1:])
    assert result.status == 0
    assert "unknown" not in result.err


def test_evaluating_pairs_without_links(mhaviz, checkpoint, tmp_path):
    (tmp_path / "p.tsv").write_text("a1 b\tB A1\na2 b\tB A2\n", encoding="utf-8")
    result = mhaviz("evaluate", str(checkpoint), str(tmp_path / "p.tsv"))
    assert "none of these pairs has a gold alignment" in result.out.replace("\n", " ")


def test_ctrl_c_anywhere_else(mhaviz, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mhaviz.cli.commands.heatmap.given_to", stop)
    result = mhaviz("heatmap", "one two")
    assert (result.status, result.out, result.err) == (130, "", "mhaviz: interrupted\n")


@pytest.mark.parametrize("command", ["heatmap", "trace-shapes", "compare-scaling", "report"])
def test_every_command_takes_a_checkpoint(mhaviz, command):
    result = mhaviz(command, "--model", "translation", SENTENCE)
    assert result.status == 0
    assert "1,500 steps from the built-in grammar" in result.out.replace("\n", " ")


def test_explain_takes_a_checkpoint(mhaviz):
    words = ("explain", "--model", "translation", SENTENCE, "--json")
    data = json.loads(mhaviz(*words, "--token", "noir").out)
    assert (data["token"], data["kind"], data["position"]) == ("noir", "cross", 3)
    data = json.loads(mhaviz(*words, "--token", "cat", "--kind", "self").out)
    assert (data["token"], data["kind"]) == ("cat", "self")
    assert "got 'cat', which is a key; queries are #0 'le', #1 'petit'" in mhaviz(*words, "--token", "cat").err


def test_kinds_and_heads_of_a_checkpoint(mhaviz, tmp_path):
    path = tmp_path / "m.safetensors"
    words = ("heatmap", "--model", "translation", SENTENCE, "-q", "-o", str(path))
    assert mhaviz(*words).status == 0
    assert sorted(load_file(path)) == ["layer.0.cross", "layer.0.masked", "layer.0.self"]
    assert mhaviz(*words, "--kind", "cross", "--head", "1").status == 0
    assert {name: t.shape for name, t in load_file(path).items()} == {"layer.0.cross": (1, 11, 10)}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("heatmap", "--model", "translation"), 2, "no sentence"),
        (("trace-shapes", "--model", "translation"), 2, "no sentence"),
        (("compare-scaling", "--model", "translation"), 2, "no sentence"),
        (("heatmap", "a cat", "--model", "translation", "--n-heads", "2"), 2, "--n-heads is for a layer"),
        (("heatmap", "a cat", "--model", "translation", "--mask", "causal", "--seed", "1"), 2, "--seed is for a layer"),
        (("heatmap", "a cat", "--kind", "cross"), 2, "expected self, as there is no target, got cross"),
        (("heatmap", "a cat", "--model", "nothing.safetensors"), 1, "cannot read nothing.safetensors: No such file"),
        (("heatmap", "a cat", "--model", "translation", "--head", "4"), 2, "there is no head 4"),
        (("heatmap", "an elephant", "--model", "translation"), 2, '"an"'),
    ],
)
def test_what_a_checkpoint_cannot_do(mhaviz, words, status, message):
    result = mhaviz(*words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_what_cannot_be_evaluated(mhaviz, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    missing, no_picture = mhaviz("evaluate", "nothing"), mhaviz("evaluate", "translation", "-o", "a.safetensors")
    assert (missing.status, "cannot read nothing: No such file or directory" in missing.err) == (1, True)
    assert (no_picture.status, "expected a name ending in .png" in no_picture.err) == (2, True)
