"""The words over, beside and under attention that is laid over an image, the same in every medium."""

from mhaviz.pages.blocks import Quote
from mhaviz.pages.words import counted
from mhaviz.records import ImageAttention, ImageMap

_NAME = 40  # cells of a name that is quoted
_TITLE_NAME = 60
_FEW = 2  # special tokens that are named


def image_title(over: ImageAttention, quote: Quote) -> str:
    """ "attention of [cls] to photo.png, layer 3, blocks.3.attn"; what all pictures have in common is said here."""
    what = over.quantity.title_prefix + "attention"
    query = quote(over.query, _NAME)
    if any(m.patch for m in over.maps):
        query = f"patch {query}"
    who = f"{what} of {query}" if over.query else f"mean {what} of all queries"
    image = quote(over.image_name, _TITLE_NAME) if over.image_name else "the image"
    only = f", {map_title(over.maps[0], quote)}" if len(over.maps) == 1 else ""
    return f"{who} to {image}{only}"


def map_title(m: ImageMap, quote: Quote) -> str:
    """ "layer 3, blocks.3.attn"."""
    return layer_title(m) + (f", {quote(m.module, _TITLE_NAME)}" if m.module else "")


def layer_title(m: ImageMap) -> str:
    """ "layer 3", or "sentence 2, pass 100, layer 3"."""
    sentence = "" if m.sentence is None else f"sentence {m.sentence}, "
    passed = "" if m.pass_number is None else f"pass {m.pass_number:,}, "
    return f"{sentence}{passed}layer {m.layer}"


def is_flat(over: ImageAttention) -> bool:
    """Whether every map has one head: pictures of layers then stand side by side, and not a row each."""
    return len(over.maps) > 1 and all(len(m.heads) == 1 for m in over.maps)


def head_titles(over: ImageAttention, m: ImageMap) -> tuple[str, ...]:
    """ "head 5" of each head, or "layer 3, head 5" where layers stand side by side; a rollout has no heads."""
    layer = layer_title(m) if is_flat(over) or over.quantity.through_layers else ""
    heads = ("",) if over.quantity.through_layers else tuple(f"head {head}" for head in m.heads)
    return tuple(", ".join(filter(None, [layer, head])) for head in heads)


def special_text(over: ImageAttention, quote: Quote) -> str:
    """The tokens that are no patches, if there are any: "[cls] and 4 tokens more"."""
    texts = list(dict.fromkeys(text for m in over.maps for text in m.special_texts))
    named = [quote(text, _NAME) or "a special token" for text in texts[:_FEW]]
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
