"""Words that are read from right to left, kept where they stand among words and numbers that are not.

A terminal that puts the letters of Arabic and Hebrew in their order turns whole runs around, over blanks and digits:
the labels of columns would change places. Isolates (Unicode Standard Annex #9, section 2.4) keep each word to itself.
"""

import re
from collections.abc import Callable

_FIRST_STRONG, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
"""Letters that are read so, with their marks and their digits."""
_WORD = re.compile(f"[{_RIGHT_TO_LEFT}]+")
_ISOLATED = re.compile(f"({_FIRST_STRONG}{_WORD.pattern}{_POP})")


def isolated(text: str) -> str:
    """The text with isolates around each word that is read from right to left.

    For what is ready to be printed: cut to its width, and escaped.
    """
    return text if text.isascii() else _WORD.sub(lambda word: f"{_FIRST_STRONG}{word[0]}{_POP}", text)


def outside_isolates(escape: Callable[[str], str], text: str) -> str:
    """The text, escaped: all but isolates that ``isolated`` could have put there.

    If there is anything else to escape, they are escaped too: the text becomes longer than its room, and an isolate
    whose end is cut off would act on all that comes after it.
    """

    others = [part for place, part in enumerate(_ISOLATED.split(text)) if not place % 2]
    return text if all(escape(part) == part for part in others) else escape(text)
