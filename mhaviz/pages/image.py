"""Page of attention over images: what stands out of what a query looks at, in each head."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.patches import WHOLE, Box, part_in
from mhaviz.pages.answer import by_chance
from mhaviz.pages.blocks import Column, Drawn, Page, Table
from mhaviz.pages.colormaps import AROUND_UNIFORM
from mhaviz.pages.labels import in_quotes, quoted
from mhaviz.pages.numbers import percent, short
from mhaviz.pages.overlays import Forms, HeadOverlay, Overlays, PatchPicture
from mhaviz.pages.panels import WEIGHT, Scale
from mhaviz.pages.registry import PAGE_SUFFIXES, shown
from mhaviz.pages.words import one_text
from mhaviz.results.attention import head_name
from mhaviz.results.image import ImageAttention
from mhaviz.results.means import mean_text
from mhaviz.results.patch_shares import LEAST_PATCHES, PEAK, Aside, ImageMap
from mhaviz.results.photo_views import SMALLER, TILES

MOSTLY = 0.1
"""Most of the patches, as a share of all, that a query looks at mostly."""

SCALE = replace(Scale.around_one(AROUND_UNIFORM, 8.0, "× uniform"), below=True, above=True)
"""Scale of multiples of uniform attention, the same in all pictures, so that noise stays pale."""

_CLASS_TOKEN = dict.fromkeys(("cls_token", "class_embedding", "class_token", "cls"), "the class token")
"""What parameters of programs are that stand before the patches."""

_SINGULAR = {"patches": "patch", "words": "word", "tokens": "token"}
_NAME = 40  # cells of a name
_IN_NOTE = 16  # cells of the name of a token in a note
_MOST_ASIDE = 2  # most tokens in a note that are no patches
_LEAST_STATED = 0.005  # least share of them
_MOST_VIEWS = 3  # most views that a title names
_SEEN = 0.01  # least part of the side of a photo that is seen to be missing
_ALL = 0.98  # least part of a photo that is all of it
_FEW = 12  # most rows of the table in a terminal


@dataclass(frozen=True, eq=False)
class _Head:
    """A head of a map: its place among those of the map, and its name."""

    m: ImageMap
    place: int
    name: str

    @property
    def n_half(self) -> int:
        """The fewest patches with half; 0: there are none."""
        return self.m.half[self.place] or 0

    @property
    def spread(self) -> str:
        """See ``ImageMap.spread``."""
        return self.m.spread(self.place)

    @property
    def most(self) -> float:
        """Largest multiple of uniform; 0: it gives patches nothing."""
        return max(float(np.nanmax(x, initial=0.0)) for x in self.m.times_uniform(self.place))

    @property
    def strongest(self) -> str:
        """Name of the patch that gets most."""
        times = self.m.times_uniform(self.place)
        view = int(np.argmax([np.nanmax(x, initial=0.0) for x in times]))
        row, column = np.unravel_index(int(np.nanargmax(times[view])), times[view].shape)
        return f"{self.m.views[view].name} {row},{column}".strip()

    @property
    def n_outlined(self) -> tuple[int, ...]:
        """Number of patches of each view that stand out."""
        return tuple(int(x.sum()) for x in self.m.outlined(self.place))


@shown(ImageAttention, PAGE_SUFFIXES)
def image_page(over: ImageAttention) -> Page:
    """Return the page, with all heads on one scale: each patch's share as a multiple of uniform."""
    heads = [_Head(m, place, name) for m in over.maps for place, name in enumerate(_head_names(over, m))]
    overlays = tuple(_overlay(over, head) for head in heads)
    block = Overlays(
        overlays,
        SCALE,
        "× the mean of all patches" if over.is_key else "× uniform over the image" + "s" * (len(over.numbers) > 1),
        tuple(_marks(over, heads, overlays)),
        _table(over, heads),
    )
    title = by_chance(_title(over, heads), over.source.is_random)
    return Page(title, (block,), over.source.footnote, partial(_remark, over))


def _overlay(over: ImageAttention, head: _Head) -> HeadOverlay:
    times, outlined = head.m.times_uniform(head.place), head.m.outlined(head.place)
    if head.spread == "nothing":  # which is seen all the same
        times = tuple(np.where(view.chance > 0, 0.0, np.nan) for view in head.m.views)
    shares, uniform = head.m.view_shares(head.place), head.m.uniform_shares
    pictures = tuple(
        PatchPicture(
            times[i].astype(np.float32),
            outlined[i],
            head.spread in ("half", "peaks"),
            over.photo(view),
            view.box,
            view.patch,
            quoted(view.name, _NAME) if view.name else "",
            shares[i],
            uniform[i],
            over.photo_box(view),
        )
        for i, view in enumerate(head.m.views)
    )
    notes = (_half_forms(head), _most_forms(over, head), _aside_forms(over, head))
    row, _, column = head.name.rpartition(" ")
    peak = head.m.n_patches / head.n_half if head.n_half else 0.0
    line = f"{head.name}: {_line(over, head)}"
    return HeadOverlay(head.name, row, column, pictures, tuple(note for note in notes if note), line, peak)


def _marks(over: ImageAttention, heads: Sequence[_Head], overlays: Sequence[HeadOverlay]) -> list[str]:
    """Return what lines in the pictures mean."""
    spreads = {head.spread for head in heads}
    marks = ["outlined: the fewest patches that hold half"] if "half" in spreads else []
    if "peaks" in spreads:
        marks.append(f"outlined: patches of {PEAK:g} × or more" if not marks else f"in even heads, {PEAK:g} × or more")
    if any(view.patch for m in over.maps for view in m.views):
        marks.append(f"cyan: the {'key' if over.is_key else 'query'}")
    if not all(picture.within_photo().seen.all() for one in overlays for picture in one.pictures):
        marks.append("blank: not seen")
    if over.photos:
        parts = [(view.box, over.photo_box(view)) for m in over.maps for view in m.views]
        marks += ["pale: outside of the patches"] * any(_lies_beyond(photo, box) for box, photo in parts)
        marks += ["striped: padding"] * any(photo != WHOLE for _, photo in parts)
    return marks


def _lies_beyond(one: Box, other: Box) -> bool:
    """Return whether a box reaches, visibly, beyond another."""
    least = (other[0] - one[0], other[1] - one[1], one[2] - other[2], one[3] - other[3])
    return max(least) > _SEEN


def _half_forms(head: _Head) -> Forms:
    n, of = head.n_half, f"{head.m.n_patches:,}"
    if head.spread == "nothing":
        return "gives the image nothing", "nothing"
    if head.spread == "peaks":
        n_peaks = sum(head.n_outlined)
        what = head.strongest if n_peaks == 1 else f"{n_peaks:,}"
        return f"{what} stand{'s' * (n_peaks == 1)} out", what
    if head.m.n_patches < LEAST_PATCHES:
        return f"most: {head.strongest}", head.strongest
    even = ": even" if head.spread == "even" else ""
    return f"half in {n:,} of {of}{even}", f"{n:,} of {of}{even}", f"{n:,}{even}", "even" if even else f"{n:,}"


def _most_forms(over: ImageAttention, head: _Head) -> Forms:
    if head.spread == "nothing":
        return ()
    most = _times(head.most)
    return f"at most {most} {_unit(over)}", f"at most {most} ×", f"≤ {most} ×"


def _times(number: float) -> str:
    return short(number, 2)


def _aside_forms(over: ImageAttention, head: _Head) -> Forms:
    """Return "[CLS] takes 3%, words 20%": what keys get that are no patches."""
    if over.is_key:
        mean = percent(float(head.m.inside[head.place]))
        return f"patches give it {mean} on average", f"{mean} on average", mean
    parts = _asides(head)
    if not parts:
        return ()
    (first, share), *rest = parts
    verb = "take" if first in ("words", "other tokens", "special tokens") else "takes"
    others = "".join(f", {name} {number}" for name, number in rest)
    return f"{first} {verb} {share}{others}", f"{first} {verb} {share}", f"{first} {share}", share


def _asides(head: _Head) -> list[tuple[str, str]]:
    """Return the names of keys that are no patches, and their shares, the largest first; others are summed up."""
    ranked = sorted(head.m.aside, key=lambda one: -one.weights[head.place])
    named = [one for one in ranked if one.weights[head.place] >= _LEAST_STATED] or ranked[:1]
    rest = sum(float(one.weights[head.place]) for one in named[_MOST_ASIDE:])
    found = [(_aside_name(one), percent(float(one.weights[head.place]))) for one in named[:_MOST_ASIDE]]
    return found + [("rest", percent(rest))] * (rest >= _LEAST_STATED)


def _aside_name(one: Aside) -> str:
    texts = [quoted(text, _IN_NOTE) for text in one.texts]
    if one.kind == "sink":
        return f"sink {texts[0]}"
    if one.kind == "special":
        return _CLASS_TOKEN.get(texts[0], texts[0]).removeprefix("the ")
    return {"words": "words", "others": "other tokens", "none": "no token"}[one.kind]


def _line(over: ImageAttention, head: _Head) -> str:
    """Return "half in 6 of 196 patches, at most 39 × uniform; [CLS] 0%"."""
    first, *others = (forms[0] for forms in (_half_forms(head), _most_forms(over, head)) if forms)
    aside = _aside_forms(over, head)[:1]
    said = first.replace(f" of {head.m.n_patches:,}", f" of {head.m.n_patches:,} patches")
    where = _views_text(head) if head.spread == "half" else ""
    return "; ".join([", ".join([f"{said}{where}", *others]), *aside])


def _title(over: ImageAttention, heads: Sequence[_Head]) -> str:
    """Return what is seen in the most peaked head: "In the image, patch 3,11 looks mostly at 6 of 196 patches (L0 H1)".

    Mostly: with half of what it gives the patches, or more, and few of them.
    """
    halves = sorted((head for head in heads if head.spread == "half"), key=lambda head: head.n_half / head.m.n_patches)
    evenly = [head for head in heads if head.spread == "even"]
    if halves:
        best = halves[0]
        few = best.m.n_patches < LEAST_PATCHES
        n_patches = _patch_text(best.strongest) if few else f"{best.n_half:,} of {best.m.n_patches:,} patches"
        end = f": {_times(best.most)} {_unit(over)}" if few else _views_text(best)
        which = _which(over, heads, best, evenly)
        if not few and best.n_half > MOSTLY * best.m.n_patches:
            looks = (
                f"looks at {_who(over)} comes from" if over.is_key else f"{_who(over)} {_verb(over, 'look')} at lies in"
            )
            return f"Half of what {looks} {n_patches}{end}{which}"
        return f"{_looks(over, 'most' if few else 'mostly', n_patches)}{end}{which}"
    if peaks := sorted((head for head in heads if head.spread == "peaks"), key=lambda head: -head.most):
        best, n_peaks = peaks[0], sum(peaks[0].n_outlined)
        which = _patch_text(best.strongest) if n_peaks == 1 else f"{n_peaks:,} of {best.m.n_patches:,} patches"
        most = f"{'' if n_peaks == 1 else 'up to '}{_times(best.most)} {_unit(over)}"
        return f"{_looks(over, 'evenly, except', which)}: {most}{_which(over, heads, best, evenly)}"
    who, images = _who(over), _images(over)
    if all(head.spread == "nothing" for head in heads):
        does = "does" if _is_one(over) else "do"
        return f"No patch looks at {who}" if over.is_key else f"{_capitalised(who)} {does} not look at the {images}"
    least = min(evenly, key=lambda head: head.n_half / head.m.n_patches)
    every = "both" if len(heads) == 2 else f"all {len(heads):,}"
    n_even = every if len(evenly) == len(heads) else f"{len(evenly):,} of {len(heads):,}"
    where = f" in {n_even} {_panels(over)}" * (len(heads) > 1)
    who = who if over.is_key else _capitalised(who)
    said = f"All patches look alike at {who}" if over.is_key else f"{who} {_verb(over, 'look')} evenly at the {images}"
    if least.m.n_patches < LEAST_PATCHES:
        return said + where
    at_least = "at least " * (len(evenly) > 1)
    return f"{said}{where}: half of it takes {at_least}{least.n_half:,} of {least.m.n_patches:,} patches"


def _looks(over: ImageAttention, how: str, patches: str) -> str:
    """Return "In the image, patch 3,11 looks mostly at 6 of 196 patches", or who looks mostly at a key."""
    who = _who(over)
    if over.is_key:
        return f"{_capitalised(who)} is looked at {how} by {patches}"
    return f"In the {_images(over)}, {who} {_verb(over, 'look')} {how} at {patches}"


def _which(over: ImageAttention, heads: Sequence[_Head], best: _Head, evenly: Sequence[_Head]) -> str:
    """Return which head a title is about, and how many are even: " (L0 H1; even in 2 of 8 heads)"."""
    if len(heads) == 1:
        return f" ({mean_text(over.mean_over)})" if over.mean_over else ""
    several = f"{len(evenly)} of {len(heads)} {_panels(over)}"
    even = f"; even in {evenly[0].name if len(evenly) == 1 else several}" * bool(evenly)
    return f" ({best.name}{even})"


def _panels(over: ImageAttention) -> str:
    """Return what the panels are of: heads, or the mean of a layer's heads each."""
    return "means of heads" if over.mean_over else "heads"


def _images(over: ImageAttention) -> str:
    """Return "image", "images" or "frames"."""
    if len(over.numbers) == 1:
        return "image"
    names = {view.name.partition(" ")[0] for m in over.maps for view in m.views}
    return "frames" if names == {"frame"} else "images"


def _is_one(over: ImageAttention) -> bool:
    return over.kind != "after"


def _verb(over: ImageAttention, verb: str) -> str:
    return f"{verb}s" if _is_one(over) else verb


def query_name(over: ImageAttention) -> str:
    """Return the name of the query or the key, beside nothing that says of which image it is."""
    return f"the {over.queries} after the {_images(over)}" if over.kind == "after" else _who(over)


def _who(over: ImageAttention) -> str:
    """Return the name of the query: "patch 3,11", "“cat”", "the class token", "token #69", "the average patch",
    "the words after it"."""
    name = quoted(over.query, _NAME) if over.query else ""
    return {
        "patch": _patch_text(name),
        "word": (_CLASS_TOKEN.get(name) or in_quotes(name)) if name else "a token without a name",
        "position": f"token {name}",
        "all": f"the average {_SINGULAR[over.queries]}",
        "answer": "the answer",
        "after": f"the {over.queries} after {'it' if len(over.numbers) == 1 else 'them'}",
    }[over.kind]


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def _patch_text(label: str) -> str:
    """Return "patch 3,11", or "patch 3,11 of frame 2"."""
    view, _, patch = label.rpartition(" ")
    return f"patch {patch} of {_view_text(view)}" if view else f"patch {patch}"


def _view_text(name: str) -> str:
    """Return "frame 2", "the thumbnail", or "the tiles of image 1"."""
    image, _, part = name.rpartition(" ")
    if part not in (TILES, SMALLER):
        return name
    return f"the {part} of {image}" if image else f"the {part}"


def _unit(over: ImageAttention) -> str:
    return "× the mean" if over.is_key else "× uniform"


def _views_text(head: _Head) -> str:
    """Return the views that have most of the patches that stand out, ", in frames 2 and 3", or ", most in the tiles";
    "" where it takes many."""
    counts = head.n_outlined
    if len(counts) < 2:
        return ""
    order = sorted(range(len(counts)), key=lambda i: -counts[i])
    for n in range(1, min(_MOST_VIEWS, len(counts) - 1) + 1):
        if 2 * (inside := sum(counts[i] for i in order[:n])) > sum(counts):
            names = [quoted(head.m.views[i].name, _NAME) or f"view {i}" for i in sorted(order[:n])]
            return f", {'in' if inside == sum(counts) else 'most in'} {_listed(names)}"
    return ""


def _listed(names: Sequence[str]) -> str:
    """Return "frames 2 and 3", "frames 2, 3 and 4", or "the thumbnail and image 1"."""
    kinds, numbers = zip(*(name.rpartition(" ")[::2] for name in names), strict=True)
    if len(names) > 1 and len({*kinds}) == 1 and kinds[0] and all(number.isdecimal() for number in numbers):
        *before, last = numbers
        return f"{kinds[0]}s {', '.join(before)} and {last}"
    *before, last = map(_view_text, names)
    return f"{', '.join(before)} and {last}" if before else last


def _table(over: ImageAttention, heads: Sequence[_Head]) -> Table:
    """Return how each head spreads what it gives patches, the most peaked first."""
    rows = tuple(
        (head.name, head.n_half or None, head.m.n_patches, head.spread, head.most, float(head.m.inside[head.place]))
        for head in heads
    )
    columns = (
        Column("head", align="left", is_key=True),
        Column("half in", "{:,}".format),
        Column("of patches", "{:,}".format),
        Column("spread", align="left"),
        Column("at most × uniform", _times),
        Column("mean weight" if over.is_key else "weight on patches", "{:.2f}".format),
    )
    return Table(columns, rows, most=_FEW)


def _head_names(over: ImageAttention, m: ImageMap) -> list[str]:
    """Return "L3 H5" for each head, "pass 100 L3 H5" where there are several inputs, "L3 mean" of a mean over heads,
    and "mean" of one over layers."""
    inputs = _input_text(m) if len(set(map(_input_text, over.maps))) > 1 else ""
    same = Counter((other.layer, _input_text(other)) for other in over.maps)[m.layer, _input_text(m)]
    module = quoted(m.module, _IN_NOTE) if same > 1 and m.module else ""  # maps of one layer that differ in this alone
    of_layer = "mean" if m.layer is None else f"L{m.layer} mean"
    names = [of_layer] if over.quantity.of_all_heads else [head_name(m.layer, head) for head in m.heads]
    return [" ".join(filter(None, [inputs, module, name])) for name in names]


def _input_text(m: ImageMap) -> str:
    """Return which of several inputs a map is of, "pass 100, example 2"; "" where there is one."""
    of_pass = "" if m.pass_number is None else f"pass {m.pass_number:,}"
    of_batch = "" if m.sentence is None else f"{one_text(is_recorded=m.is_recorded)} {m.sentence}"
    return ", ".join(filter(None, [of_pass, of_batch]))


def _remark(over: ImageAttention, drawn: Drawn) -> str:
    """Return what the pictures are of, and what is not shown."""
    name = f"{quoted(over.image_name, _NAME)}, " if over.image_name else ""
    means = {
        "all": f"mean over all {over.queries}",
        "after": f"mean over the {over.queries} after the {_images(over)}",
        "answer": f"mean over the {over.queries} that the model has written",
    }
    parts = [f"{name}{_grids_text(over)} patches", means.get(over.kind, ""), mean_text(over.mean_over)]
    if over.source_grids:
        coarse = " and ".join(f"{rows} × {columns}" for rows, columns in over.source_grids)
        how = "have its weight" if over.is_key else "divide its weight"
        parts.append(f"mean of layers with {coarse}: the patches over a coarser one {how}")
    parts += _place_texts(over)
    if over.left_out:
        parts.append(f"{counted(over.left_out, 'map')} of other tokens left out")
    if over.n_pooled:
        parts.append(
            f"{counted(over.n_pooled, 'map')} with cells of several patches left out, which a larger size keeps"
        )
    parts += _aside_ranges(over)
    return "; ".join(filter(None, [*parts, over.quantity.remark, over.source.remark]))


def _grids_text(over: ImageAttention) -> str:
    """Return "14 × 14"; of several layers "16 × 16 and 8 × 8"; of several views "thumbnail 4 × 4 and tiles 8 × 8"."""
    views = [view for m in over.maps for view in m.views]
    shapes = dict.fromkeys(view.grid for view in views)
    named = dict.fromkeys((quoted(view.name, _NAME), view.grid) for view in views if view.name)
    if len(shapes) == len(named) > 1:
        return " and ".join(f"{name} {rows} × {columns}" for name, (rows, columns) in named)
    return " and ".join(f"{rows} × {columns}" for rows, columns in shapes)


def _place_texts(over: ImageAttention) -> list[str]:
    """Return what of the photos the patches cover, and which photos are what the program has read."""
    found = []
    if (photo := over.stretched) is not None:
        height, width = photo.shape[:2]
        found.append(
            f"the image, {width:,} × {height:,}, is stretched to its patches; if the model crops it, crop it first"
        )
    read = "the picture" if over.n_unplaced == 1 else f"{over.n_unplaced:,} pictures"
    if over.n_unplaced and not over.n_given:
        are = "is" if over.n_unplaced == 1 else "are"
        found.append(f"{'the pictures' if are == 'are' else read} {are} what the model has read")
    elif over.n_unplaced:
        what = "an image that is not" if over.n_unplaced == 1 else f"{over.n_unplaced:,} images that are not"
        found.append(f"the model has read {what} among those given; drawn as it was read")
    covered = [_covered(over, number) for number in over.numbers] if over.photos else []
    if covered and min(part for part, _ in covered) < _ALL:
        ends = dict.fromkeys(percent(part) for part in (min(covered)[0], max(covered)[0]))
        middle = "the middle " * all(is_middle for _, is_middle in covered)
        of = "the image" if len(covered) == 1 else "each image"
        found.append(f"the patches cover {middle}{' to '.join(ends)} of {of}")
    return found


def _covered(over: ImageAttention, number: int) -> tuple[float, bool]:
    """Return the part of a photo that patches cover, and whether it is in the middle."""
    views = [view for m in over.maps for view in m.views if view.image == number]
    boxes = np.array([np.clip(part_in(view.box, over.photo_box(view)), 0, 1) for view in views])
    top, left = boxes[:, :2].min(axis=0)
    bottom, right = boxes[:, 2:].max(axis=0)
    is_middle = max(abs(top + bottom - 1), abs(left + right - 1)) < 2 * _SEEN
    return float((bottom - top) * (right - left)), is_middle


def _aside_ranges(over: ImageAttention) -> list[str]:
    """Return "at most 20% of the weight goes to words" for each kind of keys that are no patches."""
    special = {_aside_name(one) for m in over.maps for one in m.aside if one.kind == "special"}
    ranges = dict[str, list[float]]()
    for m in over.maps:
        sums = dict[str, NDArray[np.float64]]()
        for one in m.aside:
            is_one_of_many = one.kind == "special" and len(special) > _MOST_ASIDE
            name = "special tokens" if is_one_of_many else _aside_name(one)
            sums[name] = sums.get(name, np.zeros(len(m.heads))) + one.weights
        for name, weights in sums.items():
            ranges.setdefault(name, []).extend(weights.tolist())
    largest = sorted(ranges.items(), key=lambda item: -max(item[1]))[: 2 * _MOST_ASIDE]
    of = "of the weight " * (over.quantity.name == WEIGHT)
    found = []
    for name, shares in largest:
        low, high = percent(min(shares)), percent(max(shares))
        said = high if low == high else f"at most {high}" if min(shares) < _LEAST_STATED else f"{low} to {high}"
        goes_to = "goes to" if not name.startswith(("class token", "sink")) else "goes to the"
        found.append(f"{said} {of}{goes_to} {name}")
    return found
