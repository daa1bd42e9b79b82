"""SVG and PDF: texts as texts, to be found and edited, and cells as shapes, which stay sharp at any size."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mhaviz.views.figure.fonts import DEFAULT_FAMILY
from mhaviz.views.figure.pixels import CellImage

MOST_CELLS = 20_000
"""Of more cells a file gets so large that programs open it slowly: then they are an image in it."""

MOST_NUMBERS = 10_000
"""More of them stay outlines: as texts they take a minute."""

_OVERLAP = 0.2  # points that a cell goes under the next ones, or paper would shine through between them
_POINTS = 72  # an inch


@dataclass(frozen=True)
class Numbers:
    """The same number in many cells.

    Attributes:
        outlines: how it is drawn on pixels.
        text: the number.
        places: (cells, 2), the middle of each.
        colour, size: of its text, in points.
    """

    outlines: PathCollection
    text: str
    places: NDArray[np.float64]
    colour: str
    size: float


@contextmanager
def as_vectors(page: Axes, numbers: Sequence[Numbers]) -> Iterator[None]:
    """Inside, cells are shapes, if they are not too many, and numbers are texts."""
    images = [image for image in page.images if isinstance(image, CellImage) and not image.is_gradient]
    if sum(image.numbers.size for image in images) > MOST_CELLS:
        images = []
    if sum(len(number.places) for number in numbers) > MOST_NUMBERS:
        numbers = ()
    replaced: list[Artist] = [*images, *(number.outlines for number in numbers)]
    added: list[Artist] = [page.add_collection(_shapes(image), autolim=False) for image in images]
    for number in numbers:
        added += [
            page.text(
                x, y, number.text, size=number.size, color=number.colour, family=DEFAULT_FAMILY,
                ha="center", va="center_baseline", parse_math=False,
            )
            for x, y in number.places
        ]  # fmt: skip
    for artist in replaced:
        artist.set_visible(False)
    try:
        yield
    finally:
        for artist in replaced:
            artist.set_visible(True)
        for artist in added:
            artist.remove()


def _shapes(image: CellImage) -> PolyCollection:
    """The cells of an image that are not paper."""
    left, right, bottom, top = image.get_extent()
    colours = image.to_rgba(image.numbers, bytes=True)  # rows columns 4
    rows, columns = colours.shape[:2]
    row, column = np.nonzero((colours[..., :3] < 255).any(axis=-1))
    overlap = _OVERLAP / _POINTS
    x0, y0 = left + column * (right - left) / columns, top + row * (bottom - top) / rows
    x1 = np.minimum(left + (column + 1) * (right - left) / columns + overlap, right)
    y1 = np.minimum(top + (row + 1) * (bottom - top) / rows + overlap, bottom)
    corners = np.stack([np.stack([x, y], axis=-1) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=1)
    shapes = PolyCollection(list(corners), facecolors=colours[row, column] / 255, linewidths=0, antialiaseds=False)
    shapes.set_zorder(image.get_zorder())
    shapes.set_label(str(image.get_label()))
    return shapes


def write_scaled(
    figure: Figure, stream: BinaryIO, suffix: str, zoom: float, metadata: Mapping[str, str | None]
) -> None:
    """Write an SVG or a PDF of a figure, so many times as large as it is, letters and lines included."""
    if suffix == "pdf":
        pdf = io.BytesIO()  # of a disk that is full matplotlib raises an error of zlib, or of its own attributes
        _write_pdf(figure, pdf, zoom, metadata)
        stream.write(pdf.getbuffer())
        return
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", dpi=figure.dpi, metadata=dict(metadata))
    width, height = (_POINTS * zoom * inches for inches in figure.get_size_inches())
    size = rf'\1width="{width:g}pt" height="{height:g}pt"'.encode()
    stream.write(re.sub(rb'(<svg [^>]*?)width="[^"]*" height="[^"]*"', size, svg.getvalue(), count=1))


def _write_pdf(figure: Figure, stream: BinaryIO, zoom: float, metadata: Mapping[str, str | None]) -> None:
    """As ``FigureCanvasPdf.print_pdf`` does, with a matrix before all that is drawn."""
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_pdf import Op, PdfFile, RendererPdf

    width, height = figure.get_size_inches()
    dpi, figure.dpi = figure.dpi, _POINTS
    file = PdfFile(stream, metadata=dict(metadata))  # type: ignore[no-untyped-call]
    try:
        file.newPage(width * zoom, height * zoom)  # type: ignore[no-untyped-call]
        file.width, file.height = width, height  # what lies outside is left out, and all is drawn before it is enlarged
        file.output(zoom, 0, 0, zoom, 0, 0, Op.concat_matrix)  # type: ignore[no-untyped-call]
        on_page = RendererPdf(file, dpi, height, width)  # type: ignore[no-untyped-call]
        renderer = MixedModeRenderer(figure, width, height, dpi, on_page)  # type: ignore[no-untyped-call]
        figure.draw(renderer)  # type: ignore[arg-type]
        renderer.finalize()
        file.finalize()  # type: ignore[no-untyped-call]
    finally:
        figure.dpi = dpi
        file.close()  # type: ignore[no-untyped-call]
