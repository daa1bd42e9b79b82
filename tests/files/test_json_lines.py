"""Values of JSON Lines and of JSON lists, with where each is."""

import io
import json
import sys
from pathlib import Path

import pytest

from mhaviz.api.spans import _read
from mhaviz.errors import MhavizError
from mhaviz.files.json_lines import read_objects
from mhaviz.inputs.given import Given

FIRST, SECOND = {"text": "a\u2028b"}, [1, "[2]"]
CHAT = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Bye"}]


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = Path("t.json")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (json.dumps([FIRST, SECOND]), ("text 1", "text 2")),
        (json.dumps([FIRST, SECOND], indent=1), ("text 1", "text 2")),
        (f"\ufeff\n{json.dumps([FIRST, SECOND])}\n", ("text 1", "text 2")),
        (f"{json.dumps(FIRST)}\n{json.dumps(SECOND)}", ("line 1", "line 2")),
        (f"\r\n{json.dumps(FIRST)}\r\n\r\n  {json.dumps(SECOND)}\r\n", ("line 2", "line 4")),
        (f"{json.dumps(FIRST, ensure_ascii=False)}\n{json.dumps(SECOND)}\n", ("line 1", "line 2")),
    ],
)
def test_lines_and_lists_are_the_same_values(written, text, places):
    expected = [(value, f"t.json, {place}") for value, place in zip((FIRST, SECOND), places, strict=True)]
    assert read_objects(written(text), "text", "{}") == expected


def test_lines_may_be_lists(written):
    text = f"{json.dumps(SECOND)}\n{json.dumps(CHAT)}\n"
    assert read_objects(written(text), "text", "{}") == [(SECOND, "t.json, line 1"), (CHAT, "t.json, line 2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.json is empty: expected EXAMPLE"),
        (" \n\n", "t.json is empty: expected EXAMPLE"),
        ("[]", "t.json is empty: expected EXAMPLE"),
        ("hello", "t.json, line 1: expected JSON such as EXAMPLE ("),
        ('{"a": 1}\n\n{"a": }\n', "t.json, line 3: expected JSON such as EXAMPLE ("),
        ("[1]\n[2\n", "t.json, line 2: expected JSON such as EXAMPLE ("),
        ('[\n{"a": 1},\n{"a": }\n]', "t.json: expected JSON such as EXAMPLE ("),
        ("[" * 100_000, "t.json: expected JSON such as EXAMPLE ("),
        (b'{"a": "\xff"}', "t.json is not UTF-8: byte 0xff in line 1"),
    ],
)
def test_what_is_no_json_is_one_line_that_says_where(written, text, message):
    with pytest.raises(MhavizError) as raised:
        read_objects(written(text), "text", "EXAMPLE")
    assert str(raised.value).startswith(message)
    assert (raised.value.status, str(raised.value).count("\n")) == (1, 0)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (json.dumps(CHAT), ["t.json"]),
        (json.dumps(CHAT, indent=2), ["t.json"]),
        ("\n".join(map(json.dumps, CHAT)), ["t.json"]),
        (json.dumps([CHAT, CHAT]), ["t.json, text 1", "t.json, text 2"]),
        (f"{json.dumps(CHAT)}\n{json.dumps(CHAT)}", ["t.json, line 1", "t.json, line 2"]),
        (json.dumps({"messages": CHAT}), ["t.json, line 1"]),
        (json.dumps({"messages": CHAT}, indent=2), ["t.json"]),
    ],
)
def test_a_file_may_be_one_chat_or_several(written, text, places):
    found = _read(written(text))
    assert [text.given for text in found] == [Given(chat=tuple(CHAT))] * len(places)
    assert [text.where for text in found] == places


def test_a_chat_may_come_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CHAT).encode())))
    (found,) = _read(Path("-"))
    assert found.given.chat == tuple(CHAT)
    assert found.where == "standard input"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a"}', 't.json, line 1: expected [{"role"'),
        (f'{json.dumps(CHAT)}\n[{{"role": "user"}}]', "t.json, line 2: expected a list of messages such as {"),
        ('{"text": "a", "spans": [{"name": "a"}]}', "t.json, line 1: `by`: span 'a': expected one of tokens"),
    ],
)
def test_a_line_that_is_no_text_is_named(written, text, message):
    with pytest.raises(MhavizError) as raised:
        _read(written(text))
    assert str(raised.value).startswith(message)
    assert (raised.value.status, str(raised.value).count("\n")) == (1, 0)
