"""The attention of a transformers model while it reads images, with the part of each photo that its patches cover."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mhaviz.api.recording import record
from mhaviz.attention.model import Model, only_of_transformers
from mhaviz.errors import ArgumentError, parameter
from mhaviz.files.images import as_photo
from mhaviz.inputs.given import Given
from mhaviz.inputs.patches import PATCH_NAME, within
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap

if TYPE_CHECKING:
    from mhaviz.models.transformers.images import ImageReader, SeenImages

UNPLACED = "which part of the photo the patches cover is not known: they are stretched over all of it"
"""Notice of photos in which patches have no known place."""

_WHOLE = 4096
"""Most tokens of maps that are kept whole without being asked for, as those of images are not pooled."""


def attend_images(
    model: Model,
    given: Given,
    kind: str | None = None,
    rolls_out: bool = False,
    size: int | None = None,
    on_notice: Callable[[str], None] | None = None,
    **options: Any,
) -> Attention:
    """Return the attention of a model while it reads images, and maybe a text beside them.

    Args:
        model: the model.
        given: images, and at most one text.
        kind: kind of the maps that are returned; None: all.
        rolls_out: whether attention rollout is returned.
        size: most rows and columns of a map; None: all, up to 4,096.
        on_notice: called with one line for each attention that was not observed, and for what is not known.
        options: of ``mhaviz.record``.

    Raises:
        ArgumentError: a model that reads no images, or other inputs; no such layer, head or kind.
        MhavizError: an image cannot be read, or the model cannot be run on it.
        ProgramError: the folder has no image processor, or none that can be used.
    """
    reader, seen = read_images(model, given)
    loaded = reader.loaded
    name = loaded.name.rstrip("/").rsplit("/")[-1]
    recording = record(
        loaded.model, size=size or _WHOLE, examples="all", program=f"{name}: {type(loaded.model).__name__}", **options
    )
    with recording:
        reader.run(seen)
    attention = recording.rollout if rolls_out else recording.attention
    if on_notice is not None:
        for line in recording.notices:
            on_notice(line)
    maps = attention.maps if kind is None else _of_kind(attention.maps, kind)
    unknown = set[int]()
    placed: dict[tuple[Tokens, int], Tokens] = {}

    def place(tokens: Tokens, example: int | None) -> Tokens:
        key = tokens, example or 0
        if key not in placed:
            placed[key] = placed_in_photos(_named(tokens, seen.tokens), seen, key[1], unknown)
        return placed[key]

    found = tuple(
        replace(
            m,
            rows=replace(m.rows, tokens=place(m.rows.tokens, m.sentence)),
            columns=replace(m.columns, tokens=place(m.columns.tokens, m.sentence)),
        )
        for m in maps
    )
    if unknown and on_notice is not None:
        on_notice(UNPLACED)
    return replace(attention, maps=found)


def read_images(model: Model, given: Given) -> "tuple[ImageReader, SeenImages]":
    """Return the reader of a model's images, and what the model reads of the images given, and of a text beside them.

    Raises as ``attend_images``.
    """
    loaded = getattr(model, "loaded", None)
    if loaded is None:
        raise only_of_transformers("image")
    others = [name for name in given.others if name != "image"]
    others += [name for name in ("target", "generate") if getattr(given, name)]
    if others:
        raise ArgumentError(f"{parameter('image')} goes with one text or none; leave out {parameter(others[0])}")
    if len(given.sentences) > 1:
        raise ArgumentError(f"{parameter('image')} goes with one text or none, got {len(given.sentences)}")
    from mhaviz.models.transformers.images import ImageReader

    reader = ImageReader(loaded)
    photos = [as_photo(image) for image in given.image or ()]
    return reader, reader.read(photos, given.sentences[0] if given.sentences else None)


def _of_kind(maps: Sequence[AttentionMap], kind: str) -> tuple[AttentionMap, ...]:
    """Return the maps of a kind. Raises ArgumentError if there are none."""
    if not (found := tuple(m for m in maps if m.kind == kind)):
        there = ", ".join(dict.fromkeys(m.kind for m in maps))
        raise ArgumentError(f"{parameter('kind')}: expected a kind of attention that has run, {there}, got {kind}")
    return found


def _named(tokens: Tokens, read: Tokens | None) -> Tokens:
    """Return tokens with the names that the text's tokenizer has for them, but those of patches."""
    if read is None or len(tokens) != len(read):
        return tokens
    patches = {place for place, text in enumerate(tokens.texts) if PATCH_NAME.fullmatch(text)}
    patches |= {place for image in tokens.images for place in image.tokens}
    texts = (
        own if place in patches else name
        for place, (own, name) in enumerate(zip(tokens.texts, read.texts, strict=True))
    )
    special = tuple(place for place in read.special if place not in patches)
    return replace(tokens, texts=tuple(texts), special=tokens.special or special, ids=tokens.ids or read.ids)


def placed_in_photos(tokens: Tokens, seen: "SeenImages", example: int, unknown: set[int]) -> Tokens:
    """Return tokens whose patches know which part of a photo they cover. What was read of it is then not looked for.

    Args:
        tokens: the tokens.
        seen: what was read.
        example: number of the example of the batch.
        unknown: set to which the numbers of photos are added of which that is not known.
    """
    parts, read = seen.parts, seen.tokens
    is_of_text = read is not None and len(tokens) == len(read)
    images = list(tokens.images)
    for number in {image.image for image in images}:
        places = [place for place, image in enumerate(images) if image.image == number]
        views = [*parts[number]] if number < len(parts) else [*parts[0]]
        if len(views) == 1:
            views *= len(places)
        elif not is_of_text and len(places) == 1 and example < len(views):  # a tower reads views as a batch
            views = views[example : example + 1]
        if len(views) != len(places) or None in views:
            unknown.add(number)
            continue
        for place, view in zip(places, views, strict=True):
            assert view is not None
            images[place] = replace(images[place], box=within(images[place].box, view), seen=None, is_placed=True)
    return replace(tokens, images=tuple(images)) if images else tokens
