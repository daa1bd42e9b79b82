"""compare-implementations and complexity as a user types them."""

import io
import json
import sys

import pytest

from mhaviz.analyses import benchmark
from mhaviz.cli.shared.console import progress

COMMANDS = ("compare-implementations", "complexity")
SMALL = ("--d-model", "16", "--n-heads", "2", "--device", "cpu", "--lengths", "4,2")


@pytest.mark.parametrize("command", COMMANDS)
def test_shows_and_saves(mhaviz, tmp_path, command):
    names = ["a.png", "a.json"]
    result = mhaviz(command, *SMALL, *(part for name in names for part in ("-o", str(tmp_path / name))))
    assert result.status == 0
    assert result.err.splitlines() == [f"mhaviz: saved {tmp_path / name}" for name in names]
    assert "random weights, seed 0, d_model 16, 2 heads, cpu" in result.out
    assert json.loads((tmp_path / "a.json").read_text())["lengths"] == [2, 4]


@pytest.mark.parametrize("command", COMMANDS)
def test_json_and_nothing_else(mhaviz, command):
    result = mhaviz(command, *SMALL, "--seed", "3", "--json")
    assert json.loads(result.out)["source"]["seed"] == 3
    assert not result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_absurd_lengths_are_skipped(mhaviz, monkeypatch, command):
    monkeypatch.setattr(benchmark, "MOST_SECONDS", 0.001)
    result = mhaviz(command, *SMALL[:-2], "--lengths", "1000000000000")
    assert result.status == 0
    assert "skipped" in result.out
    assert "years" in result.out


BAD = [
    (["--lengths", ""], 2, "--lengths: expected numbers of tokens such as 16,64,256, got ''"),
    (["--lengths", "16,,64"], 2, "--lengths: expected numbers"),
    (["--lengths", "many"], 2, "got 'many'"),
    (["--lengths", "1.5"], 2, "got '1.5'"),
    (["--lengths", "16,0"], 2, "--lengths: expected tokens from 1 to 1,000,000,000,000, got 0"),
    (["--lengths", "-5"], 2, "got '-5'"),
    (["--lengths", "1" * 20], 2, "got 11,111,111,111,111,111,111"),
    (["--lengths", "9" * 5000], 2, "--lengths: expected numbers of tokens such as 16,64,256, got '9999"),
    (["--n-heads", "3"], 2, "expected heads that divide d_model"),
    (["--d-model", "0"], 2, "--d-model: expected at least 1"),
    (["--d-model", "16777216"], 1, "PiB of memory on cpu"),
    (["--d-model", "1" + "0" * 30, "--n-heads", "1"], 2, "expected a number from -2^63 to 2^63"),
    (["--seed", "-1"], 2, "--seed: expected a number from 0"),
    (["--device", "gpu"], 2, "expected auto, cpu, cuda, cuda:N or mps"),
    (["-o", "a.safetensors"], 2, "expected a name ending in .png, .svg, .pdf, .json"),
    (["a sentence"], 2, "unexpected extra argument"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=[" ".join(a)[:40] for a, _, _ in BAD])
def test_bad_input(mhaviz, tmp_path, monkeypatch, command, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    result = mhaviz(command, *SMALL, *arguments)
    assert (result.status, result.out) == (status, "")
    (line,) = result.err.splitlines()
    assert message in line
    assert not list(tmp_path.iterdir())


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_is_for_terminals(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream, quiet, expected in (
        (Terminal(), False, True),
        (Terminal(), True, False),
        (io.StringIO(), False, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress(quiet, "first words") as told:
            told(0.5, "64 tokens: [nothing]")
        for text in ("first words", "64 tokens: [nothing]"):
            assert (text in stream.getvalue()) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_interrupted(mhaviz, monkeypatch, tmp_path, command):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mhaviz.analyses.benchmark.measure_peak", interrupt)
    result = mhaviz(command, *SMALL, "-o", str(tmp_path / "a.png"))
    assert (result.status, result.out) == (130, "")
    assert not list(tmp_path.iterdir())
