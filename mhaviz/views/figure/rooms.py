"""Pages that fit a room, such as a slide: with fewer heads, and divided at the borders of blocks where need be."""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Protocol

from mhaviz.errors import ArgumentError, is_accepted, parameter
from mhaviz.pages.blocks import Block, Grid, Matrices, Page, Stacks, Table, Text, heads, leaves, matrices
from mhaviz.pages.peaks import peaks
from mhaviz.results.attention import AttentionMap

_MANY = 99  # parts whose numbers are as long as any
_GOES_ON = " (continued)"
_MUCH_LARGER = 1.25  # ratio of cells from which on heads are arranged anew
_MOST_NAMES = 2  # of what the next part has
_LEAST_HEADS = 4  # heads of each block of a page from which on blocks are divided rather than robbed of more


class LaidOut(Protocol):
    """A page that has been laid out as a sheet of the room."""

    @property
    def fits(self) -> bool:
        """Whether it has room."""

    @property
    def are_abreast(self) -> bool:
        """Whether all blocks of a row of its grids, which have one, stand side by side."""

    @property
    def cell(self) -> float:
        """Inches of the smallest cell of its heads; 0: it has none."""


LayOut = Callable[[Page], LaidOut | None]
"""Lays out a page; None: it is too wide for the room."""
Strengths = Mapping[Hashable, float]
"""Strength of each head of a page, by its name."""


def pages_in_room(page: Page, lay_out: LayOut) -> list[Page]:
    """Return the page if it fits; else with fewer heads, the strongest, which it says; else divided, which each says.

    Raises:
        ArgumentError: a part that cannot be divided does not fit.
    """

    def fits(page: Page) -> bool:
        return not page.blocks or ((laid := lay_out(page)) is not None and laid.fits)

    def arranged(*ways: Callable[[Block], Block]) -> list[Page]:
        """Return the page with its blocks arranged in each of these ways that changes any."""
        others = (replace(page, blocks=tuple(map(way, page.blocks))) for way in ways)
        return [other for other in others if other.blocks != page.blocks]

    if not page.blocks:
        return [page]
    tried = ((one, lay_out(one)) for one in (page, *arranged(_turned, _loose)))
    if having_room := [(one, laid.cell) for one, laid in tried if laid and laid.fits]:
        (first, cell), (other, largest) = having_room[0], max(having_room, key=lambda pair: pair[1])
        return [other if largest >= _MUCH_LARGER * cell else first]
    most = max((block.n_heads for block in page.blocks), default=0)
    least, strengths = min(_LEAST_HEADS, most), _strengths(page)
    if most and fits(with_strongest(page, least, strengths)):
        return [with_strongest(page, _most(lambda n: fits(with_strongest(page, n, strengths)), least, most), strengths)]
    divided = _divided(_numbered(page, page, _MANY, _MANY), fits, lay_out, strengths)
    if len(divided) > 1 and (row := [one for one in arranged(_in_row) if fits(one)]):
        return row
    n_parts = len(divided)
    parts = [_numbered(part, page, i, n_parts) for i, part in enumerate(divided, 1)]
    following = [*map(_contents, divided[1:]), ""]
    leading = [
        _numbered(part, page, i, n_parts, then)
        for i, (part, then) in enumerate(zip(divided, following, strict=True), 1)
    ]
    return [more if fits(more) else part for more, part in zip(leading, parts, strict=True)]


def _contents(part: Page) -> str:
    """Return the names of what a part has: its headings, as far as a colon."""
    headings = (block.heading for block in leaves(part.blocks) if block.heading)
    names = list(dict.fromkeys(heading.split(":")[0] for heading in headings))
    return ", ".join(names[:_MOST_NAMES]) + ", …" * (len(names) > _MOST_NAMES)


def _turned(block: Block) -> Block:
    """Return heads in several passes with the heads side by side, and the passes below each other; others unchanged."""
    if not isinstance(block, Matrices) or not block.across or len(block.maps) != len(block.panels):
        return block
    order = [i for column in range(block.across) for i in range(column, len(block.panels), block.across)]
    panels, maps = tuple(block.panels[i] for i in order), tuple(block.maps[i] for i in order)
    return replace(block, panels=panels, maps=maps, across=len(order) // block.across)


def _loose(block: Block) -> Block:
    """Return heads of layers, or of passes, without a row for each; other blocks unchanged."""
    if not isinstance(block, Matrices) or not block.maps or not (block.across or block.by_layer):
        return block
    return replace(block, across=None, by_layer=())


def _in_row(block: Block) -> Block:
    """Return matrices that are no heads side by side in a row; other blocks unchanged."""
    return replace(block, across=None) if isinstance(block, Matrices) and block.across and not block.maps else block


def _numbered(part: Page, page: Page, number: int, of: int, following: str = "") -> Page:
    """Return a part of the page with its number in the footnote, if it is not all of it, and what the next part has,
    and without the reading of matrices that other parts have."""
    said = f"part {number} of {of}" * (of > 1) + f", next: {following}" * bool(following)
    is_read = matrices(part.blocks) or not matrices(page.blocks)
    return replace(part, footnote="; ".join(filter(None, [said, page.footnote])), remark=part.remark if is_read else "")


def with_strongest(page: Page, most: int, strengths: Strengths) -> Page:
    """Return the page with at most so many heads in each block, the strongest, and a remark that says so."""
    blocks = [_strongest(block, most, strengths) for block in page.blocks]
    pairs = ((some.n_heads, block) for some, block in zip(blocks, page.blocks, strict=True))
    counts = dict.fromkeys((few, block.n_heads, block.rows_of_heads) for few, block in pairs if few < block.n_heads)
    said = "; ".join(f"the {few} strongest of {many} {names}" for few, many, names in counts)
    return _saying(replace(page, blocks=tuple(blocks)), said)


def _saying(page: Page, said: str) -> Page:
    if not said:
        return page
    return replace(page, remark=lambda drawn: "; ".join(filter(None, [page.reading(drawn), said])))


def _strengths(page: Page) -> Strengths:
    """Return the strength of each head: of several sentences the mean, so that the same heads are drawn of all."""
    of_heads = defaultdict[Hashable, list[float]](list)
    for block in heads(page.blocks):
        for head, strength in zip(_names(block), peaks(block.maps), strict=True):
            of_heads[head].append(strength)
    return {head: math.fsum(several) / len(several) for head, several in of_heads.items()}


def _names(block: Matrices) -> list[Hashable]:
    """Return what names each head of a block in any sentence."""
    return [(m.kind, m.layer, m.module, m.pass_number, head) for m in block.maps for head in m.heads]


def _strongest(block: Block, most: int, strengths: Strengths) -> Block:
    """Return a block of heads with the strongest of them, in their order; other blocks as they are."""
    if not isinstance(block, Matrices) or block.n_heads <= most:
        return block
    strength = [strengths[head] for head in _names(block)]
    kept = sorted(sorted(range(len(strength)), key=lambda i: -strength[i])[:most])
    of_maps = [(i, head) for i, m in enumerate(block.maps) for head in m.heads]
    maps: list[AttentionMap] = [
        block.maps[i].select(tuple(head for _, head in of_map))
        for i, of_map in groupby((of_maps[k] for k in kept), key=lambda pair: pair[0])
    ]
    table = block.table
    if table and len(table.rows) == len(block.panels):
        table = replace(table, rows=tuple(table.rows[k] for k in kept))
    panels = tuple(block.panels[k] for k in kept)
    return replace(block, panels=panels, maps=tuple(maps), table=table, across=None, by_layer=())


def _divided(page: Page, fits: Callable[[Page], bool], lay_out: LayOut, strengths: Strengths) -> list[Page]:
    """Return pages with as many blocks, or parts of blocks, as each has room for."""
    pages, current = list[Page](), list[Block]()  # of the last page

    def fit(*blocks: Block) -> bool:
        return fits(replace(page, blocks=blocks))

    def turn(keep: int) -> None:
        """Begin a page, with the blocks from ``keep`` on."""
        pages.append(replace(page, blocks=tuple(current[:keep])))
        del current[:keep]

    pending = deque(_smaller(page, page.blocks, lay_out))
    while pending:
        block = pending.popleft()
        if fit(*current, block):
            current.append(block)
            continue
        if isinstance(block, Table) and current and fit(*current[:-1], beside := Stacks((current[-1],), (block,))):
            current[-1] = beside
            continue
        headings = _n_headings(current)
        is_pictured = any(map(_is_picture, current)) or isinstance(block, Table)
        if headings < len(current) and (
            block.n_pieces == 1 or (is_pictured and fit(*current[len(current) - headings :], block))
        ):
            turn(len(current) - headings)
            pending.appendleft(block)
        elif end := _most(lambda n: fit(*current, block.pieces(0, n)), 0, block.n_pieces - 1):  # noqa: B023
            heading = [one for one in current[len(current) - headings :] if isinstance(one, Text)]
            current.append(block.pieces(0, end))
            turn(len(current))
            current += _continued(heading)
            pending.appendleft(block.pieces(end, block.n_pieces))
        elif headings < len(current):
            turn(len(current) - headings)
            pending.appendleft(block)
        elif block.blocks:
            pending.extendleft(reversed(block.blocks))
        elif most := _most(lambda n: fit(*current, _strongest(block, n, strengths)), 0, block.n_heads - 1):  # noqa: B023
            pages.append(with_strongest(replace(page, blocks=(*current, block)), most, strengths))
            current.clear()
        elif current:
            turn(len(current))
            pending.appendleft(block)
        else:
            less = f"; a smaller {parameter('font_size')} takes less" * is_accepted("font_size")
            raise ArgumentError(f"{parameter('room')}: expected what has room in parts, got a part that has none{less}")
    return _with_pictures([*pages, replace(page, blocks=tuple(current))] if current else pages, fits)


def _with_pictures(pages: Sequence[Page], fits: Callable[[Page], bool]) -> list[Page]:
    """Return pages of which those with words alone have a picture beside them, where the page before can spare one:
    its last, or a piece of its only one."""
    arranged = list(pages[:1])
    for page in pages[1:]:
        moved = [] if _has_picture(page) else _with_last_picture(arranged[-1], page)
        if moved and all(map(fits, moved)):
            arranged[-1:] = moved
        else:
            arranged.append(page)
    return arranged


def _has_picture(page: Page) -> bool:
    """Return whether a page has a picture, or is a table without words, which needs none."""
    return any(map(_is_picture, page.blocks)) or not any(block.is_text for block in leaves(page.blocks))


def _is_picture(block: Block) -> bool:
    return any(not (one.is_text or isinstance(one, Table)) for one in leaves([block]))


def _with_last_picture(before: Page, words: Page) -> list[Page]:
    """Return two pages with the last picture of the first, and what follows it, on the second; empty: it has none to
    spare."""
    blocks = before.blocks
    pictures = [i for i, block in enumerate(blocks) if _is_picture(block)]
    divided = max((i for i in pictures if blocks[i].n_pieces > 1), default=None)
    if len(pictures) > 1:
        begin = pictures[-1] - _n_headings(blocks[: pictures[-1]])
        stays, goes = blocks[:begin], blocks[begin:]
    elif divided is not None:
        end = blocks[divided].n_pieces - 1
        stays = *blocks[:divided], blocks[divided].pieces(0, end)
        goes = blocks[divided].pieces(end, end + 1), *blocks[divided + 1 :]
    else:
        return []
    return [replace(before, blocks=stays), replace(words, blocks=(*goes, *words.blocks))]


def _n_headings(blocks: Sequence[Block]) -> int:
    """Return how many of the last blocks are texts that head what follows: after the last that ends in an empty line.

    If all are texts, all are counted.
    """
    texts = list(takewhile(lambda one: one.is_text, reversed(blocks)))
    ends = (i for i, text in enumerate(texts) if isinstance(text, Text) and not text.lines[-1])
    return len(texts) if len(texts) == len(blocks) else next(ends, len(texts))


def _continued(texts: Sequence[Text]) -> list[Block]:
    """Return the last heading among texts, for the page that continues what they head."""
    headings = [text for text in texts if text.heading]
    return [replace(text, lines=(text.lines[0].removesuffix(_GOES_ON) + _GOES_ON,)) for text in headings[-1:]]


def _most(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Return the largest number up to ``most`` that fits, where ``least`` does."""
    while least < most:
        middle = most if least == most - 1 else (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


@dataclass(frozen=True)
class _Broken(Grid):
    """Grid of pictures without room for its rows, which is divided between any two pictures."""

    @property
    def n_pieces(self) -> int:
        """Number of pictures."""
        return len(self.blocks)

    def pieces(self, begin: int, end: int) -> "_Broken":
        """Return some pictures, each in its row."""
        kept = {id(one) for one in self.blocks[begin:end]}
        rows = (tuple(one for one in row if id(one) in kept) for row in self.rows)
        return replace(self, rows=tuple(row for row in rows if row))


def _smaller(page: Page, blocks: Iterable[Block], lay_out: LayOut) -> Iterator[Block]:
    """Yield the blocks in their order: those in stacks one by one where both do not fit, and grids between their rows
    of texts, in blocks where a row does not fit."""

    def is_text(row: tuple[Block | None, ...]) -> bool:
        return all(one is None or one.is_text for one in row)

    for block in blocks:
        if isinstance(block, Stacks) and not ((laid := lay_out(replace(page, blocks=(block,)))) and laid.fits):
            yield from _smaller(page, block.blocks, lay_out)
        elif isinstance(block, Grid):
            for are_texts, rows in groupby(block.rows, is_text):
                grid = replace(block, rows=tuple(rows))
                yield from grid.blocks if are_texts else _parts_of_grid(page, grid, lay_out)
        else:
            yield block


def _parts_of_grid(page: Page, grid: Grid, lay_out: LayOut) -> Iterator[Block]:
    """Yield a grid, or its blocks where a row does not fit."""
    laid = [lay_out(replace(page, blocks=(Grid((row,)),))) for row in grid.rows]
    are_pictures = all(isinstance(one, Matrices) for one in grid.blocks)
    if are_pictures and not all(one and one.are_abreast for one in laid):
        yield _Broken(grid.rows, grid.by_column)
    elif all(one and one.fits for one in laid):
        yield grid
    else:
        yield from _smaller(page, grid.blocks, lay_out)
