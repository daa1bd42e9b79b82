"""Computes one head of a map, a block of queries at a time: the weights in each tile of keys, pooled to cells.

What share of a query's weight lies in each tile is known when its last tile is done, from the logarithm of each tile's
sum of exponentials: softmax over all keys = softmax over tiles of these logarithms × softmax within the tile (Milakov
and Gimelshein 2018, arXiv 1805.02867).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, cap_and_mask
from mhaviz.attention.pooled_map import Pooling
from mhaviz.attention.reducer import CellReducer
from mhaviz.attention.tiles import Tile

_TOPK_SORTS_PARTLY = 64  # of k times as many numbers or more, PyTorch's topk takes less time than of fewer
HIDDEN = -3e38  # as good as −∞ in a softmax, and 0 times it is 0 where 0 · −∞ would be NaN


@dataclass(frozen=True)
class BlockSums:
    """The sums of a block of queries for the map, or of one tile as if there were no other keys; None: not wanted.

    Attributes:
        cell: the number of the first cell in ``mass`` and ``largest``.
        mass, largest: (rows of cells, cells); of a tile among others, (queries, cells).
        entropy, local, totals: (queries,).
        top_weights, top_keys: (queries, up to k).
        received: positions of keys, and what they get from all queries; of a tile among others, its weights.
    """

    cell: int = 0
    mass: Tensor | None = None
    largest: Tensor | None = None
    entropy: Tensor | None = None
    local: Tensor | None = None
    totals: Tensor | None = None
    top_weights: Tensor | None = None
    top_keys: Tensor | None = None
    received: Sequence[tuple[Tensor, Tensor]] = ()


class Workspace:
    """Memory that all blocks reuse: allocating it anew for each block takes longer than the computation.

    Attributes:
        device, dtype: of the computation.
        shade: HIDDEN above the diagonal and 0 below it, in the shape that was wanted last.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.shade = torch.empty(0, dtype=dtype, device=device)
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, size: int) -> Tensor:
        """So many numbers, (size,), which hold anything; what had this name before is written over."""
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = torch.empty(size, dtype=self.dtype, device=self.device)
        return self._held[name][:size]


class HeadBlocks:
    """The queries of a head, and its keys in tiles.

    Args:
        call: what the attention is called with.
        b, h: which sentence of the batch, and which head.
        tiles: of the keys.
        workspace: where to compute.
        wanted: what is asked.
        queries_at_once: the most that a block has.
    """

    def __init__(
        self,
        call: AttentionCall,
        b: int,
        h: int,
        tiles: Sequence[Tile],
        workspace: Workspace,
        wanted: Pooling,
        queries_at_once: int,
    ) -> None:
        self._query, self._key = call.query[b, h], call.key[b, h // call.group]  # length d_key
        self._scale, self._softcap = call.scale, call.softcap
        self._later = self._key.shape[0] - self._query.shape[0] if call.causal else None
        mask = call.mask
        self._mask = None if mask is None else mask[min(b, len(mask) - 1), min(h, mask.shape[1] - 1)]
        self._sink = None if call.sinks is None else call.sinks[h]
        self._tiles, self._workspace = tiles, workspace
        norms = None if call.value_norms is None else call.value_norms[b, h].to(workspace.dtype)
        self._norms = [None if norms is None else norms[tile.positions] for tile in tiles]
        self._wanted = wanted
        sizes = [len(tile) for tile in tiles]
        self._keeps = wanted.received and len(tiles) > 1
        room = sum(sizes) if self._keeps else max(sizes, default=0)
        self._weights = workspace.take("weights", queries_at_once * room)
        self._scores = workspace.take("scores", queries_at_once * max(sizes, default=0) * wanted.entropy)
        needs_no_copy = all(tile.is_gapless for tile in tiles) and self._key.dtype == workspace.dtype
        copied = 0 if needs_no_copy else max(sizes, default=0)
        self._copied = workspace.take("keys", copied * self._key.shape[1])

    def sums(self, start: int, end: int, rows: CellReducer) -> BlockSums | None:
        """Of the queries from ``start`` to ``end`` in these rows of cells; None if they see no key."""
        Q = self._query[start:end].to(self._workspace.dtype) * self._scale  # queries d_key
        tiles = zip(self._tiles, self._norms, strict=True)
        seen = [(tile, n) for tile, n in tiles if self._later is None or tile.first <= end - 1 + self._later]
        if len(seen) == 1 and self._sink is None:
            _, sums = self._of_tile(Q, *seen[0], start, 0, rows, alone=True)
            return sums
        used, lses, parts = 0, [], []
        for tile, norms in seen:
            lse, part = self._of_tile(Q, tile, norms, start, used, rows, alone=False)
            used += len(Q) * len(tile) if self._keeps else 0
            lses.append(lse)
            parts.append(part)
        return self._join(torch.stack(lses, dim=-1), parts, rows) if parts else None

    def _of_tile(
        self, Q: Tensor, tile: Tile, norms: Tensor | None, start: int, used: int, rows: CellReducer, alone: bool
    ) -> tuple[Tensor, BlockSums]:
        """What a tile gives to a block of queries; ``alone``: it is the only one that they see.

        ``norms``: of its keys' values, (keys,); None: weights are mapped.

        Also lse, (queries,): the logarithm of its sum of exponentials, −∞ for a query that sees none of its keys.
        """
        A, lse, entropy = self._softmax(Q, tile, start, used, alone)
        wanted, positions = self._wanted, tile.positions[: A.shape[1]]
        if norms is not None:
            A.mul_(norms[: A.shape[1]])
        top_weights, places = strongest(A, wanted.top_keys) if wanted.top_keys else (None, None)
        received = ((positions, A.sum(dim=0) if alone else A),) if wanted.received else ()
        is_overwritten = not alone and tile.cells.changes_nothing  # by the next tile
        own = A.clone() if is_overwritten else A
        return lse, BlockSums(
            tile.cell,
            tile.cells.sum(rows.sum(own, 0) if alone else own) if wanted.mass else None,
            tile.cells.largest(rows.largest(own, 0) if alone else own) if wanted.largest else None,
            entropy,
            self._local(A, positions, start) if wanted.local is not None else None,
            A.sum(dim=-1) if wanted.totals else None,
            top_weights,
            positions[places] if places is not None else None,
            received,
        )

    def _softmax(
        self, Q: Tensor, tile: Tile, start: int, used: int, alone: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The weights of a block of queries among a tile's keys alone, with their lse and their entropy.

        A (queries, keys), where a query that sees none of them has zeros. Where the tile is ``alone``, nobody needs
        the lse, and it is 0.
        """
        number = all_see = len(tile)
        blind = 0
        latest = tile.last if self._later is None else start + self._later  # key that the first query sees
        if tile.last > latest:
            all_see, blind = tile.number_up_to(latest), min(max(tile.first - latest, 0), len(Q))
            if tile.fillers is None:  # what none of them sees need not be computed
                number = tile.number_up_to(latest + len(Q) - 1)
        keys = tile.keys(self._key, number, self._copied)
        size = len(Q) * number
        A = self._weights[used : used + size].view(len(Q), number)
        S = self._scores[:size].view(A.shape) if self._wanted.entropy else A
        torch.mm(Q, keys.T, out=S)
        masked = self._mask is not None
        mask = self._mask_of(start, len(S), tile.positions[:number]) if masked else None
        cap_and_mask(S, self._softcap, mask, HIDDEN)
        if tile.fillers is not None:
            S.index_fill_(1, tile.fillers, HIDDEN)
        if all_see < number:
            self._hide(S[:, all_see:], tile.positions[all_see:number], latest, tile)
        highest = S.amax(dim=-1) if masked or self._wanted.entropy or not alone else Q.new_zeros(len(Q))
        hidden = highest <= HIDDEN / 2 if masked else None  # queries
        entropy = None
        if self._wanted.entropy:
            S -= highest[:, None]
            torch.softmax(S, dim=-1, out=A)
            # −Σ a log a with log a = s − lse, and lse = −log of the largest weight, whose score is now 0.
            entropy = -A.amax(dim=-1).log_() - S.mul_(A).sum(dim=-1)
            entropy[:blind] = 0.0
        else:
            torch.softmax(S, dim=-1, out=A)
        lse = highest if alone else highest - A.amax(dim=-1).log_()
        A[:blind], lse[:blind] = 0.0, -torch.inf
        if hidden is not None:
            A.masked_fill_(hidden[:, None], 0.0)
            lse = lse.masked_fill(hidden, -torch.inf)
            entropy = None if entropy is None else entropy.masked_fill_(hidden, 0.0)
        return A, lse, entropy

    def _mask_of(self, start: int, number: int, positions: Tensor) -> Tensor:
        """What the mask has for so many queries, and the keys at these positions."""
        mask = self._mask
        assert mask is not None
        of_queries = mask[start : start + number] if len(mask) > 1 else mask
        return of_queries.index_select(1, positions) if mask.shape[1] > 1 else of_queries

    def _hide(self, S: Tensor, positions: Tensor, latest: int, tile: Tile) -> None:
        """Hide later keys: the first query sees those up to ``latest``, each of the others one more."""
        first = int(positions[0]) - latest  # at least 1
        if tile.is_gapless and first == 1:
            if self._workspace.shade.shape != S.shape:
                self._workspace.shade = S.new_full(S.shape, HIDDEN).triu_()
            S += self._workspace.shade  # three times as fast as to compare all positions
            if self._mask is not None:  # twice hidden would be −∞
                S.clamp_(min=HIDDEN)
            return
        seen_up_to = torch.arange(latest, latest + len(S), device=S.device)
        S.masked_fill_(positions > seen_up_to[:, None], HIDDEN)

    def _local(self, A: Tensor, positions: Tensor, start: int) -> Tensor:
        """``local_weight`` of a tile, of which the keys near by are looked at alone."""
        first, distance = start + (self._later or 0), self._wanted.local or 0
        begin = int(torch.searchsorted(positions, first - distance))
        end = int(torch.searchsorted(positions, first + len(A) - 1 + distance, right=True))
        return local_weight(A[:, begin:end], first, positions[begin:end], distance)

    def _join(self, lses: Tensor, parts: Sequence[BlockSums], rows: CellReducer) -> BlockSums:
        """Take the tiles of a block together; lses (queries, tiles)."""
        wanted, queries = self._wanted, len(lses)
        among_keys = lses
        if self._sink is not None:
            lses = torch.cat([lses, self._sink.to(lses.dtype).expand(queries, 1)], dim=-1)
        # queries tiles; NaN where a query sees no key; without the sink.
        shares = torch.softmax(lses, dim=-1).nan_to_num(0.0)[:, : len(parts)]
        mass = shares.new_zeros(queries, wanted.cells[1] if wanted.mass else 0)
        largest = shares.new_zeros(queries, wanted.cells[1] if wanted.largest else 0)
        received = []
        for part, share in zip(parts, shares.T, strict=True):
            if part.mass is not None:
                mass[:, part.cell : part.cell + part.mass.shape[1]].addcmul_(part.mass, share[:, None])
            if part.largest is not None:
                here = largest[:, part.cell : part.cell + part.largest.shape[1]]
                torch.maximum(here, part.largest * share[:, None], out=here)
            # Not share @ A, whose last digits depend on how many threads share it.
            received += [(positions, A.mul_(share[:, None]).sum(dim=0)) for positions, A in part.received]

        def within(parts: Sequence[Tensor | None]) -> Tensor:
            """Σ share · part over the tiles."""
            return (torch.stack([part for part in parts if part is not None], dim=-1) * shares).sum(dim=-1)

        entropy = local = totals = top_weights = top_keys = None
        if wanted.entropy:  # of the tiles among each other, and within each
            among_tiles = shares if self._sink is None else torch.softmax(among_keys, dim=-1).nan_to_num(0.0)
            within_tiles = torch.stack([part.entropy for part in parts if part.entropy is not None], dim=-1)
            entropy = (within_tiles * among_tiles).sum(dim=-1) + torch.special.entr(among_tiles).sum(dim=-1)
        if wanted.local is not None:
            local = within([part.local for part in parts])
        if wanted.totals:
            totals = within([part.totals for part in parts])
        if wanted.top_keys:
            tops = [(part.top_weights, part.top_keys) for part in parts]
            weights = torch.cat([w * shares[:, i, None] for i, (w, _) in enumerate(tops) if w is not None], dim=-1)
            top_weights, which = weights.topk(min(wanted.top_keys, weights.shape[1]), dim=-1)
            top_keys = torch.cat([keys for _, keys in tops if keys is not None], dim=-1).gather(-1, which)
        return BlockSums(
            0,
            rows.sum(mass, 0) if wanted.mass else None,
            rows.largest(largest, 0) if wanted.largest else None,
            entropy,
            local,
            totals,
            top_weights,
            top_keys,
            received,
        )


def local_weight(A: Tensor, start: int, positions: Tensor, distance: int) -> Tensor:
    """The weight that each query gives to keys at most so many positions away, (…, queries).

    A (…, queries, keys); the first query is lined up with the position ``start``, and the keys have these positions.
    """
    own = torch.arange(start, start + A.shape[-2], device=A.device)[:, None]
    return (A * ((positions - own).abs() <= distance)).sum(dim=-1)


def strongest(A: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """``A.topk`` of at most k along the keys, (…, keys), found among groups of keys.

    The k largest lie in the k groups with the largest maxima, or in what is left over when the groups are full. Every
    n-th key makes a group, so that the maxima are those of whole runs of neighbours, which are found fast.
    """
    length = A.shape[-1]
    size = 2 ** int(math.log2(max(length / (_TOPK_SORTS_PARTLY * k), 1)))
    groups = length // size
    if size == 1:
        return A.topk(min(k, length), dim=-1)
    grouped = torch.unflatten(A[..., : groups * size], -1, (size, groups))
    _, which = grouped.amax(dim=-2).topk(k, dim=-1)  # … k
    places = (which[..., None] + groups * torch.arange(size, device=A.device)).flatten(-2)
    if groups * size < length:
        left_over = torch.arange(groups * size, length, device=A.device).expand(*A.shape[:-1], -1)
        places = torch.cat([places, left_over], dim=-1)
    weights, chosen = A.gather(-1, places).topk(k, dim=-1)
    return weights, places.gather(-1, chosen)
