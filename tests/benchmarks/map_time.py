"""Exact pooled maps beside the plain way and a fused kernel: python tests/benchmarks/map_time.py [--longest N]

8 heads, d_key 64, float32. The plain way is softmax(Q Kᵀ / √d_key), then pooling to 512 × 512 cells. The fused kernel,
F.scaled_dot_product_attention, gives no weights at all. For every length they take turns in one process; the
peak of memory above the inputs is that of a process of its own for each.
"""

import argparse
import math
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as nnf
from measure import in_fresh_process, peak_memory, time_functions

from mhaviz.devices import free_memory
from mhaviz.layer.attention_map import attention_map
from mhaviz.layer.cells import Cells, cell_edges

HEADS, D_KEY, CELLS = 8, 64, 512
LENGTHS = tuple(1024 * 2**i for i in range(8))
ENOUGH_SECONDS = 20  # of rounds at a length
WAYS = ("plain", "sdpa", "map", "causal map")


def inputs(length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(1, HEADS, length, D_KEY) for _ in range(3))  # type: ignore[return-value]


def plain(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(query @ key.mT / math.sqrt(D_KEY), dim=-1)
    edges = cell_edges(query.shape[2], CELLS)
    rows = Cells(edges).sum(weights)
    return Cells(edges).sum(rows.mT.contiguous()).mT / edges.diff()[:, None]


def work(way: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Callable[[], object]:
    return {
        "plain": lambda: plain(query, key),
        "sdpa": lambda: nnf.scaled_dot_product_attention(query, key, value),
        "map": lambda: attention_map(query, key, rows=CELLS, columns=CELLS),
        "causal map": lambda: attention_map(query, key, rows=CELLS, columns=CELLS, causal=True),
    }[way]


def times(ways: tuple[str, ...], length: int) -> list[list[float]]:
    """Milliseconds of each way, a round each: at least 2, and as many as a few seconds hold."""
    with torch.inference_mode():
        tensors = inputs(length)
        works = [work(way, *tensors) for way in ways]
        first = time_functions(works, 1)
        rounds = int(ENOUGH_SECONDS * 1000 / sum(map(sum, first)))
        return time_functions(works, min(max(rounds, 2), 15)) if rounds else first


def memory(way: str, length: int) -> float:
    with torch.inference_mode():
        return peak_memory(work(way, *inputs(length)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], metavar="N", help="stop at this length")
    longest = parser.parse_args().longest
    print("| N | way | median | against sdpa | peak memory |\n| ---: | --- | ---: | ---: | ---: |")
    for length in LENGTHS:
        if length > longest:
            break
        needed = 3 * HEADS * length**2 * 4
        ways = WAYS if needed < (free_memory(torch.device("cpu")) or 0) else WAYS[1:]
        measured = dict(zip(ways, times(ways, length), strict=True))  # here, where memory is given out as usual
        for way in ways:
            ratio = statistics.median(a / b for a, b in zip(measured[way], measured["sdpa"], strict=True))
            peak = in_fresh_process(memory, way, length)
            median = statistics.median(measured[way])
            print(f"| {length:,} | {way} | {median:,.0f} ms | {ratio:.2f} x | {peak:,.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
