"""Isolates for text of Arabic and Hebrew, and ASCII in place of characters that an encoding lacks.

Terminals and matplotlib reorder right-to-left text by the Unicode Bidirectional Algorithm (UAX #9). It reverses whole
runs, with the blanks and digits in them: labels of columns would change places, and a line that begins with such a word
would run from right to left. Isolates (section 2.4) confine this to a word. They are invisible, but act on the text
after them, so a user's text must be escaped before.
"""

import codecs
import re
from collections.abc import Callable

_FIRST_STRONG, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
"""Right-to-left letters, with their marks and digits."""
_WORD = re.compile(f"[{_RIGHT_TO_LEFT}]+")
_ISOLATED = re.compile(f"({_FIRST_STRONG}{_WORD.pattern}{_POP})")
_BETWEEN = r"\s…'’.!?-"  # characters between two words of a sentence; arrows, commas and numbers are mhaviz's own
_WORDS = f"{_WORD.pattern}(?:[{_BETWEEN}]+{_WORD.pattern})*"
_QUOTED_OR_WORDS = re.compile(f"(?<=“)[^“”]*[{_RIGHT_TO_LEFT}][^“”]*(?=”)|{_WORDS}")

PLAIN = "mhaviz.plain"
"""Name of an error handler for text streams, which writes characters that the encoding lacks in ASCII."""

_IN_ASCII = dict(zip("░▒▓▁▂▃▄▅▆▇█−×·–∘‖“”µ₀₁₂₃₄₅₆₇₈₉", ',;&:_~+=%#@-x.-*|""u0123456789', strict=True)) | {
    **dict.fromkeys("▏▎▍▌▋▊▉", "|"),
    **dict.fromkeys((_FIRST_STRONG, _POP), ""),
    "√": "sqrt ",
    "ᵀ": "^T",
    "∞": "inf",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "↓": "v",
    "²": "^2",
    "±": "+-",
    "Σ": "sum",
    "…": "...",
    "␣": "_",
}


def isolated(text: str, apart: re.Pattern[str] = _WORD) -> str:
    """Return the text with isolates around each right-to-left word, so that a line may be broken after any word."""
    return text if text.isascii() else apart.sub(lambda found: f"{_FIRST_STRONG}{found[0]}{_POP}", text)


def left_to_right(text: str) -> str:
    """Return a line that is not broken with isolates around each quotation and each run of right-to-left words."""
    return isolated(text, _QUOTED_OR_WORDS)


def outside_isolates(escape: Callable[[str], str], text: str) -> str:
    """Return the text with all escaped but isolates that ``isolated`` may have added.

    If there is anything else to escape, they are escaped, too: the text then becomes longer than its room, and an
    isolate whose end is cut off would act on all text after it.
    """

    others = [part for place, part in enumerate(_ISOLATED.split(text)) if not place % 2]
    return text if all(escape(part) == part for part in others) else escape(text)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text), error.end


codecs.register_error(PLAIN, _in_ascii)
