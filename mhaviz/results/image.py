"""Attention of a query to the patches of an image."""

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, counted, is_accepted, parameter, quoted
from mhaviz.inputs.tokens import OF_ONE_TEXT, PATCH_NAME, Tokens, patch_names, patch_tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.means import MeanOver
from mhaviz.results.quantity import WEIGHT, Quantity
from mhaviz.results.result import Result, ShortRepr, Source

MOST_SPECIAL = 16
"""Largest number of tokens before the patches of an image: a class token, registers, a distillation token."""

_PATCH = re.compile(r"\s*\(?\s*(-?[0-9]{1,9})\s*[,;]\s*(-?[0-9]{1,9})\s*\)?\s*")
_SAME_ASPECT = 1.1  # ratio of the aspect ratios of image and grid

QueryChoice = int | str | tuple[int, int] | None
"""A query: a position among all tokens; a patch, (row, column) or "row,column"; the text of a token; None: the default
of ``Attention.over_image``."""


@dataclass(frozen=True, eq=False)
class ImageMap(ShortRepr):
    """Attention of one query of a map to the patches.

    Attributes:
        weights: float32, (n_heads, grid_rows, grid_columns).
        special: float32, (n_heads,), sum over the tokens that are not patches.
        special_texts: texts of these tokens.
        layer, heads, sentence, module, pass_number: as in ``AttentionMap``.
        patch: row and column of the patch that is the query; None: the query is not a patch.
        uniform: weight of each key if all keys that the query sees had the same weight. None: rows do not sum to 1, or
            the map is a mean over queries that see different numbers of keys.
    """

    weights: NDArray[np.float32]
    special: NDArray[np.float32]
    special_texts: tuple[str, ...] = ()
    layer: int | None = 0
    heads: tuple[int, ...] = ()
    sentence: int | None = None
    module: str = ""
    pass_number: int | None = None
    patch: tuple[int, int] | None = None
    uniform: float | None = None

    @property
    def grid(self) -> tuple[int, int]:
        """Number of rows and columns of patches."""
        _, rows, columns = self.weights.shape
        return rows, columns

    @property
    def is_recorded(self) -> bool:
        """See ``AttentionMap.is_recorded``."""
        return bool(self.module) or self.pass_number is not None


@dataclass(frozen=True, eq=False)
class ImageAttention(Result):
    """Attention of one query, laid over an image.

    Attributes:
        source: source of the attention.
        image: uint8, (height, width, 3).
        maps: one for each map of the attention, in its order.
        query: name of the query, such as "token 0" or "5,7"; "": the mean over all queries.
        quantity: what the numbers are.
        image_name: name of the image's file; "": it is not from a file.
        left_out: number of maps of the attention that are not about these patches.
        mean_over: what the maps are means over; empty: they are no means.
    """

    source: Source
    image: NDArray[np.uint8]
    maps: tuple[ImageMap, ...]
    query: str = ""
    quantity: Quantity = WEIGHT
    image_name: str = ""
    left_out: int = 0
    mean_over: MeanOver = ()

    @property
    def is_of_uniform(self) -> bool:
        """Whether the uniform weight of every map is known."""
        return all(m.uniform is not None for m in self.maps)

    def numbers(self, m: ImageMap) -> NDArray[np.float32]:
        """Return a map's weights as multiples of the uniform weight, or unchanged unless that is known for all maps."""
        return m.weights / np.float32(m.uniform) if self.is_of_uniform and m.uniform else m.weights

    @property
    def stretched(self) -> bool:
        """Whether the aspect ratio of the image differs by more than a tenth from that of a grid of patches."""
        height, width = self.image.shape[:2]
        ratios = [width / height * rows / columns for rows, columns in {m.grid for m in self.maps}]
        return any(not 1 / _SAME_ASPECT <= ratio <= _SAME_ASPECT for ratio in ratios)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; excludes the image."""
        height, width = self.image.shape[:2]
        maps = [
            {
                "layer": m.layer,
                "heads": m.heads,
                "grid": m.grid,
                "query_patch": m.patch,
                "uniform": m.uniform,
                "special": {"tokens": m.special_texts, "weights": m.special},
                "weights": m.weights,
            }
            | ({} if m.sentence is None else {"sentence": m.sentence})
            | ({"module": m.module} if m.module else {})
            | ({} if m.pass_number is None else {"pass": m.pass_number})
            for m in self.maps
        ]
        image = {"name": self.image_name or None, "width": width, "height": height}
        over = {"mean_over": dict(self.mean_over)} if self.mean_over else {}
        return {"image": image, "query": self.query or None, "quantity": self.quantity.key} | over | {"maps": maps}


def over_image(
    attention: Attention,
    image: object,
    query: QueryChoice = None,
    *,
    layer: int | None = None,
    head: int | Sequence[int] | None = None,
    grid: tuple[int, int] | None = None,
) -> ImageAttention:
    """See ``Attention.over_image``."""
    from mhaviz.files.images import as_pixels

    chosen = attention.select(head, layer)
    quantity = chosen.maps[0].quantity if chosen.maps else WEIGHT
    over = chosen.maps[0].mean_over if chosen.maps else ()
    if any((m.quantity.key, m.mean_over) != (quantity.key, over) for m in chosen.maps):
        raise ArgumentError("expected maps of one quantity, got several; choose with select, or save them separately")
    maps, called = _maps(chosen.maps, query, None if grid is None else _require_grid(grid))
    name = Path(image).name if isinstance(image, str | Path) else ""
    left_out = len(chosen) - len(maps)
    return ImageAttention(attention.source, as_pixels(image), maps, called, quantity, name, left_out, over)


def _require_grid(grid: object) -> tuple[int, int]:
    try:
        rows, columns = map(operator.index, grid)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise ArgumentError(f"{parameter('grid')}: expected rows and columns, got {quoted(grid)}") from None
    return rows, columns


def _maps(
    maps: Sequence[AttentionMap], query: QueryChoice, grid: tuple[int, int] | None
) -> tuple[tuple[ImageMap, ...], str]:
    """Return the image maps, and the name of the query. Raises ArgumentError if no map has patches as its keys.

    Other maps are left out, such as those of a text beside the image or of other layers of the model.
    """
    made: list[ImageMap] = []
    called: list[str] = []
    wrong: list[ArgumentError] = []
    for m in maps:
        try:
            keys = patches_of(m, grid)
        except ArgumentError as error:
            wrong.append(error)
            continue
        positions, name, patch = _rows_of(m, keys, query)
        made.append(_image_map(m, keys, positions, patch))
        called.append(name)
    if not made:
        raise wrong[0] if wrong else ArgumentError("there is no map; expected at least one")
    return tuple(made), called[0]


def patches_of(m: AttentionMap, grid: tuple[int, int] | None) -> Tokens:
    """Return the keys of a map with their grid of patches: ``grid``, or their own.

    Raises:
        ArgumentError: there is no grid, the number of patches differs, the map is pooled, or it is of a text.
    """
    keys = _with_named_patches(m.columns.tokens)
    if m.quantity.is_signed:
        raise ArgumentError(f"{m.name}: expected weights, got changes of weights")
    if m.to_special is not None:
        advice = (
            f"leave out {parameter('hide_special')}" if is_accepted("hide_special") else "save it with special ones"
        )
        raise ArgumentError(f"{m.name}: expected all tokens of the image; {advice}")
    if m.is_pooled:
        raise ArgumentError(
            f"{m.name}: expected a column for each patch, got cells of up to {m.columns.widest:,} tokens; "
            + (f"give a larger {parameter('size')}" if is_accepted("size") else "compute it with a cell for each")
        )
    if not m.is_whole:
        raise ArgumentError(f"{m.name}: expected all tokens of the image, got {m.columns.start} to {m.columns.end - 1}")
    if m.kind == "masked" and keys.grid is None:
        raise ArgumentError(f"{m.name}: expected attention to an image, got masked attention of a text")
    if grid is None:
        if keys.grid is None:
            raise ArgumentError(
                f"{m.name}: it is not known which of {len(keys):,} tokens are patches of an image; add "
                f"{parameter('grid')}, rows and columns such as {_square_grid(len(keys)) or '14x14'}"
            )
        return keys
    n_patches = grid[0] * grid[1]
    n_special = len(keys) - n_patches
    if keys.special and min(grid) > 0 and len(keys.of_text) == n_patches:
        return replace(keys, grid=grid)
    if min(grid) < 1 or not 0 <= n_special <= MOST_SPECIAL:
        would = f" ({_square_grid(len(keys))} would fit)" if _square_grid(len(keys)) else ""
        raise ArgumentError(
            f"{parameter('grid')}: expected rows × columns = {len(keys):,} tokens, minus 0 to {MOST_SPECIAL} "
            f"that are not patches{would}, got {grid[0]:,} × {grid[1]:,} = {counted(n_patches)}, for {m.name}"
        )
    if m.columns.are_positions:  # the tokens have no texts
        return patch_tokens(*grid, n_special)
    return replace(keys, special=tuple(range(n_special)), grid=grid)


def _with_named_patches(keys: Tokens) -> Tokens:
    """Add the grid of an image's patches that are among the tokens of a text, found by the names of the patches."""
    places = [place for place, text in enumerate(keys.texts) if PATCH_NAME.fullmatch(text)]
    if keys.grid is not None or not places:
        return keys
    rows, columns = (int(number) + 1 for number in keys.texts[places[-1]].split(","))
    if rows * columns != len(places) or tuple(keys.texts[place] for place in places) != patch_names(rows, columns):
        return keys
    return replace(keys, special=tuple(sorted({*range(len(keys))} - {*places})), grid=(rows, columns))


def _square_grid(n_tokens: int) -> str:
    """Return the largest square grid for a number of tokens, of which the first few may be special: "14x14", or ""."""
    side = math.isqrt(n_tokens)
    return f"{side}x{side}" if side > 1 and n_tokens - side * side <= MOST_SPECIAL else ""


def _rows_of(m: AttentionMap, keys: Tokens, query: QueryChoice) -> tuple[list[int], str, tuple[int, int] | None]:
    """Return the rows of the query, its name, and its row and column in the grid if it is a patch."""
    n_queries, is_image = len(m.queries), len(m.queries) == len(keys) and m.kind in OF_ONE_TEXT
    if query is None:
        is_text = m.kind not in OF_ONE_TEXT or _with_named_patches(m.columns.tokens) is not m.columns.tokens
        special = () if is_text else (keys.special if is_image else ()) or m.rows.tokens.special
        return ([special[0]], _name_of(m, keys, special[0]), None) if special else (list(range(n_queries)), "", None)
    if (patch := named_patch(query)) is not None:
        if not is_image:
            raise ArgumentError(
                f"{parameter('query')}: the queries of {m.name} are not patches; expected a position from 0 to "
                f"{n_queries - 1:,}, or a token, got {quoted(query)}"
            )
        grid = keys.grid or (0, 0)
        row, column = require_patch(patch, grid)
        return [keys.patches[row * grid[1] + column]], f"{row},{column}", (row, column)
    assert not isinstance(query, tuple)
    if isinstance(query, str):
        query = (Axis(keys) if is_image and m.rows.are_positions else m.rows).position(query)
    position = m.rows.position(query)
    if is_image and position in keys.patches:
        row, column = divmod(keys.patches.index(position), (keys.grid or (0, 1))[1])
        return [position], f"{row},{column}", (row, column)
    return [position], _name_of(m, keys, position), None


def named_patch(query: QueryChoice) -> tuple[int, int] | None:
    """Return the row and column of the patch that a query names, as "5,7" or (5, 7); None: it names none."""
    if isinstance(query, str):
        match = _PATCH.fullmatch(query)
        return match and (int(match[1]), int(match[2]))
    return (operator.index(query[0]), operator.index(query[1])) if isinstance(query, tuple) else None


def require_patch(patch: tuple[int, int], grid: tuple[int, int]) -> tuple[int, int]:
    """Return the row and column of a patch. Raises ArgumentError unless the grid has it."""
    if not all(0 <= place < count for place, count in zip(patch, grid, strict=True)):
        last, got = (",".join(map(counted, places)) for places in ([count - 1 for count in grid], patch))
        raise ArgumentError(f"{parameter('query')}: expected a patch from 0,0 to {last}, got {got}")
    return patch


def _name_of(m: AttentionMap, keys: Tokens, position: int) -> str:
    text = m.queries[position]
    if m.rows.are_positions and m.columns.are_positions and len(keys) == len(m.queries):
        text = keys.texts[position]
    return f"token {position}" if text in ("", str(position)) else text


def _image_map(m: AttentionMap, keys: Tokens, positions: list[int], patch: tuple[int, int] | None) -> ImageMap:
    rows = m.weights[:, positions].mean(axis=1, dtype=np.float64)
    special = rows[:, list(keys.special)].sum(axis=1)
    texts = tuple(keys.texts[i] for i in keys.special)
    weights = rows[:, list(keys.patches)].reshape(-1, *(keys.grid or (0, 0)))
    seen = {len(keys)} if m.hidden is None else set(np.sum(~m.hidden[positions], axis=1).tolist())
    uniform = 1 / seen.pop() if m.quantity.is_distribution and len(seen) == 1 and 0 not in seen else None
    return ImageMap(
        weights.astype(np.float32),
        special.astype(np.float32),
        texts,
        m.layer,
        m.heads,
        m.sentence,
        m.module,
        m.pass_number,
        patch,
        uniform,
    )
