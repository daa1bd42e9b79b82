"""Exact pooled maps on a GPU in bfloat16, beside flash attention: python tests/benchmarks/gpu_time.py [--longest N]

8 heads, d_key 64 and 128, 512 × 512 cells, whole and causal. The peer is F.scaled_dot_product_attention held to its
flash kernel, which gives no weights; the target is 1.5 × its time. What keys receive is measured beside flash_colreduce
(z-lab/flash-colreduce), where that is installed. All take turns; times are medians of CUDA events. Errors are the
largest of some rows of cells, beside the same inputs in float64.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as nnf
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mhaviz.attention.map import attention_map

HEADS, CELLS, ROUNDS = 8, 512, 20
LENGTHS = tuple(2**i for i in range(12, 18))
CHECKED = 8  # rows of cells


def flash(query: Tensor, key: Tensor, causal: bool) -> Callable[[], object]:
    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return nnf.scaled_dot_product_attention(query, key, key, is_causal=causal)

    return run


def times(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median milliseconds of each; they take turns, after a round that compiles."""
    measured: dict[str, list[float]] = {name: [] for name in works}
    for round_number in range(ROUNDS + 1):
        for name, work in works.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            if round_number:
                measured[name].append(begin.elapsed_time(end))
    return {name: statistics.median(several) for name, several in measured.items()}


def error(found: Tensor, query: Tensor, key: Tensor, causal: bool) -> float:
    """The largest difference of the last rows of cells of the first head, from float64."""
    length = query.shape[2]
    height, first = length // CELLS, length - length // CELLS * CHECKED
    S = query[0, 0, first:].double() @ key[0, 0].double().T / math.sqrt(query.shape[3])
    if causal:
        S += S.new_full(S.shape, -torch.inf).triu_(first + 1)
    A = torch.softmax(S, dim=-1).view(CHECKED, height, CELLS, height)
    return float((found[0, 0, -CHECKED:] - A.sum(dim=3).mean(dim=1)).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], metavar="N", help="stop at this length")
    longest = parser.parse_args().longest
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| N | d_key | | flash | map | of flash | with summary | received | of colreduce | error |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for length in (n for n in LENGTHS if n <= longest):
        for d_key in (64, 128):
            for causal in (False, True):
                print_length(length, d_key, causal)


@torch.inference_mode()
def print_length(length: int, d_key: int, causal: bool) -> None:
    torch.manual_seed(0)
    query, key = (torch.randn(1, HEADS, length, d_key, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    works: dict[str, Callable[[], object]] = {
        "flash": flash(query, key, causal),
        "map": lambda: attention_map(query, key, causal=causal),
        "summary": lambda: attention_map(query, key, causal=causal, entropy=True, top_keys=1, received=True, local=32),
        "received": lambda: attention_map(query, key, causal=causal, rows=1, columns=1, received=True),
    }
    if find_spec("flash_colreduce"):
        from flash_colreduce import flash_colreduce  # type: ignore[import-not-found]

        works["colreduce"] = lambda: flash_colreduce(query, key, reduction="sum", is_causal=causal)
    taken = times(works)
    of_peer = f"{taken['received'] / taken['colreduce']:.2f} x" if "colreduce" in taken else "-"
    cells = (
        f"{length:,}",
        str(d_key),
        "causal" if causal else "",
        f"{taken['flash']:.2f} ms",
        f"{taken['map']:.2f} ms",
        f"{taken['map'] / taken['flash']:.2f} x",
        f"{taken['summary']:.2f} ms",
        f"{taken['received']:.2f} ms",
        of_peer,
        f"{error(attention_map(query, key, causal=causal).weights, query, key, causal):.1e}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
