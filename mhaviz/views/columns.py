"""Columns of a table that is too wide for its medium, split into parts."""

from collections.abc import Callable, Sequence

from mhaviz.pages.blocks import Table


def split_columns(table: Table, fit: Callable[[Sequence[int]], bool]) -> list[list[int]]:
    """Return the indices of the columns of each part: as few parts as ``fit``, of about equally many columns.

    Each part has the key columns, and each bar stands beside the number that it shows. A part may still be too wide.
    """
    keys: list[int] = []
    units: list[list[int]] = []  # of columns that stay together
    for place, column in enumerate(table.columns):
        if column.is_key:
            keys.append(place)
        elif column.bar and units:
            units[-1].append(place)
        else:
            units.append([place])
    greedy = _filled(keys, units, fit, len(units))
    even = _filled(keys, units, fit, -(-len(units) // max(len(greedy), 1)))
    return even if len(even) == len(greedy) else greedy


def _filled(
    keys: Sequence[int], units: Sequence[Sequence[int]], fit: Callable[[Sequence[int]], bool], most: int
) -> list[list[int]]:
    """Return parts of at most ``most`` units, each as large as fits."""
    parts: list[list[int]] = []
    count = most
    for unit in units:
        if count == most or not fit(sorted([*parts[-1], *unit])):
            parts, count = [*parts, [*keys]], 0
        parts[-1] = sorted([*parts[-1], *unit])
        count += 1
    return parts
