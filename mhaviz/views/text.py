"""What a medium that orders letters by itself, or lacks some, needs of texts that have been cut and escaped.

Terminals and matplotlib put the letters of Arabic and Hebrew in their order by the Unicode Bidirectional Algorithm (UAX
#9), and turn whole runs around, over blanks and digits: the labels of columns would change places, and a line that
begins with such a word its direction. Isolates (section 2.4) keep words to themselves, and a line goes from left to
right. They are invisible, and act: a user's text must have been made harmless before.
"""

import codecs
import re
from collections.abc import Callable

_FIRST_STRONG, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
"""Letters that are read so, with their marks and their digits."""
_WORD = re.compile(f"[{_RIGHT_TO_LEFT}]+")
_ISOLATED = re.compile(f"({_FIRST_STRONG}{_WORD.pattern}{_POP})")
_BETWEEN = r"\s…'’.!?-"  # what may stand between two such words of a sentence; arrows, commas and numbers are ours
_WORDS = f"{_WORD.pattern}(?:[{_BETWEEN}]+{_WORD.pattern})*"
_QUOTED_OR_WORDS = re.compile(f"(?<=“)[^“”]*[{_RIGHT_TO_LEFT}][^“”]*(?=”)|{_WORDS}")

PLAIN = "mhaviz.plain"
"""The error handler of a text stream: what its encoding lacks is written in ASCII, and nothing of it is lost."""

_IN_ASCII = dict(zip("░▒▓▁▂▃▄▅▆▇█−×·–∘‖“”µ₀₁₂₃₄₅₆₇₈₉", ',;&:_~+=%#@-x.-*|""u0123456789', strict=True)) | {
    **dict.fromkeys("▏▎▍▌▋▊▉", "|"),
    **dict.fromkeys((_FIRST_STRONG, _POP), ""),
    "√": "sqrt ",
    "ᵀ": "^T",
    "∞": "inf",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "²": "^2",
    "±": "+-",
    "Σ": "sum",
    "…": "...",
}


def isolated(text: str, apart: re.Pattern[str] = _WORD) -> str:
    """The text with isolates around each word that is read from right to left, as a line may be broken after any."""
    return text if text.isascii() else apart.sub(lambda found: f"{_FIRST_STRONG}{found[0]}{_POP}", text)


def left_to_right(text: str) -> str:
    """The same of a line that is not broken: around every quotation, and around neighbouring words as a whole."""
    return isolated(text, _QUOTED_OR_WORDS)


def outside_isolates(escape: Callable[[str], str], text: str) -> str:
    """The text, escaped: all but isolates that ``isolated`` could have put there.

    If there is anything else to escape, they are escaped too: the text becomes longer than its room, and an isolate
    whose end is cut off would act on all that comes after it.
    """

    others = [part for place, part in enumerate(_ISOLATED.split(text)) if not place % 2]
    return text if all(escape(part) == part for part in others) else escape(text)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text), error.end


codecs.register_error(PLAIN, _in_ascii)
