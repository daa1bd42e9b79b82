"""Attention of a query to the patches of images, or of patches to a key."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, counted, is_accepted, parameter
from mhaviz.inputs.patches import WHOLE, Box, PatchGrid, part_in
from mhaviz.inputs.spans import are_nameless
from mhaviz.inputs.tokens import OF_ONE_TEXT, Tokens
from mhaviz.numbering import Numbers
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.image_grids import Grid, known_views, require_grid, views_in
from mhaviz.results.image_means import mean_of_images
from mhaviz.results.image_queries import (
    DEFAULT_KINDS,
    Chosen,
    ElsewhereError,
    Kind,
    Queries,
    QueryChoice,
    chosen_tokens,
    default_queries,
    named_patch,
    require_patch,
)
from mhaviz.results.means import MeanOver, require_averaged
from mhaviz.results.patch_shares import Aside, Elsewhere, ImageMap, PatchView, merged
from mhaviz.results.photo_views import with_photos
from mhaviz.results.quantity import MEANS, WEIGHT, Quantity
from mhaviz.results.result import Result, Source

__all__ = ["ImageAttention", "ImageMap", "QueryChoice", "named_patch", "over_image", "require_patch"]

_SAME_ASPECT = 1.1  # ratio of the aspect ratios of image and grid


@dataclass(frozen=True, eq=False)
class ImageAttention(Result):
    """Attention of one query to the patches of images, or of patches to one key.

    Attributes:
        source: source of the attention.
        photos: uint8, (height, width, 3) each: the images, in the order of ``numbers``, with grey around them where
            patches cover padding; empty: none are given.
        maps: the maps of the attention that have patches, in its order; windows of one image are one map, unless the
            query is in one of them.
        query: name of the query, or of the key, such as "5,7", "[CLS]" or "#69"; "": the mean over queries.
        kind: what the query is.
        is_key: whether it is a key, and the numbers are what each patch gives it.
        quantity: what the weights are.
        image_name: name of the only image's file; "": it is not from a file.
        left_out: number of maps of the attention that are not about these patches.
        n_pooled: number of other maps that are left out, as they have cells of several patches.
        mean_over: what the maps are means over; empty: they are no means.
        source_grids: numbers of rows and columns of all layers that a mean is over; of the others, each patch of a
            coarser grid has divided its weight among those over it.
        sources: the attention's own maps, whose tokens know their patches, each with the positions of the query or key:
            a page for the browser shows others of them; empty: a mean of layers that have other numbers of patches.
        n_given: number of photos that are given.
        n_unplaced: number of ``photos`` that are none of these, but what the program has read, drawn as it has read it.
        photo_boxes: part of each of ``photos`` that is the photo, around which is padding.
        queries: what the queries of a mean are: "patches"; "words", which have names; or "tokens", which have none, or
            are of several kinds.
    """

    source: Source
    photos: tuple[NDArray[np.uint8], ...]
    maps: tuple[ImageMap, ...]
    query: str = ""
    kind: Kind = "all"
    is_key: bool = False
    quantity: Quantity = WEIGHT
    image_name: str = ""
    left_out: int = 0
    n_pooled: int = 0
    mean_over: MeanOver = ()
    source_grids: tuple[tuple[int, int], ...] = ()
    sources: tuple[tuple[AttentionMap, tuple[int, ...]], ...] = ()
    n_given: int = 0
    n_unplaced: int = 0
    photo_boxes: tuple[Box, ...] = ()
    queries: Queries = "tokens"

    @property
    def image(self) -> NDArray[np.uint8] | None:
        """The first photo; None: none is given."""
        return self.photos[0] if self.photos else None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the images that maps have views of, in order."""
        return _numbers(self.maps)

    def photo(self, view: PatchView) -> NDArray[np.uint8] | None:
        """Return the photo that a view is of; None: none is given."""
        return self.photos[self.numbers.index(view.image)] if self.photos else None

    def photo_box(self, view: PatchView) -> Box:
        """Return the part of ``photo`` that is the photo, around which is padding."""
        return self.photo_boxes[self.numbers.index(view.image)] if self.photo_boxes else WHOLE

    @property
    def stretched(self) -> NDArray[np.uint8] | None:
        """A photo whose aspect ratio differs by more than a tenth from that of the patches of a view of it, of which it
        is not known which part of it they cover; None: no photo has such a view."""
        for view in (view for m in self.maps for view in m.views if not view.is_placed):
            if (photo := self.photo(view)) is None:
                continue
            (height, width), (rows, columns) = photo.shape[:2], view.grid
            top, left, bottom, right = view.box
            ratio = width * (right - left) / (height * (bottom - top)) * rows / columns
            if not 1 / _SAME_ASPECT <= ratio <= _SAME_ASPECT:
                return photo
        return None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; excludes the pixels.

        Of an image that has padding, "without_padding" is the part that is the image itself; boxes are parts of all of
        it. "drawn_as_read" is the number of images that are in none of those given.

        Of each map and head: "inside", the sum of the weights of all patches, or of a key their mean weight; "half",
        the fewest patches with half of it; "special", what keys get that are no patches, by name; and of each view of
        an image "weights", "times_uniform", 1 where a patch gets what it would if all got the same, and "share", that
        of the view of all patches. A mask that hides a patch makes its numbers null. What has one view has its "grid",
        "query_patch" and "weights" beside these, too.
        """
        images = [
            {"name": self.image_name or None, "width": photo.shape[1], "height": photo.shape[0]}
            | ({} if box == WHOLE else {"without_padding": box})
            for photo, box in zip(self.photos, self.photo_boxes or [WHOLE] * len(self.photos), strict=True)
        ]
        over = {"mean_over": dict(self.mean_over)} if self.mean_over else {}
        asked = {"key" if self.is_key else "query": self.query or None, "of": self.kind}
        return {
            "image": images[0] if images else None,
            **({"images": images} if len(images) > 1 else {}),
            **({"drawn_as_read": self.n_unplaced} if self.n_unplaced else {}),
            **asked,
            "quantity": self.quantity.key,
            **over,
            "maps": [_document(m) for m in self.maps],
        }


def _document(m: ImageMap) -> dict[str, Any]:
    places = range(len(m.heads))
    times, shares = [m.times_uniform(head) for head in places], [m.view_shares(head) for head in places]
    views = [
        {
            "name": view.name or None,
            "image": view.image,
            "box": view.box,
            "grid": view.grid,
            "query_patch": view.patch,
            "share": np.array([of_head[i] for of_head in shares], np.float32),
            "uniform_share": m.uniform_shares[i],
            "times_uniform": np.array([of_head[i] for of_head in times], np.float32),
            "weights": view.weights.astype(np.float32),
        }
        for i, view in enumerate(m.views)
    ]
    alone = {name: views[0][name] for name in ("grid", "query_patch", "weights")} if len(views) == 1 else {}
    special = {
        "tokens": [", ".join(one.texts) or one.kind for one in m.aside],
        "kinds": [one.kind for one in m.aside],
        "weights": [one.weights.astype(np.float32) for one in m.aside],
    }
    return (
        {"layer": m.layer, "heads": m.heads}
        | alone
        | {
            "n_patches": m.n_patches,
            "inside": m.inside.astype(np.float32),
            "half": m.half,
            "special": special,
            "views": views,
        }
        | ({} if m.sentence is None else {"sentence": m.sentence})
        | ({"module": m.module} if m.module else {})
        | ({} if m.pass_number is None else {"pass": m.pass_number})
    )


def over_image(
    attention: Attention,
    image: object = None,
    query: QueryChoice = None,
    *,
    key: QueryChoice = None,
    layer: Numbers = None,
    head: Numbers = None,
    grid: Grid | None = None,
    mean: str | Sequence[str] | None = None,
) -> ImageAttention:
    """See ``Attention.over_image``."""
    if query is not None and key is not None:
        raise ArgumentError(f"{parameter('key')}: expected a query or a key, got both; leave one out")
    given, names = require_grid(grid), None if mean is None else require_averaged(mean)
    chosen = attention.with_sinks().select(head, layer)
    quantity = chosen.maps[0].quantity if chosen.maps else WEIGHT
    over = chosen.maps[0].mean_over if chosen.maps else ()
    if any((m.quantity.key, m.mean_over) != (quantity.key, over) for m in chosen.maps):
        raise ArgumentError("expected maps of one quantity, got several; choose with select, or save them separately")
    every = tuple(one for m in chosen.maps for one in (m.windows or (m,)))
    n_given = len(own := _photos(image))
    placed, photos = with_photos(every, own)
    chosen = replace(chosen, maps=placed)
    aspect = photos[0].shape[1] / photos[0].shape[0] if photos else None
    wanted = query if key is None else key
    maps, of, n_used, n_pooled = _maps(chosen.maps, wanted, key is not None, given, aspect)
    grids = tuple(dict.fromkeys(view.grid for m in maps for view in m.views))
    if names is not None:
        maps, over = mean_of_images(maps, names, over, is_key=key is not None)
        if "heads" in names and not quantity.of_all_heads:
            quantity = replace(MEANS[quantity.key], reduction=quantity.reduction)
    name = Path(image).name if isinstance(image, str | Path) else ""
    frames, numbers = _frames(maps), _numbers(maps)
    n_unplaced = sum(number >= n_given for number in numbers) if len(photos) > n_given else 0
    photos = _photos_of(photos, numbers)
    sources = _sources(chosen, wanted, key is not None, given, aspect, names, frames, of.kind)
    return ImageAttention(
        attention.source,
        tuple(_framed(photo, frames[number]) for photo, number in zip(photos, numbers, strict=False)),
        tuple(replace(m, views=tuple(map(partial(_in_frame, frames=frames), m.views))) for m in maps),
        of.name,
        of.kind,
        key is not None,
        quantity,
        name,
        len(chosen) - n_used - n_pooled,
        n_pooled,
        over,
        grids if names and "layers" in names and len(grids) > 1 else (),
        sources,
        n_given,
        n_unplaced,
        tuple(part_in(WHOLE, frames[number]) for number in numbers) if photos else (),
        of.queries,
    )


_View = TypeVar("_View", PatchView, PatchGrid)

_PADDING = 128
"""Grey of what lies beyond a photo."""


def _frames(maps: Sequence[ImageMap]) -> dict[int, Box]:
    """Return, by number, the smallest frame of each image that holds it and all its patches, which may be padding.

    What a model has left out of a view, such as patches of nothing but padding, need not be in it.
    """
    frames = dict[int, Box]()
    for view in (view for m in maps for view in m.views):
        top, left, bottom, right = frames.get(view.image, WHOLE)
        box = view.seen_box
        frames[view.image] = min(top, box[0]), min(left, box[1]), max(bottom, box[2]), max(right, box[3])
    return frames


def _framed(photo: NDArray[np.uint8], frame: Box) -> NDArray[np.uint8]:
    """Return a photo with grey around it, up to its frame."""
    if frame == WHOLE:
        return photo
    height, width = photo.shape[:2]
    top, left, bottom, right = frame
    down = round(-top * height), round((bottom - 1) * height)
    across = round(-left * width), round((right - 1) * width)
    return np.pad(photo, (down, across, (0, 0)), constant_values=_PADDING)


def _in_frame(view: _View, frames: Mapping[int, Box]) -> _View:
    """Return a view with its part as that of the frame of its image."""
    frame = frames.get(view.image, WHOLE)
    return view if frame == WHOLE else replace(view, box=part_in(view.box, frame))


def _photos(image: object) -> tuple[NDArray[np.uint8], ...]:
    from mhaviz.files.images import as_frames

    return () if image is None else as_frames(image)


def _numbers(maps: Sequence[ImageMap]) -> tuple[int, ...]:
    return tuple(sorted({view.image for m in maps for view in m.views}))


def _photos_of(photos: tuple[NDArray[np.uint8], ...], numbers: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
    """Return a photo for each image. Raises ArgumentError if there are fewer, or others."""
    if not photos or len(photos) == len(numbers):
        return photos
    if len(photos) > max(numbers) and len(numbers) < len(photos):  # of some layers, which have read only these
        return tuple(photos[number] for number in numbers)
    raise ArgumentError(
        f"{parameter('image')}: expected {counted(len(numbers), 'image')}, as many as the patches are of, got "
        f"{len(photos):,}"
    )


def _maps(
    maps: Sequence[AttentionMap], wanted: QueryChoice, is_key: bool, grid: Grid | None, aspect: float | None
) -> tuple[tuple[ImageMap, ...], Chosen, int, int]:
    """Return the image maps, the tokens that are the query or key, the number of maps that have them, and that of maps
    whose patches are pooled.

    Other maps are left out, such as those of a text beside the image, or windows without the query. Raises
    ArgumentError if no map is left.
    """
    made = list[tuple[ImageMap, Chosen]]()
    wrong = list[ArgumentError]()
    n_pooled = sum(m.is_pooled and bool(known_views((m.rows if is_key else m.columns).tokens)) for m in maps)
    for m in maps:
        try:
            made.append(_image_map(m, wanted, is_key, grid, aspect))
        except ArgumentError as error:
            wrong.append(error)
    if not made:
        if not wrong:
            raise ArgumentError("there is no map; expected at least one")
        raise next((error for error in wrong if not isinstance(error, ElsewhereError)), wrong[0])
    if wanted is None:  # of one kind of queries: of a decoder that reads an image, not those of its vision tower
        kind = min((of.kind for _, of in made), key=DEFAULT_KINDS.index)
        made = [(m, of) for m, of in made if of.kind == kind]
    elif is_key and named_patch(wanted) is None and any(of.kind != "patch" for _, of in made):
        made = [(m, of) for m, of in made if of.kind != "patch"]  # a word, not the patch at its place in other layers
    first = made[0][1]
    alone = tuple(_joined(made)) if first.kind == "all" else tuple(m for m, _ in made)
    return alone, first, len(made), n_pooled


def _joined(made: Sequence[tuple[ImageMap, Chosen]]) -> Iterator[ImageMap]:
    """Yield the maps, those of the windows of one image as one."""
    groups = defaultdict[Hashable, list[tuple[ImageMap, int]]](list)
    for m, of in made:
        has_all = all((view.chance > 0).all() for view in m.views)
        views = tuple((view.name, view.image, view.box, view.grid) for view in m.views)
        kinds = tuple((one.kind, one.texts) for one in m.aside)
        at = groups[m.layer, m.module, m.pass_number, m.heads, views, kinds, m.sentence if has_all else None]
        overlaps = any(
            ((view.chance > 0) & (other.chance > 0)).any()
            for before, _ in at
            for view, other in zip(m.views, before.views, strict=True)
        )
        if overlaps:  # of another image, or hidden by a mask
            at = groups[id(m), m.sentence]
        at.append((m, len(of.places)))
    yield from (parts[0][0] if len(parts) == 1 else merged(parts) for parts in groups.values())


def _image_map(
    m: AttentionMap, wanted: QueryChoice, is_key: bool, grid: Grid | None, aspect: float | None
) -> tuple[ImageMap, Chosen]:
    """Return what a map gives patches, and the tokens that are the query or key.

    Raises:
        ArgumentError: no patches are known, the map is not of all tokens or not of weights, or it has no such token.
    """
    _require_whole(m)
    views, _, of = _asked(m, wanted, is_key, grid, aspect)
    are_same = _are_same(m)
    numbers = _of_key(m, of.places, views) if is_key else _of_queries(m, of.places, views)
    if not any((chance > 0).any() for _, chance in numbers):
        raise ElsewhereError(f"{m.name}: {of.name or 'no query'} sees no patch")
    made = tuple(
        PatchView(
            weights,
            chance,
            view.name,
            view.image,
            view.box,
            of.patch if are_same and of.view == view.name else None,
            view.is_placed,
        )
        for (weights, chance), view in zip(numbers, views, strict=True)
    )
    aside = () if is_key else _aside(m, of.places, views)
    return ImageMap(made, aside, m.layer, m.heads, m.sentence, m.module, m.pass_number, is_key), of


def _are_same(m: AttentionMap) -> bool:
    """Return whether the queries and the keys of a map are the same tokens."""
    return m.kind in OF_ONE_TEXT and len(m.rows) == len(m.columns)


def _asked(
    m: AttentionMap, wanted: QueryChoice, is_key: bool, grid: Grid | None, aspect: float | None
) -> tuple[tuple[PatchGrid, ...], tuple[PatchGrid, ...], Chosen]:
    """Return the views on the side of a map that has patches, those on the other, and the tokens of this that are the
    query or key. Raises ArgumentError as ``_image_map``."""
    near, far = (m.rows, m.columns) if is_key else (m.columns, m.rows)
    if not is_key and grid is None and not known_views(near.tokens) and known_views(far.tokens):
        raise ArgumentError(
            f"{m.name}: its queries are patches, and its keys are none; choose a key, such as a word, "
            f"by {parameter('key')}"
        )
    views, are_same = views_in(near.tokens, grid, m.name, aspect), _are_same(m)
    others = views if are_same else known_views(far.tokens)
    if wanted is None:
        return views, others, default_queries(m, others)
    axis = near if are_same and not are_nameless(near.tokens) and are_nameless(far.tokens) else far
    return views, others, chosen_tokens(wanted, axis, others, m.name, "key" if is_key else "query")


def _sources(
    attention: Attention,
    wanted: QueryChoice,
    is_key: bool,
    grid: Grid | None,
    aspect: float | None,
    names: Sequence[str] | None,
    frames: Mapping[int, Box],
    kind: Kind,
) -> tuple[tuple[AttentionMap, tuple[int, ...]], ...]:
    """See ``ImageAttention.sources``.

    Args:
        attention, wanted, is_key, grid, aspect: as of ``_asked``, for each map.
        names: what a mean is over; None: nothing.
        frames: as ``_frames`` returns them.
        kind: what the query or the key is.
    """
    found = list[tuple[AttentionMap, tuple[int, ...]]]()
    for m in attention.maps:
        with suppress(ArgumentError):
            _require_whole(m)
            views, others, of = _asked(m, wanted, is_key, grid, aspect)
            if of.kind != kind and (wanted is None or is_key):  # as ``_maps``
                continue
            rows, columns = (views, others) if is_key else (others, views)
            sides = ((m.rows, rows), (m.columns, columns))
            framed = [(axis, tuple(_in_frame(view, frames) for view in of_side)) for axis, of_side in sides]
            axes = [replace(axis, tokens=replace(axis.tokens, images=of_side)) for axis, of_side in framed]
            found.append((replace(m, rows=axes[0], columns=axes[1]), of.places))
    if names is None or not found:
        return tuple(found)
    maps, places = tuple(m for m, _ in found), found[0][1]
    with suppress(ArgumentError):
        means = Attention(attention.source, maps).mean(*names).maps
        return tuple((m, places) for m in means) if all(m.columns.tokens.images for m in means) else ()
    return ()


def _require_whole(m: AttentionMap) -> None:
    """Raise ArgumentError unless each token of a map has a row and a column with its weights."""
    if m.quantity.is_signed:
        raise ArgumentError(f"{m.name}: expected weights, got changes of weights")
    if m.has_spans:
        raise ArgumentError(f"{m.name}: expected patches, got spans of tokens; leave out {parameter('by')}")
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


_Numbers = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Weights, (n_heads, rows, columns), and chance, (rows, columns), of the patches of a view."""


def _of_queries(m: AttentionMap, places: Sequence[int], views: Sequence[PatchGrid]) -> list[_Numbers]:
    """Return the mean weights that queries give the patches, and what they would if they gave all the same."""
    rows = list(places)
    weights = m.weights[:, rows].mean(axis=1, dtype=np.float64)
    seen = np.asarray(m.seen)[rows]
    patches = [place for view in views for place in view.tokens]
    counts = seen[:, patches].sum(axis=1)
    those = counts > 0
    share = 1 / counts[those] / max(int(those.sum()), 1)
    chance = np.asarray(share @ seen[those])  # of all keys; only patches are read
    return [_in_grid(weights, chance, view) for view in views]


def _of_key(m: AttentionMap, places: Sequence[int], views: Sequence[PatchGrid]) -> list[_Numbers]:
    """Return the weight that patches, the queries, give a key, and the same part of their mean for each."""
    weights = m.weights[:, :, list(places)].sum(axis=2, dtype=np.float64)
    seen = np.asarray(m.seen[:, list(places)].any(axis=1))
    patches = [place for view in views for place in view.tokens]
    chance = seen / max(int(seen[patches].sum()), 1)
    return [_in_grid(weights, chance, view) for view in views]


def _in_grid(weights: NDArray[np.float64], chance: NDArray[np.float64], view: PatchGrid) -> _Numbers:
    places = np.array(view.places)
    there = np.where(places >= 0, chance[places], 0.0)
    of_patches = np.where(there > 0, weights[:, places], np.nan)
    return of_patches.reshape(-1, *view.shape), there.reshape(view.shape)


def _aside(m: AttentionMap, places: Sequence[int], views: Sequence[PatchGrid]) -> tuple[Aside, ...]:
    """Return what queries give keys that are no patches: special tokens and sinks one by one, others together."""
    weights = m.weights[:, list(places)].mean(axis=1, dtype=np.float64)
    sums = weights.sum(axis=1)
    shares = weights if m.quantity.is_distribution else weights / np.where(sums > 0, sums, 1.0)[:, None]
    tokens, patches = m.columns.tokens, {place for view in views for place in view.tokens}
    groups = defaultdict[tuple[Elsewhere, tuple[str, ...]], list[int]](list)
    for place in (place for place in range(len(tokens)) if place not in patches):
        groups[_kind_of(m, tokens, place)].append(place)
    found = [Aside(kind, texts, shares[:, those].sum(axis=1)) for (kind, texts), those in groups.items()]
    if m.sink and m.quantity.is_distribution:
        found.append(Aside("none", (), np.maximum(1 - sums, 0.0)))
    return tuple(found)


def _kind_of(m: AttentionMap, tokens: Tokens, place: int) -> tuple[Elsewhere, tuple[str, ...]]:
    """Return what a key is that is no patch, and its text if it is stated by itself."""
    text = tokens.texts[place].strip()
    is_nameless = text in ("", str(place), f"token {place}")
    name = (f"#{place}" if is_nameless else text,)
    if place in tokens.special and not is_nameless:
        return "special", name
    if m.sinks and place in m.sinks.keys:
        return "sink", name
    return ("others" if is_nameless else "words"), ()
