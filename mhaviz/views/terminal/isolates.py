"""Words that are read from right to left, kept where they stand among words and numbers that are not.

A terminal that puts the letters of Arabic and Hebrew in their order turns whole runs around, over blanks and digits:
the labels of columns would change places. Isolates (Unicode Standard Annex #9, section 2.4) keep each word to itself.
"""

import re
import unicodedata
from collections.abc import Callable

_FIRST_STRONG, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_ISOLATED = re.compile(f"({_FIRST_STRONG}[^{_FIRST_STRONG}{_POP}]*{_POP})")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}


def isolated(text: str) -> str:
    """A label between isolates if some of it is read from right to left; blanks around it stay outside.

    For what is ready to be printed: cut to its width, and escaped.
    """
    if text.isascii() or not _has_right_to_left(text):
        return text
    word = text.strip(" ")
    return text.replace(word, f"{_FIRST_STRONG}{word}{_POP}")


def outside_isolates(escape: Callable[[str], str], text: str) -> str:
    """The text, escaped: all but isolates that ``isolated`` could have put there.

    If there is anything else to escape, they are escaped too: the text becomes longer than its room, and an isolate
    whose end is cut off would act on all that comes after it.
    """

    def is_ours(part: str) -> bool:
        return _ISOLATED.fullmatch(part) is not None and _has_right_to_left(part[1:-1])

    others = [part[1:-1] if is_ours(part) else part for part in _ISOLATED.split(text)]
    return text if all(escape(part) == part for part in others) else escape(text)


def _has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text)
