"""Time and memory of MultiHeadAttention, beside torch.nn.MultiheadAttention that returns its weights for every head.

Same weights and inputs, self-attention, eval mode, no gradients, on the CPU with as many threads as torch picks. The
peer runs twice: with its native fast path, and with that switched off. Before anything is timed, output and weights of
all three must agree to 1e-5.

Time: they take turns in one process. The target is 1.05x of the peer's.

Peak memory: what the process holds above inputs and modules, the output and the weights included. Each figure comes
from a fresh process that first runs the layer on 8 tokens, which starts threads and loads kernels, then resets the
high-water mark of its resident memory (VmHWM) through /proc/self/clear_refs, and reads it after one forward. Large
blocks are mapped one by one there (MALLOC_MMAP_THRESHOLD_), without which holes in the heap decide the figure: so it
is within a few MiB of what torch allocates, and differs by a tenth of a MiB from run to run. At most three rounds
are therefore run, whatever --repeat says. It needs Linux with glibc. The target is no more than the peer's, 1x.
"""

from collections.abc import Callable
from functools import partial

import torch
from measure import Row, in_fresh_process, parse_repeat, peak_memory, print_table, time_functions
from torch import Tensor, nn

from mhaviz import MultiHeadAttention

TIME_TARGET, MEMORY_TARGET = 1.05, 1.0
D_MODEL, N_HEADS = 512, 8
SHAPES = ((8, 512, D_MODEL), (1, 4096, D_MODEL))
MOST_MEMORY_ROUNDS = 3

OURS, FAST, PLAIN = "mhaviz", "torch's fast path", "torch without its fast path"
Forward = Callable[[Tensor], tuple[Tensor, Tensor]]


def same_layers() -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Both with the same weights, and with biases that are not zero."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D_MODEL, N_HEADS).eval()
    theirs = nn.MultiheadAttention(D_MODEL, N_HEADS, batch_first=True).eval()
    for projection in (ours.Wq, ours.Wk, ours.Wv, ours.Wo):
        nn.init.normal_(projection.bias)
    inputs = (ours.Wq, ours.Wk, ours.Wv)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([projection.weight for projection in inputs]),
            "in_proj_bias": torch.cat([projection.bias for projection in inputs]),
            "out_proj.weight": ours.Wo.weight,
            "out_proj.bias": ours.Wo.bias,
        }
    )
    return ours, theirs


def forwards() -> dict[str, Forward]:
    """The three ways to compute the same."""
    ours, theirs = same_layers()

    def with_torch(x: Tensor, fast: bool) -> tuple[Tensor, Tensor]:
        torch.backends.mha.set_fastpath_enabled(fast)
        output, weights = theirs(x, x, x, need_weights=True, average_attn_weights=False)
        return output, weights

    return {OURS: lambda x: ours(x, x, x), FAST: partial(with_torch, fast=True), PLAIN: partial(with_torch, fast=False)}


def check_equal(ways: dict[str, Forward], x: Tensor) -> None:
    expected = ways[OURS](x)
    for name in (FAST, PLAIN):
        torch.testing.assert_close(ways[name](x), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def measure_times(shape: tuple[int, ...], repeat: int) -> dict[str, list[float]]:
    ways, x = forwards(), torch.randn(shape)
    check_equal(ways, x)
    return dict(zip(ways, time_functions([partial(way, x) for way in ways.values()], repeat), strict=True))


@torch.no_grad()
def measure_memory(name: str, shape: tuple[int, ...]) -> float:
    """Called in a fresh process."""
    way, x = forwards()[name], torch.randn(shape)
    way(torch.randn(1, 8, D_MODEL))
    return peak_memory(partial(way, x))


def measure_memories(shape: tuple[int, ...], repeat: int) -> dict[str, list[float]]:
    rounds: dict[str, list[float]] = {OURS: [], FAST: [], PLAIN: []}
    for _ in range(repeat):
        for name, figures in rounds.items():
            figures.append(in_fresh_process(measure_memory, name, shape))
    return rounds


def main() -> None:
    repeat = parse_repeat(__doc__, default=15)
    rows: list[Row] = []
    for shape in SHAPES:
        times = measure_times(shape, repeat)
        memories = measure_memories(shape, min(repeat, MOST_MEMORY_ROUNDS))
        for peer in (FAST, PLAIN):
            rows.append(Row(f"time, {shape}; peer: {peer}", times[OURS], times[peer], TIME_TARGET))
            what = f"peak memory, {shape}; peer: {peer}"
            rows.append(Row(what, memories[OURS], memories[peer], MEMORY_TARGET, "MiB"))
    print_table(rows)


if __name__ == "__main__":
    main()
