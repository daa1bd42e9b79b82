"""Share of the attention of each head that a cache keeps when it holds fewer keys, by policies that choose these."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.head_numbers import HeadTable
from mhaviz.results.result import Source

Policy = Literal["columns", "rows", "window", "h2o", "snapkv"]
"""Which keys are kept for a query; ``mhaviz.analyses.cache_policies`` defines them.

"rows": the query's largest weights, of the sum over the heads that share keys; "columns": the best fixed set, chosen
with hindsight; "window": the first four and the last; "h2o": recent keys and heavy hitters (Zhang et al. 2023, arXiv
2306.14048); "snapkv": what the end of a prompt looks at (Li et al. 2024, arXiv 2404.14469).

No policy keeps more than "rows" of the sum of the weights of heads that share keys. Of a single one of these heads it
may, and also in the mean of their shares where a sink takes more of one head than of another.
"""

POLICY_NAMES: tuple[Policy, ...] = get_args(Policy)
"""All policies, in order."""

WITH_HINDSIGHT: tuple[Policy, ...] = ("columns", "rows")
"""Policies that look at weights of later queries, or at all weights of a query, which no cache can."""

REREADING: tuple[Policy, ...] = ("snapkv",)
"""Policies that read a whole prompt again each time they choose keys, so that a key that was evicted may return. They
compress a prompt that has just been read. What a cache has evicted while it wrote, it cannot read again."""


@dataclass(frozen=True)
class CacheBudget(HeadTable):
    """Share of the attention that is kept when each head may see ``k`` keys, or the heads that share keys ``k`` in all.

    A share is Σ kept / Σ all over the weights of the measured queries, which are the same for all budgets: those after
    as many tokens as the largest budget. Of a head without a sink it is the mean over these queries, as their weights
    sum to 1. Shares are averaged over texts. They measure mass, and not quality: a small weight may be on a value that
    decides the next token.

    Attributes:
        policies: the policies.
        budgets: numbers of keys, increasing.
        layers: number of the layer of each row.
        share: for each policy, float64, (n_budgets, n_layers, n_heads), mean over the texts; NaN for heads that a layer
            lacks because another layer has more, and for those whose sink takes all weight.
        spread: in the same shape, standard deviation between the texts; NaN for fewer than two.
        groups: number of heads that share keys, in each layer.
        lengths: number of tokens of each text, as read.
    """

    source: Source
    policies: tuple[Policy, ...]
    budgets: tuple[int, ...]
    layers: tuple[int, ...]
    share: Mapping[Policy, NDArray[np.float64]]
    spread: Mapping[Policy, NDArray[np.float64]]
    groups: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def queries(self) -> int:
        """Number of measured queries, in all texts."""
        return sum(length - self.budgets[-1] for length in self.lengths)

    def heads(self) -> Iterator[tuple[int, int]]:
        """Iterate over (row, column) of each head that there is, layer by layer."""
        first = self.share[self.policies[0]][0]
        for row, column in np.argwhere(np.isfinite(first)):
            yield int(row), int(column)

    def mean(self, policy: Policy) -> NDArray[np.float64]:
        """Return the mean share over all heads at each budget, (n_budgets,)."""
        return np.asarray(np.nanmean(self.share[policy], axis=(1, 2)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """See ``HeadTable.rows``: one for each head, policy and budget."""
        for row, column in self.heads():
            for policy in self.policies:
                for number, budget in enumerate(self.budgets):
                    yield {
                        "layer": self.layers[row],
                        "head": column,
                        "policy": policy,
                        "budget": budget,
                        "share": self.share[policy][number, row, column].item(),
                        "spread": self.spread[policy][number, row, column].item(),
                    }

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        return super().to_dict() | {"queries": self.queries}
