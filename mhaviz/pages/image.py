"""Attention over an image: each head over the pale image and without it, and its strongest patches."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Block, Column, Grid, Page, Panels, Table, Title, Where
from mhaviz.pages.labels import quoted
from mhaviz.pages.module_names import common_name
from mhaviz.pages.panels import FILM, WEIGHT, Outline, Panel, Scale
from mhaviz.pages.registry import shown
from mhaviz.pages.words import counted, head_name, one_text
from mhaviz.results.axis import Axis
from mhaviz.results.image import ImageAttention, ImageMap

_NAME = 40  # cells of a name that is quoted
_SHORT = 16  # the same in a narrow place
_FEW = 2  # special tokens that are named
_STRONGEST = 3  # patches of a head that are named
_MOST_PLAIN = 24  # heads of a row that are drawn without the image, too
_MOST_LISTED = 24


@shown(ImageAttention)
def image_page(over: ImageAttention) -> Page:
    """Every head on one scale: how many times as much as by chance a patch gets, clear where it is no more."""
    scale = _scale(over)
    blocks: list[Block] = []
    for grid in dict.fromkeys(m.grid for m in over.maps):
        maps = [m for m in over.maps if m.grid == grid]
        laid, plain = (_panels(over, maps, scale, image) for image in (over.image, None))
        if len(over.maps) == len(laid.panels) == 1:
            blocks.append(Grid(((laid, plain),)))
        else:
            blocks += [laid, plain] if laid.across == len(laid.panels) <= _MOST_PLAIN else [laid]
    return Page(_title(over), (*blocks, _strongest(over)), over.source.footnote, _remark(over))


def _scale(over: ImageAttention) -> Scale:
    """From what a patch gets by chance to the largest number; where all get the same, it is no maximum."""
    largest = max(float(over.numbers(m).max()) for m in over.maps)
    if not over.is_of_uniform:
        return Scale(FILM, 0.0, largest or 1.0, name=over.quantity.drawn_name)
    return Scale(FILM, 1.0, max(largest, 2.0), name="× uniform")


def _panels(over: ImageAttention, maps: Sequence[ImageMap], scale: Scale, image: NDArray[np.uint8] | None) -> Panels:
    """The heads of maps of one grid, over the image or, on paper, without it."""
    panels = []
    for m in maps:
        of_query = () if m.patch is None else (_around(*m.patch),)
        for name, values in zip(head_names(over, m), over.numbers(m), strict=True):
            panels.append(Panel(name, values, scale, outlined=of_query, image=image))
    height, width = maps[0].grid
    rows = Axis(Tokens(tuple(map(str, range(height))), grid=(height, 1)))
    columns = Axis(Tokens(tuple(map(str, range(width))), grid=(1, width)))
    heads = {m.heads for m in maps}  # a row a map where all have the same several
    across = len(maps[0].heads) if len(heads) == 1 and len(maps[0].heads) > 1 else len(panels)
    where: Where = "drawn" if image is None else "everywhere"
    return Panels("", tuple(panels), rows, columns, across, first=panels[0].title, is_main=False, where=where)


def _around(row: int, column: int) -> Outline:
    return Outline(range(row, row + 1), range(column, column + 1))


def _title(over: ImageAttention) -> Title:
    """ "attention of token 0 to photo.png, layer 3, blocks.3.attn"; what all pictures have in common is said here."""
    what = over.quantity.title_prefix + "attention"
    query = quoted(over.query, _NAME)
    if any(m.patch for m in over.maps):
        query = f"patch {query}"
    who = f"{what} of {query}" if over.query else f"mean {what} of all queries"
    head = f"{who} to {quoted(over.image_name, _NAME) if over.image_name else 'the image'}"
    layers = sorted({m.layer for m in over.maps})
    layer = f", layer {layers[0]}" if len(layers) == 1 else f", layers {layers[0]} to {layers[-1]}"
    module = common_name([m.module for m in over.maps])
    short = f"{query or 'all queries'} → {quoted(over.image_name, _SHORT) if over.image_name else 'image'}{layer}"
    return Title(head + layer + f", {quoted(module or '', _NAME)}" * bool(module), (), short)


def head_names(over: ImageAttention, m: ImageMap) -> list[str]:
    """ "L3 H5" of each head, or "pass 100 L3 H5" where there are several inputs; a rollout has no heads: "L3"."""
    inputs = _input_text(m) if len(set(map(_input_text, over.maps))) > 1 else ""
    names = [f"L{m.layer}"] if over.quantity.of_all_heads else [head_name(m.layer, head) for head in m.heads]
    return [" ".join(filter(None, [inputs, name])) for name in names]


def _input_text(m: ImageMap) -> str:
    """ "pass 100, example 2": which of several inputs it is of; nothing where there is one."""
    of_pass = "" if m.pass_number is None else f"pass {m.pass_number:,}"
    of_batch = "" if m.sentence is None else f"{one_text(is_recorded=m.is_recorded)} {m.sentence}"
    return ", ".join(filter(None, [of_pass, of_batch]))


def _strongest(over: ImageAttention) -> Table:
    """Of each head the patches that get most, by row and column, and what goes to tokens that are no patches."""
    unit = ", × uniform" if over.is_of_uniform else ""
    special = special_text(over)
    columns = [Column("", align="left", is_key=True), Column(f"strongest patches{unit}", align="left")]
    rows = []
    for m in over.maps:
        for i, name in enumerate(head_names(over, m)):
            numbers = over.numbers(m)[i]
            order = np.argsort(-numbers, axis=None, kind="stable")[:_STRONGEST]
            places = [np.unravel_index(place, numbers.shape) for place in order]
            texts = [f"{row},{column} {numbers[row, column]:.3g}" for row, column in places if numbers[row, column] > 0]
            share = [f"{m.special[i]:.3g}"] if special else []
            rows.append((name, " · ".join(texts) or "nothing to any patch", *share))
    columns += [Column(f"to {special}")] * bool(special)
    return Table(
        tuple(columns), tuple(rows), most=_MOST_LISTED, notes="patches by row and column, from 0", where="listed"
    )


def special_text(over: ImageAttention) -> str:
    """The tokens that are no patches, if there are any: "token 0 and 4 tokens more"."""
    texts = list(dict.fromkeys(text for m in over.maps for text in m.special_texts))
    named = [quoted(text, _NAME) or "a special token" for text in texts[:_FEW]]
    more = [counted(len(texts) - _FEW, "token") + " more"] if len(texts) > _FEW else []
    return " and ".join([", ".join(named), *more]) if more else " and ".join(named)


def _remark(over: ImageAttention) -> str:
    """What is clear, and what is not in the picture."""
    grids = " and ".join(f"{rows} × {columns}" for rows, columns in dict.fromkeys(m.grid for m in over.maps))
    parts = [f"{grids} patches"]
    if over.is_of_uniform:
        n_keys = " or ".join(f"1/{round(1 / share)}" for share in sorted({m.uniform or 1.0 for m in over.maps}))
        parts.append(f"uniform: {n_keys} of the weight to each key; clear: no more than that")
    if any(m.patch for m in over.maps):
        parts.append("outlined: the query")
    if special := special_text(over):
        shares = np.concatenate([m.special for m in over.maps])
        ends = dict.fromkeys(f"{end:.2g}" for end in (shares.min(), shares.max()))
        parts.append(f"{' to '.join(ends)} {'of the weight ' * (over.quantity.name == WEIGHT)}goes to {special}")
    if over.stretched:
        height, width = over.image.shape[:2]
        parts.append(
            f"the image, {width:,} × {height:,}, is stretched to its patches; if the model crops it, crop it first"
        )
    if over.left_out:
        parts.append(f"{counted(over.left_out, 'map')} of other tokens left out")
    return "; ".join(filter(None, [*parts, over.quantity.remark, over.source.remark]))
