"""Widths of texts as a figure draws them, and texts that are shortened or wrapped to a width."""

import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from itertools import count
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from mhaviz.pages.labels import cut, harmless
from mhaviz.views.text import left_to_right

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.ft2font import FT2Font

DEFAULT_FAMILY = "DejaVu Sans"  # comes with matplotlib
HAIR = 0.02  # inches by which a sheet may be narrower than its contents, by rounding to whole pixels


def as_written(text: str) -> str:
    """Return a line of text as it is drawn: control characters escaped, from left to right but for the words in it."""
    return left_to_right(harmless(text))


@cache
def text_width(text: str, size: float, families: tuple[str, ...] = (DEFAULT_FAMILY,), bold: bool = False) -> float:
    """Return the width in inches of a line of text as ``Sheet.write`` draws it."""
    from matplotlib.backends.backend_agg import get_hinting_flag

    text = as_written(text)
    if families == (DEFAULT_FAMILY,) and all(map(_default_font(bold).get_char_index, map(ord, text))):
        font = _default_font(bold)
        font.set_size(size, _RULER_DPI)
        font.set_text(text, 0.0, flags=get_hinting_flag())  # type: ignore[no-untyped-call]
        width, _ = font.get_width_height()
        return width / _SUBPIXELS / _RULER_DPI
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph ")  # reported when the sheet is saved
        width, _, _ = _ruler().get_text_width_height_descent(text, font_of(families, size, bold), ismath=False)
    return float(width) / _RULER_DPI


@cache
def font_of(families: tuple[str, ...], size: float, bold: bool) -> "FontProperties":
    """Return a font, cached, as matplotlib looks up its settings for each, which takes longer than a text."""
    from matplotlib.font_manager import FontProperties

    weight = "bold" if bold else "normal"
    return FontProperties(
        family=list(families), style="normal", variant="normal", weight=weight, stretch="normal", size=size
    )


_RULER_DPI = 288  # fine enough that rounding to pixels does not matter
_SUBPIXELS = 64  # of a pixel, in which FreeType measures


@cache
def _default_font(bold: bool) -> "FT2Font":
    """Return the default font, read into memory: a glyph from a file, as matplotlib loads it, takes thrice as long."""
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return FT2Font(BytesIO(Path(findfont(font_of((DEFAULT_FAMILY,), 10.0, bold))).read_bytes()))


@cache
def _ruler() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return FigureCanvasAgg(Figure(figsize=(1, 1), dpi=_RULER_DPI)).get_renderer()  # type: ignore[no-untyped-call]


def fit_text(
    text: str, width: float, size: float, families: tuple[str, ...] = (DEFAULT_FAMILY,), bold: bool = False
) -> str:
    """Return the text, shortened in its middle to at most ``width`` inches."""
    return fit(lambda cells: cut(text, cells), cell_len(text), width, size, families, bold)


def fit(
    shorten: Callable[[int], str], cells: int, width: float, size: float, families: tuple[str, ...], bold: bool = False
) -> str:
    """Return the text that ``shorten`` makes for the most cells, up to ``cells``, that fit into ``width`` inches."""

    def width_of(length: int) -> float:
        return text_width(shorten(length), size, families, bold)

    room, whole = width + HAIR, width_of(cells)
    if whole <= room:
        return shorten(cells)
    per_cell = whole / max(cell_len(shorten(cells)), 1)
    return shorten(most_within(room, width_of, (1, per_cell), (cells, per_cell * cells)))


def wrap(
    text: str, width: float, size: float, families: tuple[str, ...] = (DEFAULT_FAMILY,), bold: bool = False
) -> list[str]:
    """Return the text as lines of at most ``width`` inches, broken between words; longer words are shortened."""
    per_cell = text_width(ascii_lowercase, size, families, bold) / len(ascii_lowercase)
    lines, words, left = list[str](), text.split(" "), cell_len(text)
    while words:
        words[0] = fit_text(words[0], width, size, families, bold)
        ends = (1, 0.0), (len(words) + 1, per_cell * left)
        n_words = most_within(width, lambda n: text_width(" ".join(words[:n]), size, families, bold), *ends)
        lines.append(" ".join(words[:n_words]))
        left -= cell_len(lines[-1])
        del words[:n_words]
    return lines


def most_within(room: float, width_of: Callable[[int], float], low: tuple[int, float], high: tuple[int, float]) -> int:
    """Return the most of something that is at most ``room`` wide: the fewest if all are wider.

    As measuring takes time proportional to a text, what is measured next is where a line from ``low`` to ``high``
    crosses ``room``, and every third time halfway.

    Args:
        room: the room, in the unit of the widths.
        width_of: measures so many.
        low: the fewest, and about how wide they are.
        high: more than fit, and about how wide they are.
    """
    for trial in count(1):
        between, across = high[0] - low[0], high[1] - low[1]
        if between <= 1:
            return low[0]
        share = (room - low[1]) / across if across > 0 and trial % 3 else 0.5
        n = low[0] + min(max(int(between * share), 1), between - 1)
        if (width := width_of(n)) <= room:
            low = n, width
        else:
            high = n, width
    raise AssertionError("unreachable")
