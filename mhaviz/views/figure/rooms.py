"""Pages that fit a room, such as a slide: with fewer heads, and divided at the borders of blocks where need be."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

from mhaviz.errors import ArgumentError, parameter
from mhaviz.pages.blocks import Block, Curves, Dots, Flow, Grid, Matrices, Page, Stacks, Table, Text
from mhaviz.pages.peaks import peaks
from mhaviz.results.attention import AttentionMap

_LEAST_HEADS = 4  # heads of each block of a page from which on blocks are divided rather than robbed of more

Fits = Callable[[Page], bool]
"""Whether a page has room."""


def pages_in_room(page: Page, fits: Fits) -> list[Page]:
    """Return the page if it fits; else with fewer heads, the strongest, which it says; else divided.

    Raises:
        ArgumentError: a part that cannot be divided does not fit.
    """
    if fits(page):
        return [page]
    most = max(map(_n_heads, page.blocks), default=0)
    least = min(_LEAST_HEADS, most)
    if most and fits(with_strongest(page, least)):
        return [with_strongest(page, _most(lambda n: fits(with_strongest(page, n)), least, most))]
    divided = _divided(page, fits)
    return [
        replace(one, title=page.title and f"{page.title} ({i} of {len(divided)})")
        if isinstance(page.title, str) and len(divided) > 1
        else one
        for i, one in enumerate(divided, 1)
    ]


def with_strongest(page: Page, most: int) -> Page:
    """Return the page with at most so many heads in each block, the strongest, and a remark that says so."""
    blocks = [_strongest(block, most) for block in page.blocks]
    counts = [pair for pair in zip(map(_n_heads, blocks), map(_n_heads, page.blocks), strict=True) if pair[0] < pair[1]]
    said = "; ".join(f"the {few} strongest of {many} heads" for few, many in dict.fromkeys(counts))
    return _saying(replace(page, blocks=tuple(blocks)), said)


def _saying(page: Page, said: str) -> Page:
    if not said:
        return page
    return replace(page, remark=lambda drawn: "; ".join(filter(None, [page.reading(drawn), said])))


def _n_heads(block: Block) -> int:
    return len(block.panels) if isinstance(block, Matrices) and block.maps else 0


def _strongest(block: Block, most: int) -> Block:
    """Return a block of heads with the strongest of them, in their order; other blocks as they are."""
    if not isinstance(block, Matrices) or not block.maps or len(block.panels) <= most:
        return block
    strength = peaks(block.maps)
    kept = sorted(sorted(range(len(strength)), key=lambda i: -strength[i])[:most])
    heads = [(i, head) for i, m in enumerate(block.maps) for head in m.heads]
    maps: list[AttentionMap] = [
        block.maps[i].select(tuple(head for _, head in of_map))
        for i, of_map in groupby((heads[k] for k in kept), key=lambda pair: pair[0])
    ]
    table = block.table
    if table and len(table.rows) == len(block.panels):
        table = replace(table, rows=tuple(table.rows[k] for k in kept))
    panels = tuple(block.panels[k] for k in kept)
    return replace(block, panels=panels, maps=tuple(maps), table=table, across=None, by_layer=())


def _divided(page: Page, fits: Fits) -> list[Page]:
    """Return pages with as many blocks, or parts of blocks, as each has room for."""
    pages, current = list[Page](), list[Block]()  # of the last page

    def fit(*blocks: Block) -> bool:
        return fits(replace(page, blocks=blocks))

    def turn(keep: int) -> None:
        """Begin a page, with the blocks from ``keep`` on."""
        pages.append(replace(page, blocks=tuple(current[:keep])))
        del current[:keep]

    pending = deque(_smaller(page, page.blocks, fits))
    while pending:
        block = pending.popleft()
        if fit(*current, block):
            current.append(block)
            continue
        headings = next((i for i, one in enumerate(reversed(current)) if not isinstance(one, Text)), len(current))
        if headings < len(current) and (_count(block) == 1 or fit(*current[len(current) - headings :], block)):
            turn(len(current) - headings)
            pending.appendleft(block)
        elif end := _most(lambda n, one=block: fit(*current, _between(one, 0, n)), 0, _count(block) - 1):  # type: ignore[misc]
            current.append(_between(block, 0, end))
            turn(len(current))
            pending.appendleft(_between(block, end, _count(block)))
        elif headings < len(current):
            turn(len(current) - headings)
            pending.appendleft(block)
        elif isinstance(block, Grid):
            pending.extendleft(reversed(block.blocks))
        elif most := _most(lambda n, one=block: fit(*current, _strongest(one, n)), 0, _n_heads(block) - 1):  # type: ignore[misc]
            pages.append(with_strongest(replace(page, blocks=(*current, block)), most))
            current.clear()
        elif current:
            turn(len(current))
            pending.appendleft(block)
        else:
            raise ArgumentError(f"{parameter('room')}: expected what has room in parts, got a part that has none")
    return [*pages, replace(page, blocks=tuple(current))] if current else pages


def _most(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Return the largest number up to ``most`` that fits, where ``least`` does."""
    while least < most:
        middle = most if least == most - 1 else (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def _smaller(page: Page, blocks: tuple[Block, ...], fits: Fits) -> Iterator[Block]:
    """Yield the blocks; those in stacks one by one, texts in grids apart, and a grid with a row that does not fit in
    blocks."""
    for block in blocks:
        if isinstance(block, Stacks):
            yield from _smaller(page, block.blocks, fits)
        elif isinstance(block, Grid):
            texts = [row for row in block.rows if all(isinstance(one, Text | None) for one in row)]
            grid = Grid(tuple(row for row in block.rows if row not in texts))
            yield from Grid(tuple(texts)).blocks
            fit = all(fits(replace(page, blocks=(Grid((row,)),))) for row in grid.rows)
            yield from [grid] if fit else _smaller(page, grid.blocks, fits)
        else:
            yield block


def _count(block: Block) -> int:
    """Return into how many parts a block can be divided."""
    if isinstance(block, Grid | Table):
        return len(block.rows)
    if isinstance(block, Flow):
        return len(block.steps)
    if isinstance(block, Curves):
        return len(block.plots)
    if isinstance(block, Dots):
        return len(block.dots)
    return len(block.panels) if isinstance(block, Matrices) and not block.maps else 1


def _between(block: Block, begin: int, end: int) -> Block:
    """Return some parts of a block, which is drawn from no others."""
    part = slice(begin, end)
    if end - begin == _count(block):
        return block
    if isinstance(block, Table):
        return replace(block, rows=block.rows[part], most=None)
    if isinstance(block, Flow):
        steps = block.steps[part]
        names = {step.name for step in steps}
        steps = tuple(replace(step, inputs=tuple(one for one in step.inputs if one in names)) for step in steps)
        visits = {name: visit for name, visit in block.visits.items() if name in names}
        return replace(block, steps=steps, notes=block.notes[part], visits=visits)
    if isinstance(block, Curves):
        return replace(block, plots=block.plots[part])
    if isinstance(block, Dots):
        return replace(block, dots=block.dots[part])
    if isinstance(block, Grid):
        return replace(block, rows=block.rows[part])
    assert isinstance(block, Matrices), "a text is not divided"
    return replace(block, panels=block.panels[part])
