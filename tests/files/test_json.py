"""JSON: how much memory it will take is known before it is parsed."""

import json
import tracemalloc

import pytest

from mhaviz.errors import MhavizError
from mhaviz.files import texts
from mhaviz.files.texts import memory_of, read_json


@pytest.mark.parametrize(
    "text",
    [
        ",".join(["{}"] * 20_000),
        ",".join(["[]"] * 20_000),
        ",".join(['[""]'] * 20_000),
        ",".join(['{"a":{}}'] * 20_000),
        ",".join(f'{{"{i:x}":2.5}}' for i in range(20_000)),
        "{" + ",".join(f'"{i:x}":1000' for i in range(22_000)) + "}",  # a dict that has just grown
        ",".join(f'"t{i}"' for i in range(20_000)),
        ",".join(['"€b"'] * 20_000),
        ",".join(f"{i}.5" for i in range(20_000)),
        ",".join(f"{i * 10**15}" for i in range(20_000)),
        ",".join(['"' + "a" * 400 + '😀"'] * 200),
        ",".join(['"' + "a" * 400 + '\\ud83d\\ude00"'] * 200),
        '{"a":' * 900 + "1" + "}" * 900,
    ],
)
def test_memory_of_json(text):
    content = f"[{text}]"
    tracemalloc.start()
    try:
        read = json.loads(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read
    assert peak <= memory_of(content) + 2**12


def test_texts_need_less_memory_than_empty_lists():
    texts = ",".join(f'"token {i}"' for i in range(1_000))
    assert memory_of(texts) < 10 * len(texts)
    assert memory_of("{}," * 1_000) > 60 * 1_000


def test_json_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "maps.json"
    path.write_text(f"[{'[],' * 100}{'{},' * 100}[]]")
    assert len(read_json(path)) == 201
    monkeypatch.setattr(texts, "free_main_memory", lambda: 1_000)
    with pytest.raises(MhavizError, match="it may need about"):
        read_json(path)
