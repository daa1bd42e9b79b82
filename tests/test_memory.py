import io
from pathlib import Path

import pytest

from mhaviz import memory
from mhaviz.errors import MhavizError
from mhaviz.files import saved_array
from mhaviz.training import loading


class Endless(io.RawIOBase):
    def __init__(self):
        self.read_so_far = 0

    def read(self, size=-1):
        self.read_so_far += size
        return bytes(size)


def test_what_has_no_end_is_not_read_until_memory_is_full(monkeypatch):
    monkeypatch.setattr(memory, "free_main_memory", lambda: 2**28)
    endless = Endless()
    with pytest.raises(MhavizError, match=r"zero is too large: reading it needs more than about .*; give a part of it"):
        memory.read_all(endless, "zero")
    assert endless.read_so_far <= 2**26


def test_text_needs_more_memory_than_bytes_do(monkeypatch):
    content = bytes(1_000)
    monkeypatch.setattr(memory, "free_main_memory", lambda: 4_000)
    assert memory.read_all(io.BytesIO(content), "a file", copies=3) == content
    with pytest.raises(MhavizError, match="a file is too large"):
        memory.read_all(io.BytesIO(content), "a file")


def test_a_checkpoint_is_read_where_it_fits(monkeypatch):
    size = Path(loading.__file__).with_name("translation.safetensors").stat().st_size
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: 4 * size)
    assert loading.load_checkpoint("translation").step == 1500
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: size // 2)
    with pytest.raises(MhavizError, match="need about"):
        loading.load_checkpoint("translation")


def test_what_fits_is_read():
    content = bytes(range(256)) * 100_000
    assert memory.read_all(io.BytesIO(content), "a file") == content
