"""What is drawn over a photo, of small vision-language and vision models, beside what is true: a Markdown table.

    python tests/benchmarks/patches_drawn.py [--write] [--plain] [--without PACKAGE] [NAME …]

The programs of ``patch_families.py`` run under ``mhaviz.record``, and attention of the last query is drawn over the
photos that they have read. Of every cell that is drawn, its weight is compared with that of eager attention in float64,
and its place in the photo with where the photo changes the token, which is measured. Weights are trained to be on a
bright square of the photo, unless ``--plain`` is given: a square that is drawn elsewhere is found.

``--write`` keeps the table in ``samples/caught-models.md``, of programs that run with torchvision, and of those that
read photos otherwise without it, each in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "samples" / "caught-models.md"
sys.path.insert(0, str(TESTS))  # benchmarks and zoo stand there

from benchmarks.patch_families import BANDS, BLURRED, FAMILIES, Family, Regions, Seen, Square, Truth, load  # noqa: E402

if TYPE_CHECKING:
    from mhaviz.results.attention import Attention, AttentionMap
    from mhaviz.results.image import ImageAttention
    from mhaviz.results.patch_shares import PatchView

SQUARE = Square(0.5625, 0.25, 0.75, 0.5)
CLOSE = 1e-5
"""The most that a weight may be off, as weights are drawn in float32."""
BAND = 1 / BANDS
"""Part of a photo within which a place is measured."""
SEEN = 0.5
"""Least part of a cell within the photo from which its token must be known to be a patch."""
HEADING = "## Over an image"


@dataclass
class Drawn:
    """An attention of a program, as it is drawn over the photos.

    Attributes:
        name: of the module that computes it.
        n_patches: keys of the last queries of all rows of the batch that are patches of a photo: measured.
        n_drawn: those of them that are drawn.
        must: whether it is of patches: measured; a map over the photo must be refused otherwise.
        refused: why nothing is drawn; "": something is.
        difference: the largest of a weight that is drawn and that of eager attention.
        away: the largest distance of a cell from where its token is, in patches.
        moved: the largest distance by which the cells of a view are off on average, in patches.
        n_planted: rows and photos whose largest weight is at the square.
        n_found: those of them where it is drawn there.
        n_unplaced: pictures that the program has read and that are found in none of its photos.
        wrong: what is wrong, in words.
        doubts: what is not as it should be and not wrong.
    """

    name: str
    n_patches: int = 0
    n_drawn: int = 0
    must: bool = False
    refused: str = ""
    difference: float = 0.0
    away: float = 0.0
    moved: float = 0.0
    n_planted: int = 0
    n_found: int = 0
    n_unplaced: int = 0
    wrong: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def is_drawn(self) -> bool:
        """Whether all its patches are drawn."""
        return not self.refused and self.n_drawn == self.n_patches


@dataclass
class Verdict:
    """A family's program, drawn.

    Attributes:
        name, kind, refused: of the family.
        processor, backend: as of the truth.
        attentions: all that ran.
        notices: of the recording.
        failed: an error; "": there was none.
        seconds: of all this.
    """

    name: str
    kind: str
    refused: str
    processor: str = ""
    backend: str = ""
    attentions: list[Drawn] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    failed: str = ""
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """What is wrong, in words."""
        found = [f"{one.name}: {what}" for one in self.attentions for what in one.wrong]
        return [self.failed, *found] if self.failed else found

    @property
    def doubts(self) -> list[str]:
        """What is not as it should be and not wrong."""
        return [f"{one.name}: {what}" for one in self.attentions for what in one.doubts]

    @property
    def of_patches(self) -> list[Drawn]:
        """The attentions whose keys are patches."""
        return [one for one in self.attentions if one.must]


@dataclass(frozen=True)
class Place:
    """Where the last query of a map is in what is true.

    Attributes:
        seen: the call that has it.
        row, query: its place there.
        keys: the place there of each key of the map, from which padding is left out.
    """

    seen: Seen
    row: int
    query: int
    keys: tuple[int, ...]

    @property
    def weights(self) -> NDArray[np.float64]:
        """(heads, keys of the call)."""
        weights: NDArray[np.float64] = self.seen.weights[self.row, :, self.query]
        return weights

    @property
    def patches(self) -> NDArray[np.bool_]:
        """(keys of the call,): those that are patches of a photo, and that the query sees."""
        has = np.any([one.has_patches[self.row] for one in self.seen.keys], 0)
        found: NDArray[np.bool_] = has & (self.weights.max(0) > 0)
        return found


def judge(family: Family, square: Square = SQUARE, planted: bool = True, is_quick: bool = False) -> Verdict:
    """Draw the attentions of a family over its photos, and say what is wrong.

    Args:
        family: what runs.
        square: where the bright square is.
        planted: whether the model is trained to look at it.
        is_quick: whether only the last attention over patches is drawn, and the last that is not of patches.
    """
    import mhaviz

    started = time.perf_counter()
    verdict = Verdict(family.name, family.kind, family.refused)
    try:
        run, truth = family.build(square, planted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with mhaviz.record(examples="all") as recording:
                run()
            attention = recording.attention
    except Exception as error:  # one family that cannot be built leaves the others
        verdict.failed = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return verdict
    verdict.processor, verdict.backend, verdict.notices = truth.processor, truth.backend, list(recording.notices)
    last = {seen.has_patches: seen.name for seen in truth.attentions}.values()
    for name in last if is_quick else dict.fromkeys(seen.name for seen in truth.attentions):
        verdict.attentions.append(drawn_of(truth, name, attention))
    verdict.seconds = time.perf_counter() - started
    return verdict


def drawn_of(truth: Truth, name: str, attention: Attention) -> Drawn:
    """Draw the attention of a module, and compare it with what is true."""
    from dataclasses import replace

    from mhaviz.errors import MhavizError

    calls = truth.named(name)
    found = Drawn(name, must=any(seen.has_patches for seen in calls))
    maps = maps_of(attention, name, {seen.name for seen in truth.attentions})
    if not maps:
        found.n_patches = sum(int(np.any([k.has_patches for k in calls[0].keys], 0).sum()) for _ in calls[:1])
        found.refused = "it was not recorded"
        return found
    windows = [one for m in maps for one in (m.windows or (m,))]
    places = [place_of(calls, row, one) for row, one in enumerate(windows)]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        found.refused = f"{len(windows)} maps, {windows[0].weights.shape[1:]}, are of none of its calls"
        found.doubts.append(found.refused)
        return found
    found.n_patches = sum(int(place.patches.sum()) for place in known)
    for n_queries in dict.fromkeys(len(m.queries) for m in maps):
        alike = tuple(m for m in maps if len(m.queries) == n_queries)
        of = [i for i, one in enumerate(windows) if len(one.queries) == n_queries]
        try:
            over = replace(attention, maps=alike).over_image(list(truth.photos), n_queries - 1)
        except MhavizError as error:
            found.refused = found.refused or " ".join(str(error).split())
            continue
        found.n_unplaced += over.n_unplaced
        tell(found, truth, over, [windows[i] for i in of], [known[i] for i in of])
    alone(found, truth, attention, maps, known)
    if found.n_drawn < found.n_patches and found.n_drawn:
        found.doubts.append(f"{found.n_drawn} of {found.n_patches} patches are drawn")
    if found.n_drawn and not found.must:
        found.wrong.append("it is drawn, though its keys are no patches")
    return found


def alone(
    found: Drawn, truth: Truth, attention: Attention, maps: Sequence[AttentionMap], places: Sequence[Place]
) -> None:
    """Draw the first and the last example by themselves, as of a recording of one example."""
    from dataclasses import replace

    from mhaviz.errors import MhavizError

    if len(maps) < 2:
        return
    counts = [len(m.windows or (m,)) for m in maps]
    for number in (0, len(maps) - 1):
        m, first = maps[number], sum(counts[:number])
        single = Drawn(found.name)
        with contextlib.suppress(MhavizError):
            over = replace(attention, maps=(m,)).over_image(list(truth.photos), len(m.queries) - 1)
            tell(single, truth, over, m.windows or (m,), places[first : first + counts[number]])
        found.wrong += [f"example {number} alone, {what}" for what in single.wrong]


def maps_of(attention: Attention, name: str, names: set[str]) -> list[AttentionMap]:
    """The maps of a module of a recording, whose names begin elsewhere."""
    recorded = dict.fromkeys(m.module for m in attention.maps)

    def alike(one: str, other: str) -> int:
        """The number of parts that names end with, both; 0: none is the other's end."""
        short, long = sorted((one.split("."), other.split(".")), key=len)
        return len(short) if long[len(long) - len(short) :] == short else 0

    best = max(recorded, key=lambda one: alike(one, name), default="")
    if not alike(best, name) or max(names, key=lambda one: alike(best, one)) != name:
        return []
    return [m for m in attention.maps if m.module == best]


def place_of(calls: Sequence[Seen], row: int, window: AttentionMap) -> Place | None:
    """Where the last query of a map is: steps of a decoder are one map, and padding is left out."""
    n_queries, n_keys = window.weights.shape[1:]
    first, last = calls[0], calls[-1]
    if row >= len(first.weights):
        return None
    if first.weights.shape[2:] == (n_queries, n_keys):
        return Place(first, row, n_queries - 1, tuple(range(n_keys)))
    if (sum(seen.weights.shape[2] for seen in calls), last.weights.shape[3]) == (n_queries, n_keys):
        return Place(last, row, last.weights.shape[2] - 1, tuple(range(n_keys)))
    kept = np.flatnonzero(first.weights[row].max((0, 1)) > 0)
    queries = kept if first.weights.shape[2] == first.weights.shape[3] else np.arange(first.weights.shape[2])
    if (len(queries), len(kept)) == (n_queries, n_keys):
        return Place(first, row, int(queries[-1]), tuple(kept.tolist()))
    return None


def tell(
    found: Drawn, truth: Truth, over: ImageAttention, windows: Sequence[AttentionMap], places: Sequence[Place]
) -> None:
    """Compare what is drawn with what is true, in ``found``."""
    sources = [m for m, _ in over.sources]
    at = [next(i for i, one in enumerate(windows) if np.shares_memory(one.weights, m.weights)) for m in sources]
    query = len(windows[0].queries) - 1
    kept = [
        (m, i)
        for m, i in zip(sources, at, strict=True)
        if any(np.asarray(m.seen)[query, list(view.tokens)].any() for view in m.columns.tokens.images)
    ]
    if len(kept) != len(over.maps):
        found.wrong.append(f"{len(over.maps)} maps are drawn of {len(kept)}")
        return
    for (source, i), drawn in zip(kept, over.maps, strict=True):
        place, tops = places[i], dict[int, list[tuple[float, Square]]]()
        is_blurred = any(one.touched == BLURRED for one in place.seen.keys)
        grids = source.columns.tokens.images
        for grid, view in zip(grids, drawn.views, strict=True):
            off, vague = list[tuple[float, float]](), list[bool]()
            for cell in cells_of(over, truth, view, [-1 if one < 0 else place.keys[one] for one in grid.places]):
                which = f"row {place.row}, token {cell.token} at {view.name or 'cell'} {cell.row},{cell.column}"
                weights = place.weights[:, cell.token]
                apart = float(np.abs(np.nan_to_num(cell.weights) - weights).max())
                found.difference = max(found.difference, apart)
                if apart > CLOSE:
                    found.wrong.append(f"{which}: weight {cell.weights.max():.4g}, eager {weights.max():.4g}")
                if np.isnan(cell.weights).all():
                    continue
                found.n_drawn += bool(place.patches[cell.token])
                if cell.photo is None:
                    continue
                if within(cell.region, SEEN):
                    tops.setdefault(cell.photo, []).append((float(cell.weights.mean()), cell.region))
                regions = place.seen.keys[cell.photo]
                if not regions.has_patches[place.row, cell.token] and regions.is_of_photo[place.row, cell.token]:
                    if within(cell.region, SEEN):
                        vague.append(is_most_at(regions, place.row, cell))
                    continue
                error = misplaced(place, cell, is_blurred)
                if isinstance(error, str):
                    is_there = is_blurred and regions.has_patches[place.row, cell.token]
                    if is_there and is_most_at(regions, place.row, cell):
                        found.doubts.append(f"{which}: {error}, where it knows most of the photo")
                    elif error:
                        found.wrong.append(f"{which}: {error}")
                    continue
                off.append(error)
                found.away = max(found.away, *map(abs, error))
            if vague:
                found.doubts.append(
                    f"row {place.row}: {len(vague)} tokens know all of the photo, {sum(vague)} of them most where they "
                    f"are drawn"
                )
            if off:
                moved = max(map(abs, np.mean(off, 0)))
                found.moved = max(found.moved, moved)
                if moved > (1.0 if is_blurred else 0.5):
                    found.wrong.append(f"row {place.row}, {view.name or 'view'}: it is off by {moved:.2f} patches")
        for photo, cells in tops.items():
            peak = place.seen.peak(place.row, place.query, photo=photo)
            if peak is None or not peak[1].shared(truth.square):
                continue
            found.n_planted += 1
            _, region = max(cells, key=lambda one: one[0])
            tolerance = BAND + (max(region.right - region.left, region.bottom - region.top) if is_blurred else 0)
            if gap(region, truth.square) <= tolerance:
                found.n_found += 1
            else:
                found.wrong.append(
                    f"row {place.row}, photo {photo}: the largest weight, of token {peak[0]} at {shown(peak[1])}, "
                    f"is drawn at {shown(region)}"
                )


@dataclass(frozen=True, eq=False)
class Cell:
    """A patch that is drawn.

    Attributes:
        token: the key.
        row, column: its place in its view.
        weights: (heads,), as they are drawn.
        photo: number of the photo; None: it is drawn over a picture that is in none of the photos.
        region: where it is drawn, in fractions of the photo; beyond 0 and 1 in padding.
    """

    token: int
    row: int
    column: int
    weights: NDArray[np.float64]
    photo: int | None
    region: Square


def cells_of(over: ImageAttention, truth: Truth, view: PatchView, tokens: Sequence[int]) -> Iterator[Cell]:
    """The cells of a view that are tokens, where they are drawn: the photo is looked for in what is drawn."""
    drawn = over.photo(view)
    assert drawn is not None
    place = next(((n, at) for n, one in enumerate(truth.photos) if (at := offset(drawn, one)) is not None), None)
    rows, columns = view.grid
    top, left, bottom, right = view.box
    photo, frame = None, (0.0, 0.0, 1.0, 1.0)
    if place is not None:
        photo, (y, x) = place
        picture, (height, width) = truth.photos[photo], drawn.shape[:2]
        frame = y / picture.height, x / picture.width, height / picture.height, width / picture.width
    for number, token in enumerate(tokens):
        if token < 0:
            continue
        row, column = divmod(number, columns)
        ends = [top + (bottom - top) * (row + i) / rows for i in (0, 1)]
        sides = [left + (right - left) * (column + i) / columns for i in (0, 1)]
        ends, sides = [end * frame[2] - frame[0] for end in ends], [side * frame[3] - frame[1] for side in sides]
        region = Square(sides[0], ends[0], sides[1], ends[1])
        yield Cell(token, row, column, view.weights[:, row, column], photo, region)


def offset(drawn: NDArray[np.uint8], picture: Any) -> tuple[int, int] | None:
    """Row and column of a photo in a picture with a frame around it; None: it is not in it."""
    pixels = np.asarray(picture.convert("RGB"))
    height, width = pixels.shape[:2]
    for y in range(drawn.shape[0] - height + 1):
        for x in range(drawn.shape[1] - width + 1):
            if (drawn[y, x] == pixels[0, 0]).all() and np.array_equal(drawn[y : y + height, x : x + width], pixels):
                return y, x
    return None


def misplaced(place: Place, cell: Cell, is_blurred: bool) -> tuple[float, float] | str:
    """How far a cell is from where its token is, in patches, across and down; in words if this is too far.

    "": nothing tells where the token is, and it is in padding.
    """
    assert cell.photo is not None
    region = cell.region
    regions = place.seen.keys[cell.photo]
    if not regions.has_patches[place.row, cell.token]:
        others = [n for n, one in enumerate(place.seen.keys) if one.has_patches[place.row, cell.token]]
        if others:
            return f"is a patch of photo {others[0]}, and drawn in photo {cell.photo}"
        return "is no patch of this photo" if within(region, SEEN) else ""
    x, y = regions.centre_of(place.row, cell.token)
    inside = clipped(region)
    (across, down), (width, height) = inside.centre, (region.right - region.left, region.bottom - region.top)
    patches = 1.0 if is_blurred else 0.5
    if abs(across - x) > patches * width + BAND or abs(down - y) > patches * height + BAND:
        return f"is at {x:.3f}, {y:.3f}, and drawn at {shown(region)}"
    return (across - x) / width, (down - y) / height


def is_most_at(regions: Regions, row: int, cell: Cell) -> bool:
    """Whether a token changes most with the bands of the photo in which it is drawn."""
    bands = [(int(one[row, cell.token].argmax()) + 0.5) * BAND for one in (regions.columns, regions.rows)]
    return gap(Square(bands[0], bands[1], bands[0], bands[1]), cell.region) <= BAND


def clipped(region: Square) -> Square:
    """What of a region lies within the photo; of padding, the edge of the photo that is next to it."""
    return Square(*(min(max(side, 0.0), 1.0) for side in (region.left, region.top, region.right, region.bottom)))


def within(region: Square, share: float) -> bool:
    """Whether this share of a region lies within the photo."""
    return clipped(region).area > share * region.area


def gap(one: Square, other: Square) -> float:
    """How far regions are apart, in fractions of the photo; 0 where they touch."""
    across = max(one.left - other.right, other.left - one.right)
    return max(across, one.top - other.bottom, other.top - one.bottom, 0.0)


def shown(region: Square) -> str:
    """Its sides: left, top, right, bottom."""
    return f"[{region.left:.3f} {region.top:.3f} {region.right:.3f} {region.bottom:.3f}]"


# the table


def merged(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """One for each family that does the same however its photos are read, and others as they are."""
    kept: list[Verdict] = []
    for verdict in verdicts:
        same = next((one for one in kept if one.name == verdict.name and outcome(one) == outcome(verdict)), None)
        if same is None:
            kept.append(verdict)
            continue
        backends = dict.fromkeys([*same.backend.split(", "), verdict.backend])
        same.backend = ", ".join(backends)
        for mine, other in zip(same.attentions, verdict.attentions, strict=True):
            mine.difference, mine.away = max(mine.difference, other.difference), max(mine.away, other.away)
            mine.n_planted, mine.n_found = mine.n_planted + other.n_planted, mine.n_found + other.n_found
    order = list(dict.fromkeys(one.name for one in verdicts))
    return sorted(kept, key=lambda one: order.index(one.name))


def outcome(verdict: Verdict) -> tuple[Any, ...]:
    """What a family does, without the numbers."""
    drawn = tuple((one.name, one.is_drawn, one.refused, one.n_unplaced) for one in verdict.attentions)
    return bool(verdict.wrong), tuple(one.partition(":")[0] for one in verdict.doubts), drawn


def status(verdict: Verdict) -> str:
    """WRONG; drawn: all attentions over patches are; refused: none of the text's is, as there are no patches or nothing
    tells where they are; in part."""
    if verdict.wrong:
        return "WRONG"
    if verdict.refused:
        return "refused"
    are_drawn = [one.is_drawn for one in verdict.of_patches]
    return "drawn" if all(are_drawn) else "in part" if any(one.n_drawn for one in verdict.of_patches) else "refused"


def bare(message: str) -> str:
    """A message without the name of the map before it, and without what it advises."""
    first, _, rest = message.partition(": ")
    text = rest if first.endswith(("self", "masked", "other", "cross")) else message
    return text.partition("; add ")[0]


def notes(verdict: Verdict) -> list[str]:
    """What is not drawn, and why."""
    found = [verdict.failed] if verdict.failed else []
    found += [f"**{verdict.wrong[0]}**"] if verdict.wrong and not verdict.failed else []
    found += [verdict.refused] if verdict.refused else []
    those = [one for one in verdict.attentions if one.refused and (one.must or verdict.refused)]
    found += [f"refused: {bare(one.refused)}" for one in those[-1:]]
    if unplaced := max((one.n_unplaced for one in verdict.attentions), default=0):
        found.append(f"{unplaced} of the pictures that it has read is found in no photo, and drawn by itself")
    found += [f"{one.name}: {one.doubts[0]}" for one in verdict.attentions if one.doubts][:1]
    return found


def row(verdict: Verdict) -> str:
    """A line of the table."""
    drawn = [one for one in verdict.attentions if one.n_drawn]
    planted = sum(one.n_planted for one in drawn)
    largest = max((one.difference for one in drawn), default=0.0)
    cells = (
        verdict.name,
        f"{verdict.processor} ({verdict.backend})" if verdict.processor else "",
        status(verdict),
        f"{sum(one.is_drawn for one in verdict.of_patches)} of {len(verdict.of_patches)}",
        f"{largest:.1e}" if drawn else "",
        f"{max(one.away for one in drawn):.2f}" if drawn else "",
        f"{sum(one.n_found for one in drawn)} of {planted}" if planted else "",
        "; ".join(notes(verdict)),
    )
    return f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |"


def table(verdicts: Sequence[Verdict]) -> str:
    """The rows below their titles."""
    titles = "program", "reads photos with", "over the photo", "attentions", "difference", "off", "squares", "why not"
    lines = f"| {' | '.join(titles)} |", "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"
    return "\n".join([*lines, *map(row, verdicts)])


def totals(verdicts: Sequence[Verdict]) -> str:
    """Programs and families by what is done with them."""
    lines = []
    for kind in ("vision-language", "vision"):
        own = [one for one in verdicts if one.kind == kind]
        by = {name: [one for one in own if status(one) == name] for name in ("drawn", "refused", "in part", "WRONG")}
        families = {name: len({one.name.partition(" (")[0] for one in those}) for name, those in by.items()}
        planted = sum(one.n_planted for verdict in own for one in verdict.attentions)
        at = sum(one.n_found for verdict in own for one in verdict.attentions)
        counts = ", ".join(f"{families[name]} {name}" for name in by if by[name])
        total = len({one.name.partition(" (")[0] for one in own})
        if own:
            lines.append(
                f"- {kind}: {len(own)} programs of {total} families: {counts}; {at:,} of {planted:,} squares are drawn "
                f"where they are"
            )
    return "\n".join(lines)


def versions() -> str:
    """The packages that ran."""
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in ("torch", "transformers", "torchvision", "timm", "einops", "diffusers"):
        if importlib.util.find_spec(name) is None:
            continue
        try:
            found.append(f"{name} {version(name).partition('+')[0]}")
        except PackageNotFoundError:
            found.append(f"{name} {getattr(importlib.import_module(name), '__version__', '')}".rstrip())
    return ", ".join(found)


SECTION = """{heading}

Made by `python tests/benchmarks/patches_drawn.py --write`, with {versions}{without}.

Small models with random weights read a photo with the library's image processor, under `mhaviz.record`, and what the
last query of each attention gives is drawn by `over_image`. Which token is which part of the photo is measured: the
photo is disturbed in {bands} bands of rows and {bands} of columns, one at a time, and the model runs without its
attention, so that a token changes with its own part alone. Weights are trained until they are on a bright square.

"Attentions" says of how many of those over patches all patches are drawn. "Difference" is the largest between a weight
that is drawn and that of eager attention in float64. "Off" is how far the middle of a cell is from that of what its
token has seen of the photo, at most, in patches: half a patch and a {bands}th of the photo are allowed, and a patch
where convolutions overlap, whose cells are their strides. "Squares" says how often the largest weight is drawn at the
square where it is there. What is anything else is WRONG, and what is drawn of tokens that are no patches, too.

{totals}

{table}
"""


def section(verdicts: Sequence[Verdict], without: bool) -> str:
    """The part of the file of tables."""
    said = "; where PIL is named, without torchvision" if without else ""
    return SECTION.format(
        heading=HEADING,
        versions=versions(),
        without=said,
        bands=BANDS,
        totals=totals(verdicts),
        table=table(verdicts),
    )


def hide(names: Sequence[str]) -> None:
    """Make packages look as if they were not installed."""
    find = importlib.util.find_spec

    @functools.wraps(find)
    def found(name: str, package: str | None = None) -> Any:
        return None if name.partition(".")[0] in names else find(name, package)

    importlib.util.find_spec = found
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]


def judged(names: Sequence[str], planted: bool) -> list[Verdict]:
    """All families whose packages are there."""
    import torch

    torch.set_num_threads(1)
    load()
    found = []
    for family in FAMILIES:
        if names and family.name not in names:
            continue
        if not family.is_there:
            print(f"{family.name}: needs {', '.join(family.needs)}", file=sys.stderr)
            continue
        verdict = judge(family, planted=planted)
        print(f"{status(verdict):8} {verdict.seconds:5.1f} s  {verdict.name} ({verdict.backend})", file=sys.stderr)
        for line in verdict.wrong[:4]:
            print(f"    WRONG {line}", file=sys.stderr)
        for line in verdict.doubts[:4]:
            print(f"    doubt {line}", file=sys.stderr)
        found.append(verdict)
    return found


def of_json(text: str) -> list[Verdict]:
    """Verdicts of another process."""
    read = json.loads(text)
    return [Verdict(**one | {"attentions": [Drawn(**of) for of in one["attentions"]]}) for one in read]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write it into {TABLE.relative_to(TESTS.parent)}")
    parser.add_argument("--plain", action="store_true", help="without training")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--without", action="append", default=[], metavar="PACKAGE", help="as if it were not there")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these programs alone")
    options = parser.parse_args()
    if options.write and (options.names or options.plain):
        parser.error("--write: expected no names and no --plain: the table holds all programs")
    hide(options.without)
    other = None
    if not options.without and importlib.util.find_spec("torchvision"):
        hidden = [word for name in ("torchvision", "timm", "einops", "diffusers") for word in ("--without", name)]
        plain = ["--plain"] if options.plain else []
        words = [sys.executable, __file__, "--json", *hidden, *plain, *options.names]
        other = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    verdicts = judged(options.names, not options.plain)
    if other is not None:
        read, _ = other.communicate()
        if other.returncode not in (0, 1):
            raise SystemExit(f"without torchvision: exit status {other.returncode}")
        verdicts += [one for one in of_json(read) if one.backend not in ("numpy", "")]
    if options.json:
        print(json.dumps([asdict(one) for one in verdicts]))
    else:
        verdicts = merged(verdicts)
        text = section(verdicts, other is not None)
        if options.write:
            before = TABLE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip("\n")
            TABLE.write_text(f"{before}\n\n{text}", encoding="utf-8")
            print(totals(verdicts))
        else:
            print(text)
    if wrong := [one.name for one in verdicts if one.wrong]:
        raise SystemExit(1 if options.json else f"WRONG: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
