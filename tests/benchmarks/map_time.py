"""Exact pooled maps beside the plain way and a fused kernel: python tests/benchmarks/map_time.py [--longest N] [--busy]

8 heads, d_key 64, float32. The plain way is softmax(Q Kᵀ / √d_key), then, of more than 512 tokens, pooling to 512 × 512
cells; a head at a time where all heads' weights do not fit into memory. The fused kernel,
F.scaled_dot_product_attention, gives no weights at all. For every length they take turns in one process; the peak of
memory above the inputs is that of a process of its own for each. --plot PATH draws times and peaks.

The number of processes that want to run, beside this one, is said before and after; with --busy one more keeps a core
busy all the time.
"""

import argparse
import math
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as nnf
from measure import in_fresh_process, peak_memory, time_functions

from mhaviz.attention.map import attention_map
from mhaviz.attention.reducer import CellReducer
from mhaviz.devices import free_memory
from mhaviz.pages.blocks import Curves, Page, Plot, PlotAxis, Series, Table
from mhaviz.results.axis import cell_edges
from mhaviz.units import readable_bytes, readable_seconds
from mhaviz.views.figure.page import draw_page
from mhaviz.views.style import Style

HEADS, D_KEY, CELLS = 8, 64, 512
LENGTHS = (16, 64, 256, 512, 700, 1000, *(1024 * 2**i for i in range(8)))
DRAWN_FROM = 512
ENOUGH_SECONDS = 20  # of rounds at a length
MOST_ROUNDS = 100
WAYS = ("plain", "sdpa", "map", "causal map", "map, summary", "map, both")
NAMES = (
    "softmax(QKᵀ), pooled",
    "fused kernel, no weights",
    "attention_map",
    "attention_map, causal",
    "with the summary",
)

Measured = dict[str, dict[int, float]]
"""A figure of each way at each length."""


def inputs(length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(1, HEADS, length, D_KEY) for _ in range(3))  # type: ignore[return-value]


def plain(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(query @ key.mT / math.sqrt(D_KEY), dim=-1)
    if query.shape[2] <= CELLS:
        return weights
    edges = torch.from_numpy(cell_edges(query.shape[2], CELLS))
    cells = CellReducer(edges)
    return cells.sum(cells.sum(weights, -2)) / edges.diff()[:, None]


def plain_as_it_fits(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    if fits(HEADS, query.shape[2]):
        return plain(query, key)
    return torch.cat([plain(query[:, h : h + 1], key[:, h : h + 1]) for h in range(HEADS)], dim=1)


def fits(heads: int, length: int) -> bool:
    scores_and_weights = 3
    return scores_and_weights * heads * length**2 * 4 < (free_memory(torch.device("cpu")) or 0)


def work(way: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Callable[[], object]:
    cells = {"rows": CELLS, "columns": CELLS}
    return {
        "plain": lambda: plain_as_it_fits(query, key),
        "sdpa": lambda: nnf.scaled_dot_product_attention(query, key, value),
        "map": lambda: attention_map(query, key, **cells),
        "causal map": lambda: attention_map(query, key, causal=True, **cells),
        "map, both": lambda: attention_map(query, key, reduce="both", entropy=True, top_keys=3, **cells),
        "map, summary": lambda: attention_map(query, key, entropy=True, top_keys=1, received=True, local=32, **cells),
    }[way]


def times(ways: tuple[str, ...], length: int) -> list[list[float]]:
    """Milliseconds of each way, a round each: at least 2, and as many as a few seconds hold."""
    with torch.inference_mode():
        tensors = inputs(length)
        works = [work(way, *tensors) for way in ways]
        first = time_functions(works, 1, warm=False)
        rounds = int(ENOUGH_SECONDS * 1000 / sum(map(sum, first)))
        return time_functions(works, min(max(rounds, 2), MOST_ROUNDS), warm=False) if rounds else first


def memory(way: str, length: int) -> float:
    with torch.inference_mode():
        return peak_memory(work(way, *inputs(length)))


def plot(path: Path, milliseconds: Measured, peaks: Measured) -> None:
    """Two plots over the length: time of one run, and peak memory above the inputs, of the ways that have names."""
    plots = []
    for title, measured, factor, y in (
        ("time of one run", milliseconds, 1e-3, PlotAxis(log=10, unit=readable_seconds)),
        ("peak memory above the inputs", peaks, 2**20, PlotAxis(log=2, unit=readable_bytes)),
    ):
        series = []
        for i, (way, name) in enumerate(zip(WAYS, NAMES, strict=False)):
            drawn = tuple(length for length in measured[way] if is_drawn(length))
            series.append(Series(name, drawn, tuple(measured[way][x] * factor for x in drawn), i, i))
        plots.append(Plot(title, tuple(series), PlotAxis("N, tokens", log=2), y))
    footnote = f"{HEADS} heads, d_key {D_KEY}, float32, {CELLS} × {CELLS} cells; {machine()}"
    page = Page("all the attention of a long input", (Curves(tuple(plots), Table((), ())),), footnote)
    with path.open("wb") as stream:
        draw_page(page, Style()).save(stream, path.suffix[1:])


def is_drawn(length: int) -> bool:
    """Powers of two: at others the plain way sums cells of unequal width, and its line has teeth."""
    return length >= DRAWN_FROM and length & (length - 1) == 0


def machine() -> str:
    info = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*: (.+)", info.read_text()) if info.exists() else None
    return f"{torch.get_num_threads()} cores of {name[1] if name else platform.machine()}, PyTorch {torch.__version__}"


@contextmanager
def one_core_busy(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()


def load() -> str:
    return f"{os.getloadavg()[0]:.1f} processes wanted to run in the last minute"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shortest", type=int, default=LENGTHS[0], metavar="N", help="begin at this length")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], metavar="N", help="stop at this length")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw times and peaks")
    parser.add_argument("--busy", action="store_true", help="keep one core busy with something else")
    given = parser.parse_args()
    measured = [length for length in LENGTHS if given.shortest <= length <= given.longest]
    if given.plot and sum(map(is_drawn, measured)) < 2:
        parser.error(f"--plot: expected two powers of two from {DRAWN_FROM} on between --shortest and --longest")
    milliseconds: Measured = {way: {} for way in WAYS}
    peaks: Measured = {way: {} for way in WAYS}
    print(f"{machine()}; {load()}\n\n| N | way | median | against sdpa | against plain | peak memory |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    with one_core_busy(given.busy):
        for length in measured:
            print_length(length, milliseconds, peaks)
    print(load())
    if given.plot:
        plot(given.plot, milliseconds, peaks)


def print_length(length: int, milliseconds: Measured, peaks: Measured) -> None:
    ways = WAYS if fits(1, length) else WAYS[1:]
    measured = dict(zip(ways, times(ways, length), strict=True))  # here, where memory is given out as usual
    for way in ways:
        milliseconds[way][length] = statistics.median(measured[way])
        peaks[way][length] = in_fresh_process(memory, way, length)
        ratios = [
            f"{statistics.median(a / b for a, b in zip(measured[way], measured[peer], strict=True)):.2f} x"
            if peer in measured
            else "-"
            for peer in ("sdpa", "plain")
        ]
        cells = (f"{milliseconds[way][length]:,.2f} ms", *ratios, f"{peaks[way][length]:,.0f} MiB")
        print(f"| {length:,} | {way} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
