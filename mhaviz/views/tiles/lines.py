"""Places of words in two columns, and of the lines between them. Lengths are in rows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mhaviz.results.lines import HeadLinks, Link, TextLinks

MOST_ROWS = 30
"""Most words of a column that all have a row; of more, runs of words without lines have one together."""

_LEAST_RUN, _LEAST_OF_MANY = 3, 2  # least words of a run that is folded; where words beside lines are in it, too
_BESIDE, _AT_WORD = 0.2, 0.7  # rows from a line to the next one at the same word; of all lines at a word


@dataclass(frozen=True)
class Row:
    """A row of a column: a word, or a run of words that are not written.

    Attributes:
        y: middle of the row.
        word: index of the word; of a run, the first.
        n_words: number of words.
        is_folded: whether the words are not written, but counted.
        has_line: whether a line begins or ends at it.
    """

    y: float
    word: int
    n_words: int = 1
    is_folded: bool = False
    has_line: bool = False


@dataclass(frozen=True)
class Line:
    """A line from a word at the left to one at the right.

    Attributes:
        head: number of its head in the panel.
        link: what it stands for.
        begin, end: heights of its ends.
    """

    head: int
    link: Link
    begin: float
    end: float


@dataclass(frozen=True)
class LinesLayout:
    """Words and lines of a panel.

    Attributes:
        left, right: rows of the queries and of the keys, from top to bottom.
        lines: the lines, weak ones first, so that strong ones lie on them.
        rows: height of the higher column.
    """

    left: tuple[Row, ...]
    right: tuple[Row, ...]
    lines: tuple[Line, ...]
    rows: float


def lay_out(text: TextLinks, heads: Sequence[HeadLinks]) -> LinesLayout:
    """Return the places of all words of a text, and of the links of some heads."""
    sources = {link.query for head in heads for link in head.links}
    targets = {link.key for head in heads for link in head.links}
    left, right = _column(text.rows, sources), _column(text.columns, targets)
    if len(text.shown) == 1 and any(row.is_folded for row in left):
        left, right = _level(text, left, right)
    begins, ends = ({row.word: row.y for row in column if not row.is_folded} for column in (left, right))
    numbers = {key: [i for i, head in enumerate(heads) if any(link.key == key for link in head.links)] for key in ends}
    lines = list[Line]()
    for i, head in enumerate(heads):
        for link in head.links:
            there = numbers[link.key]
            beside = min(_BESIDE, _AT_WORD / len(there)) * (there.index(i) - (len(there) - 1) / 2)
            lines.append(Line(i, link, begins[link.query], ends[link.key] + beside))
    lines.sort(key=lambda line: line.link.weight)
    return LinesLayout(left, right, tuple(lines), max(row.y for row in (*left, *right)) + 0.5)


def _column(words: Sequence[int], linked: Collection[int]) -> tuple[Row, ...]:
    """Return the rows of a column: of many words, those with lines, their neighbours, and a row for each run of others;
    of very many with lines, without the neighbours."""
    if len(words) <= MOST_ROWS:
        return tuple(Row(i + 0.5, word, has_line=word in linked) for i, word in enumerate(words))
    kept = {i for i, word in enumerate(words) if word in linked}
    near = kept | {i + step for i in kept for step in (-1, 1)}
    rows = _folded(words, near, _LEAST_RUN)
    rows = rows if len(rows) <= MOST_ROWS else _folded(words, kept, _LEAST_OF_MANY)
    return tuple(replace(row, y=i + 0.5, has_line=row.word in linked) for i, row in enumerate(rows))


def _folded(words: Sequence[int], kept: Collection[int], least: int) -> list[Row]:
    """Return rows of words, with one for each run of at least ``least`` whose places are not ``kept``."""
    rows, i = list[Row](), 0
    while i < len(words):
        end = next((j for j in range(i, len(words)) if j in kept), len(words))
        if end - i >= least:
            rows.append(Row(0.0, words[i], end - i, is_folded=True))
        else:
            rows += (Row(0.0, word) for word in words[i : max(end, i)])
        rows += (Row(0.0, word) for word in words[end : end + 1])
        i = end + 1
    return rows


def _level(text: TextLinks, left: Sequence[Row], right: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return both columns with the only query at the height of its word among the keys, or else at their middle."""
    (query,) = text.shown
    of_query = next(row.y for row in left if row.word == query and not row.is_folded)
    same = (row.y for row in right if text.is_of_one_text and row.word == query and not row.is_folded)
    by = next(same, len(right) / 2) - of_query
    top = max(0.0, 0.5 - (left[0].y + by))
    lower, upper = (tuple(replace(row, y=row.y + dy) for row in rows) for rows, dy in ((left, by + top), (right, top)))
    return lower, upper
