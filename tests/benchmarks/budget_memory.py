"""Time and memory of mhaviz budget: python tests/benchmarks/budget_memory.py [--length N]

One layer of 32 heads in 8 groups, d_key 64, float32, random queries and keys, two threads; budgets of 64, 256 and 1,024
keys, all policies in one pass. Memory is the peak above what is held before: Python, PyTorch, queries and keys.
"""

import argparse
import resource
import time

import torch

from mhaviz.analyses.cache_budget import BudgetStudy
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Site, SiteCall
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.cache_budget import POLICY_NAMES

HEADS, GROUPS, D_KEY, BUDGETS = 32, 8, 64, (64, 256, 1024)


def study(query: torch.Tensor, key: torch.Tensor) -> None:
    """Find what each policy keeps."""
    tokens = (Tokens(("",) * query.shape[2]),)
    call = AttentionCall(query, key, key, D_KEY**-0.5, causal=True)
    BudgetStudy(BUDGETS, POLICY_NAMES).add(
        SiteCall(Site("masked", 0, HEADS, D_KEY), call, tuple(range(HEADS)), tokens, tokens)
    )


def peak() -> float:
    """The largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=32_768, metavar="N", help="tokens [default: 32768]")
    length = parser.parse_args().length
    torch.set_num_threads(2)
    query, key = torch.randn(1, HEADS, length, D_KEY), torch.randn(1, GROUPS, length, D_KEY)
    study(query[:, :, :1100], key[:, :, :1100])  # what libraries load on first use
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    study(query, key)
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{length:,} tokens: {took:.0f} s, {cpu:.0f} s of processor time, {peak() - before:.0f} MiB above the inputs")
