"""Divergence of the heads of two attentions: the parts that pages of compared files and of compared models share."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.pages.blocks import Dot, Dots, Matrices, Table
from mhaviz.pages.head_numbers import layers_by_heads
from mhaviz.pages.panels import Panel, Scale, decimals_of
from mhaviz.pages.words import bits_text, position_text
from mhaviz.results.result import Source

_MOST_DOTS = 10
_NAME = "mean divergence, bits"


def first_text(heads: Sequence[Dot]) -> str:
    """Return "L1 H2: 0.0148 bits" of the first head; "" if it has no divergence above 0."""
    return f"{heads[0].name}: {bits_text(heads[0].value)} bits" if heads and heads[0].value > 0 else ""


def change_dots(
    heads: Sequence[Dot], table: Table, meaning: str, where: str, whisker: str, chance: str = ""
) -> Dots | Table:
    """Return a dot plot of the heads that differ most; only their table where none differs.

    Args:
        heads: all heads, those that differ most first. Each has its mean divergence in bits, a whisker if known, and a
            query and a key as its note.
        table: all numbers of the heads.
        meaning: what the numbers are.
        where: which query and key are beside a dot.
        whisker: what a whisker is.
        chance: what is drawn as chance, of heads that have it.
    """
    dots = tuple(dot for dot in heads[:_MOST_DOTS] if dot.value > 0)
    has_whisker, has_chance = (
        any(not math.isnan(end) for end in ends) for ends in ([dot.low for dot in dots], [dot.chance for dot in dots])
    )
    notes = [f"beside it: {where}", *[f"whisker: {whisker}"] * has_whisker, *[f"chance: {chance}"] * has_chance]
    return Dots(table, dots, meaning, bits_text, "; ".join(notes)) if dots else table


def divergence_panels(kinds: Sequence[tuple[str, Sequence[int], NDArray[np.float64]]]) -> list[Matrices]:
    """Return a block for each kind, given as (title, layers, means of layers × heads), all on one scale; empty where no
    head differs."""
    top = max((float(np.nanmax(means, initial=0.0)) for *_, means in kinds), default=0.0)
    if not top:
        return []
    scale = Scale(high=top, decimals=decimals_of(top), zeros=True)
    panels = ((title, layers, Panel(_NAME, means.astype(np.float32), scale)) for title, layers, means in kinds)
    return [layers_by_heads(title, layers, [panel]) for title, layers, panel in panels]


def lesson(source: Source, first: str, n_heads: int) -> str:
    """Return the title, "minilm and tuned differ most in L1 H2: 0.0148 bits".

    ``first``: the head that differs most, and by how much; "": none differs. ``n_heads``: number of all.
    """
    names = [side.model for side in source.sides]
    who = " and ".join(names) if names[0] != names[1] else f"{names[0]}: A and B"
    if not first:
        return f"{who} do not differ in {counted(n_heads, 'head')}"
    return f"{who} differ{' most' * (n_heads > 1)} in {first}"


def pair_text(query: int, query_text: str, key: int, key_text: str) -> str:
    """Return "3 cat → 5 mat"; only the positions of tokens whose texts are not known."""
    return " → ".join(position_text(at, text or str(at)) for at, text in ((query, query_text), (key, key_text)))
