"""Policies of a key-value cache: which keys a query may see when the cache holds k of them, and what it then keeps.

Every policy keeps a set of at most k keys for each query, its own key among them or not, and the share of the query's
unchanged weights on that set is kept. Heads that share keys and values share the set (Ainslie et al. 2023, arXiv
2305.13245): a policy decides by the sum of their weights. A query that sees no more than k keys keeps them all.

All budgets are measured on the same queries, those after as many tokens as the largest budget. The queries before lose
nothing to it, and smaller budgets measured on more queries could not be compared with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.attention.blocks import strongest
from mhaviz.results.cache_budget import Policy

SINKS = 4
"""Sinks of the window: four suffice in Xiao et al. 2023 (arXiv 2309.17453, section 3.2 and table 2)."""

KERNEL = 5
"""Neighbouring keys over which SnapKV averages votes: the default of its authors' code."""

OBSERVATION = 32
"""Most queries at the end of a prompt that vote in SnapKV: the default of its authors' code."""

_NEW_OF_BUDGET = 4  # one of so many places of a budget is for the tokens after SnapKV's prompt


@dataclass(frozen=True)
class Block:
    """Weights of consecutive queries of one text.

    Attributes:
        A: (n_kv_heads, group, queries, keys), contiguous. A head's number is kv_head · group + place in the group. The
            last key is that of the last query.
        start: position of the first query, and of its own key.
        losing: for each budget k bool, (queries,): those of the measured queries that see more than k keys.
        reach: largest distance, in positions, of a key that a query sees; None: any.
        has_sink: whether rows may sum to less than 1.
    """

    A: Tensor
    start: int
    losing: tuple[Tensor, ...]
    reach: int | None = None
    has_sink: bool = False

    @cached_property
    def shared(self) -> Tensor:
        """Sums of the weights of the heads that share keys, (n_kv_heads, queries, keys)."""
        return self.A[:, 0] if self.A.shape[1] == 1 else self.A.sum(dim=1)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.A.shape[2]


class Kept(ABC):
    """What a policy keeps of the weights of all queries that lose some, at each budget, block by block.

    Args:
        budgets: numbers of keys, increasing; the last is the position of the first measured query.
        shape: (n_kv_heads, group, keys) of the whole text.

    Attributes:
        mass: float64, (n_budgets, n_kv_heads, group), sums over these queries of their kept weights.
    """

    def __init__(self, budgets: Sequence[int], shape: tuple[int, int, int]) -> None:
        self.budgets, self.shape = tuple(budgets), shape
        self.mass = np.zeros((len(self.budgets), *shape[:2]))

    @abstractmethod
    def add(self, block: Block) -> None:
        """Add the next block of queries."""

    def finish(self) -> None:  # noqa: B027 (most policies have nothing left to do)
        """Add what is known only after the last query."""

    def _count(self, number: int, kept: Tensor, losing: Tensor) -> None:
        """Add the kept weights of queries, (n_kv_heads, group, queries), of those that are ``losing``."""
        self.mass[number] += kept[..., losing].sum(dim=-1).cpu().double().numpy()


class Rows(Kept):
    """For each query the k keys with its largest weights, summed over the heads that share a set: no policy keeps more
    of that sum, though of one of these heads it may. It needs all keys to choose, so it saves nothing: it is a bound.
    """

    def add(self, block: Block) -> None:
        """See ``Kept.add``."""
        begin = max(self.budgets[-1] - block.start, 0)
        if begin >= block.n_queries:
            return
        A = block.A[:, :, begin:]
        top, places = strongest(block.shared[:, begin:], self.budgets[-1])  # n_kv_heads queries k, the largest first
        weights = top[:, None] if A.shape[1] == 1 else A.gather(-1, places[:, None].expand(-1, A.shape[1], -1, -1))
        for number, (k, losing) in enumerate(zip(self.budgets, block.losing, strict=True)):
            self._count(number, weights[..., :k].sum(dim=-1), losing[begin:])


class Columns(Kept):
    """For all queries alike the k keys that get the largest sums of weights from the queries that lose some.

    A query's weight on later keys is 0, so a sum is over the queries that can see the key, and is no mean over them:
    no other fixed set of k keys keeps more. It is chosen with hindsight, after the last query.
    """

    def __init__(self, budgets: Sequence[int], shape: tuple[int, int, int]) -> None:
        super().__init__(budgets, shape)
        self.sums = np.zeros((len(self.budgets), *shape))

    def add(self, block: Block) -> None:
        """See ``Kept.add``."""
        n_keys, of_all = block.A.shape[3], None
        for sums, losing in zip(self.sums, block.losing, strict=True):
            if bool(losing.all()):
                of_all = block.A.sum(dim=2).cpu().double().numpy() if of_all is None else of_all
                sums[..., :n_keys] += of_all
            elif bool(losing.any()):
                sums[..., :n_keys] += block.A[:, :, losing].sum(dim=2).cpu().double().numpy()

    def finish(self) -> None:
        """Choose the keys."""
        for number, k in enumerate(self.budgets):
            sums = self.sums[number]
            chosen = np.argsort(-sums.sum(axis=1), axis=-1, kind="stable")[:, :k]  # n_kv_heads k
            self.mass[number] = np.take_along_axis(sums, chosen[:, None], axis=-1).sum(axis=-1)


class Window(Kept):
    """The first 4 keys and the last k − 4 up to the query's own: StreamingLLM (Xiao et al. 2023, arXiv 2309.17453,
    section 3.2). Of a budget below 8, the first are half of it."""

    def add(self, block: Block) -> None:
        """See ``Kept.add``."""
        A, n_keys = block.A, block.A.shape[3]
        before = max(self.budgets[-1] - block.start, 0)  # queries that are not measured, and may see fewer keys
        for number, (k, losing) in enumerate(zip(self.budgets, block.losing, strict=True)):
            if not bool(losing.any()):
                continue
            sinks = min(SINKS, k // 2)
            width = k - sinks
            # The last keys of the next query are those of this one, moved by one: a view along the diagonal.
            size = (*A.shape[:2], block.n_queries - before, width)
            strides = (*A.stride()[:2], n_keys + 1, 1)
            first = A.storage_offset() + before * n_keys + block.start + before - width + 1
            recent = A.as_strided(size, strides, first).sum(dim=-1)
            self._count(number, recent + A[:, :, before:, :sinks].sum(dim=-1), losing[before:])


class HeavyHitters(Kept):
    """H2O: half of the budget for the most recent keys, the query's own among them, half for heavy hitters.

    Algorithm 1 of Zhang et al. 2023 (arXiv 2306.14048, section 4.1), read from the first token on: where the cache is
    full, one key is evicted before the next token's enters. The key that has just become too old to be recent, and the
    heavy hitters, are compared by their scores, sums of the weights that all queries since their entry gave them. As in
    the algorithm, a query's weights are a softmax over the keys in the cache alone: its unchanged weights, divided by
    their sum. The lowest score is evicted, of equal ones that of a heavy hitter. What was evicted never returns. A
    budget that is odd has one more recent key. Keys outside the model's sliding window are evicted first.
    """

    def __init__(self, budgets: Sequence[int], shape: tuple[int, int, int]) -> None:
        super().__init__(budgets, shape)
        self._caches = [_HeavyCache(k, *shape) for k in self.budgets]

    def add(self, block: Block) -> None:
        """See ``Kept.add``."""
        A = block.A.cpu().numpy()
        lost = 1 - A.sum(axis=-1, dtype=np.float64) if block.has_sink else np.zeros(A.shape[:3])
        for number, (cache, losing) in enumerate(zip(self._caches, block.losing, strict=True)):
            kept = cache.add(A, block.start, lost, block.reach)
            self.mass[number] += kept[..., losing.cpu().numpy()].sum(axis=-1)


class _HeavyCache:
    """The cache of H2O with ``k`` keys for each kv head.

    Attributes:
        recent: number of recent keys.
        heavy: int64, (n_kv_heads, k − recent), positions of the heavy hitters.
        heavy_scores: float64, in the shape of ``heavy``.
        scores: float64, (n_kv_heads, keys), scores of keys that are, or were last, recent.
    """

    def __init__(self, k: int, n_kv_heads: int, group: int, n_keys: int) -> None:
        self.k, self.recent = k, (k + 1) // 2
        self.heavy = np.tile(np.arange(k - self.recent), (n_kv_heads, 1))
        self.heavy_scores = np.zeros(self.heavy.shape)
        self.scores = np.zeros((n_kv_heads, n_keys))

    def add(
        self, A: NDArray[np.floating], start: int, lost: NDArray[np.float64], reach: int | None
    ) -> NDArray[np.float64]:
        """Read a block of queries, and return the weights that are kept, float64, (n_kv_heads, group, queries).

        Args:
            A, start, reach: as in ``Block``.
            lost: (n_kv_heads, group, queries), what a sink that is no key takes of a query's weight.
        """
        n_kv_heads, group, n_queries, n_keys = A.shape
        full_from = min(max(self.k - start, 0), n_queries)
        kept: NDArray[np.float64] = A[:, :, :full_from].sum(axis=-1, dtype=np.float64)
        whole = np.maximum(kept + lost[:, :, :full_from], np.finfo(np.float64).tiny)
        self.scores[:, :n_keys] += np.einsum("ghqk,ghq->gk", A[:, :, :full_from], 1 / whole)
        if full_from == n_queries:
            return kept
        if start + full_from == self.k:
            self.heavy_scores[:] = self.scores[:, : self.heavy.shape[1]]
        kv_heads, flat = np.arange(n_kv_heads), A.reshape(-1)
        head_starts = np.arange(n_kv_heads * group).reshape(n_kv_heads, group, 1) * (n_queries * n_keys)
        rest = np.empty((n_kv_heads, group, n_queries - full_from))
        for query in range(full_from, n_queries):
            position = start + query
            first = position - self.recent + 1  # of the recent keys
            if self.heavy.shape[1]:
                if reach is not None:
                    self.heavy_scores[self.heavy < position - reach] = -np.inf
                lowest = self.heavy_scores.argmin(axis=1)
                aged = self.scores[:, first - 1]
                stays = aged >= self.heavy_scores[kv_heads, lowest]
                which, where = kv_heads[stays], lowest[stays]
                self.heavy[which, where] = first - 1
                self.heavy_scores[which, where] = aged[stays]
            of_heavy = flat.take(self.heavy[:, None] + (head_starts + query * n_keys))  # n_kv_heads group heavy
            of_recent = A[:, :, query, first : position + 1]
            sums = of_heavy.sum(axis=-1, dtype=np.float64) + of_recent.sum(axis=-1, dtype=np.float64)
            share = 1 / np.maximum(sums + lost[:, :, query], np.finfo(np.float64).tiny)
            self.heavy_scores += (of_heavy * share[..., None]).sum(axis=1)
            self.scores[:, first : position + 1] += (of_recent * share[..., None]).sum(axis=1)
            rest[..., query - full_from] = sums
        return np.concatenate([kept, rest], axis=-1)


class Snap(Kept):
    """SnapKV: the last queries of a prompt vote for its keys, and later queries see what they chose.

    Li et al. 2024 (arXiv 2404.14469, section 4) compress the cache of a prompt once, and keep all keys that follow. So
    that no cache holds more than k keys, a quarter of the budget is for the tokens after the prompt, and the prompt
    keeps 3/4 · k keys: those of its last 32 queries (of no more than a quarter of the budget), and of the keys before
    these the ones with the most votes, which are the sums of the weights that these queries give them, averaged over 5
    neighbouring keys. Each text is cut every k / 4 tokens, from the kth on: what is before is a prompt, and the k / 4
    queries after it are measured, so that every measured query comes after the votes. Each prompt is measured as if
    it had just been read: votes are for all keys before, also for those that the vote before has left out. So it is
    SnapKV of a prompt of each length, and no cache that holds k keys all along, as that of H2O is. The defaults, and
    the average in place of a maximum, are those of the authors' code.
    """

    def __init__(self, budgets: Sequence[int], shape: tuple[int, int, int]) -> None:
        super().__init__(budgets, shape)
        self._caches = [_SnapCache(k, shape, self.budgets[-1]) for k in self.budgets]

    def add(self, block: Block) -> None:
        """See ``Kept.add``."""
        A, shared = block.A.cpu().numpy(), block.shared.cpu().numpy()
        for number, (cache, losing) in enumerate(zip(self._caches, block.losing, strict=True)):
            counts = losing.cpu().numpy()
            for queries, kept in cache.add(A, shared, block.start):
                self.mass[number] += kept[..., counts[queries]].sum(axis=-1)


class _SnapCache:
    """The cache of SnapKV with ``k`` keys for each kv head, after one prompt after the other.

    Args:
        k: number of keys.
        shape: as in ``Kept``.
        first: position of the first query that is measured.

    Attributes:
        new: number of tokens after each prompt.
        observed: number of queries at its end that vote, whose keys are kept.
        chosen: number of keys that they choose.
        keys: int64, (n_kv_heads, chosen), positions of the keys chosen of the last prompt.
        votes: float64, (n_kv_heads, keys), for those of the next.
    """

    def __init__(self, k: int, shape: tuple[int, int, int], first: int) -> None:
        n_kv_heads, _, n_keys = shape
        self.k, self.first, self.new = k, first, max(k // _NEW_OF_BUDGET, 1)
        self.observed = min(OBSERVATION, self.new, k - self.new)
        self.chosen = k - self.new - self.observed
        self.keys = np.zeros((n_kv_heads, self.chosen), np.int64)
        self.votes = np.zeros((n_kv_heads, n_keys))

    def add(
        self, A: NDArray[np.floating], shared: NDArray[np.floating], start: int
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Read a block; yield runs of its queries, and the weights that they keep, (n_kv_heads, group, queries).

        Args:
            A, shared, start: as in ``Block``.
        """
        n_kv_heads, group, n_queries, _ = A.shape
        place, end = start, start + n_queries
        while place < end:
            prompt = self.k if place < self.k else place + self.new - (place - self.k) % self.new  # the next one's end
            until = min(prompt, end)
            queries = slice(place - start, until - start)
            if until > self.first:
                tail = A[:, :, queries, prompt - self.new - self.observed :].sum(axis=-1, dtype=np.float64)
                keys = np.broadcast_to(self.keys[:, None, None], (n_kv_heads, group, until - place, self.chosen))
                tail += np.take_along_axis(A[:, :, queries], keys, -1).sum(axis=-1, dtype=np.float64)
                yield queries, tail
            before = prompt - self.observed  # position of the first query that votes
            if until > before and prompt + self.new > self.first:
                voting = slice(max(place, before) - start, until - start)
                self.votes[:, :before] += shared[:, voting, :before].sum(axis=1)
                if until == prompt and self.chosen:
                    self.keys = _elected(self.votes[:, :before], self.chosen)
                    self.votes[:] = 0
            place = until


def _elected(votes: NDArray[np.float64], number: int) -> NDArray[np.int64]:
    """Return the places of the most votes, (n_kv_heads, number), after averaging over ``KERNEL`` neighbours."""
    around = KERNEL // 2
    padded = np.pad(votes, ((0, 0), (around, around)))
    pooled = sum(padded[:, shift : shift + votes.shape[1]] for shift in range(KERNEL))  # in place of the mean
    return np.argpartition(-np.asarray(pooled), number - 1, axis=-1)[:, :number]


POLICIES: Mapping[Policy, type[Kept]] = {
    "columns": Columns,
    "rows": Rows,
    "window": Window,
    "h2o": HeavyHitters,
    "snapkv": Snap,
}
"""What each policy keeps."""
