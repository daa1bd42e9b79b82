"""Computation of one head of a map, a block of queries at a time: weights in each tile of keys, pooled to cells.

The share of each tile in a query's weight is computed after its last tile, from lse, the logarithm of each tile's sum
of exponentials: softmax over all keys = softmax of lse over tiles × softmax within the tile (Milakov and Gimelshein
2018, arXiv 1805.02867).
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

_TOPK_SORTS_PARTLY = 64  # PyTorch's topk sorts only a part of at least this many times k numbers, which is faster
HIDDEN = -3e38  # acts as −∞ in a softmax, but times 0 it is 0, not NaN


@dataclass(frozen=True)
class BlockSums:
    """Sums of a block of queries for the map, or of one of its tiles as if there were no other keys.

    None: not wanted.

    Attributes:
        cell: number of the first cell in ``mass`` and ``largest``.
        mass, largest: (rows of cells, cells); of one tile of several, (queries, cells).
        entropy, local, totals: (queries,).
        top_weights, top_keys: (queries, up to k).
        received: positions of keys, (keys,), and the weight that they get from all queries, (keys,); of one tile of
            several, its weights, (queries, keys).
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
    """Memory that all blocks reuse, as allocating it for each block takes longer than the computation.

    Attributes:
        device, dtype: device and precision of the computation.
        shade: HIDDEN on and above the diagonal, 0 below, in the shape that was used last.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.shade = torch.empty(0, dtype=dtype, device=device)
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, size: int) -> Tensor:
        """Return uninitialised numbers, (size,), in the memory of this name; earlier ones are overwritten."""
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = torch.empty(size, dtype=self.dtype, device=self.device)
        return self._held[name][:size]


class HeadBlocks:
    """The queries of a head, computed in blocks, and its keys in tiles.

    Args:
        call: call of the attention.
        b, h: numbers of the sentence in the batch, and of the head.
        tiles: keys.
        workspace: memory.
        wanted: request.
        queries_at_once: most queries of a block.
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
        """Compute the sums of the queries from ``start`` to ``end``, pooled to ``rows``; None if they see no key."""
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
        return self._join(torch.stack(lses, dim=1), parts, rows) if parts else None

    def _of_tile(
        self, Q: Tensor, tile: Tile, norms: Tensor | None, start: int, used: int, rows: CellReducer, alone: bool
    ) -> tuple[Tensor, BlockSums]:
        """Compute lse, (queries, 2), and the sums of a block of queries over one tile.

        lse is the logarithm of the tile's sum of exponentials, in two terms, as their sum would be rounded: the largest
        score, −∞ for a query that sees none of its keys, and the logarithm of the sum relative to it.

        Args:
            norms: norms of the keys' values, (keys,); None: the map is of weights.
            used: numbers of the workspace's weights that hold earlier tiles of the block.
            alone: whether this is the only tile that the queries see.
        """
        A, lse, entropy = self._softmax(Q, tile, start, used, alone)
        wanted, positions = self._wanted, tile.positions[: A.shape[1]]
        if norms is not None:
            A.mul_(norms[: A.shape[1]])
        top_weights, places = strongest(A, wanted.top_keys) if wanted.top_keys else (None, None)
        received = ((positions, A.sum(dim=0) if alone else A),) if wanted.received else ()
        is_overwritten = not alone and tile.cells.changes_nothing  # the next tile reuses the memory of A
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
        """Compute the weights of a block of queries over a tile's keys, their lse and their entropy.

        A is (queries, keys); a query that sees none of the keys has weights of 0. lse, of two terms, is unused, and not
        the true one, if the tile is ``alone``.
        """
        number = all_see = len(tile)
        blind = 0
        latest = tile.last if self._later is None else start + self._later  # key that the first query sees
        if tile.last > latest:
            all_see, blind = tile.number_up_to(latest), min(max(tile.first - latest, 0), len(Q))
            if tile.fillers is None:  # keys that no query of the block sees need not be computed
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
        log_sums = -A.amax(dim=-1).log_() if not alone else torch.zeros_like(highest)
        A[:blind], highest[:blind], log_sums[:blind] = 0.0, -torch.inf, 0.0
        if hidden is not None:
            A.masked_fill_(hidden[:, None], 0.0)
            highest = highest.masked_fill(hidden, -torch.inf)
            entropy = None if entropy is None else entropy.masked_fill_(hidden, 0.0)
        return A, torch.stack([highest, log_sums], dim=-1), entropy

    def _mask_of(self, start: int, number: int, positions: Tensor) -> Tensor:
        """Return the mask of ``number`` queries from ``start`` on, and the keys at these positions."""
        mask = self._mask
        assert mask is not None
        of_queries = mask[start : start + number] if len(mask) > 1 else mask
        return of_queries.index_select(1, positions) if mask.shape[1] > 1 else of_queries

    def _hide(self, S: Tensor, positions: Tensor, latest: int, tile: Tile) -> None:
        """Hide later keys in S: the first query sees keys up to position ``latest``, each further query one more."""
        first = int(positions[0]) - latest  # at least 1
        if tile.is_gapless and first == 1:
            if self._workspace.shade.shape != S.shape:
                self._workspace.shade = S.new_full(S.shape, HIDDEN).triu_()
            S += self._workspace.shade  # three times as fast as comparing all positions
            if self._mask is not None:  # a key that is hidden twice would have −∞
                S.clamp_(min=HIDDEN)
            return
        seen_up_to = torch.arange(latest, latest + len(S), device=S.device)
        S.masked_fill_(positions > seen_up_to[:, None], HIDDEN)

    def _local(self, A: Tensor, positions: Tensor, start: int) -> Tensor:
        """Compute ``local_weight`` from the keys of a tile that are near any query of the block."""
        first, distance = start + (self._later or 0), self._wanted.local or 0
        begin = int(torch.searchsorted(positions, first - distance))
        end = int(torch.searchsorted(positions, first + len(A) - 1 + distance, right=True))
        return local_weight(A[:, begin:end], first, positions[begin:end], distance)

    def _join(self, lses: Tensor, parts: Sequence[BlockSums], rows: CellReducer) -> BlockSums:
        """Combine the sums of a block's tiles, whose lse are (queries, tiles, 2)."""
        wanted, queries = self._wanted, len(lses)
        of_keys = lses
        if self._sink is not None:
            sink = torch.stack([self._sink.to(lses.dtype), lses.new_zeros(())], dim=-1)
            lses = torch.cat([lses, sink.expand(queries, 1, 2)], dim=1)
        # (queries, tiles), without the sink; the softmax is NaN where a query sees no key.
        shares = _softmax_of(lses).nan_to_num(0.0)[:, : len(parts)]
        mass = shares.new_zeros(queries, wanted.cells[1] if wanted.mass else 0)
        largest = shares.new_zeros(queries, wanted.cells[1] if wanted.largest else 0)
        received = []
        for part, share in zip(parts, shares.T, strict=True):
            if part.mass is not None:
                mass[:, part.cell : part.cell + part.mass.shape[1]].addcmul_(part.mass, share[:, None])
            if part.largest is not None:
                here = largest[:, part.cell : part.cell + part.largest.shape[1]]
                torch.maximum(here, part.largest * share[:, None], out=here)
            # Not share @ A, whose last digits depend on the number of threads.
            received += [(positions, A.mul_(share[:, None]).sum(dim=0)) for positions, A in part.received]

        def within(parts: Sequence[Tensor | None]) -> Tensor:
            """Σ share · part over the tiles."""
            return (torch.stack([part for part in parts if part is not None], dim=-1) * shares).sum(dim=-1)

        entropy = local = totals = top_weights = top_keys = None
        if wanted.entropy:  # the mean entropy within tiles, and the entropy of the shares of the tiles
            among_tiles = shares
            if self._sink is not None:  # which may have taken all
                among_tiles = _softmax_of(of_keys).where(shares.sum(dim=-1, keepdim=True) > 0, 0.0)
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


def _softmax_of(lses: Tensor) -> Tensor:
    """Return the softmax over tiles of their lse in two terms, (queries, tiles, 2); scores as large as those of masks
    are subtracted before terms are added."""
    highest, log_sums = lses.unbind(dim=-1)
    return torch.softmax(highest - highest.amax(dim=-1, keepdim=True) + log_sums, dim=-1)


def local_weight(A: Tensor, start: int, positions: Tensor, distance: int) -> Tensor:
    """Compute the weight that each query gives to keys at most ``distance`` positions away, (…, queries).

    Args:
        A: weights, (…, queries, keys).
        start: position of the first query among the keys.
        positions: positions of the keys, (keys,).
        distance: largest distance.
    """
    own = torch.arange(start, start + A.shape[-2], device=A.device)[:, None]
    return (A * ((positions - own).abs() <= distance)).sum(dim=-1)


def strongest(A: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest weights along the keys and their places, as ``A.topk``; fewer if there are fewer keys.

    The k largest are in the k groups of keys with the largest maxima, or among the keys left over by groups of equal
    size. Every n-th key belongs to a group, so that the maxima compare whole runs of neighbours, which is fast.
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
