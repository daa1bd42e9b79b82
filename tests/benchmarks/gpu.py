"""What only a GPU can answer, in at most six minutes: python tests/benchmarks/gpu.py [--device NAME] [--seconds N]

1. Time and peak memory of ``attention_map``, 512 × 512 cells, beside ``F.scaled_dot_product_attention``, which gives no
   weights: its flash kernel for bfloat16, and what it chooses for float32. 8 heads, d_key 64; the map is in float32.
2. The same of 262,144 tokens.
3. Each of its kernels under ``mhaviz.record``: how far the recorded weights are from softmax(Q Kᵀ / √d_key) in float64
   of the same inputs, at most 1e-5, and whether the output has the same bits as without a recording.

What cannot be run is in the table with the reason, and the others go on. Without a GPU it runs on the CPU, at smaller
sizes. Each section has a third of the seconds: a map that takes longer is given up, and nothing is begun after that.
"""

import argparse
import platform
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from measure import time_functions
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

import mhaviz
from mhaviz.analyses.benchmark import measure_peak
from mhaviz.devices import resolve_device
from mhaviz.errors import MhavizError
from mhaviz.units import readable_bytes

HEADS, D_KEY, CELLS = 8, 64, 512
LENGTHS = {"cuda": (1024, 4096, 16_384, 65_536), "cpu": (256, 1024)}
LONGEST = {"cuda": 262_144, "cpu": 2048}
RECORDED = 384  # tokens, of which none are pooled
TARGET = 1e-5
SECONDS = 330.0
OF_A_ROW, MOST_ROUNDS = 1.0, 30
KERNELS = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)
TIMES = ("what", "attention_map", "peer", "ratio", "memory", "memory of the peer")
WEIGHTS = ("kernel", "weights differ by", "target", "output of the kernel differs by", "recorded output")

Measure = Callable[[float], tuple[str, ...]]
"""Measures a row until a moment of ``time.monotonic``: its cells after the first."""


@dataclass(frozen=True)
class Section:
    title: str
    header: tuple[str, ...]
    rows: Iterator[tuple[str, Measure]]

    def print(self, seconds: float) -> list[tuple[str, str]]:
        """Print the table; returns what was not run, and the reason of each."""
        print(f"\n{self.title}\n\n| {' | '.join(self.header)} |\n| --- |{' ---: |' * (len(self.header) - 1)}")
        end, missing = time.monotonic() + seconds, []
        for what, measure in self.rows:
            cells, why = attempt(measure, end)
            if why:
                cells = (f"not run: {why}", *[""] * (len(self.header) - 2))
                missing.append((what, why))
            print(f"| {what} | {' | '.join(cells)} |", flush=True)
        return missing


def attempt(measure: Measure, end: float) -> tuple[tuple[str, ...], str]:
    """The cells of a row, or why there are none; PyTorch says in warnings why it has no kernel."""
    if time.monotonic() > end:
        return (), "the time of this section is spent"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return measure(end), ""
        except (RuntimeError, MemoryError, MhavizError) as error:  # out of memory is a RuntimeError
            reasons = dict.fromkeys(re.split(r"\.\s|\n", str(one))[0] for one in (error, *(w.message for w in said)))
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return (), "; ".join(reasons)[:300].replace("|", "/")


def inputs(length: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, length, D_KEY).to(device, dtype) for _ in range(3)]


def finished(device: torch.device, function: Callable[[], object]) -> object:
    """The result of a function once the device has done its work."""
    result = function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result


def in_time(end: float, done: float) -> None:
    if time.monotonic() > end:
        raise RuntimeError(f"only {done:.0%} of the map was done when the time of this section was spent")


@torch.inference_mode()
def times(length: int, dtype: torch.dtype, causal: bool, device: torch.device, end: float) -> tuple[str, ...]:
    query, key, value = inputs(length, dtype, device)
    sizes = {"rows": CELLS, "columns": CELLS}

    def ours() -> object:
        return mhaviz.attention_map(query, key, causal=causal, **sizes, on_progress=partial(in_time, end))

    def peer() -> object:
        chosen = SDPBackend.FLASH_ATTENTION if dtype == torch.bfloat16 else list(KERNELS)
        with sdpa_kernel(chosen):
            return F.scaled_dot_product_attention(query, key, value, is_causal=causal)

    functions = [partial(finished, device, function) for function in (ours, peer)]
    first = time_functions(functions, 1, warm=False)
    left = min(OF_A_ROW, end - time.monotonic())
    rounds = min(int(left * 1000 / sum(map(sum, first))), MOST_ROUNDS)
    mhaviz_, theirs = time_functions(functions, rounds, warm=False) if rounds > 1 else first
    peaks = [measure_peak(function, device)[0] for function in functions]  # last, without what kernels take once
    ratio = statistics.median(a / b for a, b in zip(mhaviz_, theirs, strict=True))
    return (
        *(f"{statistics.median(one):,.2f} ms" for one in (mhaviz_, theirs)),
        f"{ratio:.2f} x",
        *("?" if peak is None else readable_bytes(peak) for peak in peaks),
    )


@torch.inference_mode()
def weights(kernel: SDPBackend, dtype: torch.dtype, causal: bool, device: torch.device, end: float) -> tuple[str, ...]:
    del end  # it takes no time
    query, key, value = inputs(RECORDED, dtype, device)
    with sdpa_kernel(kernel):
        alone = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        with mhaviz.record() as recording:
            output = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    scores = query.double() @ key.double().mT / D_KEY**0.5
    if causal:
        scores = scores.masked_fill(scores.new_ones(RECORDED, RECORDED, dtype=torch.bool).triu(1), -torch.inf)
    expected = scores.softmax(dim=-1)
    found = torch.from_numpy(recording.attention[0].weights).to(expected)
    return (
        f"{float((found - expected[0]).abs().max()):.1e}",
        f"<= {TARGET:.0e}",
        f"{float((alone.double() - expected @ value.double()).abs().max()):.1e}",
        "the same bits" if torch.equal(alone, output) else "DIFFERS",
    )


def rows_of_times(lengths: tuple[int, ...], device: torch.device) -> Iterator[tuple[str, Measure]]:
    for length in lengths:
        for dtype in (torch.bfloat16, torch.float32):
            for causal in (False, True):
                what = f"{length:,} tokens, {name_of(dtype)}{', causal' * causal}"
                yield what, partial(times, length, dtype, causal, device)


def rows_of_weights(device: torch.device) -> Iterator[tuple[str, Measure]]:
    for kernel in KERNELS:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for causal in (False, True):
                what = f"{kernel.name.lower()}, {name_of(dtype)}{', causal' * causal}"
                yield what, partial(weights, kernel, dtype, causal, device)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", metavar="NAME", help="cpu, cuda, cuda:1 [default: a GPU if any]")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="N", help=f"for all [default: {SECONDS:g}]")
    parser.add_argument("--lengths", type=int, nargs="+", metavar="N", help="tokens of 1.")
    parser.add_argument("--longest", type=int, metavar="N", help="tokens of 2.")
    given = parser.parse_args()
    device = resolve_device(given.device)
    lengths = given.lengths or LENGTHS.get(device.type, LENGTHS["cpu"])
    longest = given.longest or LONGEST.get(device.type, LONGEST["cpu"])
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device}, {platform.machine()}"
    print(f"{name}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    sections = (
        Section("1. Maps beside the fused kernel", TIMES, rows_of_times(lengths, device)),
        Section(f"2. Maps of {longest:,} tokens", TIMES, rows_of_times((longest,), device)),
        Section("3. Recorded weights beside float64", WEIGHTS, rows_of_weights(device)),
    )
    missing: dict[str, list[str]] = {}
    for section in sections:
        for what, why in section.print(given.seconds / len(sections)):
            missing.setdefault(why, []).append(what)
    print("\nNot run:" if missing else "\nEverything was run.")
    for why, rows in missing.items():
        print(f"- {'; '.join(rows)}: {why}")


if __name__ == "__main__":
    main()
