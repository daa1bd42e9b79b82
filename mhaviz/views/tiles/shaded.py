"""Lines of a shaded text. Lengths are in units of the medium."""

import math
from collections.abc import Iterator, Sequence

from mhaviz.pages.blocks import Word

_MOST_LINES, _KEPT = 22, 14  # most lines that are all shown, and shown of more

Placed = tuple[int, float]
"""Index of a word, and where it begins in its line."""


def shaded_lines(
    words: Sequence[Word], widths: Sequence[float], room: float, blank: float, joint: float = 0.0
) -> list[list[Placed]]:
    """Return the lines of a shaded text that are shown: of many, those with the query or the largest numbers, and an
    empty one where some are left out.

    Args:
        words: all words.
        widths: their widths, each at most ``room``.
        room: width of a line.
        blank: width of a blank.
        joint: distance of words without a blank between them.
    """
    lines = list(_wrapped(words, widths, room, blank, joint))
    if len(lines) <= _MOST_LINES:
        return lines
    best = [max(math.inf if words[i].is_query else words[i].share or 0.0 for i, _ in line) for line in lines]
    kept = sorted(sorted(range(len(lines)), key=lambda n: -best[n])[:_KEPT])
    shown = list[list[Placed]]()
    for before, n in zip([-1, *kept], [*kept, len(lines)], strict=True):
        shown += [[]] * (n - before > 1)
        shown += lines[n : n + 1]
    return shown


def _wrapped(
    words: Sequence[Word], widths: Sequence[float], room: float, blank: float, joint: float
) -> Iterator[list[Placed]]:
    """Yield the lines of all words, broken at blanks, and elsewhere only where there are none."""
    line, x = list[Placed](), 0.0
    together = list(widths)  # with what follows without a blank
    for i in reversed(range(len(words) - 1)):
        together[i] += 0.0 if words[i + 1].after_blank else joint + together[i + 1]
    for i, (word, width) in enumerate(zip(words, widths, strict=True)):
        before = (blank if word.after_blank else joint) if line else 0.0
        needed = together[i] if word.after_blank and together[i] <= room else width
        if line and x + before + needed > room:
            yield line
            line, x, before = [], 0.0, 0.0
        line.append((i, x + before))
        x += before + width
    yield line
