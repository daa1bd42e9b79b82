"""What becomes of other people's values and errors in a message."""

import re
from pathlib import Path

import pytest

import mhaviz
from mhaviz.cli.app import COMMANDS, load_command
from mhaviz.cli.shared.console import option_name
from mhaviz.errors import (
    ArgumentError,
    MhavizError,
    as_one_line,
    counted,
    parameter,
    parameters_named,
    quoted,
    reason,
)
from mhaviz.models.load import OPTIONS


class Panic(BaseException):
    """What a library in Rust raises: no Exception."""


def test_a_value_is_quoted():
    assert quoted("a b") == "'a b'"
    assert quoted(12) == "12"


@pytest.mark.parametrize(
    "value", ["x" * 5000, 10**5000, -(10**5000), list(range(5000))], ids=["text", "number", "negative", "list"]
)
def test_a_long_value_is_cut(value):
    assert len(quoted(value)) <= 60


def test_both_ends_of_a_long_value_are_seen():
    assert quoted("begin" + "x" * 500 + "end").startswith("'begin")
    assert quoted("begin" + "x" * 500 + "end").endswith("end'")


@pytest.mark.parametrize(
    "raised",
    [TypeError("a\n  b"), AssertionError("a b"), Panic("a b")],
    ids=repr,
)
def test_what_libraries_raise_is_one_line(raised):
    message = r"^the file is not understood \(a b\); take another$"
    with pytest.raises(MhavizError, match=message) as caught, as_one_line("the file is not understood", "take another"):
        raise raised
    assert caught.value.__cause__ is raised


def test_an_error_without_words_is_named():
    assert reason(AssertionError()) == "AssertionError"


def test_a_key_that_is_not_there():
    assert reason(KeyError("gelu")) == "there is no 'gelu'"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1234, "1,234"),
        (-(10**9), "-1,000,000,000"),
        (10**20, "100,000,000,000,000,000,000"),
        (-(10**70), "a negative number of "),
    ],
)
def test_a_number_is_read_as_people_do(number, text):
    assert counted(number).startswith(text)


def test_a_long_error_is_cut():
    assert len(reason(ValueError("x" * 10_000))) <= 160


@pytest.mark.parametrize(
    "raised",
    [ArgumentError("ours"), KeyboardInterrupt(), MemoryError(), RuntimeError("can't allocate memory: you tried 1")],
)
def test_what_is_known_stays_what_it_is(raised):
    with pytest.raises(type(raised)) as caught, as_one_line("the file"):
        raise raised
    assert caught.value is raised


def test_a_parameter_is_named_as_its_reader_knows_it():
    assert parameter("d_model") == "`d_model`"
    with parameters_named(option_name):
        assert (parameter("d_model"), parameter("causal")) == ("--d-model", "--mask")
    assert parameter("d_model") == "`d_model`"


def test_messages_name_options_that_there_are():
    """Of what a model in memory takes there is none on the command line, nor of what torchrun is for."""
    modules = Path(mhaviz.__file__).parent.rglob("*.py")
    named = {name for path in modules for name in re.findall(r"\bparameter\([\"'](\w+)", path.read_text("utf-8"))}
    options = {option for command in map(load_command, COMMANDS) for one in command.params for option in one.opts}
    assert len(named) > 15
    in_python = {"tokenizer", "tensor_parallel"}
    assert {option_name(name).split()[0] for name in {*named, *OPTIONS} - in_python} <= options
