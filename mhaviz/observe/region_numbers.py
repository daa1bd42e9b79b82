"""Numbers of regions beside the axes of a tensor: an axis has length 1 where they do not vary."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.observe.regions import (
    AXES,
    IMAGE,
    INPUT,
    MADE,
    NONE,
    SOURCE,
    Regions,
    SeenTokens,
    Source,
    Traced,
    absorbs,
    is_mixture,
    merged,
    mixture_of,
    rank_of,
    roots_of,
    shared,
    sum_of_sources,
    with_mixtures,
)


def fits(numbers: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether numbers of this shape may be those of a tensor of another shape."""
    return all(n in (1, size) for n, size in zip(numbers, shape, strict=True))


def none_of(x: Tensor) -> Tensor:
    """Return the numbers of a tensor that is of no region."""
    return torch.full((1,) * x.ndim, NONE, dtype=torch.int32, device=x.device)


def aligned(numbers: Tensor, ndim: int) -> Tensor:
    """Return numbers with new axes of length 1 before theirs."""
    return numbers.reshape((1,) * (ndim - numbers.ndim) + tuple(numbers.shape)) if numbers.ndim <= ndim else numbers


def full(numbers: Tensor, shape: Sequence[int], slim: bool = False) -> Tensor:
    """Return numbers for each element of a tensor; ``slim``: with a last axis of length 1."""
    return numbers.expand(*shape[:-1], 1) if slim else numbers.expand(tuple(shape))


def short(numbers: Tensor) -> Tensor:
    """Return numbers with axes of length 1 where they are repeated."""
    for axis, (n, stride) in enumerate(zip(numbers.shape, numbers.stride(), strict=True)):
        if n > 1 and (stride == 0 or torch.equal(numbers.narrow(axis, 0, 1).expand_as(numbers), numbers)):
            numbers = numbers.narrow(axis, 0, 1)
    return numbers


def regrouped(numbers: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Return the numbers of a reshaped tensor; ``before``, ``after``: its shapes.

    Axes are taken in the smallest groups that have as many elements before and after. Only those along which regions
    vary are repeated.
    """
    sizes: list[int] = []
    kept: list[int] = []
    at = to = 0
    while at < len(before) or to < len(after):
        begin, first, left, right = at, to, 1, 1
        while True:
            if left == right and at > begin and to > first:
                break
            if at < len(before) and (left <= right or to >= len(after)):
                left, at = left * before[at], at + 1
            elif to < len(after):
                right, to = right * after[to], to + 1
            else:
                break
        varies = any(n > 1 for n in numbers.shape[begin:at])
        sizes += before[begin:at] if varies else [1] * (at - begin)
        kept += after[first:to] if varies else [1] * (to - first)
    return numbers.expand(sizes).reshape(kept)


def joined(parts: Sequence[Tensor], numbers: Sequence[Tensor], dim: int) -> Tensor:
    """Return the numbers of joined tensors. An axis has length 1 if it has in all of them; so does that along which
    they are joined, if all are of the same regions."""
    shapes = [torch.Size(max(one.shape[at] for one in numbers) for at in range(parts[0].ndim)) for _ in parts]
    if all(one.shape[dim] == 1 and one.shape == numbers[0].shape and torch.equal(one, numbers[0]) for one in numbers):
        return numbers[0]
    sizes = [[*shape[:dim], x.shape[dim], *shape[dim + 1 :]] for x, shape in zip(parts, shapes, strict=True)]
    return torch.cat([one.expand(size) for one, size in zip(numbers, sizes, strict=True)], dim)


def merged_along(regions: Regions, numbers: Tensor, axes: Sequence[int]) -> tuple[Regions, Tensor]:
    """Return regions of numbers that are summed over some axes, which are then of length 1."""
    varying = [axis for axis in axes if numbers.shape[axis] > 1]
    if not varying:
        return regions, numbers
    kept = [axis for axis in range(numbers.ndim) if axis not in varying]
    moved = numbers.permute(*kept, *varying)
    regions, made = merged(regions, moved.reshape(*moved.shape[: len(kept)], -1))
    for axis in varying:
        made = made.unsqueeze(axis)
    return regions, made


def _outranks(strong: Traced, weak: Traced) -> bool:
    """Return whether each number of a tensor is of a source that ranks higher than all of another tensor."""
    ranks, others = _ranks(strong, weak), _ranks(weak, strong)
    return bool(ranks and others) and min(ranks) > max(others) and strong.is_whole


def _ranks(traced: Traced, beside: Traced) -> list[int]:
    """Return the rank of each source in a sum with another tensor.

    What an unknown function has made of other inputs counts as much as an input: positions that are added to it do not
    tell which tokens it holds. What it has made of those beside it, as in a residual block, counts less.
    """
    roots = roots_of(beside.regions.sources)
    return [_rank(source, roots) for source in traced.regions.sources]


def _rank(source: Source, beside: "frozenset[Source] | None") -> int:
    rank = rank_of(source)
    if rank != MADE or not isinstance(source, SeenTokens):
        return rank
    is_of_these = source.made_of is not None and beside is not None and source.made_of <= beside
    return MADE if is_of_these else INPUT


def are_of_the_same(first: Traced, second: Traced) -> bool:
    """Return whether two tensors are made of the same regions, whatever the sources are sums of."""
    x, y = first.numbers, second.numbers
    is_same = first.regions.rows is second.regions.rows and first.regions.names == second.regions.names
    return is_same and (x is y or (x.shape == y.shape and torch.equal(x, y)))


def sum_of(first: Traced, second: Traced) -> Traced:
    """Return what a sum of two tensors is made of, whose numbers have the same axes.

    A token is what its term of the highest rank is, or the one that varies along more axes, such as tokens to which is
    added what was pooled from all. Tokens of one rank, at the same place of their sources, are tokens of the sum of the
    sources, such as words and positions. Which token others are cannot be said; see ``mixture_of``.
    """
    if are_of_the_same(first, second):
        return first
    x = first.numbers
    if first.varying != second.varying:
        first, second = (replace(traced, numbers=short(traced.numbers)) for traced in (first, second))  # such as heads
    if first.varying != second.varying:
        if not (first.varying <= second.varying or second.varying <= first.varying):
            if MADE in first.ranks | second.ranks:  # along which axis its rows stand is not known
                return _of_all([first, second])
            both = shared([first, second])
            return Traced(both[1].regions, both[0].numbers, both[1].numbers)  # such as queries and keys
        fine, coarse = (first, second) if second.varying < first.varying else (second, first)
        if coarse.varying and fine.varying - coarse.varying == {x.ndim - 1} and _outranks(coarse, fine):
            return coarse  # such as patches to which are added positions whose columns differ
        if fine.is_whole:
            return _with_places(fine, coarse) if max(fine.varying) in coarse.varying else fine
        fine, coarse = shared([fine, coarse])
        return Traced(coarse.regions, torch.where(fine.numbers == NONE, coarse.numbers, fine.numbers))
    for strong, weak in ((first, second), (second, first)):
        if _outranks(strong, weak):
            return strong
    ranks = [
        dict(zip(one.regions.sources, _ranks(one, other), strict=True))
        for one, other in ((first, second), (second, first))
    ]
    first, second = shared([first, second])
    regions = second.regions
    shape = [max(sizes) for sizes in zip(first.numbers.shape, second.numbers.shape, strict=True)]
    x, y = first.numbers.expand(shape), second.numbers.expand(shape)
    rows = [regions.rows[numbers.clamp(min=0).long()] for numbers in (x, y)]
    known = [
        torch.tensor([of.get(source, NONE) for source in regions.sources], device=x.device)[
            row[..., SOURCE].long()
        ].masked_fill(n < 0, NONE)
        for of, row, n in zip(ranks, rows, (x, y), strict=True)
    ]
    are_regions = (x >= 0) & (y >= 0)
    is_in = _is_within(rows[0], rows[1]) & are_regions | (x == y)
    made = torch.where(is_in, x, torch.where(_is_within(rows[1], rows[0]) & are_regions, y, torch.full_like(x, NONE)))
    are_alike = (rows[0][..., 1:] == rows[1][..., 1:]).all(-1) & (known[0] == known[1]) & (known[0] < IMAGE)
    regions, made = _added(regions, made, rows, are_alike & (made == NONE) & are_regions)
    made = _absorbed(regions, made, (x, y), rows, (made == NONE) & are_regions)
    are_mixed = (known[0] == known[1]) & (made == NONE) & are_regions
    regions, made = with_mixtures(regions, made, rows[0], are_mixed, regions.sources)
    made = torch.where(known[0] > known[1], x, torch.where(known[1] > known[0], y, made))
    return Traced(regions, torch.where(x == NONE, y, torch.where(y == NONE, x, made)))


def _of_all(several: Sequence[Traced]) -> Traced:
    """Return what a tensor is made of that is a mixture of others as a whole."""
    source = mixture_of([source for traced in several for source in traced.regions.sources])
    like = several[0].numbers
    row = torch.zeros(1, 7, device=like.device)
    row[0, [axis + 1 for axis in AXES]] = torch.tensor(source.sizes, dtype=torch.float32, device=like.device)
    return Traced(Regions((source,), row), torch.zeros((1,) * like.ndim, dtype=torch.int32, device=like.device))


def _with_places(tokens: Traced, places: Traced) -> Traced:
    """Return what a sum is made of, of tokens of all examples and what is added to those of each at the same place."""
    terms = places.regions.sources
    if len(terms) != 1 or places.ranks != tokens.ranks:
        return tokens
    sources = tuple(
        sum_of_sources(source, term) if isinstance(source, SeenTokens) and isinstance(term, SeenTokens) else source
        for source in tokens.regions.sources
        for term in terms
    )
    return Traced(replace(tokens.regions, sources=sources), tokens.numbers)


def _added(regions: Regions, numbers: Tensor, rows: Sequence[Tensor], are_added: Tensor) -> tuple[Regions, Tensor]:
    """Return regions with those of sums of tokens, and the numbers with theirs where ``are_added``."""
    if not bool(are_added.any()):
        return regions, numbers
    sources, new = list(regions.sources), rows[0][are_added]
    pairs = torch.stack([row[are_added][:, SOURCE] for row in rows], dim=1)
    for pair in pairs.unique(dim=0).tolist():  # type: ignore[no-untyped-call]
        terms = [sources[int(number)] for number in pair]
        if not (isinstance(terms[0], SeenTokens) and isinstance(terms[1], SeenTokens)):
            continue
        made = sum_of_sources(terms[0], terms[1])
        if made not in sources:
            sources.append(made)
        new[(pairs == torch.tensor(pair, device=pairs.device)).all(1), SOURCE] = sources.index(made)
    which = torch.arange(len(new), dtype=torch.int32, device=numbers.device) + len(regions.rows)
    numbers = numbers.masked_scatter(are_added, which)
    return replace(regions, sources=tuple(sources), rows=torch.cat([regions.rows, new])), numbers


def _absorbed(
    regions: Regions, numbers: Tensor, pair: Sequence[Tensor], rows: Sequence[Tensor], are_open: Tensor
) -> Tensor:
    """Return numbers where a mixture is added to what it is made of, which leaves the mixture; ``are_open``: where."""
    mixtures = [number for number, source in enumerate(regions.sources) if is_mixture(source)]
    for number in mixtures if bool(are_open.any()) else ():
        mixture = regions.sources[number]
        is_in = torch.tensor([absorbs(mixture, source) for source in regions.sources], device=numbers.device)
        for one, row, other in ((pair[0], rows[0], rows[1]), (pair[1], rows[1], rows[0])):
            stays = are_open & (row[..., SOURCE] == number) & is_in[other[..., SOURCE].long()]
            numbers = torch.where(stays & (numbers == NONE), one, numbers)
    return numbers


def _is_within(rows: Tensor, others: Tensor) -> Tensor:
    """Return whether regions lie within others of the same image."""
    is_in = rows[..., 0] == others[..., 0]
    for axis in AXES:
        is_in = is_in & (rows[..., axis] >= others[..., axis]) & (rows[..., axis + 1] <= others[..., axis + 1])
    return is_in


def emptied(traced: Traced | None, is_empty: Tensor) -> Traced | None:
    """Return what is left of tokens, (…, features), of all features of which nothing is left where ``is_empty``."""
    if traced is None or traced.other is not None or IMAGE in traced.ranks or not is_empty.ndim:
        return traced
    rows = aligned(is_empty, traced.numbers.ndim)
    rows = rows[..., :1] if rows.stride(-1) == 0 else rows.all(-1, keepdim=True)
    if not bool(rows.any()):
        return traced
    numbers = torch.where(rows, torch.full_like(traced.numbers, NONE), traced.numbers)
    return Traced(traced.regions, short(numbers))
