"""Tokens that somebody will try."""

import re
import unicodedata

HOSTILE = (
    "$x^2$",
    "$",
    "[bold]",
    "[/x]",
    "[red on blue]",
    "<script>alert(1)</script>",
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "a\u202eb",
    "nul\x00",
    "two\nlines",
    "tab\t",
    "\udcff",
    "👨‍👩‍👧",
    "❤️",
    "我喜欢",
    "मस्ते",
    "مرحبا",
    "\u0301mark",
    "e" + "\u0301" * 500,
    "",
    " ",
    "x" * 5000,
    "\U000e0001",
    "\ue000",
    "\u2028",
    "\\",
    "%s{0}",
)

ACTING = "".join(text for text in HOSTILE if not text.isprintable()) + "\x7f\x85\x9b31m\r\u2066\u2029\ufeff\ufffe"
"""A text that holds what every one of them could do to a terminal."""

KINDS = ("$x^2$", "[/x]", "<script>alert(1)</script>", "e" + "\u0301" * 500, "", "x" * 5000, "مرحبا", ACTING)
"""One of each kind, for what takes long: markup, a pile, nothing, length, another direction, control."""


ISOLATED = re.compile(
    "\u2068([^\u2066-\u2069]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff][^\u2066-\u2069]*)\u2069"
)
"""Isolates around a word of Arabic or Hebrew: they keep it from acting on what stands beside it."""


def acts(text: str) -> list[str]:
    """The characters of a program's output that are no text: line ends and blanks alone are allowed."""
    text = ISOLATED.sub(r"\1", text)
    return sorted({c for c in text if not (c.isprintable() or c == "\n" or unicodedata.category(c) == "Zs")})


def without_isolates(text):
    """The text without the pairs of marks by which figures set words apart that read from right to left."""
    return re.sub("\u2068([^\u2066-\u2069]*)\u2069", r"\1", text)
