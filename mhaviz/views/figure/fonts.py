"""Installed fonts that have the characters of the tokens, and escapes for characters that no font has."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from mhaviz.pages.labels import JOINED_EMOJI, escape, token_labels, visible
from mhaviz.views.figure.measuring import DEFAULT_FAMILY, text_width, wrap

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

_REGULAR = 400  # weight
LABEL_CELLS, NARROW_CELLS = 24, 12  # most cells of a label, on a narrow page; a longer token is shortened
_VARIATION_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))
"""Characters that choose a form of the character before them, and have no glyph."""


@dataclass(frozen=True)
class Fonts:
    """Fonts of one figure.

    Attributes:
        families: font families, in the order in which glyphs are searched for.
        missing: characters that none of them has.
        label_cells: most cells of a label.
        on_paper: whether positions are as large as the tokens, as subscripts of small letters are not read on paper.
        positions: whether tokens that occur more than once have their positions in their labels.
    """

    families: tuple[str, ...] = (DEFAULT_FAMILY,)
    missing: frozenset[str] = field(default_factory=frozenset)
    label_cells: int = LABEL_CELLS
    on_paper: bool = False
    positions: bool = True

    @classmethod
    def covering(cls, texts: Iterable[str]) -> "Fonts":
        """Return installed fonts that have the characters of these texts, as far as there are any."""
        characters = {c for text in texts for c in visible(text) if not c.isascii()}.difference(_VARIATION_SELECTORS)
        wanted = {c for c in characters if not _has_glyph(_default_font(), c)}
        if not wanted:
            return cls()
        families = [DEFAULT_FAMILY]
        for family, path in _installed_fonts():
            found = _glyphs(path, frozenset(wanted))
            if found:
                families.append(family)
                wanted -= found
            if not wanted:
                break
        return cls(tuple(families), frozenset(wanted))

    def shown(self, text: str) -> str:
        """Return the text with control characters, and those that no font has, escaped, and joined emoji split."""
        if not self.missing.intersection(text):
            text = JOINED_EMOJI.sub("", text)
        return "".join(
            escape(c) if c in self.missing else "" if c in _VARIATION_SELECTORS else c for c in visible(text)
        )

    def labels(self, tokens: Sequence[str], start: int = 0, counts: Sequence[int] = ()) -> tuple[str, ...]:
        """Return a label for each token: escaped, shortened, and with its position where it occurs more than once.

        ``start``: position of the first token; ``counts``: see ``token_labels``.
        """
        return _labels(self, tuple(tokens), start, tuple(counts))

    def width(self, text: str, size: float, bold: bool = False) -> float:
        """Return the width in inches of a line of text as a sheet writes it."""
        return text_width(text, size, self.families, bold)

    def wrap(self, text: str, width: float, size: float) -> list[str]:
        """Return the text as lines of at most ``width`` inches."""
        return wrap(text, width, size, self.families)

    @property
    def notice(self) -> str | None:
        """Message that names the missing characters; None: there are none."""
        if not self.missing:
            return None
        some = sorted(self.missing)[:8]
        names = ", ".join(f"{c} (U+{ord(c):04X})" for c in some)
        more = f" and {len(self.missing) - len(some)} more" if len(self.missing) > len(some) else ""
        return f"no installed font has {names}{more}: shown as escapes; install {_package(self.missing)}"


_EAST_ASIAN = re.compile(r"CJK|HANGUL|HIRAGANA|KATAKANA|BOPOMOFO|IDEOGRAPHIC|FULLWIDTH|HALFWIDTH|YI ")


def _package(missing: Iterable[str]) -> str:
    """Return which packages of Debian and Ubuntu have the characters, as far as Noto's fonts do."""
    are_east_asian = {bool(_EAST_ASIAN.match(unicodedata.name(c, ""))) for c in missing}
    names = [name for name, is_so in (("fonts-noto-cjk", True), ("fonts-noto-core", False)) if is_so in are_east_asian]
    return f"a font that has, such as the package {' and '.join(names)}"


@lru_cache(maxsize=4)
def _labels(fonts: Fonts, tokens: tuple[str, ...], start: int, counts: tuple[int, ...]) -> tuple[str, ...]:
    """Return ``Fonts.labels``, cached, as a layout needs the same labels for every number of columns that it tries."""
    lowered, positions = not fonts.on_paper, fonts.positions
    return tuple(token_labels(tokens, fonts.label_cells, start, fonts.shown, lowered, positions, counts))


@cache
def are_truetype(families: tuple[str, ...]) -> bool:
    """Return whether all these fonts have TrueType outlines, which a PDF can embed unchanged."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
    from matplotlib.font_manager import findfont

    for family in families:
        with TTFont(findfont(family), fontNumber=0, lazy=True) as font:
            if "glyf" not in font:
                return False
    return True


@cache
def _default_font() -> "FT2Font":
    from matplotlib.font_manager import findfont, get_font

    return get_font(findfont(DEFAULT_FAMILY))


def _has_glyph(font: "FT2Font", character: str) -> bool:
    """Return whether the font can draw a character; fonts of coloured bitmaps list characters without outlines."""
    if not font.get_char_index(ord(character)):
        return False
    try:
        glyph = font.load_char(ord(character))
    except RuntimeError:
        return False
    return glyph.width > 0 or character.isspace()


def _glyphs(path: str, characters: frozenset[str]) -> set[str]:
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):
        return set()
    return {c for c in characters if _has_glyph(font, c)} if font.scalable else set()


@cache
def _installed_fonts() -> tuple[tuple[str, str], ...]:
    """Return (family, path) of the plainest font of every installed family, sans-serif families first.

    The plainest is the one whose weight is nearest to regular, 400, which some families lack.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:  # installed since matplotlib last looked
            try:
                fontManager.addfont(path)
            except (RuntimeError, OSError, UnicodeError):
                continue
    plain = [
        entry
        for entry in fontManager.ttflist
        if entry.style == "normal"
        and not entry.name.replace(" ", "").startswith("LastResort")  # whose glyphs are placeholders
    ]

    def plainness(entry: Any) -> tuple[bool, bool, str, int, str]:
        return "Sans" not in entry.name, "UI" in entry.name, entry.name, abs(_weight(entry) - _REGULAR), entry.fname

    plain.sort(key=plainness)
    return tuple({entry.name: entry.fname for entry in reversed(plain)}.items())[::-1]


def _weight(entry: Any) -> int:
    from matplotlib.font_manager import weight_dict

    return weight_dict[entry.weight] if isinstance(entry.weight, str) else entry.weight
