"""Positions along the axis of a long map."""

from collections.abc import Callable, Sequence

from mhaviz.views.labels import bare, cut

TOKEN_CELLS = 16
"""A token beside its position is cut to so many cells."""


def position_text(position: int, token: str, shown: Callable[[str], str]) -> str:
    """12,345 and "whale" → "12,345 whale"; ``shown`` makes a token fit to be shown.

    A token that is its own position, as where there are no labels, is not said twice.
    """
    return f"{position:,}" if token == str(position) else f"{position:,} {cut(shown(bare(token)), TOKEN_CELLS)}"


def are_positions(tokens: Sequence[str], start: int) -> bool:
    """Whether the tokens are nothing but their positions, from ``start`` on."""
    return all(token == str(position) for position, token in enumerate(tokens, start))


def round_positions(start: int, end: int, most: int) -> list[int]:
    """Round numbers inside the run of positions from ``start`` to before ``end``: at most so many, at equal distances.

    They are multiples of 1, 2 or 5 times a power of ten. The first and the last position are left to their own labels.
    """
    step = 1
    while most < 1 or len(inside := range((start // step + 1) * step, end - 1, step)) > most:
        if most < 1:
            return []
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return list(inside)
