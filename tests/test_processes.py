import os
import platform
import signal
import subprocess
import sys

import pytest

from mhaviz import processes
from mhaviz.errors import MhavizError
from mhaviz.processes import Process, ended_together, this_process, told_who_has_ended


@pytest.fixture
def started(monkeypatch):
    def start(**environment):
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return this_process()

    return start


def test_alone_and_one_of_several(started):
    assert started() == Process(0, 1, 0)
    assert started(RANK="3", LOCAL_RANK="1") == Process(0, 1, 0), "no torchrun sets one alone"
    assert started(RANK="3", WORLD_SIZE="8", LOCAL_RANK="1") == Process(3, 8, 1)
    assert started(RANK="3", WORLD_SIZE="8").local_rank == 3
    assert started(RANK="0", WORLD_SIZE="1").is_alone
    assert [started(RANK=str(rank), WORLD_SIZE="2").is_first for rank in range(2)] == [True, False]


@pytest.mark.parametrize(
    "environment",
    [{"RANK": "x", "WORLD_SIZE": "2"}, {"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "0", "WORLD_SIZE": "-1"}],
)
def test_an_environment_that_cannot_be(started, environment):
    with pytest.raises(MhavizError, match="torchrun"):
        started(**environment)


def test_devices():
    assert Process().device("auto") == "auto"
    several = Process(1, 2, 1)
    assert [several.device(name) for name in ("cpu", "cuda", "cuda:0")] == ["cpu", "cuda:1", "cuda:0"]


@pytest.fixture
def killed(started, monkeypatch):
    """The third of three processes, which has been killed and waits to be forgotten."""
    started(RANK="0", WORLD_SIZE="3")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        here = [(platform.node(), os.getpid()), ("elsewhere", other.pid), (platform.node(), other.pid)]
        monkeypatch.setattr(processes, "_others", here)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        yield other


def test_who_was_killed_is_said_by_those_that_torchrun_then_ends(killed):
    """Whether torchrun has already asked what became of it, or not."""
    before = signal.getsignal(signal.SIGTERM)
    for _ in range(2):
        with pytest.raises(MhavizError, match="process 2 of 3 ended before the work was done"), ended_together():
            os.kill(os.getpid(), signal.SIGTERM)
        killed.wait()
    assert signal.getsignal(signal.SIGTERM) == before


def test_who_was_killed_is_said_by_those_that_wait_for_it(killed, monkeypatch):
    said = r"process 2 of 3 ended before the work was done \(Connection closed by peer\)"
    with pytest.raises(MhavizError, match=said), told_who_has_ended():
        raise RuntimeError("Connection closed by peer")
    monkeypatch.setattr(processes, "_others", [(platform.node(), os.getpid())] * 3)
    with pytest.raises(RuntimeError, match="no product of these shapes"), told_who_has_ended():
        raise RuntimeError("no product of these shapes")
