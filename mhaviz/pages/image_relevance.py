"""Page of the relevance of patches: what decides a prediction in a line, the photo with its patches, and patches with
what happens without them."""

from collections.abc import Iterator
from dataclasses import replace

from mhaviz.pages.blocks import Block, Page, Text
from mhaviz.pages.image import overlays, place_texts
from mhaviz.pages.overlays import Overlays
from mhaviz.pages.registry import ABLATION_SUFFIXES, shown
from mhaviz.pages.relevance import ESTIMATE, aside_text, little_of, removal_table, subtitles, title_text
from mhaviz.results.image_relevance import Blank, ImageRelevance

_NAME = "relevance"

_COLOURS: dict[Blank, str] = {
    "processor": "the mean colour of the image processor, which it makes 0",
    "image": "the mean colour of what the model reads of the image",
}


@shown(ImageRelevance, ABLATION_SUFFIXES)
def image_relevance_page(relevance: ImageRelevance) -> Page:
    """Return the page: the title says what estimate and removal say together."""
    blocks: list[Block] = [Text(tuple(subtitles(relevance)), "subtitle"), _over(relevance)]
    if aside := aside_text(relevance.text):
        blocks.append(Text((aside,), "quiet"))
    if relevance.text.ranked:
        blocks.append(removal_table(relevance))
    reading = "; ".join([*place_texts(relevance.over), *_reading(relevance)])
    return Page(title_text(relevance), tuple(blocks), relevance.source.footnote, reading, True)


def _over(relevance: ImageRelevance) -> Overlays:
    """Return the photo, on which the patch with the largest fall has a frame, unless that is small."""
    block, text = overlays(relevance.over), relevance.text
    (head,), marks = block.heads, block.marks
    (picture,), (grid,) = head.pictures, text.words.images
    most = max(text.removed, key=lambda place: float(text.falls[place]), default=None)
    if most is not None and text.falls[most] >= little_of(relevance):
        picture, marks = replace(picture, query=grid.cell(most)), (*marks, "cyan: the largest fall")
    notes = head.notes[:2]  # what special tokens have is listed below
    line = f"{_NAME}: {'; '.join(forms[0] for forms in notes)}"
    named = replace(head, name=_NAME, row="", column=_NAME, pictures=(picture,), notes=notes, line=line)
    return replace(block, heads=(named,), marks=marks, table=removal_table(relevance))


def _reading(relevance: ImageRelevance) -> Iterator[str]:
    yield "patch 1,2: row 1 and column 2, from 0"
    yield ESTIMATE
    yield f"y falls by: when the pixels of the patch are set to {_COLOURS[relevance.blank]}"
