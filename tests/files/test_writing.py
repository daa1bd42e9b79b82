import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mhaviz.errors import MhavizError
from mhaviz.files.writing import write_whole

pytestmark = pytest.mark.usefixtures("default_signals")

WRITER = """
import os, signal, sys, time
from pathlib import Path
from mhaviz.files.writing import clean_up_on, write_whole
if sys.argv[2] == "handled":
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
if sys.argv[2] != "library":
    clean_up_on([signal.SIGTERM, signal.SIGHUP])
def slow(stream):
    stream.write(b"half")
    stream.flush()
    print("half", flush=True)
    time.sleep(60)
write_whole([(Path(sys.argv[1]), slow)])
"""


FAILING_RENAME = """
import os, signal, sys
from pathlib import Path
from mhaviz.files.writing import clean_up_on, write_whole
clean_up_on([signal.SIGTERM])
def fail(part, target):
    os.kill(os.getpid(), signal.SIGTERM)
    raise OSError(28, "No space left on device")
Path.replace = fail
try:
    write_whole([(Path(sys.argv[1]), lambda stream: stream.write(b"whole"))])
finally:
    print("alive", flush=True)
"""


@pytest.fixture
def half_written(tmp_path):
    """A process that stays in the middle of writing a file."""
    started = []

    def start(name, how="program"):
        command = [sys.executable, "-c", WRITER, str(tmp_path / name), how]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"half\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def end(process, number):
    process.send_signal(number)
    return process.wait(timeout=20)


def write(path):
    write_whole([(path, lambda stream: stream.write(b"whole"))])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_half_written(tmp_path, half_written, number):
    (tmp_path / "a.png").write_bytes(b"before")
    assert end(half_written("a.png"), number) == -number
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == b"before"


def test_a_signal_that_is_ignored_takes_no_file(tmp_path, monkeypatch):
    """As under nohup."""
    monkeypatch.setattr("mhaviz.files.writing._caught", [signal.SIGHUP])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    write_whole([(tmp_path / "a.png", lambda stream: (stream.write(b"wh"), signal.raise_signal(signal.SIGHUP)))])
    assert (tmp_path / "a.png").read_bytes() == b"wh"


def test_a_signal_that_is_handled_leaves_nothing_half_written(tmp_path, half_written):
    assert end(half_written("a.png", "handled"), signal.SIGTERM) == 7
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_waits_ends_the_process_even_if_a_file_cannot_be_put_in_its_place(tmp_path):
    command = [sys.executable, "-c", FAILING_RENAME, str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (-signal.SIGTERM, b"", [])


def test_python_users_keep_their_signal_handlers(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]

    def look(stream):
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before

    write_whole([(tmp_path / "a.png", look)])


def test_all_files_or_none(tmp_path):
    (tmp_path / "folder").mkdir()

    def fail(stream):
        raise OSError(28, "No space left on device")

    with pytest.raises(MhavizError, match=r"cannot write .*b\.png: No space left on device"):
        write_whole([(tmp_path / "a.png", lambda stream: stream.write(b"a")), (tmp_path / "b.png", fail)])
    with pytest.raises(MhavizError, match="folder"):
        write(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_is_there_if_not_all_can_be_put_in_their_places(tmp_path, monkeypatch):
    replace = Path.replace

    def fail(part, target):
        if target.name == "b.png":
            raise OSError(1, "Operation not permitted")
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", fail)
    contents = [(tmp_path / name, lambda stream: stream.write(b"x")) for name in ("a.png", "b.png", "c.png")]
    with pytest.raises(MhavizError, match=r"cannot write .*b\.png: Operation not permitted; written: .*a\.png$"):
        write_whole(contents)
    with pytest.raises(MhavizError, match=r"cannot write .*b\.png: Operation not permitted$"):
        write_whole(contents[1:])
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_new_file_has_the_rights_of_any_other_and_an_old_one_keeps_its_own(tmp_path):
    (tmp_path / "by hand").touch()
    old = tmp_path / "old.png"
    old.touch()
    old.chmod(0o640)
    for path, rights in ((tmp_path / "new.png", (tmp_path / "by hand").stat().st_mode), (old, old.stat().st_mode)):
        write(path)
        assert path.stat().st_mode == rights


SETTLED = """
import os, sys
from mhaviz.cli.surroundings import settle_surroundings
settle_surroundings()
import matplotlib
print(os.getcwd(), matplotlib.rcParams["font.size"], matplotlib.rcParams["image.lut"])
"""


def test_the_program_reads_no_matplotlibrc(tmp_path):
    broken = b"image.lut: 4\nfont.size: 30\nfigure.dpi: x\nno such: \xff\xfe\n"
    (tmp_path / "matplotlibrc").write_bytes(broken)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "matplotlibrc").write_bytes(broken)
    for config in ("config", "/proc/nowhere"):
        surroundings = os.environ | {"MPLCONFIGDIR": config, "MPLBACKEND": "nonsense", "MATPLOTLIBRC": "matplotlibrc"}
        command = [sys.executable, "-c", SETTLED]
        done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (f"{tmp_path} 10.0 256\n", "", 0)
