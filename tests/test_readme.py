"""Every command and every piece of Python of the README and the tour is run, and every link leads somewhere."""

import functools
import importlib
import inspect
import io
import itertools
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import induction
import pytest
import sentiment
from make_gallery import FACES, SCREENS, blocks, pictures, programs, status_of
from test_held import COMMANDS, MEASURED, without_pictures
from test_recipes import RECIPES

import mhaviz as mhaviz_package
from mhaviz import results
from mhaviz.analyses import scaling
from mhaviz.cli import app
from mhaviz.cli.commands.samples import FILES

ROOT = Path(__file__).parent.parent
README, TOUR = (face.read_text(encoding="utf-8") for face in FACES)
BLOCKS = [block for block in blocks() if not block[0].startswith("python3 -m venv")]
LINES = [line for block in blocks() for line in block]
LINK = next(line for line in LINES if line.startswith("ln -s "))
PYTHON = [program for program in programs() if program not in RECIPES.values()]

# What takes long because of how much it does is done in little: of an option that is given twice the last counts.
LITTLE = {
    "train": ("--steps", "1"),
    "compare-implementations": ("--lengths", "16"),
    "complexity": ("--lengths", "16,64"),
}


SECTIONS = re.split(r"^##? ", TOUR, flags=re.MULTILINE)[1:]
FIELDS = [
    (of[4:] or " and ".join(re.findall("`(.+?)`", section.splitlines()[0])), fields)
    for section in SECTIONS
    for of, fields in re.findall(r"^JSON( of .+?)?: (.*)$", section, re.MULTILINE)
]


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


def test_the_tour_gives_the_json_of_every_command():
    named = {name.split()[0].strip("`") for of, _ in FIELDS for name in of.split(" and ")}
    assert named == app.COMMANDS.keys() - {"samples"}


@pytest.mark.parametrize(("of", "fields"), FIELDS, ids=[of for of, _ in FIELDS])
def test_the_tour_names_fields_that_there_are(of, fields):
    """In the documents of a command that are held, or else in any result."""
    first = {name.split()[0].strip("`") for name in of.split(" and ") if "two models" not in of}
    there = {key for command, keys in _held_keys() if command.split()[0] in first for key in keys}
    quoted = [words for words in re.findall("`(.+?)`", fields) if not words.startswith("-")]
    names = {name for words in quoted for name in re.findall(r"[a-z_]+(?![^\[]*\])", words)}
    assert names <= (there or _fields_of_results()) | MEASURED | {"heatmap", "heads"}


def _fields_of_results():
    names = [name for _, name, _ in pkgutil.walk_packages(results.__path__, "mhaviz.results.")]
    classes = [one for name in names for one in vars(importlib.import_module(name)).values() if inspect.isclass(one)]
    return {name for one in classes for name in [*dir(one), *getattr(one, "__annotations__", ())]}


def test_there_is_something_to_run():
    assert sum(map(len, BLOCKS)) >= 8
    assert PYTHON


@pytest.fixture
def python(request, monkeypatch):
    """Run ``python …`` in this process, which has imported what takes a process of its own most of its time."""

    def run(*words, stdin=b""):
        if words[0] == "-c":
            monkeypatch.setattr(sys, "stdin", io.StringIO(stdin.decode()))
            exec(compile(words[1], "a command", "exec"), {})
        elif "sentiment" in words[0]:  # what it has learnt is tested with the slow tests
            monkeypatch.setattr(sentiment, "STEPS", 2)
            sentiment.save_classifier(Path(words[1]))
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
        if command.startswith(("python -c ", "python samples/induction.py ", "python samples/sentiment.py ")):
            python(*shlex.split(command)[1:])
            continue
        if command.startswith("pip install "):
            assert command.split()[-1] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
            continue
        if " | " in command:
            piped(command, mhaviz, python)
            continue
        if not command.startswith("mhaviz "):
            subprocess.run(command, shell=True, check=True)
            continue
        words, pictures = without_pictures(command)
        if shlex.join(words[1:]) not in COMMANDS or {"--width", "--title"}.intersection(words):
            words = shlex.split(command, comments=True)
        elif pages := [word for name in pictures if name.endswith(".html") for word in ("-o", name)]:
            words += pages  # test_held.py draws its pictures
        elif "-o" not in words:
            continue  # test_held.py runs it
        little = LITTLE.get(words[1], ())
        result = mhaviz(*words[1:], *little)
        assert result.status == status_of(command), result.err
        for option, value in itertools.pairwise(words):
            if option in ("-o", "--output"):
                assert (tmp_path / value).stat().st_size > 0


def piped(command, mhaviz, python):
    """Run what pipes join, one after the other."""
    content = b""
    for name, *words in map(shlex.split, command.split(" | ")):
        if name == "mhaviz":
            result = mhaviz(*words, stdin=content)
            assert result.status == 0, result.err
            content = result.out.encode()
        elif name == "python":
            python(*words, stdin=content)
        else:
            content = subprocess.run([name, *words], stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("block", PYTHON)
def test_python(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("face", FACES, ids=lambda face: str(face.relative_to(ROOT)))
def test_links_lead_somewhere(face):
    text = face.read_text(encoding="utf-8")
    for link in re.findall(r'\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"', text):
        path, _, anchor = "".join(link).partition("#")
        if path.startswith("https://"):
            continue
        target = (face.parent / path) if path else face
        assert 0 < target.stat().st_size < 1_000_000, link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target.read_text(encoding="utf-8")), link


def _anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def test_every_picture_is_made_by_a_command():
    gallery = {path.name for path in (ROOT / "samples" / "gallery").iterdir()}
    assert gallery == pictures().keys() | SCREENS.keys()
    assert gallery <= set(re.findall(r"gallery/([\w-]+\.(?:png|gif|html))", README + TOUR))


def test_every_command_has_a_line_in_the_readme():
    assert app.COMMANDS.keys() == set(re.findall(r"\[`([a-z-]+)`\]\(", README))


def test_files_of_the_package_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    brought = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert brought == {f"samples/{name}": f"mhaviz/samples/{name}" for name in FILES}
    assert f"\nversion: {mhaviz_package.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 155
    assert len(README.split()) <= 1_250


def test_the_set_up_commands_are_those_that_users_are_told():
    start = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e "
    assert any(line.startswith(f"{start}. && .venv/bin/mhaviz heatmap --model translation ") for line in LINES)
    assert f'{start}".[test]" && .venv/bin/pytest -n 2' in LINES


ROWS = [
    row
    for text in (README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for row in re.search(r"^\| to add \|.*\n\|[ -|]*\n((?:\|.*\n)+)", text, re.MULTILINE)[1].splitlines()
]


@pytest.mark.parametrize("row", ROWS)
def test_what_is_entered_in_a_table_is_there(row):
    """The tables of what to add where name files, and what is defined in them."""
    package = ROOT / "mhaviz"
    named = re.findall(r"`@?(\w+)`, `(\w+/[\w./]+)`", row)
    assert named or "@shown" in row
    for name, path in named:
        defined = rf"^(?:export )?(?:class |def |function )?{name}\b(?: =|: |\(| \{{|$)"
        assert re.search(defined, (package / path).read_text(encoding="utf-8"), re.MULTILINE), (name, path)
    for path in re.findall(r"`(\w+/[\w./]+|web)`", row):
        assert (package / path).exists(), path
