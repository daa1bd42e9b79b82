import pytest

from mhaviz.errors import MhavizError
from mhaviz.processes import Process, this_process


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
