"""The words over, beside and under attention that is laid over an image, the same in every medium."""

from collections.abc import Sequence
from dataclasses import replace

from mhaviz.pages.blocks import Page
from mhaviz.pages.labels import quoted
from mhaviz.pages.registry import shown
from mhaviz.pages.words import counted, one_text
from mhaviz.results.image import ImageAttention, ImageMap

_NAME = 40  # cells of a name that is quoted
_TITLE_NAME = 60
_FEW = 2  # special tokens that are named


@shown(ImageAttention, figure="image:image_figure", view="image:ImageView")
def image_page(over: ImageAttention) -> Page:
    """What no blocks could show: each medium lays the maps over the image, or beside each other, in its own way."""
    return Page(image_title(over), (), over.source.footnote)


def image_title(over: ImageAttention) -> str:
    """ "attention of token 0 to photo.png, layer 3, blocks.3.attn"; what all pictures have in common is said here."""
    what = over.quantity.title_prefix + "attention"
    query = quoted(over.query, _NAME)
    if any(m.patch for m in over.maps):
        query = f"patch {query}"
    who = f"{what} of {query}" if over.query else f"mean {what} of all queries"
    image = quoted(over.image_name, _TITLE_NAME) if over.image_name else "the image"
    first, common = over.maps[0], ""
    if len(over.maps) == 1:
        common = map_title(first)
    elif is_of_one_layer(over):
        common = map_title(replace(first, pass_number=None, sentence=None))
    return ", ".join(filter(None, [f"{who} to {image}", common]))


def map_title(m: ImageMap) -> str:
    """ "layer 3, blocks.3.attn", or "layer 3, pass 100, example 2, blocks.3.attn"."""
    module = quoted(m.module, _TITLE_NAME) if m.module else ""
    return ", ".join(filter(None, [f"layer {m.layer}", input_text(m), module]))


def input_text(m: ImageMap) -> str:
    """ "pass 100, example 2": which of several inputs it is of; nothing where there is one."""
    of_pass = "" if m.pass_number is None else f"pass {m.pass_number:,}"
    of_batch = "" if m.sentence is None else f"{one_text(is_recorded=m.is_recorded)} {m.sentence}"
    return ", ".join(filter(None, [of_pass, of_batch]))


def is_of_one_layer(over: ImageAttention) -> bool:
    """Whether the maps differ in their input alone."""
    return len({(m.layer, m.module) for m in over.maps}) == 1


def picture_rows(over: ImageAttention) -> list[tuple[ImageMap, ...]]:
    """The maps whose pictures stand side by side.

    Each alone, or if all have one head, the layers of one input; of one layer, all inputs.
    """
    if any(len(m.heads) > 1 for m in over.maps):
        return [(m,) for m in over.maps]
    if is_of_one_layer(over):
        return [over.maps]
    rows: dict[str, list[ImageMap]] = {}
    for m in over.maps:
        rows.setdefault(input_text(m), []).append(m)
    return list(map(tuple, rows.values()))


def row_heading(row: Sequence[ImageMap]) -> list[str]:
    """What stands beside such a row, if there are several: "layer 3", "pass 100, example 2"; the module is quoted by
    who draws it."""
    layer = [f"layer {row[0].layer}"] if len(row) == 1 else []
    return [*layer, *filter(None, [input_text(row[0])])]


def row_titles(over: ImageAttention, row: Sequence[ImageMap]) -> list[tuple[str, ...]]:
    """Of each map of such a row the titles of its pictures: "head 5", or "layer 3, head 5", or "pass 100, head 5"; of a
    rollout, "layer 3"."""
    several = len({m.layer for m in row}) > 1
    which = ["" if len(row) == 1 else f"layer {m.layer}" if several else input_text(m) for m in row]
    if over.quantity.of_all_heads and len(row) > 1:
        return [(one,) for one in which]
    return [
        tuple(", ".join(filter(None, [one, head])) for head in head_titles(over, m))
        for one, m in zip(which, row, strict=True)
    ]


def head_titles(over: ImageAttention, m: ImageMap) -> tuple[str, ...]:
    """ "head 5" of each head; a rollout has none of its own."""
    return ("all heads",) if over.quantity.of_all_heads else tuple(f"head {head}" for head in m.heads)


def special_text(over: ImageAttention) -> str:
    """The tokens that are no patches, if there are any: "token 0 and 4 tokens more"."""
    texts = list(dict.fromkeys(text for m in over.maps for text in m.special_texts))
    named = [quoted(text, _NAME) or "a special token" for text in texts[:_FEW]]
    more = [counted(len(texts) - _FEW, "token") + " more"] if len(texts) > _FEW else []
    return " and ".join([", ".join(named), *more]) if more else " and ".join(named)


def stretched_text(over: ImageAttention) -> str:
    """That the image has another shape than its patches; nothing where it is nearly the same."""
    if not over.stretched:
        return ""
    height, width = over.image.shape[:2]
    grids = " and ".join(f"{rows} × {columns}" for rows, columns in dict.fromkeys(m.grid for m in over.maps))
    return f"the image, {width:,} × {height:,}, is stretched to {grids} patches; if the model crops it, crop it first"


def left_out_text(over: ImageAttention) -> str:
    """How many maps are not shown, as they are of something else than patches; nothing where there are none."""
    return f"{counted(over.left_out, 'map')} of other tokens left out" if over.left_out else ""


def strongest_text(m: ImageMap, head: int, most: int) -> str:
    """ "5,7 0.123 · 5,8 0.101": the patches that get most, by row and column; ``head``: its place."""
    return " · ".join(f"{row},{column} {weight:.3g}" for row, column, weight in m.strongest(head, most) if weight > 0)
