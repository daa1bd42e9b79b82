"""What the benchmarks share: timing side by side, peak memory in a process of its own, the table.

Things that are compared take turns within one run, and who begins changes from round to round, so that a machine that
slows down or is used by others slows all of them. The ratio is the median of the rounds' ratios, not the ratio of the
medians: where the machine changes its pace halfway, the latter says nothing.
"""

import argparse
import gc
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One measure: a figure a round of mhaviz and of its peer, and the most that mhaviz / peer should be."""

    what: str
    mhaviz: Sequence[float]
    peer: Sequence[float]
    target: float
    unit: str = "ms"

    def cells(self) -> tuple[str, ...]:
        ratio = statistics.median(ours / theirs for ours, theirs in zip(self.mhaviz, self.peer, strict=True))
        return (
            self.what,
            f"{statistics.median(self.mhaviz):,.1f} {self.unit}",
            f"{statistics.median(self.peer):,.1f} {self.unit}",
            f"{ratio:.3f}x",
            f"<= {self.target:g}x",
        )


def print_table(rows: Iterable[Row]) -> None:
    """Print one Markdown table."""
    print("| what | mhaviz median | peer median | ratio | target |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(f"| {' | '.join(row.cells())} |")


def parse_repeat(description: str | None, default: int) -> int:
    """The number of rounds that the command line asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=default, metavar="N", help=f"rounds [default: {default}]")
    repeat: int = parser.parse_args().repeat
    if repeat < 1:
        parser.error(f"--repeat: expected at least 1, got {repeat}")
    return repeat


def time_functions(functions: Sequence[Callable[[], object]], repeat: int, warm: bool = True) -> list[list[float]]:
    """The wall times of each function in milliseconds, one a round.

    ``warm``: each runs once before the clock starts.
    """
    for function in functions if warm else ():
        function()
    times: list[list[float]] = [[] for _ in functions]
    for i in range(repeat):
        for turn in range(len(functions)):
            which = (i + turn) % len(functions)
            times[which].append(_time(functions[which]))
    return times


def time_commands(commands: Sequence[Sequence[str]], repeat: int) -> list[list[float]]:
    """The same for commands, whose output is thrown away."""
    return time_functions([partial(_run, command) for command in commands], repeat)


def in_fresh_process(function: Callable[..., T], *arguments: object) -> T:
    """The result of a module's function, called in a process that is started for it and then ends.

    There, glibc gives every large block a mapping of its own and takes it back when it is freed. Otherwise what a
    process holds depends on the holes between its blocks, and the same work differs by tens of MiB from run to run.
    """
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # bytes; read when a process starts, so this one is as it was
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def peak_memory(function: Callable[[], object]) -> float:
    """MiB that this process holds at its peak while the function runs, above what it holds before. Linux only.

    Writing 5 to clear_refs lowers the high-water mark of the resident memory to what is resident now. (The ru_maxrss of
    getrusage would not do: it cannot be lowered, and a new process starts with that of its parent.)
    """
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _high_water_mark()
    function()
    return _high_water_mark() - before


def _time(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    result = function()
    taken = time.perf_counter() - start
    del result  # giving its memory back is not timed
    return taken * 1000


def _run(command: Sequence[str]) -> None:
    # An installed program finds its bytecode ready. So the first run, which is not timed, may leave it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode} from {' '.join(command)}\n{done.stderr}")


def _high_water_mark() -> float:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match
    return int(match[1]) / 1024
