"""The commands as a user types them, in this process."""

import importlib.util
import json
import marshal
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import mhaviz as package
from mhaviz.cli import main
from mhaviz.cli.app import COMMANDS, load_command
from mhaviz.cli.shared import console

SENTENCE = "I wonder what will come next!"
SMALL = ("--d-model", "16", "--n-heads", "2", "--device", "cpu")


def test_version(mhaviz):
    result = mhaviz("--version")
    assert (result.status, result.out) == (0, f"mhaviz {package.__version__}\n")


def test_no_command_shows_the_help(mhaviz):
    result = mhaviz()
    assert result.status == 2
    assert "compare-scaling" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help(mhaviz, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    result = mhaviz(command, "--help")
    assert result.status == 0
    assert "--output" in result.out or command == "samples"
    assert len(result.out.splitlines()) <= 80
    assert "<bool>" not in result.out, "flags take no value"
    assert not result.err
    assert load_command(command).help.startswith(COMMANDS[command]), "the list of commands says the same"


def test_rarer_options_have_a_help_of_their_own(mhaviz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    short, whole = mhaviz("heatmap", "--help").out, mhaviz("heatmap", "--help-all")
    assert "--help-all" in short
    assert "│ --chat" not in short
    assert (whole.status, whole.err) == (0, "")
    assert "│ --chat" in whole.out
    assert short == mhaviz("heatmap", "--help").out, "nothing stays shown"


@pytest.mark.parametrize("study", ["attend", "trace_shapes", "report"])
def test_a_title_of_ones_own(study, tmp_path):
    result = getattr(package.load(d_model=16, n_heads=2), study)("a b")

    def drawn(**style):
        result.save(tmp_path / "x.svg", **style)
        svg = (tmp_path / "x.svg").read_text(encoding="utf-8")
        return svg, float(re.search(r'height="([\d.]+)pt"', svg)[1])

    (own, _), (named, height), (_, lower) = drawn(), drawn(title="Mine"), drawn(title="")
    assert ("Mine" in own, "Mine" in named) == (False, True)
    assert lower < height or study == "report"


def test_a_title_that_is_cut_is_said_to_be(mhaviz, tmp_path):
    for title, is_cut in (("Mine", False), ("mine and yours " * 9, True)):
        result = mhaviz("heatmap", "a b", "--width", "3in", "--title", title, "-o", str(tmp_path / "x.png"))
        assert ("the title is cut" in result.err) == is_cut


def test_completion_is_offered(mhaviz):
    assert "--install-completion" in mhaviz("--help").out


def test_heatmap_shows_every_head(mhaviz):
    result = mhaviz("heatmap", SENTENCE)
    assert result.status == 0
    assert [f"L0 H{i}" in result.out for i in range(9)] == [True] * 8 + [False]
    assert "random weights, seed 0, d_model 512, 8 heads, cpu" in result.out
    assert not result.err


def test_chosen_heads(mhaviz):
    result = mhaviz("heatmap", SENTENCE, "--head", "0,5-6, 2")
    assert [i for i in range(8) if f"L0 H{i}" in result.out] == [0, 2, 5, 6]


def test_json_and_nothing_else(mhaviz):
    result = mhaviz("heatmap", SENTENCE, "--json", *SMALL)
    data = json.loads(result.out)
    assert np.array(data["maps"][0]["weights"]).shape == (2, 6, 6)
    assert data["source"]["seed"] == 0
    assert not result.err


NAMES = ["a.pdf", "a.png", "a.svg", "a.json"]
"""A PDF is made once: its fonts take longest by far, and test_formats.py has it twice."""


def test_a_report_saves_what_it_shows_and_the_same_bytes_each_time(mhaviz, tmp_path):
    for folder, names in ((tmp_path / "one", NAMES), (tmp_path / "two", NAMES[1:])):
        folder.mkdir()
        outputs = [part for name in names for part in ("-o", str(folder / name))]
        result = mhaviz("report", "one two", *SMALL, "--dpi", "40", *outputs)
        assert result.status == 0
        assert "head" in result.out
        assert result.err.splitlines() == [f"mhaviz: saved {folder / name}" for name in names]
        assert sorted(path.name for path in folder.iterdir()) == sorted(names)
        assert json.loads((folder / "a.json").read_text())["mhaviz"] == package.__version__
    for name in NAMES[1:]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_samples_are_written_once(mhaviz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = mhaviz("samples", "new/ones")
    files = sorted(path.name for path in (tmp_path / "new/ones").iterdir())
    assert (result.status, result.err.splitlines()) == (0, [f"mhaviz: saved new/ones/{name}" for name in files])
    (tmp_path / "new/ones/text.txt").write_text("mine")
    assert "left as it is: new/ones/text.txt" in mhaviz("samples", "new/ones").err
    assert (tmp_path / "new/ones/text.txt").read_text() == "mine"
    assert mhaviz("samples", "new/ones/text.txt").status == 1


def test_quiet_says_nothing(mhaviz, tmp_path):
    result = mhaviz("heatmap", SENTENCE, "-q", "-o", str(tmp_path / "a.safetensors"))
    assert (result.status, result.out, result.err) == (0, "", "")
    assert load_file(tmp_path / "a.safetensors")["layer.0.self"].shape == (8, 6, 6)


def test_sentences_from_a_file_and_from_standard_input(mhaviz, tmp_path):
    (tmp_path / "s.txt").write_bytes("\ufeffone two\r\n\r\nthree\n".encode())
    result = mhaviz("heatmap", "zero", "--file", str(tmp_path / "s.txt"), "--json", *SMALL)
    assert [m["keys"] for m in json.loads(result.out)["maps"]] == [["zero"], ["one", "two"], ["three"]]
    for place in (["-"], ["--file", "-"]):
        result = mhaviz("heatmap", *place, "--json", *SMALL, stdin=b"one two\nthree")
        assert [m["sentence"] for m in json.loads(result.out)["maps"]] == [0, 1]


def test_target_and_mask(mhaviz):
    (cross,) = json.loads(mhaviz("heatmap", "a b c", "--target", "d e", "--json", *SMALL).out)["maps"]
    assert (cross["kind"], cross["queries"], cross["keys"]) == ("cross", ["d", "e"], ["a", "b", "c"])
    (masked,) = json.loads(mhaviz("heatmap", "a b", "--mask", "causal", "--json", *SMALL).out)["maps"]
    assert masked["kind"] == "masked"
    assert masked["weights"][0][0] == [1, 0]


def test_trace_of_the_worked_example(mhaviz):
    data = json.loads(mhaviz("trace-shapes", "--json").out)
    shapes = {step["name"]: step["shape"] for step in data["steps"]}
    assert shapes["Q"] == [3, 6, 8]
    assert shapes["Q split"] == [3, 6, 4, 2]
    assert shapes["Q heads"] == [3, 4, 6, 2]
    assert shapes["A"] == [3, 4, 6, 6]
    assert shapes["concat"] == [3, 6, 8]


def test_trace_of_sizes():
    assert package.load(n_heads=32).trace_sizes(32, 100_000).steps[-1].shape == (32, 100_000, 512)
    with pytest.raises(package.ArgumentError, match="`seq_length`: expected at least 1, got 0"):
        package.load().trace_sizes(1, 0)
    with pytest.raises(package.ArgumentError, match="sizes without sentences need a layer with random weights"):
        package.load("translation").trace_sizes(1, 3)


def test_trace_with_values_and_an_element_followed(mhaviz):
    data = json.loads(mhaviz("trace-shapes", "--values", "--follow", "0,2,5", "--json").out)
    assert data["follow"]["wrong"] == [0, 1, 4, 1]
    assert np.array(data["steps"][0]["values"]).shape == (3, 6, 8)
    assert "through every reshape" in mhaviz("trace-shapes", "--follow", "0,2,5").out


def test_compare_scaling(mhaviz):
    data = json.loads(mhaviz("compare-scaling", "--head", "all", "--json").out)
    assert data["d_key"] == 64
    assert [head["head"] for head in data["heads"]] == list(range(8))
    assert data["heads"][0]["unscaled"]["score_std"] == pytest.approx(
        8 * data["heads"][0]["scaled"]["score_std"], rel=1e-4
    )


BAD = [
    (["heatmap"], 2, "no sentence: give one in quotes"),
    (["heatmap", ""], 2, "at least one word, got ''"),
    (["heatmap", "a", " "], 2, "at least one word, got ' '"),
    (["heatmap", "?!"], 2, "at least one word, got '?!'"),
    (["report"], 2, "no sentence"),
    (["heatmap", "a", "--d-model", "10", "--n-heads", "3"], 2, "try 2 or 5 heads"),
    (["trace-shapes", "--d-model", "10", "--n-heads", "3"], 2, "try 2 or 5 heads"),
    (["heatmap", "a", "--n-heads", "0"], 2, "--n-heads: expected at least 1, got 0"),
    (["heatmap", "a", "--d-model", "-8"], 2, "--d-model: expected at least 1, got -8"),
    (["trace-shapes", "--n-heads", "0"], 2, "--n-heads: expected at least 1, got 0"),
    (["heatmap", "a", "--dpi", "0"], 2, "dpi: expected at least 20, got 0"),
    (["trace-shapes", "--dpi", "-1"], 2, "dpi: expected at least 20, got -1"),
    (["heatmap", "a", "--columns", "0"], 2, "columns: expected at least 1"),
    (
        ["heatmap", "a", "--for", "page"],
        2,
        "--for: expected a picture to save, in a .png or .svg or .pdf file, got none",
    ),
    (
        ["trace-shapes", "--width", "3in", "-o", "t.json"],
        2,
        "--width: expected a picture to save, in a .png or .svg or",
    ),
    (["complexity", "--font-size", "9"], 2, "--font-size: expected a picture to save"),
    (["heatmap", "a", "--title", "", "-o", "a.npz"], 2, "--title: expected a picture to save"),
    (["heatmap", "a", "--width", "3"], 2, "--width: expected a length such as 3.3in or 8.4cm, got '3'"),
    (["heatmap", "a", "--head", "8"], 2, "there is no head 8; the layer has heads 0 to 7"),
    (["heatmap", "a", "--head", "5-3"], 2, "3-5 (the smaller first, at most 9,999) or all, got '5-3'"),
    (["heatmap", "a", "--head", "x"], 2, "expected heads such as 0, 3-5 (the smaller"),
    (["heatmap", "a", "--head", ""], 2, "expected heads such as"),
    (["compare-scaling", "--head", "9"], 2, "there is no head 9"),
    (["report", "a", "--head", "all"], 2, "--head: expected one head, such as 3, got 'all'"),
    (["heatmap", "a", "--device", "gpu"], 2, "expected auto, cpu, cuda, cuda:N or mps"),
    (["heatmap", "a", "--device", "cuda:77"], 1, "device cuda:77 is missing"),
    (["heatmap", "a", "--seed", "-1"], 2, "--seed: expected a number from 0"),
    (["heatmap", "a", "--mask", "some"], 2, "--mask"),
    (["heatmap", "a", "--cmap", "virdis"], 2, "try viridis"),
    (["heatmap", "a", "--vmax", "2"], 2, "vmax: expected a weight from 1e-30 to 1, or auto, got 2"),
    (["heatmap", "a", "--vmax", "1e-320"], 2, "vmax: expected a weight from 1e-30 to 1, or auto, got 1e-320"),
    (["heatmap", "a", "--vmax", "nan"], 2, "vmax: expected a weight from 1e-30 to 1"),
    (["heatmap", "a", "--vmax", "much"], 2, "--vmax: expected a number such as 0.5, or auto"),
    (["heatmap", "a", "-o", "a.gif"], 2, "expected a name ending in .png, .svg, .pdf, .json, .safetensors"),
    (["trace-shapes", "-o", "a.safetensors"], 2, "expected a name ending in .png, .svg, .pdf, .json"),
    (["heatmap", "a", "-o", "nowhere/a.png"], 1, "there is no folder"),
    (["heatmap", "--file", "nothing.txt"], 1, "cannot read nothing.txt: No such file"),
    (["heatmap", "--file", "."], 1, "Is a directory"),
    (["heatmap", "--file", "empty.txt"], 1, "empty.txt is empty: expected sentences"),
    (["heatmap", "--file", "latin.txt"], 1, "latin.txt is not UTF-8: byte 0xe9 in line 2"),
    (["heatmap", "--file", "dots.txt"], 2, "expected a sentence with at least one word, got '...'"),
    (["heatmap", "-"], 1, "standard input is empty"),
    (["heatmap", "a", "b", "--target", "c"], 2, "a target goes with one sentence, got 2"),
    (["heatmap", "a", "--target", ""], 2, "expected a sentence with at least one word, got ''"),
    (["heatmap", "a", "--target", "b", "--mask", "causal"], 2, "a causal mask is for self-attention"),
    (["heatmap", "a", "--d-model", "16777216", "--device", "cpu"], 1, "PiB of memory on cpu, where"),
    (["heatmap", "a", "--column", "2"], 2, "No such option: --column (Possible options: --columns); see"),
    (["heatmap", "a", "--bogus"], 2, "No such option: --bogus (Possible options: "),
    (["heatmap", "a", "-o"], 2, "Option '-o' requires an argument; see mhaviz heatmap --help"),
    (["evaluate", "."], 1, "cannot read .: Is a directory"),
    (["train", "translation", "--checkpoint", "x"], 2, "No such option: --checkpoint; see mhaviz train --help"),
    (["trace-shapes", "--target", "a"], 2, "no sentence: give one in quotes, --file sentences.txt"),
    (["trace-shapes", "--follow", "1,2"], 2, "three coordinates such as 0,2,5"),
    (["trace-shapes", "--follow", "0,2,99"], 2, "--follow: expected a coordinate from 0 to 7 on axis d_model, got 99"),
    (["compare-scaling", "I", "wonder"], 2, "expected one sentence, got 2; put it in quotes"),
    (["report", "I", "wonder"], 2, "expected one sentence, got 2; put it in quotes"),
    (["report", "two.txt"], 2, "two.txt is a file; to read it, use - < two.txt"),
    (["nothing"], 2, "No such command 'nothing'"),
    (["heatmap", "a", "--no-such-option"], 2, "--no-such-option"),
    (["heatmap", "a", "--n-heads", "many"], 2, "--n-heads"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=[" ".join(arguments) for arguments, _, _ in BAD])
def test_bad_input_is_one_line_and_the_right_status(mhaviz, tmp_path, monkeypatch, arguments, status, message):
    files = {"empty.txt": b" \n", "latin.txt": b"a\ncaf\xe9", "dots.txt": b"a\n...", "two.txt": b"a\nb"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    result = mhaviz(*arguments, *(["-o", "a.png", "-q"] if arguments[0] == "report" else []))
    assert result.status == status
    assert not result.out
    (line,) = result.err.splitlines()
    assert line.startswith("mhaviz: ")
    assert message in line
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files), "nothing is left behind"


READ = [
    "heatmap a --model x.safetensors",
    "heatmap a --model w.pt --input x.safetensors",
    "heatmap a --model x.safetensors",
    "heatmap --file x.json",
    *(f"{command} a --model x.json" for command in ("explain", "compare-scaling", "report", "trace-shapes")),
    *(f"{command} --file x.json" for command in ("masks", "trace-shapes", "heads --model m")),
    "show x.safetensors",
    "show a.npy --queries x.json",
    "show a.npy --keys x.json",
    "diff a.npy x.json",
    "diff x.json a.npy",
    "train x.safetensors",
    "evaluate x.json",
    "evaluate t.safetensors x.json",
    "train x.gif -o t.safetensors --animate x.gif",
]


@pytest.mark.parametrize("command", READ)
def test_what_is_read_is_not_written_over(mhaviz, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    name = next(word for word in command.split() if word.startswith("x."))
    Path(name).write_bytes(b"the user's own")
    result = mhaviz(*command.split(), *(() if "-o" in command.split() else ("-o", name)))
    assert (result.status, result.out) == (2, "")
    assert result.err == f"mhaviz: {name} is read, and cannot be written at the same time; give another name\n"
    assert Path(name).read_bytes() == b"the user's own"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["`head`", "`file`", "`before`: a"])
def test_a_text_that_looks_like_a_parameter_stays_what_it_is(mhaviz, name):
    assert mhaviz("heatmap", "--file", name).err == f"mhaviz: cannot read {name}: No such file or directory\n"
    result = mhaviz("heatmap", "a", "--cmap", name)
    assert result.err.startswith(f"mhaviz: --cmap: expected a matplotlib colormap, got '{name}'; try ")
    assert (
        "mhaviz: --token: expected a token, or a position from 0 to 1, got '`token`'"
        in mhaviz("explain", "a b", "--token", "`token`").err
    )


def test_an_error_does_not_let_the_text_act(mhaviz):
    result = mhaviz("heatmap", "--file", "no\x1b[31m\nfile\udcff")
    assert result.err == "mhaviz: cannot read no\\x1b[31m\\x0afile\\udcff: No such file or directory\n"


@settings(max_examples=8)
@given(st.text(st.characters(exclude_characters="\0"), max_size=30))
def test_any_sentence_draws_or_fails_politely(tmp_path, mhaviz, sentence):
    result = mhaviz("heatmap", *SMALL, "--dpi", "40", "-o", str(tmp_path / "a.png"), "--", sentence)
    assert result.status in (0, 1, 2)
    if result.status:
        assert len(result.err.splitlines()) == 1
    assert "\x1b" not in result.out + result.err


@pytest.mark.parametrize("option", [["--cmap", "viridis"], ["--vmax", "1"], ["--head", "1"], ["--seed", "1"]])
def test_options_reach_the_terminal(mhaviz, monkeypatch, option):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm")
    assert mhaviz("heatmap", "a b c", *SMALL).out != mhaviz("heatmap", "a b c", *SMALL, *option).out


def test_the_width_of_the_terminal_is_heeded(mhaviz, monkeypatch):
    wide = mhaviz("heatmap", SENTENCE).out
    monkeypatch.setenv("COLUMNS", "200")
    assert len(mhaviz("heatmap", SENTENCE).out.splitlines()) < len(wide.splitlines())


def test_a_dumb_terminal_gets_no_colour(mhaviz, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in mhaviz("heatmap", SENTENCE).out


def test_words_without_quotes_come_with_a_hint(mhaviz):
    assert "put it in quotes" in mhaviz("heatmap", "I", "wonder", *SMALL).err
    assert not mhaviz("heatmap", "I wonder", "what", *SMALL).err


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (r"a\b", r"'a\\b' is not"),
        ("a" * 90, f"'{'a' * 29}…{'a' * 28}' is not"),
        ("a'" * 90, "…a'a'a'a'a'a'a'a'a'a'a'a'a'a'\" is"),
    ],
)
def test_a_value_is_quoted_once_and_cut(mhaviz, value, shown):
    result = mhaviz("heatmap", "one two", "--pool", value)
    assert (result.status, shown in result.err) == (2, True)


INTERRUPTED_IMPORT = """
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from mhaviz.cli import run
sys.exit(run())
"""


@pytest.mark.parametrize("name", ["logging", "typer"])
def test_interrupted_while_the_program_is_loaded(name):
    """From the first module on that is not Python's own beginning."""
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mhaviz: interrupted\n")


def test_interrupted(mhaviz, monkeypatch):
    from mhaviz.models.single_layer import RandomLayer

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RandomLayer, "run", interrupt)
    result = mhaviz("heatmap", "a")
    assert result.status == 130
    assert not result.out


def test_out_of_memory(mhaviz, monkeypatch):
    from mhaviz.models.single_layer import RandomLayer

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(RandomLayer, "run", fail)
    result = mhaviz("heatmap", "a")
    assert result.status == 1
    assert "out of memory" in result.err


def test_out_of_memory_as_pytorch_says_it(mhaviz, monkeypatch):
    from mhaviz.models.single_layer import RandomLayer

    def fail(*_):
        torch.empty(2**60, dtype=torch.int8)

    monkeypatch.setattr(RandomLayer, "run", fail)
    result = mhaviz("heatmap", "a")
    assert (result.status, result.err.count("\n")) == (1, 1)
    assert "out of memory" in result.err


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "mhaviz", *arguments], capture_output=True, check=False, **options)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Weights as another tool has saved them: what needs a program of its own is soonest done with these."""
    monkeypatch.chdir(tmp_path)
    np.save("w.npy", np.eye(2))


@pytest.mark.usefixtures("saved")
def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m mhaviz show w.npy | head -n 1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "self-attention, w.npy: 2 tokens\n"


DIFF = ("diff", "w.npy", "other.npy", "--fail-above", "0.1")
READERS = [("stdout", ("--help",), 0), ("stdout", (*DIFF, "--json"), 3)]
READERS += [("stderr", DIFF, 3), ("stdout", ("record", "five.py"), 5), ("stderr", ("show", "nowhere.npy"), 1)]
RECORDED = """
import sys, torch
m = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
m(*[torch.ones(1, 3, 8)] * 3)
sys.exit(5)
"""


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("stream", "words", "status"), READERS)
def test_the_status_is_the_same_whoever_reads(stream, words, status):
    np.save("other.npy", np.eye(2)[::-1].copy())
    Path("five.py").write_text(RECORDED)
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: writer}
    done = subprocess.run([sys.executable, "-m", "mhaviz", *words], text=True, check=False, **streams)
    os.close(writer)
    assert done.returncode == status
    assert "Traceback" not in (done.stderr or "")


def test_a_folder_that_has_been_deleted(mhaviz, tmp_path, monkeypatch):
    """PyTorch's own libraries end the process there."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = mhaviz("heatmap", "a b")
    assert result.status == 1
    assert result.err == "mhaviz: the current folder has been deleted; change to another\n"


def test_a_name_of_thousands_of_letters_is_no_model(mhaviz):
    result = mhaviz("heatmap", "a b", "--model", "x" * 5_000)
    assert (result.status, result.err.count("\n")) == (1, 1)
    assert "is not a folder, and cannot be fetched from the Hugging Face hub (Repo id must" in result.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    ("words", "status", "also"),
    [
        (("show", "w.npy"), 1, ""),
        (DIFF, 3, "mhaviz: expected a divergence of at most 0.1 bits, got 1 in self L0 H0\n"),
    ],
)
def test_a_full_standard_output(words, status, also):
    np.save("other.npy", np.eye(2)[::-1].copy())
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(
            [sys.executable, "-m", "mhaviz", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == status
    assert result.stderr == f"mhaviz: cannot write the result: No space left on device\n{also}"


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("output", "status"), [("lost.png", 3), ("lost.gif", 2)])
def test_a_limit_that_is_passed_where_a_picture_cannot_be_saved(mhaviz, monkeypatch, output, status):
    np.save("other.npy", np.eye(2)[::-1].copy())

    def lost(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mhaviz.views.figure.sheet.Sheet.save", lost)
    result = mhaviz(*DIFF, "-o", output)
    assert result.status == status
    assert ("cannot write lost.png" in result.err, "expected a divergence" in result.err) == (status == 3, status == 3)


CUT_OFF = importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(compile("x = 1", "halfway.py", "exec"))[:-9]
BROKEN_LIBRARIES = [
    (".py", b"import ctypes; ctypes.CDLL('libnothing.so')", "OSError: libnothing.so: cannot open shared object file"),
    (".py", b"raise ImportError('no \\x1b libnothing')", r"ImportError: no \x1b libnothing"),
    (".py", b"raise RuntimeError('no AVX')", "RuntimeError: no AVX"),
    (".py", b"import halfway.missing", "ModuleNotFoundError: No module named 'halfway.missing'"),
    (".pyc", CUT_OFF, "ImportError: marshal data too short"),
]


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("suffix", "content", "message"), BROKEN_LIBRARIES)
def test_a_library_that_cannot_be_loaded(tmp_path, monkeypatch, capsys, suffix, content, message):
    from mhaviz import cli

    (tmp_path / f"halfway{suffix}").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("mhaviz.cli.commands.show.style_of", lambda looks, delivery: importlib.import_module("halfway"))
    monkeypatch.setattr("mhaviz.cli.surroundings.run_settled", lambda: cli.main(["show", "w.npy"]))
    assert cli.run() == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("mhaviz: cannot load halfway")
    assert message in err


@pytest.mark.usefixtures("saved")
def test_an_error_of_our_own_stays_one(monkeypatch):
    from mhaviz import cli

    monkeypatch.setattr("mhaviz.cli.commands.show.style_of", lambda looks, delivery: 1 / 0)
    monkeypatch.setattr("mhaviz.cli.surroundings.run_settled", lambda: cli.main(["show", "w.npy"]))
    with pytest.raises(ZeroDivisionError):
        cli.run()


def test_an_error_is_told_without_a_free_descriptor(monkeypatch, capsys):
    def none_left(*_, **__):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("mhaviz.cli.shared.console.cut", none_left)
    console.say("cannot read a…b")
    assert capsys.readouterr().err == "mhaviz: cannot read a\\u2026b\n"
    monkeypatch.setattr("builtins.print", none_left)
    monkeypatch.setattr("os.open", none_left)
    console.say("nobody can be told")


def test_help_in_ascii():
    result = run("compare-scaling", "--help", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0
    assert result.stdout.isascii()


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("words", "redirect", "status"), [("heatmap -", "<&-", 1), ("show w.npy", ">&-", 0)])
def test_closed_streams(words, redirect, status):
    command = f"{sys.executable} -m mhaviz {words} {redirect}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == status
    assert "Traceback" not in result.stderr


def test_a_sentence_that_is_not_utf8(mhaviz):
    result = mhaviz("heatmap", os.fsdecode(b"caf\xe9 \xff"), *SMALL)
    assert result.status == 0
    assert r"caf\udce9" in result.out


def test_colour_follows_the_terminal(mhaviz, monkeypatch):
    words = ("heatmap", "one two", *SMALL)
    assert "\x1b[" not in mhaviz(*words).out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "48;2;" in mhaviz(*words).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "48;2;" not in mhaviz(*words).out


@pytest.mark.usefixtures("saved")
def test_a_terminal_of_ascii():
    Path("words.txt").write_text("naïve\ntwo\n", encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        environment.pop(name, None)
    shown = run("show", "w.npy", "--queries", "words.txt", env=environment).stdout
    assert shown.isascii()
    assert rb"na\xefve" in shown
    assert b"\x1b[" not in shown


def test_main_returns_and_does_not_exit():
    assert main(["--version"]) == 0


@pytest.mark.parametrize(
    ("command", "n_heads"),
    [
        ("heatmap a --model no-such-folder --head 0-8", 9),
        ("heatmap a --model no-such-folder --head 0-4,4-9 --layer 1", 10),
        ("show no-such-file.npz --head 0-8", 9),
        ("record --head 0-8 no_such_program.py", 9),
    ],
)
def test_lines_of_too_many_chosen_heads_are_refused_before_the_work(mhaviz, command, n_heads):
    refused = mhaviz(*command.split()[:1], "--as", "lines", *command.split()[1:])
    assert refused.status == 2
    assert f"lines: expected at most 8 heads, as lines of more cannot be told apart, got {n_heads};" in refused.err


@pytest.mark.parametrize("more", ["--head 0-7", "--head 0-8 --mean heads", "--head 0-8 --query a"])
def test_lines_that_can_be_told_apart_are_not_refused(mhaviz, more):
    assert "no-such-file.npz" in mhaviz("show", "no-such-file.npz", "--as", "lines", *more.split()).err


@pytest.mark.parametrize(("form", "words"), [("answer", "“b”"), ("lines", "“b”"), ("map", "query 1 b")])
def test_texts_without_the_query_are_a_notice(mhaviz, form, words):
    shown = mhaviz("heatmap", "a b c d e", "f g h i j", "k l m n", "--query", "b", "--as", form, "--head", "0,1")
    assert words in shown.out
    assert shown.err == "mhaviz: --query: 'b' is not in sentences 1 to 2\n"
