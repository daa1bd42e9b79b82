"""Texts in UTF-8, from files, pipes and standard input."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from mhaviz.errors import MhavizError
from mhaviz.files.texts import STANDARD_INPUT, read_labels, read_lines, read_text, stream_lines

READERS = [read_text, read_labels, read_lines, lambda path: list(stream_lines(path))]


@pytest.fixture
def written(tmp_path):
    def write(content):
        (tmp_path / "t.txt").write_bytes(content)
        return tmp_path / "t.txt"

    return write


def test_marks_and_ends_of_lines(written):
    path = written("\ufeffone\r\n\r\ntwo \u2028\r\n\ufeff3\0".encode())
    assert read_text(path) == "one\r\n\r\ntwo \u2028\r\n\ufeff3\0"
    assert read_labels(path) == ("one", "", "two \u2028", "\ufeff3\0")
    for lines in (read_lines(path), list(stream_lines(path))):
        assert [(line.number, line.text) for line in lines] == [(1, "one"), (3, "two"), (4, "\ufeff3\0")]
    assert [line.done for line in lines] == [8 / 24, 19 / 24, 1.0]


@pytest.mark.parametrize("read", READERS)
def test_files_that_cannot_be_read(tmp_path, written, read):
    with pytest.raises(MhavizError, match=r"^cannot read .*nothing\.txt: No such file"):
        read(tmp_path / "nothing.txt")
    with pytest.raises(MhavizError, match=r"^cannot read .*: Is a directory"):
        read(tmp_path)
    with pytest.raises(MhavizError, match=r"^cannot read .*: embedded null byte"):
        read(tmp_path / "a\0b")
    with pytest.raises(MhavizError, match=r"t\.txt is not UTF-8: byte 0xe9 in line 3; convert it first, for example"):
        read(written(b"a\n\nb\xe9"))


def test_a_file_without_lines(written):
    for content in (b"", b"\n \r\n", b"\xef\xbb\xbf"):
        for read in READERS[2:]:
            with pytest.raises(MhavizError, match=r"t\.txt is empty: expected sentences, one per line"):
                read(written(content))
    assert read_labels(written(b"")) == ()


@pytest.mark.parametrize("read", READERS)
def test_standard_input(monkeypatch, read):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one")))
    assert "one" in str(read(STANDARD_INPUT))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(MhavizError, match=r"^standard input is not UTF-8"):
        read(STANDARD_INPUT)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(MhavizError, match=r"^cannot read standard input: it is closed"):
        read(STANDARD_INPUT)


@pytest.mark.parametrize("read", READERS)
def test_a_pipe_is_opened_once(tmp_path, read):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"one\n",))
    writer.start()
    assert "one" in str(read(path))
    writer.join()


@pytest.mark.parametrize("read", READERS[:3])
def test_texts_that_do_not_fit_into_memory(monkeypatch, written, read):
    monkeypatch.setattr("mhaviz.memory.free_main_memory", lambda: 2**10)
    with pytest.raises(MhavizError, match=r"t\.txt is too large: reading it needs more than about"):
        read(written(b"a" * 2**10))
    assert len(list(stream_lines(written(b"a\n" * 2**10)))) == 2**10


def test_a_line_that_has_no_end(monkeypatch, written):
    monkeypatch.setattr("mhaviz.memory._PIECE", 2**8)
    monkeypatch.setattr("mhaviz.memory.free_main_memory", lambda: 2**16)
    long = b"b" * 2**10
    assert [line.text for line in stream_lines(written(b"a\n" + long + b"\nc"))] == ["a", long.decode(), "c"]
    with pytest.raises(MhavizError, match=r"t\.txt is too large: reading it needs more than about"):
        next(stream_lines(written(b"b" * 2**14)))


@pytest.mark.parametrize("read", READERS)
def test_a_device_that_has_no_end(read):
    with pytest.raises(MhavizError, match=r"^cannot read /dev/zero: expected a file or a pipe, got a device; save it"):
        read(Path("/dev/zero"))
