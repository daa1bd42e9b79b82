"""Views of images among the tokens of a map: those that are known, those that labels tell, and one that is given.

Which tokens are patches is never guessed: a grid moved by one token makes another picture, and a wrong one.
"""

import operator
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from mhaviz.errors import ArgumentError, counted, parameter, quoted
from mhaviz.inputs.patches import PATCH_NAME, PatchGrid
from mhaviz.inputs.tokens import Tokens

MOST_SPECIAL = 16
"""Largest number of tokens beside the patches of a grid without its first token: a class token, registers, a
distillation token."""

Grid = tuple[int, int] | tuple[int, int, int]
"""Rows and columns of patches, and the position of the first among the tokens."""

_SPECIAL = re.compile(
    r"\s*(\[[A-Za-z_]+\]|<[^<>]+>|(cls|dist|distillation|register|reg)([_ ]tokens?)?([_ ]?[0-9]+)?)\s*"
)
_USUAL = 0, 1, 2, 5  # tokens beside patches: none, a class token, one of distillation, four registers
_MOST_HINTS = 3
_STRETCHED = (
    1.05  # what speaks against a square grid, as of a model that stretches its images, beside the photo's shape
)
_MOST_SLENDER = 4.0  # ratio of the sides of a grid that a hint names / that of the image


def require_grid(grid: object) -> Grid | None:
    """Return rows, columns and perhaps the first token. Raises ArgumentError if they are none of these."""
    if grid is None:
        return None
    try:
        numbers = tuple(operator.index(number) for number in grid)  # type: ignore[attr-defined]
        if len(numbers) not in (2, 3) or min(numbers[:2]) < 1 or min(numbers) < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{parameter('grid')}: expected rows and columns, or rows, columns and the position of the first patch, "
            f"got {quoted(grid)}"
        ) from None
    return numbers  # type: ignore[return-value]


def known_views(tokens: Tokens) -> tuple[PatchGrid, ...]:
    """Return the views that tokens have, or else those that their labels tell; empty: none is known."""
    return tokens.images or _named_views(tokens.texts)


def _named_views(texts: Sequence[str]) -> tuple[PatchGrid, ...]:
    """Return the views all of whose patches are among the tokens, in reading order, by their labels, "3,11" or
    "thumbnail 3,11"."""
    named = ((place, match) for place, text in enumerate(texts) if (match := PATCH_NAME.fullmatch(text)))
    views = []
    for name, of_view in groupby(named, key=lambda pair: pair[1]["view"] or ""):
        cells = [(place, (int(match["row"]), int(match["column"]))) for place, match in of_view]
        rows, columns = (cells[-1][1][axis] + 1 for axis in (0, 1))
        if len(cells) > 1 and [cell for _, cell in cells] == [(r, c) for r in range(rows) for c in range(columns)]:
            views.append(PatchGrid(rows, columns, tuple(place for place, _ in cells), name))
    return tuple(views) if len({view.name for view in views}) == len(views) else ()


def views_in(tokens: Tokens, grid: Grid | None, where: str, aspect: float | None) -> tuple[PatchGrid, ...]:
    """Return the views of images among tokens, or the one that is given as ``grid``.

    Args:
        tokens: tokens of one side of a map.
        grid: as of ``require_grid``; None: the tokens tell.
        where: name of the map, for errors.
        aspect: width / height of the photo, for hints; None: not known.

    Raises:
        ArgumentError: nothing tells which tokens are patches; the grid has another number of patches than the known
            view, or lies beyond the tokens; or several runs of tokens have its length, and it names none.
    """
    views = known_views(tokens)
    if grid is None:
        if not views:
            such = " or ".join(_hints(len(tokens), aspect)) or _text(14, 14, 1)
            raise ArgumentError(
                f"{where}: it is not known which of {counted(len(tokens), 'token')} are patches of an image; add "
                f"{parameter('grid')}, rows and columns and the position of the first patch, such as {such}, if they "
                "were cut before PyTorch saw them; latents, which mix all patches, and words have none"
            )
        return views
    n_tokens, (rows, columns, *first) = len(tokens), grid
    n_patches = rows * columns
    if first:
        if first[0] + n_patches > n_tokens:
            raise ArgumentError(
                f"{parameter('grid')}: expected patches among {counted(n_tokens, 'token')}, got {rows:,} × {columns:,} "
                f"= {counted(n_patches)} from #{first[0]} on, for {where}"
            )
        return (PatchGrid.run(rows, columns, first[0]),)
    if views:
        if len(views) == 1 and len(views[0].places) == n_patches:
            return (replace(views[0], rows=rows, columns=columns),)
        known = ", ".join(f"{view.name} {view.rows} × {view.columns}".strip() for view in views)
        raise ArgumentError(
            f"{parameter('grid')}: the patches of {where} are known: {known}; leave it out, or give as many patches, "
            f"got {rows:,} × {columns:,} = {counted(n_patches)}"
        )
    if n_tokens == n_patches:
        return (PatchGrid.run(rows, columns),)
    extra = n_tokens - n_patches
    if extra > 0:
        runs = [run for run in _runs(tokens) if len(run) == n_patches] if _special(tokens) else []
        if len(runs) == 1:
            return (PatchGrid.run(rows, columns, runs[0][0]),)
        if n_patches > 1:
            last = f" {'to' if extra > 1 else 'or'} {_text(rows, columns, extra)}"
            one = f" ({_text(rows, columns, 1)} if one token stands before them)" if extra > 1 else ""
            raise ArgumentError(
                f"{parameter('grid')}: {rows:,} × {columns:,} = {n_patches:,} of {n_tokens:,} tokens, and nothing "
                f"tells which; say {_text(rows, columns, 0)}{last}{one}, for {where}"
            )
    hints = _hints(n_tokens, aspect)
    would = f" ({' or '.join(hints)} would fit)" if hints else ""
    raise ArgumentError(
        f"{parameter('grid')}: expected rows × columns = {counted(n_tokens, 'token')}, minus 0 to {MOST_SPECIAL} that "
        f"are not patches{would}, got {rows:,} × {columns:,} = {counted(n_patches)}, for {where}"
    )


def _special(tokens: Tokens) -> set[int]:
    """Return the positions of tokens that are known to be no patches."""
    return {*tokens.special, *(i for i, text in enumerate(tokens.texts) if _SPECIAL.fullmatch(text))}


def _runs(tokens: Tokens) -> list[list[int]]:
    """Return the runs of tokens between those that are known to be no patches."""
    special = _special(tokens)
    runs = groupby(range(len(tokens)), key=special.__contains__)
    return [list(run) for is_special, run in runs if not is_special]


def _hints(n_tokens: int, aspect: float | None) -> list[str]:
    """Return grids that these tokens may be, those nearest to the shape of the photo, or to a square, first."""
    aspect = aspect or 1.0
    found = []
    for extra in range(min(MOST_SPECIAL, n_tokens - 4) + 1):
        n_patches = n_tokens - extra
        for rows in range(2, n_patches // 2 + 1):
            columns, rest = divmod(n_patches, rows)
            ratio, misfit = columns / rows / aspect, max(columns, rows) / min(columns, rows) * _STRETCHED
            if not rest and 1 / _MOST_SLENDER <= ratio <= _MOST_SLENDER:
                misfit = min(misfit, max(ratio, 1 / ratio))
                found.append((misfit * (1.0 if extra < 2 else 1.15 if extra in _USUAL else 1.4), extra, rows, columns))
    best = sorted(found)[:_MOST_HINTS]
    near = [one for one in best if one[0] <= 1.3 * best[0][0]]
    return [_text(rows, columns, extra) for _, extra, rows, columns in near]


def _text(rows: int, columns: int, first: int) -> str:
    """Return a grid as it is given: "8x8@1" on the command line, "(8, 8, 1)" in Python."""
    return f"{rows}x{columns}@{first}" if parameter("grid").startswith("-") else f"({rows}, {columns}, {first})"
