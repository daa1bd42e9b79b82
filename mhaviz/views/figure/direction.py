"""Words that are written from right to left, in lines that are written from left to right.

matplotlib orders the letters of a line by the Unicode Bidirectional Algorithm (UAX #9), and takes its direction from
the first letter: a line that begins with an Arabic word would be turned round, with its numbers and its full stop. Here
a line always goes from left to right, and words of another direction are set apart in it.
"""

import re

_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff"
_BETWEEN = r"\s…'’.!?-"  # what may stand between two such words of a sentence; arrows, commas and numbers are ours
_WORDS = re.compile(f"[{_RIGHT_TO_LEFT}](?:[{_BETWEEN}]*[{_RIGHT_TO_LEFT}])*")
_QUOTED_OR_WORDS = re.compile(f"“[^“”]*[{_RIGHT_TO_LEFT}][^“”]*”|{_WORDS.pattern}")

_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def left_to_right(text: str) -> str:
    """The line with every quotation, and all neighbouring words, that are written from right to left set apart.

    They read from right to left; what stands around them keeps its place, as the marks that set them apart are not
    letters. These are invisible, and act: a user's text must have been made harmless before.
    """
    if text.isascii():
        return text
    return _QUOTED_OR_WORDS.sub(_isolated, text)


def _isolated(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith("“"):
        return f"“{_FIRST_STRONG_ISOLATE}{text[1:-1]}{_POP_ISOLATE}”"
    return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"
