import errno
import io
import os
from pathlib import Path

import matplotlib
import pytest

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.writing import write_whole
from mhaviz.pages.registry import MAP_SUFFIXES
from mhaviz.views import data
from mhaviz.views.formats import check_outputs, save_all
from mhaviz.views.style import Style

ALL = MAP_SUFFIXES


def test_all_formats_at_once_with_the_same_bytes_each_time(random_attention, tmp_path, monkeypatch):
    attention = random_attention(4, ("a", "b", "a"))
    contents = []
    for name in ("one", "two"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", name)  # no date; files have none, whatever it says
        (tmp_path / name).mkdir()
        paths = [tmp_path / name / ("map" + suffix) for suffix in ALL]
        check_outputs(paths, ALL)
        assert save_all(paths, attention, Style()) == ([], paths)
        assert sorted((tmp_path / name).iterdir()) == sorted(paths)
        contents.append({path.suffix: path.read_bytes() for path in paths})
    first, second = contents
    for suffix, content in first.items():
        assert content == second[suffix], suffix
        assert not [dated for dated in (b"CreationDate", b"ModDate", b"dc:date", b"tIME") if dated in content]
    assert [first[".png"][1:4], first[".pdf"][:4], b"<svg" in first[".svg"]] == [b"PNG", b"%PDF", True]


def test_a_suffix_may_be_upper_case(random_attention, tmp_path):
    check_outputs([tmp_path / "MAP.PNG"], ALL)
    attention = random_attention()
    save_all([tmp_path / "MAP.PNG"], attention, Style())
    assert (tmp_path / "MAP.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["map.gif", "map", ".png", "map.png.bak"])
def test_an_unknown_suffix_lists_the_known(name, tmp_path):
    with pytest.raises(ArgumentError, match=r"expected a name ending in \.png, \.svg, \.pdf, \.json, \.safetensors"):
        check_outputs([tmp_path / name], ALL)


def test_a_file_named_twice(tmp_path):
    with pytest.raises(ArgumentError, match="named twice"):
        check_outputs([tmp_path / "a.png"] * 2, ALL)


def test_folders_that_will_not_do(tmp_path):
    with pytest.raises(MhavizError, match="there is no folder"):
        check_outputs([tmp_path / "nowhere" / "a.png"], ALL)
    (tmp_path / "b.png").mkdir()
    with pytest.raises(MhavizError, match="it is a folder"):
        check_outputs([tmp_path / "b.png"], ALL)


def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # a superuser may write anywhere
    with pytest.raises(MhavizError, match="no permission to write"):
        check_outputs([tmp_path / "a.png"], ALL)


def test_a_full_disk_leaves_nothing_and_spoils_nothing(random_attention, tmp_path, monkeypatch):
    attention = random_attention()
    old = tmp_path / "a.png"
    old.write_bytes(b"old")
    write = data.write_data

    def fill_up(*arguments):
        write(*arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(data, "write_data", fill_up)
    with pytest.raises(MhavizError, match=r"cannot write .*b\.json: No space left on device"):
        save_all([old, tmp_path / "b.json"], attention, Style())
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert old.read_bytes() == b"old"


class FullAfter(io.FileIO):
    """A file on a disk that has room for so many bytes."""

    def __init__(self, handle, room):
        super().__init__(handle, "wb")
        self.room = room

    def write(self, content):
        self.room -= len(content)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


@pytest.mark.parametrize("suffix", ALL)
def test_a_disk_that_becomes_full_in_the_middle_of_a_file(random_attention, tmp_path, monkeypatch, suffix):
    """At its beginning, in it, and where it ends: what a library raises then is not told."""
    attention = random_attention(1, ("a",))
    path = tmp_path / f"a{suffix}"
    save_all([path], attention, Style())
    size = path.stat().st_size
    path.unlink()
    for room in (0, size // 3, size - 1):
        monkeypatch.setattr(os, "fdopen", lambda handle, _, room=room: io.BufferedWriter(FullAfter(handle, room)))
        with pytest.raises(MhavizError, match=rf"cannot write .*a\{suffix}: No space left on device"):
            save_all([path], attention, Style())
        assert not list(tmp_path.iterdir())


def test_links_that_go_round_and_names_that_are_too_long(tmp_path):
    (tmp_path / "a.png").symlink_to("b.png")
    (tmp_path / "b.png").symlink_to("a.png")
    for name, reason in (("a.png", "Too many levels of symbolic links"), ("x" * 300 + ".png", "File name too long")):
        with pytest.raises(MhavizError, match=rf"cannot write .*{reason}"):
            check_outputs([tmp_path / name], ALL)
        with pytest.raises(MhavizError, match=rf"cannot write .*{reason}"):
            write_whole([(tmp_path / name, lambda stream: stream.write(b"a"))])
    assert (tmp_path / "a.png").is_symlink()


def test_an_interrupt_leaves_nothing(random_attention, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "write_data", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_all([tmp_path / "a.json"], random_attention(), Style())
    assert not list(tmp_path.iterdir())


def test_files_get_the_usual_permissions(random_attention, tmp_path):
    attention = random_attention()
    (tmp_path / "usual").touch()
    save_all([tmp_path / "a.json"], attention, Style())
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_an_old_file_is_replaced_whole(random_attention, tmp_path):
    path = Path(tmp_path / "a.json")
    path.write_text("x" * 10**6)
    save_all([path], random_attention(), Style())
    assert path.read_text().startswith('{"mhaviz"')


def test_a_link_stays_a_link_and_permissions_stay(random_attention, tmp_path):
    real = tmp_path / "real.json"
    real.touch(mode=0o600)
    (tmp_path / "link.json").symlink_to(real)
    save_all([tmp_path / "link.json"], random_attention(), Style())
    assert (tmp_path / "link.json").is_symlink()
    assert real.read_text().startswith("{")
    assert real.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_link", [False, True])
def test_a_device_is_never_replaced_by_a_file(random_attention, tmp_path, is_link):
    """Renamed over, it would be gone for the whole machine."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    path = tmp_path / "link.json" if is_link else pipe
    if is_link:
        path.symlink_to(pipe)
    with pytest.raises(MhavizError, match="it is a device or a pipe"):
        check_outputs([path], ALL)
    with pytest.raises(MhavizError, match="expected a file, got a folder, a device or a pipe"):
        save_all([path], random_attention(), Style())
    assert pipe.is_fifo()
    assert list(tmp_path.glob(".*")) == []


def test_one_file_under_two_names(tmp_path):
    (tmp_path / "sub").mkdir()
    with pytest.raises(ArgumentError, match="named twice"):
        check_outputs([tmp_path / "a.png", tmp_path / "sub" / ".." / "a.png"], ALL)


def test_a_users_matplotlibrc_changes_nothing(random_attention, tmp_path):
    attention = random_attention(1, ("$x", "a_b"))
    save_all([tmp_path / "one.png"], attention, Style())
    ugly = {"text.usetex": True, "savefig.bbox": "tight", "font.size": 30, "axes.facecolor": "red", "savefig.dpi": 30}
    with matplotlib.rc_context(ugly):
        save_all([tmp_path / "two.png"], attention, Style())
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize("link", ["itself", "symbolic", "hard"])
def test_what_is_read_is_not_written_over(tmp_path, link):
    source, output = tmp_path / "a.json", tmp_path / ("a.json" if link == "itself" else "b.json")
    source.write_text("{}")
    if link == "symbolic":
        output.symlink_to(source)
    elif link == "hard":
        output.hardlink_to(source)
    with pytest.raises(ArgumentError, match=r"is read, and cannot be written at the same time; give another name"):
        check_outputs([output], ALL, [tmp_path / "other.json", source])
    check_outputs([tmp_path / "c.json"], ALL, [source])
