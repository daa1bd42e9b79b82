"""Share of the attention that a smaller key-value cache keeps, block by block, so that no N × N weights are held."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.cache_policies import POLICIES, Block, Kept
from mhaviz.analyses.sums import Sums, stacked
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import SiteCall
from mhaviz.devices import FreeCores
from mhaviz.errors import MhavizError
from mhaviz.results.cache_budget import CacheBudget, Policy
from mhaviz.results.result import Source

_AT_ONCE = 2**25
"""Most weights of a block of queries, of all heads: 128 MiB. The policies take about three times as much beside."""

_MOST_QUERIES = 512
"""Most queries of a block: few of the weights that a causal mask hides are computed."""


class BudgetStudy:
    """Running means over texts of what each policy keeps of each head.

    Args:
        budgets: numbers of keys, increasing.
        policies: the policies.
    """

    def __init__(self, budgets: Sequence[int], policies: Sequence[Policy]) -> None:
        self._budgets, self._policies = tuple(budgets), tuple(policies)
        self._sums: dict[int, Sums] = {}
        self._groups: dict[int, int] = {}
        self._lengths: list[int] = []

    def begin(self, length: int) -> None:
        """Begin a text of so many tokens."""
        self._lengths.append(length)

    def add(self, seen: SiteCall, on_progress: Callable[[float], None] = lambda done: None) -> None:
        """Add the call of an attention for one text.

        Raises:
            MhavizError: the model shows its weights alone, or its queries see later keys, or keys of no query.
        """
        layer, call = seen.site.layer, _cached(seen)
        shares = _shares(call, seen.reach, self._budgets, self._policies, on_progress)
        shape = len(self._policies), len(self._budgets), call.shape[1]
        if layer not in self._sums:
            means = dict.fromkeys(("mean", "count", "deviations"), shape)
            self._sums[layer] = Sums(means)
            self._groups[layer] = call.group
        self._sums[layer].add_values(shares[None], np.isfinite(shares)[None])

    def result(self, source: Source) -> CacheBudget:
        """Return the means over all texts so far."""
        layers = sorted(self._sums)
        every = [self._sums[layer] for layer in layers]

        def by_policy(arrays: list[NDArray[np.float64]]) -> dict[Policy, NDArray[np.float64]]:
            whole = stacked([np.moveaxis(array, -1, 0) for array in arrays])  # layers heads policies budgets
            ordered = np.ascontiguousarray(whole.transpose(2, 3, 0, 1))
            return dict(zip(self._policies, ordered, strict=True))

        return CacheBudget(
            source,
            self._policies,
            self._budgets,
            tuple(layers),
            by_policy([sums.mean() for sums in every]),
            by_policy([sums.spread for sums in every]),
            tuple(self._groups[layer] for layer in layers),
            tuple(self._lengths),
        )


def _cached(seen: SiteCall) -> AttentionCall:
    """Return the call, of one text, as that of a cache. Raises MhavizError as ``BudgetStudy.add``."""
    call, layer = seen.with_inputs, seen.site.layer
    if not call.causal:
        raise MhavizError(
            f"layer {layer}: expected queries that see no later keys, as a cache has none, got queries that do"
        )
    if call.shape[2] != call.shape[3]:
        raise MhavizError(
            f"layer {layer}: expected a key of each query, got {call.shape[3]:,} keys of {call.shape[2]:,} queries; "
            f"leave out prefixes that are no tokens"
        )
    return call


@torch.no_grad()
def _shares(
    call: AttentionCall,
    reach: int | None,
    budgets: Sequence[int],
    policies: Sequence[Policy],
    on_progress: Callable[[float], None],
) -> NDArray[np.float64]:
    """Return the share that each policy keeps, (n_policies, n_budgets, n_heads).

    Args:
        call: call of one text, causal, with as many queries as keys.
        reach: see ``SiteCall``.
        budgets, policies: as in ``BudgetStudy``.
        on_progress: called with the share of the work that is done, from 0 to 1.
    """
    _, n_heads, length, _ = call.shape
    shape = n_heads // call.group, call.group, length
    kept: list[Kept] = [POLICIES[policy](budgets, shape) for policy in policies]
    whole, lost = np.zeros(shape[:2]), np.zeros((len(budgets), *shape[:2]))  # of measured queries, of losing ones
    start = 0
    with FreeCores(call.device) as cores:
        while start < length:
            block = _block(call, start, _end(start, length, n_heads), budgets, reach)
            rows = block.A.sum(dim=-1)  # n_kv_heads group queries
            whole += _total(rows[..., max(budgets[-1] - start, 0) :])
            for number, losing in enumerate(block.losing):
                lost[number] += _total(rows[..., losing])
            for policy_kept in kept:
                policy_kept.add(block)
            start += block.n_queries
            on_progress((start / length) ** 2)
            cores.look()
    for policy_kept in kept:
        policy_kept.finish()
    with np.errstate(invalid="ignore"):  # a sink may have taken all
        shares = (np.stack([policy_kept.mass for policy_kept in kept]) + (whole - lost)) / whole
    return shares.reshape(len(policies), len(budgets), n_heads)


def _total(weights: Tensor) -> NDArray[np.float64]:
    """Return the sums over queries of (n_kv_heads, group, queries)."""
    return np.asarray(weights.sum(dim=-1).cpu().double().numpy())


def _end(start: int, length: int, n_heads: int) -> int:
    """Return the end of the block of queries from ``start`` on, whose weights are as many as may be held at once."""
    most = _AT_ONCE // n_heads
    fitting = (math.isqrt(start**2 + 4 * most) - start) // 2  # queries · (start + queries) ≤ most
    return min(start + min(max(fitting, 1), _MOST_QUERIES), length)


def _block(call: AttentionCall, start: int, end: int, budgets: Sequence[int], reach: int | None) -> Block:
    """Return the weights of the queries from ``start`` to ``end`` on the keys before ``end``: they see no others."""
    part = call.rows(start, end)
    A = torch.unflatten(part.weights()[0], 0, (-1, call.group)).contiguous()
    positions = torch.arange(start, end, device=call.device)
    n_seen = positions + 1
    if part.mask is not None:
        visible = part.visible()
        assert visible is not None
        n_seen = visible.expand(-1, -1, end - start, end).sum(dim=-1).amax(dim=(0, 1))  # in the head that sees most
    losing = tuple((positions >= budgets[-1]) & (n_seen > k) for k in budgets)
    return Block(A, start, losing, reach, call.has_sink)
