"""Page of attention over images: what stands out of what a query looks at, in each head."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mhaviz.errors import counted
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
from mhaviz.units import with_minus

SCALE = replace(Scale.around_one(AROUND_UNIFORM, 8.0, "× uniform"), below=True, above=True)
"""Scale of multiples of uniform attention, the same in all pictures, so that noise stays pale."""

_NAME = 40  # cells of a name
_IN_NOTE = 16  # cells of the name of a token in a note
_MOST_ASIDE = 2  # most tokens in a note that are no patches
_LEAST_STATED = 0.005  # least share of them
_MOST_VIEWS = 3  # most views that a title names
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
    block = Overlays(
        tuple(_overlay(over, head) for head in heads),
        SCALE,
        "× the mean of all patches" if over.is_key else "× uniform over the image" + "s" * (len(over.numbers) > 1),
        tuple(_marks(over, heads)),
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
        )
        for i, view in enumerate(head.m.views)
    )
    notes = (_half_forms(head), _most_forms(over, head), _aside_forms(over, head))
    row, _, column = head.name.rpartition(" ")
    peak = head.m.n_patches / head.n_half if head.n_half else 0.0
    line = f"{head.name}, {_who(over)}: {_line(over, head)}"
    return HeadOverlay(head.name, row, column, pictures, tuple(note for note in notes if note), line, peak)


def _marks(over: ImageAttention, heads: Sequence[_Head]) -> list[str]:
    """Return what lines in the pictures mean."""
    spreads = {head.spread for head in heads}
    marks = ["outlined: the fewest patches that hold half"] if "half" in spreads else []
    if "peaks" in spreads:
        marks.append(f"outlined: patches of {PEAK:g} × or more" if not marks else f"in even heads, {PEAK:g} × or more")
    if any(view.patch for m in over.maps for view in m.views):
        marks.append(f"cyan: the {'key' if over.is_key else 'query'}")
    if any(np.isnan(view.weights).any() for m in over.maps for view in m.views):
        marks.append("blank: not seen")
    return marks


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
        return texts[0]
    return {"words": "words", "others": "other tokens", "none": "no token"}[one.kind]


def _line(over: ImageAttention, head: _Head) -> str:
    """Return "half in 6 of 196 patches, at most 39 × uniform; [CLS] 0%"."""
    first, *others = (forms[0] for forms in (_half_forms(head), _most_forms(over, head)) if forms)
    aside = _aside_forms(over, head)[:1]
    said = first.replace(f" of {head.m.n_patches:,}", f" of {head.m.n_patches:,} patches")
    views = _best_views(head)
    where = f", most of them in {views}" if views and head.spread == "half" else ""
    return "; ".join([", ".join([f"{said}{where}", *others]), *aside])


def _title(over: ImageAttention, heads: Sequence[_Head]) -> str:
    """Return what is seen: in how many patches half of the attention lies, in the most and in the least peaked head."""
    who, are_several = _who(over), len(heads) > 1
    halves = sorted((head for head in heads if head.spread == "half"), key=lambda head: head.n_half / head.m.n_patches)
    if halves:
        best, worst = halves[0], halves[-1]
        n = best.m.n_patches
        where = f" in {best.name}" if are_several else ""
        if over.mean_over and not are_several:
            where = f" in the {mean_text(over.mean_over)}"
        if n < LEAST_PATCHES:
            does = "gives" if over.is_key else "gets"
            what = _what(over, who).rstrip(",")
            return f"Of {what}, {_patch_text(best.strongest)} {does} most{where}: {_times(best.most)} {_unit(over)}"
        views = _best_views(best)
        lies = "comes from" if over.is_key else "lies in"
        said = f"Half of {_what(over, who)} {lies} {best.n_half:,} of {n:,} patches{where}"
        if views:
            return f"{said}, most of them in {views}"
        if worst is not best and worst.n_half > best.n_half:
            said += f", in {worst.n_half:,} in {worst.name}"
        if even := [head.name for head in heads if head.spread == "even"]:
            said += f"; it is even in {even[0] if len(even) == 1 else f'{len(even)} of {len(heads)} heads'}"
        return said
    if peaks := sorted((head for head in heads if head.spread == "peaks"), key=lambda head: -head.most):
        best = peaks[0]
        where = f" in {best.name}" if are_several else ""
        n_peaks = sum(best.n_outlined)
        if n_peaks == 1:
            what = f"Only {_patch_text(best.strongest)} stands out"
        else:
            what = f"{n_peaks:,} of {best.m.n_patches:,} patches stand out"
        most = f"{'' if n_peaks == 1 else 'up to '}{_times(best.most)} {_unit(over)}"
        return f"{what} of {_what(over, who).rstrip(',')}: {most}{where}"
    if all(head.spread == "nothing" for head in heads):
        does = "gets nothing from" if over.is_key else f"{_verb(over, 'give')} nothing to"
        return f"{who[0].upper()}{who[1:]} {does} the image"
    evenly = [head for head in heads if head.spread == "even"]
    least = min(evenly, key=lambda head: head.n_half / head.m.n_patches)
    n_heads = (
        f", in {'all' if len(evenly) == len(heads) else f'{len(evenly)} of'} {len(heads)} heads" if are_several else ""
    )
    does = "gets comes evenly from" if over.is_key else f"{_verb(over, 'look')} at is spread evenly over"
    what = f"What {who} {does} the image"
    if least.m.n_patches < LEAST_PATCHES:
        return what + n_heads
    return f"{what}{n_heads}: half of it in no fewer than {least.n_half:,} of {least.m.n_patches:,} patches"


def _what(over: ImageAttention, who: str) -> str:
    """Return "what patch 3,11 looks at in the image"."""
    images = "images" if len(over.numbers) > 1 else "image"
    if over.is_key:
        return f"what {who} gets from the {images}"
    if over.kind == "after":
        return f"what {who} look at in {'them' if images == 'images' else 'it'}, on average,"
    mean = ", on average," if over.kind == "all" else ""
    return f"what {who} {_verb(over, 'look')} at in the {images}{mean}"


def _verb(over: ImageAttention, verb: str) -> str:
    return verb if over.kind in ("all", "after") else f"{verb}s"


def _who(over: ImageAttention) -> str:
    """Return the name of the query: "patch 3,11", "“cat”", "[CLS]", "token #69", "all queries"."""
    name = quoted(over.query, _NAME) if over.query else ""
    images = "images" if len(over.numbers) > 1 else "image"
    return {
        "patch": _patch_text(name),
        "word": in_quotes(name) if name else "a token without a name",
        "position": f"token {name}",
        "all": "all queries",
        "after": f"the tokens after the {images}",
    }[over.kind]


def _patch_text(label: str) -> str:
    """Return "patch 3,11", or "patch 3,11 of frame 2"."""
    view, _, patch = label.rpartition(" ")
    return f"patch {patch} of {view}" if view else f"patch {patch}"


def _unit(over: ImageAttention) -> str:
    return "× the mean" if over.is_key else "× uniform"


def _best_views(head: _Head) -> str:
    """Return the views that have most of the patches that stand out, "frames 2 and 3"; "" where it takes many."""
    counts = head.n_outlined
    if len(counts) < 2:
        return ""
    order = sorted(range(len(counts)), key=lambda i: -counts[i])
    for n in range(1, min(_MOST_VIEWS, len(counts) - 1) + 1):
        if 2 * sum(counts[i] for i in order[:n]) > sum(counts):
            names = [quoted(head.m.views[i].name, _NAME) or f"view {i}" for i in sorted(order[:n])]
            return _listed(names)
    return ""


def _listed(names: Sequence[str]) -> str:
    """Return "frames 2 and 3", "frames 2, 3 and 4", or "thumbnail and image 1"."""
    kinds, numbers = zip(*(name.rpartition(" ")[::2] for name in names), strict=True)
    if len(names) > 1 and len({*kinds}) == 1 and kinds[0] and all(number.isdecimal() for number in numbers):
        *before, last = numbers
        return f"{kinds[0]}s {', '.join(before)} and {last}"
    *before, last = names
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
    shapes = dict.fromkeys(view.grid for m in over.maps for view in m.views)
    grids = " and ".join(f"{rows} × {columns}" for rows, columns in shapes)
    name = f"{quoted(over.image_name, _NAME)}, " if over.image_name else ""
    parts = [f"{name}{grids} patches", mean_text(over.mean_over)]
    if over.source_grids:
        coarse = " and ".join(f"{rows} × {columns}" for rows, columns in over.source_grids)
        how = "have its weight" if over.is_key else "divide its weight"
        parts.append(f"mean of layers with {coarse}: the patches over a coarser one {how}")
    if (photo := over.stretched) is not None:
        height, width = photo.shape[:2]
        parts.append(
            f"the image, {width:,} × {height:,}, is stretched to its patches; if the model crops it, crop it first"
        )
    if over.left_out:
        parts.append(f"{counted(over.left_out, 'map')} of other tokens left out")
    parts += _aside_ranges(over)
    return "; ".join(filter(None, [*parts, over.quantity.remark, over.source.remark]))


def _aside_ranges(over: ImageAttention) -> list[str]:
    """Return "0.1 to 0.2 of the weight goes to cls_token" for each kind of keys that are no patches."""
    ranges = dict[str, list[float]]()
    for m in over.maps:
        for one in m.aside:
            ranges.setdefault(_aside_name(one), []).extend(one.weights.tolist())
    largest = sorted(ranges.items(), key=lambda item: -max(item[1]))[: 2 * _MOST_ASIDE]
    of = "of the weight " * (over.quantity.name == WEIGHT)
    found = []
    for name, shares in largest:
        ends = dict.fromkeys(with_minus(f"{end:.2g}") for end in (min(shares), max(shares)))
        found.append(f"{' to '.join(ends)} {of}goes to {name}")
    return found
