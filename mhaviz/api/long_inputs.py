"""Decide when the weights of long inputs are pooled, and announce work that takes long."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from mhaviz.analyses.pooled_maps import SUMMED_UP, bytes_needed, cells_of, pooling_of, scores_needed, seconds_needed
from mhaviz.analyses.weights import MapSize
from mhaviz.attention.pooled_map import Pooling
from mhaviz.devices import free_memory, require_memory
from mhaviz.errors import MhavizError, counted, parameter
from mhaviz.pages.map_words import cells_text
from mhaviz.results.quantity import WEIGHT, Cells, Quantity
from mhaviz.units import readable_bytes, readable_seconds
from mhaviz.views.html.size import MapBytes, PageSize, needs_codes

_COPIES = 3  # copies of the weights: of the layer, the result and the picture
_MANY_CELLS = 2**26  # 256 MiB of weights, more than pictures have pixels for
_DRAWN_CELLS = 2**24  # cells that are left if there are more: a third of the pixels of the largest picture
_LEAST_DRAWN = 32  # cells of a side, as in the smallest picture of a head on a page for the browser
_IN_BLOCKS = Pooling(512)  # as much as sums of a block need
_BYTES_OF_SPANS = 2 * 4 + 2 * 8  # of a cell: weight and uniform weight, and their means in float64
_FEW_SCORES = 2 * 10**9  # up to so many take a second or two, which is not worth an announcement


def planned(asked: Pooling, longest: int, n_heads: int, device: torch.device, in_cells: bool) -> Pooling | None:
    """Return how to pool the maps; None: every weight is drawn, as all fit into pictures and memory.

    Args:
        asked: what the user has asked for.
        longest: number of tokens of the longest input.
        n_heads: number of heads of all maps together.
        device: where the maps are computed.
        in_cells: whether maps of many heads may be pooled to fewer cells.

    Raises:
        MhavizError: the cells that were asked for do not fit into memory.
    """
    most, _ = asked.most
    allowed = allowed_bytes(device)
    a_cell = 4 * _COPIES * n_heads
    cells = min(most, longest)
    if in_cells and asked.size is None and n_heads * cells**2 > _MANY_CELLS:
        cells = max(math.isqrt(_DRAWN_CELLS // n_heads), min(_LEAST_DRAWN, cells))
    if a_cell * cells**2 > allowed:
        fitting = math.isqrt(allowed // a_cell)
        if not fitting:
            raise MhavizError(
                f"a single cell for each of {n_heads:,} heads needs {readable_bytes(a_cell)}, where "
                f"{readable_bytes(allowed)} may be used; take fewer heads"
            )
        if asked.size is not None and longest > most:
            raise MhavizError(
                f"{parameter('size')} {most} needs {readable_bytes(a_cell * most**2)} for "
                f"{counted(n_heads, 'head')}, where {readable_bytes(allowed)} may be used: {parameter('size')} "
                f"{fitting} would fit; or take fewer heads"
            )
        cells = fitting
    elif longest <= cells and not (asked.reduce or asked.window):
        return None
    beside = SUMMED_UP if asked.window or longest > cells else Pooling()
    return replace(beside, size=cells, reduce=asked.reduce or "mass", window=asked.window)


def allowed_bytes(device: torch.device) -> int:
    """Return the bytes that maps may take on a device: a quarter of its free memory."""
    return (free_memory(device) or 2**32) // 4


def announce(
    sizes: Sequence[MapSize],
    pooling: Pooling,
    device: torch.device,
    on_notice: Callable[[str], None] | None,
    quantity: Quantity = WEIGHT,
    of: tuple[Sequence[MapSize], str] | None = None,
) -> None:
    """Announce how maps are pooled, and how much time and memory that takes.

    Args:
        sizes: sizes of the maps.
        pooling: how they are pooled.
        device: where they are computed.
        on_notice: called with each line; None: nothing is announced.
        quantity: what the maps show.
        of: sizes of the maps in what takes the place of tokens, and its name, such as "word"; None: tokens.

    Raises:
        MhavizError: the maps do not fit into memory.
    """
    needed = bytes_needed(sizes, pooling, device)
    if on_notice is not None:
        drawn, name = of or (sizes, "token")
        every = (_becoming(cells, quantity, name) for size in drawn if (cells := cells_of(size, pooling)))
        for text in dict.fromkeys(every):
            on_notice(text)
    require_memory(needed, device, "the map")
    _tell_time(sizes, pooling, device, on_notice, needed)


def announce_spans(
    sizes: Sequence[MapSize],
    cells: Sequence[int],
    device: torch.device,
    on_notice: Callable[[str], None] | None,
) -> None:
    """Announce how much time and memory maps by span take, whose weights are computed twice, in blocks of queries.

    Args:
        sizes: sizes of the maps in tokens.
        cells: number of rows × columns of a map of each text and kind of attention.
        device, on_notice: as in ``announce``.

    Raises:
        MhavizError: the maps do not fit into memory.
    """
    n_matrices = sum(size.n_heads for size in sizes)
    kept = _BYTES_OF_SPANS * n_matrices * max(cells)
    require_memory(kept, torch.device("cpu"), "the map")
    _tell_time([*sizes, *sizes], _IN_BLOCKS, device, on_notice, kept + bytes_needed(sizes, _IN_BLOCKS, device))


def _tell_time(
    sizes: Sequence[MapSize],
    pooling: Pooling,
    device: torch.device,
    on_notice: Callable[[str], None] | None,
    needed: int,
) -> None:
    if on_notice is not None and scores_needed(sizes, pooling) >= _FEW_SCORES:
        seconds = readable_seconds(seconds_needed(sizes, pooling, device), 2)
        on_notice(f"this takes about {seconds} and {readable_bytes(needed)} of memory; Ctrl-C stops it")


def page_size(sizes: Sequence[MapSize], pooling: Pooling | None, keeps: bool = True) -> PageSize:
    """Return the size of a page for the browser of maps of these sizes; ``keeps``: with their queries and keys, unless
    they are windows."""
    keeps = keeps and (pooling is None or pooling.window is None)
    maps = []
    for size in sizes:
        rows, columns, n_heads, is_pooled = size.q_length, size.k_length, size.n_heads, False
        if pooling is not None:
            of_map = pooling_of(size, pooling)
            q0, q1, k0, k1 = of_map.span
            rows, columns = of_map.cells
            is_pooled = (rows, columns) != (q1 - q0, k1 - k0)
        needed = keeps and needs_codes(is_pooled, size.d_key, size.k_length)
        numbers = 0 if needed and not is_pooled else n_heads * rows * columns
        maps.append(MapBytes(n_heads, numbers, size.bytes_of_codes if keeps else 0, needed))
    return PageSize.of(maps)


def _becoming(cells: Cells, quantity: Quantity, name: str) -> str:
    """Return a line that says how many tokens, or words, become how many cells, and by which reduction."""
    sides = cells.rows, cells.columns
    n_queries, n_keys = (side.end - side.start for side in sides)
    tokens = f"{n_queries:,}" if n_queries == n_keys else f"{n_queries:,} × {n_keys:,}"
    shape = " × ".join(f"{len(side):,}" for side in sides)
    return f"{tokens} {name}s become {shape} cells: {cells_text(cells, quantity.name)}"
