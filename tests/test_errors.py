"""What becomes of other people's values and errors in a message."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mhaviz
from mhaviz.cli.app import COMMANDS, load_command
from mhaviz.cli.shared.console import option_name
from mhaviz.cli.shared.delivery import Delivery
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
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.load import OPTIONS
from mhaviz.pages.blocks import Page, Text
from mhaviz.pages.registry import page_of
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.image import over_image
from mhaviz.views.figure.page import draw_page
from mhaviz.views.html.size import MapBytes, PageSize
from mhaviz.views.style import Style


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


TOKENS = Axis(Tokens(tuple("abcd")))
CELLS = Axis(TOKENS.tokens, np.array([0, 2, 4]))
WHOLE = AttentionMap(np.full((9, 4, 4), 0.25, np.float32), TOKENS, TOKENS)
POOLED = AttentionMap(np.full((1, 2, 2), 0.5, np.float32), CELLS, CELLS)


def drawn(formats=(), **style):
    """A picture that is higher than anybody sees at once."""
    (notice,) = draw_page(Page("", (Text(("a line",) * 400),), "made by hand"), Style(**style), formats).notices
    raise ArgumentError(notice)


@pytest.mark.parametrize(("run", "advised"), [
    (drawn, ("layer", "head")),
    (partial(drawn, (".html",)), ("layer", "head", ".html")),
    (lambda: draw_page(page_of(WHOLE.to_attention()), Style(width=1, columns=9)), ("width", "columns")),
    (lambda: PageSize.of([MapBytes(10_000, 1)]).require_fit(()), ("head", "layer")),
    (lambda: PageSize.of([MapBytes(10_000, 1)]).require_fit((".safetensors",)), ("head", "layer", ".safetensors")),
    (lambda: POOLED.of_query(3), ("query", "window")),
    (lambda: over_image(POOLED.to_attention(), None, grid=(2, 2)), ("size",)),
    (lambda: over_image(replace(WHOLE, to_special=np.zeros(9)).to_attention(), None, grid=(2, 2)), ("hide_special",)),
    (lambda: Delivery([Path("x.png")]).require_drawable(10_000), ("layer",)),
])  # fmt: skip
def test_an_advice_names_what_can_be_done(run, advised):
    """Each option that the message names, where the command has it, and no other; the same for suffixes of files."""
    options = {option_name(name) for name in advised if not name.startswith(".")}
    for taken in (options, options & {"--width", "--query"}):
        with (
            parameters_named(option_name, lambda name, taken=taken: option_name(name) in taken),
            pytest.raises(MhavizError) as caught,
        ):
            run()
        message = str(caught.value)
        assert {*re.findall(r"--[a-z-]+", message)} - {"--json"} == taken, message
    assert {*re.findall(r"\.(?:html|safetensors)", message)} == {name for name in advised if name.startswith(".")}


def test_messages_name_options_that_there_are():
    """Of what a model in memory takes there is none on the command line, nor of what torchrun is for."""
    modules = Path(mhaviz.__file__).parent.rglob("*.py")
    named = {name for path in modules for name in re.findall(r"\bparameter\([\"'](\w+)", path.read_text("utf-8"))}
    options = {option for command in map(load_command, COMMANDS) for one in command.params for option in one.opts}
    assert len(named) > 15
    in_python = {"ax", "tokenizer", "tensor_parallel", "every", "on_sample"}
    assert {option_name(name).split()[0] for name in {*named, *OPTIONS} - in_python} <= options
