"""Comparison of five implementations of the same attention: time, memory and difference from the exact result.

    Q = X Wq,  K = X Wk,  V = X Wv        each head reads its own d_key = d_model / n_heads features of these
    A = softmax(Q Kᵀ / √d_key),  H = A V  for each head
    O = concat(H₁ … H_n) Wo

Each takes the weights of one layer and an input X, (1, N, d_model), and returns the same output O, (1, N, d_model).
Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2.
"""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from mhaviz.analyses.benchmark import Bench, OnProgress, check_lengths, measure
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.results.implementations import Implementation, ImplementationComparison

REFERENCE = "torch.nn.MultiheadAttention in float64, on the CPU"

_LONGEST_COMPARED = 2**14
"""Largest number of tokens that is compared in float64, as more take minutes."""


def loop_over_queries_and_keys(layer: MultiHeadAttention, X: Tensor) -> Tensor:
    """hᵢ = Σⱼ aᵢⱼ vⱼ with aᵢ = softmax(qᵢ·k₁/√d_key … qᵢ·k_N/√d_key): for each head and query, one key at a time."""
    Q, K, V = layer.project(X, X, X)  # 1 n_heads N d_key
    heads = []
    for q_head, k_head, v_head in zip(Q[0], K[0], V[0], strict=True):
        rows = []
        for q in q_head:
            scores = torch.stack([q @ k for k in k_head]) / math.sqrt(layer.d_key)  # N
            h = torch.zeros_like(q)  # d_key
            for a, v in zip(torch.softmax(scores, dim=0), v_head, strict=True):
                h += a * v
            rows.append(h)
        heads.append(torch.stack(rows))  # N d_key
    O: Tensor = layer.Wo(torch.cat(heads, dim=1))  # N d_model
    return O[None]


def loop_over_heads(layer: MultiHeadAttention, X: Tensor) -> Tensor:
    """H = softmax(Q Kᵀ / √d_key) V, one head at a time, so that only the weights of one head are in memory."""
    Q, K, V = layer.project(X, X, X)  # 1 n_heads N d_key
    heads = []
    for q, k, v in zip(Q[0], K[0], V[0], strict=True):
        A = torch.softmax(q @ k.T / math.sqrt(layer.d_key), dim=1)  # N N
        heads.append(A @ v)  # N d_key
    O: Tensor = layer.Wo(torch.cat(heads, dim=1))  # N d_model
    return O[None]


def mhaviz_layer(layer: MultiHeadAttention, X: Tensor) -> Tensor:
    """H = softmax(Q Kᵀ / √d_key) V, all heads at once; see ``mhaviz.layer.attention``."""
    O: Tensor = layer(X, X, X)[0]  # [1]: the weights, 1 n_heads N N
    return O


def torch_layer(layer: nn.MultiheadAttention, X: Tensor) -> Tensor:
    """PyTorch's own layer, which also returns the weights of each head. ``layer``: see ``torch_twin``."""
    O: Tensor = layer(X, X, X, need_weights=True, average_attn_weights=False)[0]
    return O


def fused_kernel(layer: MultiHeadAttention, X: Tensor) -> Tensor:
    """PyTorch's fused kernel, which goes over the keys in blocks and never stores the weights.

    Dao et al. 2022, "FlashAttention", arXiv 2205.14135; PyTorch chooses among several kernels.
    """
    Q, K, V = layer.project(X, X, X)  # 1 n_heads N d_key
    H = functional.scaled_dot_product_attention(Q, K, V)  # 1 n_heads N d_key
    O: Tensor = layer.Wo(H.transpose(1, 2).flatten(2))  # 1 N d_model
    return O


def torch_twin(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return an ``nn.MultiheadAttention`` with the same weights; it stores Wq, Wk and Wv as one matrix."""
    with torch.device("meta"):  # no random weights are drawn
        twin = nn.MultiheadAttention(layer.d_model, layer.n_heads, batch_first=True)
    parts = (layer.Wq, layer.Wk, layer.Wv)
    weights = {f"in_proj_{name}": torch.cat([getattr(W, name) for W in parts]).detach() for name in ("weight", "bias")}
    weights |= {f"out_proj.{name}": weight for name, weight in layer.Wo.state_dict().items()}
    twin.load_state_dict(weights, assign=True)
    return twin.train(layer.training)


class FromLayer(NamedTuple):
    """One implementation of attention.

    Attributes:
        name: name in tables and plots.
        code: short summary of its code.
        of: returns the function from X to O for a layer. Preparations, such as copies of the weights, are not measured.
        gives_weights: whether it returns the weights, not only the output.
    """

    name: str
    code: str
    of: Callable[[MultiHeadAttention], Callable[[Tensor], Tensor]]
    gives_weights: bool = True


IMPLEMENTATIONS = (
    FromLayer("nested loops", "for head, for query, for key", lambda a: partial(loop_over_queries_and_keys, a)),
    FromLayer("loop over heads", "for head: softmax(q @ k.T / √d_key) @ v", lambda a: partial(loop_over_heads, a)),
    FromLayer("mhaviz's layer", "mhaviz.MultiHeadAttention", lambda a: partial(mhaviz_layer, a)),
    FromLayer("PyTorch's layer", "torch.nn.MultiheadAttention", lambda a: partial(torch_layer, torch_twin(a))),
    FromLayer("fused kernel", "F.scaled_dot_product_attention", lambda a: partial(fused_kernel, a), False),
)
"""Implementations, from the simplest to the fastest."""


@torch.no_grad()
def compare_implementations(
    bench: Bench, lengths: Sequence[int], on_progress: OnProgress = lambda done, what: None
) -> ImplementationComparison:
    """Run all implementations on the same input with the same weights, at each length that finishes in time.

    Args:
        bench, lengths, on_progress: as in ``measure_complexity``.

    Raises:
        ArgumentError: invalid lengths.
    """
    rising = check_lengths(lengths)
    functions = {one.name: one.of(bench.layer) for one in IMPLEMENTATIONS}

    def works_at(length: int) -> dict[str, Callable[[], Tensor]]:
        X = bench.input(length)
        return {name: partial(function, X) for name, function in functions.items()}

    timings = measure(works_at, rising, bench.device, on_progress)
    exact = torch_twin(deepcopy(bench.layer).cpu().double()).train()  # the fast path of eval keeps all weights
    differences: dict[str, list[float | None]] = {name: [] for name in functions}
    for number, length in enumerate(rising):
        ran = [name for name in functions if not timings[name][number].skipped and length <= _LONGEST_COMPARED]
        if ran:
            X = bench.input(length)
            expected, _ = exact(*[X.cpu().double()] * 3, need_weights=False)
        for name, function in functions.items():
            off = (function(X).cpu().double() - expected).abs().max().item() if name in ran else None
            differences[name].append(off)
    first = timings[IMPLEMENTATIONS[0].name]
    implementations = tuple(
        Implementation(
            one.name,
            one.code,
            one.gives_weights,
            tuple(timings[one.name]),
            tuple(differences[one.name]),
            tuple(
                slow.seconds / own.seconds if slow.seconds and own.seconds else None
                for slow, own in zip(first, timings[one.name], strict=True)
            ),
        )
        for one in IMPLEMENTATIONS
    )
    return ImplementationComparison(bench.source, rising, implementations, REFERENCE)
