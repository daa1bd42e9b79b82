"""A sheet: a matplotlib figure on which everything is placed by coordinates in inches from the top left corner."""

import io
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, BinaryIO, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import Colormap, ListedColormap, LogNorm, Normalize
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D, IdentityTransform, Transform, TransformedPath
from numpy.typing import NDArray
from PIL import Image

from mhaviz.errors import parameter
from mhaviz.pages.blocks import Title
from mhaviz.pages.labels import cut, harmless, title_text
from mhaviz.pages.panels import Scale
from mhaviz.views.colours import palette
from mhaviz.views.figure.artists import Numbers
from mhaviz.views.figure.fonts import Fonts, are_truetype
from mhaviz.views.figure.measuring import DEFAULT_FAMILY, HAIR, as_written, fit, font_of, most_within, text_width, wrap
from mhaviz.views.figure.notebook import NotebookFigure
from mhaviz.views.figure.outline import outline
from mhaviz.views.measures import BODY, MARGIN, POINTS, SMALL, TITLE

_NO_CLIP = TransformedPath(Path(np.empty((0, 2))), IdentityTransform())
"""Clip path of all texts. matplotlib would make one for each, which it never uses, in two thirds of a text's time."""

_COMPRESSION = 3  # of 9; 6 takes twice as long for 5% smaller files, or a third for pages of many heads

MOST_PIXELS = 16_384  # pixels a side; many programs open nothing larger
MOST_AREA = 50_000_000  # pixels of a page; takes up to 600 MB while it is written
PAGE_LIMIT = f"at most {MOST_PIXELS:,} pixels a side and {MOST_AREA / 1e6:.0f} million in all"

INK, QUIET, ACCENT, SECOND = "#1a1a1a", "#6b6b6b", "#c2410c", "#1d4e89"
FAINT = "#8c8c8c"  # special tokens: contrast 3.4 : 1 on white, where WCAG 2.2 asks for 3 : 1 for large text
FOOT_LINE, TITLE_LINE = 0.16, 0.17  # inches
_FRAME = 0.5  # thickness of lines in points
_STEP = 0.25  # points by which a title is made smaller
_AS_DRAWN = 0.97  # measured / drawn width of bold letters
_LONGEST_LINE = 400  # most characters of a title or a line of the foot


@contextmanager
def house_style() -> Iterator[None]:
    """Context with matplotlib's default settings instead of those of the user's matplotlibrc."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


class Sheet(NotebookFigure):
    """Figure with axes over all of it, in inches, with y pointing downwards.

    Attributes:
        page: these axes.
        fonts: fonts for texts of users.
        notices: messages for the user about the picture.
        zoom: scale of the picture relative to its layout, for letters, lines and cells alike.
        pixels: pixels for an inch of the layout.
        title_size: font size of all titles, in points.
        heading: title of the PDF or SVG: the first title, not shortened.
    """

    def __init__(
        self,
        width: float,
        height: float,
        dpi: float,
        fonts: Fonts | None = None,
        zoom: float = 1.0,
        crop: float = 0.0,
        title_size: float = TITLE,
    ) -> None:
        size = zoom * (width - 2 * crop), zoom * (height - 2 * crop)
        self.pixels, self.zoom, self.title_size = dpi, zoom, title_size
        super().__init__(figsize=size, dpi=dpi / zoom, facecolor="white")
        FigureCanvasAgg(self)
        self.suppressComposite = True  # or matplotlib would composite the images of an SVG or a PDF
        self.page: Axes = self.add_axes((0, 0, 1, 1), xlim=(crop, width - crop), ylim=(height - crop, crop))
        self.page.set_axis_off()
        self.fonts = fonts or Fonts()
        self.heading, self._has_page_title = "", False
        self.notices: list[str] = [self.fonts.notice] if self.fonts.notice else []
        self.width, self.height = width, height

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG."""
        png = io.BytesIO()
        self.save(png, "png")
        return png.getvalue()

    def save(self, stream: BinaryIO, suffix: str) -> None:
        """Write the sheet as png, svg or pdf: the same bytes in every run, whatever matplotlibrc says."""
        if suffix == "pdf":
            save_pdf([self], stream)
            return
        with _noting_glyphs(self):
            if suffix == "png":
                with _settings(suffix, self.fonts.families):
                    self._save_png(stream)
            else:
                file = io.BytesIO()
                with _undated():
                    self.savefig(file, format=suffix, dpi=self.dpi, metadata={"Date": None, **_heading([self])})
                stream.write(file.getbuffer())

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure as matplotlib does, but with the letters of ``save``, whatever matplotlibrc says."""
        with _settings(str(options.get("format") or fname).lower(), self.fonts.families):
            super().savefig(fname, **options)

    def _save_png(self, stream: BinaryIO) -> None:
        """Write a PNG without transparency, with fast compression."""
        before, canvas = self.canvas, FigureCanvasAgg(self)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        self.set_canvas(before)
        image = Image.fromarray(pixels).convert("RGB")
        image.save(stream, "png", compress_level=_COMPRESSION, dpi=(self.dpi, self.dpi))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float = BODY,
        *,
        colour: str = INK,
        bold: bool = False,
        align: Literal["left", "center", "right"] = "left",
        vertical: Literal["top", "center", "center_baseline", "bottom", "baseline"] = "center",
        rotation: float = 0.0,
    ) -> Text:
        """Write a text literally at a place. All texts of users and files are written by this method.

        Control characters are escaped; so are characters that no font has, if the text comes from ``Fonts.shown``. The
        line runs from left to right, and right-to-left words in it in their own direction.
        """
        text = as_written(text)
        return self.page.text(
            x,
            y,
            text,
            fontproperties=font_of(self.fonts.families, size * self.zoom, bold),
            color=colour,
            ha=align,
            va=vertical,
            rotation=rotation,
            rotation_mode="anchor",
            parse_math=False,
            usetex=False,
            clip_path=_NO_CLIP,
        )

    def title(self, x: float, y: float, title: Title | str, room: float) -> float:
        """Write the title of a picture in ``room`` inches, and return by how much its last line is below ``y``.

        Where the inches are few, it has two lines. What is longer still is shortened. Below the title of a page, those
        of its pictures are quiet and small.
        """
        if not title:
            return 0.0
        shorten, families = _shortening(title, self.fonts), self.fonts.families
        is_bold = not self._has_page_title
        size, colour = (self.title_size, INK) if is_bold else (BODY, QUIET)
        longest = shorten(_LONGEST_LINE)
        self.heading = self.heading or harmless(longest)
        if text_width(longest, size, families, bold=is_bold) > room + HAIR:
            room *= _AS_DRAWN

        def fitted(shorten: Callable[[int], str]) -> str:
            return fit(shorten, _LONGEST_LINE, room, size, families, bold=is_bold)

        shown, lines = fitted(shorten), []
        if isinstance(title, str):
            lines = wrap(longest, room, size, families, bold=is_bold)
        elif title.texts and shown != longest:
            parts = replace(title, texts=()), replace(title, head="", short="")
            lines = [fitted(_shortening(part, self.fonts)) for part in parts]
        if len(lines) == 2:
            for i, line in enumerate(lines):
                self.write(x, y + (i - 0.25) * FOOT_LINE, line, size, bold=is_bold, colour=colour)
            return 0.75 * FOOT_LINE
        if isinstance(title, str) and shown != longest:
            self.notices.append(f"the title is cut; a larger {parameter('width')} shows all of it")
        self.write(x, y, shown, size, bold=is_bold, colour=colour)
        return 0.0

    def page_title(self, title: Title | str) -> None:
        """Write the title of the page at the top, wrapped if it is a text."""
        lines = title_lines(title, self.width, self.fonts)
        if isinstance(title, Title) or len(lines) == 1:
            self.title(MARGIN, MARGIN + 0.1, title, self.width - 2 * MARGIN)
        else:
            self.heading = harmless(title)
            for i, line in enumerate(lines):
                self.write(MARGIN, MARGIN + 0.1 + i * TITLE_LINE, line, BODY, bold=True)
        self._has_page_title = True

    def foot(self, footnote: str, remark: str) -> None:
        """Write the footnote at the bottom, and a remark beside it or, where there is no room, above it."""
        for i, (left, right) in enumerate(reversed(_foot_lines(self.width, footnote, remark, self.fonts))):
            y = self.height - MARGIN - i * FOOT_LINE
            self.write(MARGIN, y, left, SMALL, colour=QUIET, vertical="bottom")
            if right:
                self.write(self.width - MARGIN, y, right, SMALL, colour=QUIET, vertical="bottom", align="right")

    def image(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        values: NDArray[Any],
        scale: Scale | None = None,
        kind: type[AxesImage] = AxesImage,
    ) -> AxesImage:
        """Draw numbers in the colours of a scale, or pixels, (rows, columns, 3), in a rectangle; NaN is white.

        ``kind``: ``Cells`` are shapes in SVG and PDF.
        """
        colours = {"interpolation_stage": "rgba"} if scale is None else mapped(scale)
        extent = x, x + width, y + height, y
        image = kind(self.page, interpolation="nearest", origin="upper", extent=extent, **colours)
        image.set_data(values)
        self.page.add_image(image)
        return image

    def outline(
        self, visible: NDArray[np.bool_], cell: tuple[float, float], places: Sequence[tuple[float, float]]
    ) -> None:
        """Draw a thin line around visible cells, at each of these places of their top left corner.

        The line is drawn outside the visible cells, which may be as thin as a line, and on whole pixels.
        ``cell``: width and height of a cell.
        """
        line = max(round(_FRAME / POINTS * self.pixels), 1) / self.pixels
        x, y, width, height = np.array(outline(visible, cell, line)).T
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
        vertices = np.array(corners).transpose(2, 0, 1).reshape(-1, 2) * (1, -1)  # y points upwards here
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(x)
        filled = PathCollection(
            [Path(vertices, codes)],
            offsets=places,
            offset_transform=self.page.transData,
            facecolors=QUIET,
            linewidths=0,
            antialiaseds=False,
        )
        filled.set_transform(self._inches)
        self.page.add_collection(filled, autolim=False)

    def frames(
        self, rectangles: Sequence[tuple[float, float, float, float]], colour: str = QUIET, line: float = _FRAME
    ) -> None:
        """Draw thin lines around rectangles, (x, y, width, height)."""
        outlines = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)] for x, y, w, h in rectangles]
        self.page.add_collection(
            LineCollection(outlines, colors=colour, linewidths=line * self.zoom, capstyle="projecting"), autolim=False
        )

    def ticks(self, ends: Sequence[tuple[float, float, float, float]], colour: str, line: float = _FRAME) -> None:
        """Draw thin straight lines, (x, y, x, y), which end exactly at these points."""
        lines = [[(x0, y0), (x1, y1)] for x0, y0, x1, y1 in ends]
        marks = LineCollection(lines, colors=colour, linewidths=line * self.zoom, capstyle="butt")
        self.page.add_collection(marks, autolim=False)

    def numbers(self, texts: Sequence[str], places: NDArray[np.float64], colours: Sequence[str], size: float) -> None:
        """Write many short numbers, each centred on its place; outlines are drawn many times faster than text."""
        groups: dict[tuple[str, str], list[int]] = {}
        for i, group in enumerate(zip(texts, colours, strict=True)):
            groups.setdefault(group, []).append(i)
        font = font_of((DEFAULT_FAMILY,), size * self.zoom, False)
        for (text, colour), members in groups.items():
            numbers = Numbers(
                _outline(text, size), text, colour, font, places[members], offset_transform=self.page.transData
            )
            numbers.set_transform(self._inches)
            self.page.add_collection(numbers, autolim=False)

    @property
    def _inches(self) -> Transform:
        """Transform from inches of the layout, with y pointing upwards."""
        return Affine2D().scale(self.zoom) + self.dpi_scale_trans

    def plot_axes(self, x: float, y: float, width: float, height: float, title: str = "") -> Axes:
        """Return new axes for a plot in the rectangle, with a title."""
        (left, right), (bottom, top) = self.page.get_xlim(), self.page.get_ylim()
        across, down = right - left, bottom - top
        axes: Axes = self.add_axes(((x - left) / across, (bottom - y - height) / down, width / across, height / down))
        axes.set_title(harmless(title), size=BODY * self.zoom, color=INK, loc="left", parse_math=False)
        axes.tick_params(labelsize=SMALL * self.zoom, colors=INK)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return axes


def save_pdf(sheets: Sequence[Sheet], stream: BinaryIO) -> None:
    """Write sheets as the pages of one PDF: the same bytes in every run, whatever matplotlibrc says."""
    from matplotlib.backends.backend_pdf import PdfPages

    file = io.BytesIO()  # with a full disk matplotlib would raise an error of zlib
    families = tuple(dict.fromkeys(family for sheet in sheets for family in sheet.fonts.families))
    pages = PdfPages(file, metadata={"CreationDate": None, **_heading(sheets)})
    with _noting_glyphs(sheets[0]), _settings("pdf", families), _undated(), pages:
        for sheet in sheets:
            NotebookFigure.savefig(sheet, pages, format="pdf", backend="pdf", dpi=sheet.dpi)  # type: ignore[arg-type]
    stream.write(file.getbuffer())


def _heading(sheets: Iterable[Sheet]) -> dict[str, str]:
    """Return the title of a file as metadata."""
    heading = next((sheet.heading for sheet in sheets if sheet.heading), "")
    return {"Title": heading} if heading else {}


@contextmanager
def _settings(name: str, families: tuple[str, ...]) -> Iterator[None]:
    """Context with the settings that a file is written with.

    Args:
        name: its format, or a name that ends in it.
        families: font families of its letters.
    """
    with house_style():
        # Texts stay texts that can be searched and edited. Journals require TrueType in PDFs; not all fonts are.
        pdf_font = 42 if name.endswith("pdf") and are_truetype(families) else 3
        matplotlib.rcParams.update({"svg.hashsalt": "mhaviz", "svg.fonttype": "none", "pdf.fonttype": pdf_font})
        matplotlib.rcParams["font.sans-serif"] = [DEFAULT_FAMILY]  # an SVG names it and, after it, any other
        matplotlib.rcParams["text.hinting"] = "none"  # letters keep their shapes, and take half the time
        yield


@contextmanager
def _noting_glyphs(sheet: Sheet) -> Iterator[None]:
    """Context in which warnings of glyphs that no font has become a notice of the sheet."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph ")
        yield
    notice = "no installed font can join some of the characters: they are drawn as boxes"
    if notice not in sheet.notices and any(str(warning.message).startswith("Glyph ") for warning in caught):
        sheet.notices.append(notice)


@contextmanager
def _undated() -> Iterator[None]:
    """Hide the date of a build, which matplotlib reads even for files without a date, and may be no number."""
    date = os.environ.pop("SOURCE_DATE_EPOCH", None)
    try:
        yield
    finally:
        if date is not None:
            os.environ["SOURCE_DATE_EPOCH"] = date


@cache
def _outline(text: str, size: float) -> Any:
    path = TextPath((0, 0), text, size=size / POINTS, prop=FontProperties(family=DEFAULT_FAMILY), usetex=False)
    # The control points bound the curves closely enough, and need no computation.
    middle = (path.vertices.min(axis=0) + path.vertices.max(axis=0)) / 2
    return path.transformed(Affine2D().translate(*-middle))


def title_size(titles: Iterable[tuple[Title | str, float]], fonts: Fonts) -> float:
    """Return the largest font size at which all titles have room; the least where one has not.

    ``titles``: titles, each with the inches that it has.
    """
    steps = round((TITLE - BODY) / _STEP)
    for title, room in titles:
        longest = _shortening(title, fonts)(_LONGEST_LINE) if title else ""
        room *= _AS_DRAWN

        def width_of(steps: int, longest: str = longest) -> float:
            return text_width(longest, BODY + steps * _STEP, fonts.families, bold=True)

        if steps and (width := width_of(steps)) > room:
            least = width * BODY / (BODY + steps * _STEP)
            steps = most_within(room, width_of, (0, least), (steps, width))
    return BODY + steps * _STEP


def title_lines(title: Title | str, width: float, fonts: Fonts) -> list[str]:
    """Return the lines of a title that is a text, wrapped to a sheet of this width; one line for a ``Title``, which is
    shortened."""
    if isinstance(title, Title):
        return [""]
    room = _AS_DRAWN * (width - 2 * MARGIN)
    return wrap(fonts.shown(title), room, BODY, fonts.families, bold=True)


def _shortening(title: Title | str, fonts: Fonts) -> Callable[[int], str]:
    """Return a function that shortens the title to a number of cells."""
    if isinstance(title, str):
        return partial(cut, fonts.shown(title))
    head, short = (text and fonts.shown(text) for text in (title.head, title.short))
    title = replace(title, head=head, short=short)
    return partial(title_text, title, shown=cache(fonts.shown))  # many lengths are tried on long texts


@cache
def _listed_colormap(name: str) -> Colormap:
    """Return the colours of ``palette`` as a colormap of matplotlib; NaN, which is hidden, is white."""
    return ListedColormap(palette(name) / 255, name=name).with_extremes(bad="white")


def mapped(scale: Scale) -> dict[str, Any]:
    """Return the colormap and norm of a scale for images of matplotlib. Numbers below a logarithmic scale get its first
    colour."""
    norm = (LogNorm if scale.log else Normalize)(scale.low, scale.high, clip=scale.log)
    return {"cmap": _listed_colormap(scale.colormap), "norm": norm}


def most_dpi(width: float, height: float) -> int:
    """Return the most pixels an inch that a page of this size may have."""
    return int(min(MOST_PIXELS / max(width, height), math.sqrt(MOST_AREA / (width * height))))


def foot_height(width: float, footnote: str, remark: str, fonts: Fonts) -> float:
    """Return the height of a sheet's foot in inches."""
    return FOOT_LINE * len(_foot_lines(width, footnote, remark, fonts))


def _foot_lines(width: float, footnote: str, remark: str, fonts: Fonts) -> list[tuple[str, str]]:
    """Return the left and right text of each line of the foot: footnote and remark in one line, or the lines of the
    remark, then those of the footnote."""
    room = width - 2 * MARGIN
    widths = [foot_width(text, fonts) for text in (footnote, remark)]
    if sum(widths) + 0.3 * all(widths) < room + HAIR:
        return [(_foot_text(footnote, fonts), _foot_text(remark, fonts))] if any(widths) else []
    texts = [_foot_text(text, fonts) for text in (remark, footnote) if text]
    return [(line, "") for text in texts for line in wrap(text, room, SMALL, fonts.families)]


def foot_width(text: str, fonts: Fonts) -> float:
    """Return the width in inches of a text in one line of the foot; a very long one is shortened."""
    return text_width(_foot_text(text, fonts), SMALL, fonts.families)


def _foot_text(text: str, fonts: Fonts) -> str:
    return fonts.shown(cut(text, _LONGEST_LINE)) if text else ""
