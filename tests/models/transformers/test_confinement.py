"""What a checkpoint's own programs may take: a process that is copied, with limits, does their work."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mhaviz.errors import MhavizError
from mhaviz.models.transformers import confinement
from mhaviz.models.transformers.confinement import confined

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system copies no process")


def run(work):
    return confined(work, "the template of x", "shorten it")


def refuse():
    raise MhavizError("expected one role, got two\ud800")


def loop():
    while True:
        pass


def test_what_is_returned():
    assert run(lambda: ["a\ud800é\x00", [1, None]]) == ["a\ud800é\x00", [1, None]]
    with pytest.raises(MhavizError, match="expected one role, got two\ud800"):
        run(refuse)


@pytest.mark.parametrize(
    ("work", "seconds", "message"),
    [
        (lambda: "a" * 10**9, 10, "takes more than 256.0 MiB of memory"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), 10, "takes more than 256.0 MiB of memory"),
        (loop, 0.05, "takes more than 0.05 seconds"),
        (lambda: 10 ** (10**9), 0.05, "takes more than 0.05 seconds"),  # which no handler of Python would interrupt
    ],
)
def test_what_takes_too_much(monkeypatch, work, seconds, message):
    monkeypatch.setattr(confinement, "MOST_SECONDS", seconds)
    with pytest.raises(MhavizError, match=f"the template of x {message}; shorten it"):
        run(work)


def test_a_copy_that_waits_for_ever(monkeypatch):
    """As for a lock that another thread held when the process was copied: it takes no time of a core."""
    monkeypatch.setattr(confinement, "MOST_SECONDS", 0.05)
    with pytest.raises(MhavizError, match=r"takes more than 0\.05 seconds"):
        run(lambda: time.sleep(60))


def test_another_error_is_told_as_it_is():
    with pytest.raises(MhavizError, match="the template of x cannot be used"):
        run(lambda: {}["a"])


def test_where_the_system_has_no_room_it_runs_here(monkeypatch):
    def refused():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    assert run(lambda: 3) == 3


def test_where_no_child_can_be_waited_for(monkeypatch):
    monkeypatch.setattr(os, "waitpid", lambda *_: (_ for _ in ()).throw(ChildProcessError()))
    assert run(lambda: 3) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether a process waits")
@pytest.mark.usefixtures("default_signals")
def test_ctrl_c_ends_it(tmp_path):
    def interrupt():
        (tmp_path / "child").write_text(str(os.getpid()))
        state = Path(f"/proc/{os.getppid()}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "S":  # it waits for this one
            time.sleep(0.001)
        os.kill(os.getppid(), signal.SIGINT)
        loop()

    with pytest.raises(KeyboardInterrupt):
        run(interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)


def test_nothing_of_this_process_ends_with_the_other(capfd):
    """Such as what is written but not yet flushed, or a handler that removes half-written files."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.stdout.write("handled"))
    try:
        sys.stdout.write("once")
        with pytest.raises(MhavizError):
            run(lambda: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capfd.readouterr().out == "once"
