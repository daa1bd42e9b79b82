"""Page of attention over an image: each head as a film over the image."""

import re
from collections.abc import Sequence
from functools import partial

import numpy as np

from mhaviz.errors import counted
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Drawn, Matrices, Page, Title
from mhaviz.pages.colormaps import FILM
from mhaviz.pages.labels import quoted
from mhaviz.pages.panels import WEIGHT, Outline, Panel, Scale
from mhaviz.pages.registry import shown
from mhaviz.pages.words import one_text
from mhaviz.results.attention import head_name
from mhaviz.results.axis import Axis
from mhaviz.results.image import ImageAttention, ImageMap
from mhaviz.results.means import title_prefix
from mhaviz.results.module_names import common_name
from mhaviz.units import with_minus

_NAME = 40  # cells of a name
_SHORT = 16  # cells of a name in a narrow place
_UNNAMED = re.compile(r"token [0-9]+")  # name of a token of which no more is known than its place
_FEW = 2  # most special tokens that are named


@shown(ImageAttention)
def image_page(over: ImageAttention) -> Page:
    """Return the page, with all heads on one scale: each patch's weight as a multiple of an even share."""
    scale = _scale(over)
    grids = dict.fromkeys(m.grid for m in over.maps)
    blocks = tuple(_panels(over, [m for m in over.maps if m.grid == grid], scale) for grid in grids)
    return Page(_title(over), blocks, over.source.footnote, partial(_remark, over))


def _scale(over: ImageAttention) -> Scale:
    """Return the scale: from an even share, 1, to the largest number, at least 2; of other numbers from 0."""
    largest = max(float(over.numbers(m).max()) for m in over.maps)
    if not over.is_of_uniform:
        return Scale(FILM, 0.0, largest or 1.0, name=over.quantity.drawn_name)
    return Scale(FILM, 1.0, max(largest, 2.0), name="× uniform")


def _panels(over: ImageAttention, maps: Sequence[ImageMap], scale: Scale) -> Matrices:
    """Return the heads of maps with one grid of patches, over the image."""
    panels = []
    for m in maps:
        of_query = () if m.patch is None else (_around(*m.patch),)
        for name, values in zip(_head_names(over, m), over.numbers(m), strict=True):
            panels.append(Panel(name, values, scale, outlined=of_query, image=over.image))
    height, width = maps[0].grid
    rows = Axis(Tokens(tuple(map(str, range(height))), grid=(height, 1)))
    columns = Axis(Tokens(tuple(map(str, range(width))), grid=(1, width)))
    heads = {m.heads for m in maps}  # one row for each map if all have the same heads, and more than one
    across = len(maps[0].heads) if len(heads) == 1 and len(maps[0].heads) > 1 else len(panels)
    return Matrices("", tuple(panels), rows, columns, across)


def _around(row: int, column: int) -> Outline:
    return Outline(range(row, row + 1), range(column, column + 1))


def _title(over: ImageAttention) -> Title:
    """Return the title, "attention of token 0 to photo.png, vit, layer 3, blocks.3.attn": what all pictures share."""
    what = title_prefix(over.mean_over, over.quantity) + "attention"
    query = quoted(over.query, _NAME)
    if any(m.patch for m in over.maps):
        query = f"patch {query}"
    who = f"{what} of {query}" if over.query else f"mean {what} of all queries"
    head = f"{who} to {quoted(over.image_name, _NAME) if over.image_name else 'the image'}, {over.source.model}"
    layers = sorted({m.layer for m in over.maps if m.layer is not None})
    layer = f", layers {layers[0]} to {layers[-1]}" if len(layers) > 1 else f", layer {layers[0]}" if layers else ""
    module = common_name([m.module for m in over.maps])
    short = f"{query or 'all queries'} → {quoted(over.image_name, _SHORT) if over.image_name else 'image'}{layer}"
    return Title(head + layer + f", {quoted(module or '', _NAME)}" * bool(module), (), short)


def _head_names(over: ImageAttention, m: ImageMap) -> list[str]:
    """Return "L3 H5" for each head, "pass 100 L3 H5" where there are several inputs, "L3" of a mean over heads, and
    "mean" of one over layers."""
    inputs = _input_text(m) if len(set(map(_input_text, over.maps))) > 1 else ""
    of_layer = "mean" if m.layer is None else f"L{m.layer}"
    names = [of_layer] if over.quantity.of_all_heads else [head_name(m.layer, head) for head in m.heads]
    return [" ".join(filter(None, [inputs, name])) for name in names]


def _input_text(m: ImageMap) -> str:
    """Return which of several inputs a map is of, "pass 100, example 2"; "" where there is one."""
    of_pass = "" if m.pass_number is None else f"pass {m.pass_number:,}"
    of_batch = "" if m.sentence is None else f"{one_text(is_recorded=m.is_recorded)} {m.sentence}"
    return ", ".join(filter(None, [of_pass, of_batch]))


def _special_text(over: ImageAttention) -> str:
    """Return the names of the tokens that are not patches, "cls_token", or "token 0 and 4 tokens more, which are no
    patches" where it is not known what they are; "" if there are none."""
    texts = list(dict.fromkeys(text for m in over.maps for text in m.special_texts))
    named = [quoted(text, _NAME) or "a special token" for text in texts[:_FEW]]
    more = [counted(len(texts) - _FEW, "token") + " more"] if len(texts) > _FEW else []
    names = " and ".join([", ".join(named), *more]) if more else " and ".join(named)
    if not any(map(_UNNAMED.fullmatch, texts)):
        return names
    return f"{names}, which {'is no patch' if len(texts) == 1 else 'are no patches'}"


def _remark(over: ImageAttention, drawn: Drawn) -> str:
    """Return how to read the pictures: which patches stay clear, and what is not shown."""
    grids = " and ".join(f"{rows} × {columns}" for rows, columns in dict.fromkeys(m.grid for m in over.maps))
    parts = [f"{grids} patches"]
    if over.is_of_uniform:
        n_keys = " or ".join(f"1/{round(1 / share)}" for share in sorted({m.uniform or 1.0 for m in over.maps}))
        parts.append(f"uniform: {n_keys} of the weight to each key; clear: no more than that")
    if any(m.patch for m in over.maps) and drawn.outlined():
        parts.append("outlined: the query")
    if special := _special_text(over):
        shares = np.concatenate([m.special for m in over.maps])
        ends = dict.fromkeys(with_minus(f"{end:.2g}") for end in (shares.min(), shares.max()))
        parts.append(f"{' to '.join(ends)} {'of the weight ' * (over.quantity.name == WEIGHT)}goes to {special}")
    if over.stretched:
        height, width = over.image.shape[:2]
        parts.append(
            f"the image, {width:,} × {height:,}, is stretched to its patches; if the model crops it, crop it first"
        )
    if over.left_out:
        parts.append(f"{counted(over.left_out, 'map')} of other tokens left out")
    return "; ".join(filter(None, [*parts, over.quantity.remark, over.source.remark]))
