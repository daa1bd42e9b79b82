"""Every command and every piece of Python in the README is run, and every picture that it shows is there."""

import functools
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import induction
import pytest
from test_held import COMMANDS, MEASURED, without_pictures

from mhaviz.analyses import scaling
from mhaviz.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINES = [line for language, block in FENCES if language == "sh" for line in block.splitlines() if line]
BLOCKS = [block.splitlines() for language, block in FENCES if language == "sh" and "python3 -m venv" not in block]
LINK = next(line for line in LINES if line.startswith("ln -s "))
PYTHON = [block for language, block in FENCES if language == "python"]

# What takes long because of how much it does is done in little: of an option that is given twice the last counts.
LITTLE = {
    "train": ("--steps", "1"),
    "compare-implementations": ("--lengths", "16,32", "--most-seconds", "0.2"),
    "complexity": ("--lengths", "16,64"),
}


TABLE = re.findall(
    r"^\| (`.*) \| (.*) \|$", README.split("| what follows in its JSON |")[1].split("```")[0], re.MULTILINE
)


def _keys(value):
    """The names of all fields of a JSON document."""
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(part)


@functools.cache
def _held_keys():
    held = [json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "tests/held").glob("*.json")]
    return [(one["command"], set(_keys(one["document"]))) for one in held]


def test_the_table_of_json_names_every_command():
    named = {name.split()[0] for commands, _ in TABLE for name in re.findall("`(.+?)`", commands)}
    assert named == set(app.COMMANDS)


@pytest.mark.parametrize(("commands", "fields"), TABLE, ids=[commands for commands, _ in TABLE])
def test_the_table_of_json_names_fields_that_there_are(commands, fields):
    """As far as the documents of a command are held."""
    first = {name for name in re.findall("`(.+?)`", commands) if "two models" not in commands}
    there = {key for command, keys in _held_keys() if command.split()[0] in first for key in keys}
    quoted = [words for words in re.findall("`(.+?)`", fields) if not words.startswith("-")]
    names = {name for words in quoted for name in re.findall(r"[a-z_]+(?![^\[]*\])", words)}
    assert not there or names <= there | MEASURED


def test_there_is_something_to_run():
    assert sum(map(len, BLOCKS)) >= 8
    assert PYTHON


@pytest.fixture
def python(request, monkeypatch):
    """Run ``python …`` in this process, which has imported what takes a process of its own most of its time."""

    def run(*words):
        if words[0] == "-c":
            exec(compile(words[1], "README.md", "exec"), {})
        else:  # the model that it trains is the one that other tests have trained
            trained, _ = request.getfixturevalue("induction_model")
            monkeypatch.setattr(induction, "train", lambda: trained)
            induction.save_copier(Path(words[1]))

    return run


@pytest.mark.parametrize("commands", BLOCKS, ids=lambda commands: commands[0])
def test_commands(mhaviz, python, commands, tmp_path, monkeypatch):
    """Those of a block in their order: one may need what another has saved, and any may need the linked model."""
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scaling, "sweep_scaling", functools.partial(scaling.sweep_scaling, draws=2))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for command in commands if LINK in commands else [LINK, *commands]:
        if command.startswith(("python -c ", "python samples/induction.py ")):
            python(*shlex.split(command)[1:])
            continue
        if not command.startswith("mhaviz ") or "|" in command:
            subprocess.run(command, shell=True, check=True)
            continue
        words, pictures = without_pictures(command)
        if shlex.join(words[1:]) not in COMMANDS:
            words = shlex.split(command, comments=True)
        elif pages := [word for name in pictures if name.endswith(".html") for word in ("-o", name)]:
            words += pages  # test_held.py draws its pictures
        elif "-o" not in words:
            continue  # test_held.py runs it
        little = LITTLE.get(words[1], ())
        result = mhaviz(*words[1:], *little)
        assert result.status == 0, result.err
        for option, value in itertools.pairwise(words):
            if option in ("-o", "--output"):
                assert (tmp_path / value).stat().st_size > 0


@pytest.mark.parametrize("block", PYTHON)
def test_python(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


def test_pictures_are_there_and_small():
    pictures = re.findall(r'(?:\]\(|src=")(samples/[^")]+)', README)
    assert pictures
    for picture in pictures:
        assert 0 < (ROOT / picture).stat().st_size < 1_000_000, picture


def test_the_set_up_commands_are_those_that_users_are_told():
    start = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e "
    assert f'{start}. && .venv/bin/mhaviz heatmap "I wonder what will come next!"' in LINES
    assert f'{start}".[test]" && .venv/bin/pytest -n 2' in LINES
