from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from mhaviz import devices
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.units import readable_bytes, readable_count, readable_factor, readable_seconds


def test_cpu_is_always_there():
    assert devices.resolve_device("cpu") == torch.device("cpu")
    assert devices.resolve_device("auto").type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:x", "CPU", "meta"])
def test_unknown_names_list_the_known(name):
    with pytest.raises(ArgumentError, match="expected auto, cpu, cuda, cuda:N or mps"):
        devices.resolve_device(name)


def test_a_device_that_is_not_there():
    with pytest.raises(MhavizError, match=r"device cuda:9999 is missing: PyTorch finds cpu.*use one of these, or auto"):
        devices.resolve_device("cuda:9999")


def test_the_first_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.resolve_device("auto") == torch.device("cuda")
    assert devices.resolve_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(MhavizError, match="cuda:2 is missing: PyTorch finds cpu, cuda:0, cuda:1"):
        devices.resolve_device("cuda:2")


def test_memory_says_what_is_needed_and_what_is_free(monkeypatch):
    monkeypatch.setattr(devices, "free_memory", lambda device: 3 * 2**30)
    devices.require_memory(2 * 2**30, torch.device("cpu"), "it")
    with pytest.raises(MhavizError, match=r"it needs about 4.0 GiB of memory on cpu, where 3.0 GiB are free"):
        devices.require_memory(4 * 2**30, torch.device("cpu"), "it")


def test_free_memory_is_a_sensible_number():
    free = devices.free_memory(torch.device("cpu"))
    assert free is None or 2**20 < free < 2**50


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40 * 1.25, "1.2 TiB"), (2**64, "16,384.0 PiB")],
)
def test_readable_bytes(size, text):
    assert readable_bytes(size) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100 k"),
        (999_999, "1 M"),
        (1_679_360_000, "1.68 G"),
        (3.2768e14, "328 T"),
    ],
)
def test_readable_count(number, text):
    assert readable_count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (2.5e-7, "250 ns"),
        (0.000_999_6, "1.00 ms"),
        (0.00123, "1.23 ms"),
        (0.0501, "50.1 ms"),
        (0.9996, "1.00 s"),
        (59, "59.0 s"),
        (150, "2.50 min"),
        (8000, "2.22 h"),
        (3.2e9, "101 years"),
        (6e19, "1,900,000,000,000 years"),
    ],
)
def test_readable_seconds(seconds, text):
    assert readable_seconds(seconds) == text


def test_readable_factor():
    assert [readable_factor(factor) for factor in (0.4567, 1, 11_840)] == ["0.457 ×", "1.00 ×", "11,800 ×"]


@pytest.mark.parametrize(
    ("running", "used"),
    [
        ([4], [4]),  # our own, which still wait for work
        ([1], [4]),  # only this one: the others sleep
        ([5, 4, 4], [3, 3, 3]),  # one other program: it is still there when we use fewer
        ([7, 4, 1], [1, 1, 4]),
        ([4, 5, 4], [4, 4, 4]),  # it was there for a moment
        ([4, 5, 5, 4], [4, 4, 3, 3]),
        ([99], [1]),
        ([None], [4]),
    ],
)
def test_other_programs_keep_their_cores(running, used):
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        answers = iter(running)
        with devices.FreeCores(torch.device("cpu"), lambda: next(answers), cores=4) as cores:
            seen = []
            for _ in running:
                cores.look()
                seen.append(torch.get_num_threads())
        assert seen == used
        assert torch.get_num_threads() == 4
        with devices.FreeCores(torch.device("meta"), lambda: 99) as cores:
            cores.look()
            assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_idle_cores_are_not_given_up():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with devices.FreeCores(torch.device("cpu"), lambda: 10, cores=16) as cores:
            cores.look()
            assert torch.get_num_threads() == 4
        with devices.FreeCores(torch.device("cpu"), lambda: 18, cores=16) as cores:
            cores.look()
            assert torch.get_num_threads() == 2
        with ThreadPoolExecutor(1) as pool:  # only the main thread adapts
            assert pool.submit(_threads_beside_others).result() == 4
    finally:
        torch.set_num_threads(before)


def _threads_beside_others() -> int:
    with devices.FreeCores(torch.device("cpu"), lambda: 99, cores=16) as cores:
        cores.look()
        return torch.get_num_threads()


def test_threads_that_run(tmp_path, monkeypatch):
    (tmp_path / "loadavg").write_text("0.35 1.17 1.69 6/171 30000\n")
    monkeypatch.setattr(devices.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda process: set(range(4)), raising=False)
    assert devices.threads_that_run(tmp_path) == 3  # half of the cores, half of what runs
    (tmp_path / "loadavg").write_text("")
    assert devices.threads_that_run(tmp_path) is None
    assert devices.threads_that_run(tmp_path / "absent") is None
