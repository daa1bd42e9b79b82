"""Axis of a map: the tokens of its queries or keys, and the cells that they are pooled into."""

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.inputs.spans import Span, SpansOf, words_joined, words_or_tokens
from mhaviz.inputs.tokens import BLANK, SUBSCRIPTS, Tokens, as_typed, is_run
from mhaviz.results.result import ShortRepr

_POSITION = re.compile(r"\s*[-#]?[0-9]{1,9}\s*")
_LABEL = re.compile(
    rf"(?P<name>.*?\S)(?:\s*#(?P<beside>[0-9]{{1,9}})|(?P<below>[{SUBSCRIPTS}]{{1,9}}))?",
    re.DOTALL,
)
_COUNT = re.compile(r"\s\([0-9,]+(?: pieces)?\)\s*$")
_IN_QUOTES = re.compile(r"\s*[“\"](?P<label>.+)[”\"](?P<after>\s.*)?", re.DOTALL)
_FOUND = 8  # tokens that an error lists
_WIDE = 32  # tokens in a cell; one more adds 3% of weight, less than one step of most colour scales


def cell_edges(length: int, cells: int) -> NDArray[np.int64]:
    """Edges of ``cells`` cells that cover ``length`` tokens: floor(i · length / cells), int64, (cells + 1,)."""
    return np.arange(cells + 1, dtype=np.int64) * length // cells


def even_cells(length: int, most: int) -> int:
    """Return the largest number of cells, at most ``most``, that have nearly equal widths.

    When weights are summed in cells, a cell of three keys has half as much weight again as one of two, only for its
    width, and the map becomes striped. So the width is chosen first, the least that needs at most ``most`` cells, and
    then only few cells are one token narrower. Where cells have more than 32 tokens, one token more is not visible, and
    the number is ``most``.
    """
    widest = -(-length // max(most, 1))
    return max(most, 1) if widest > _WIDE else -(-length // widest)


def even_edges(length: int, most: int) -> NDArray[np.int64]:
    """Edges of the cells that ``even_cells`` chooses, int64, (cells + 1,)."""
    return cell_edges(length, even_cells(length, most))


class PiecesError(ArgumentError):
    """A word of several tokens in place of a token."""


@dataclass(frozen=True, eq=False)
class Axis(ShortRepr):
    """Queries or keys of a map, and the cells that they are pooled into.

    Attributes:
        tokens: the tokens that the cells cover.
        cells: int64, (cells + 1,), edges of the cells as positions in the whole input: cell i covers the positions
            cells[i] to cells[i + 1] − 1. None: one cell for each token of the whole input.
    """

    tokens: Tokens
    cells: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Axis":
        """Create an axis with one cell for each of these tokens, none of them special."""
        return cls(Tokens(tuple(texts)))

    @classmethod
    def numbered(cls, length: int) -> "Axis":
        """Create an axis whose tokens are numbers from 0, such as features or heads."""
        return cls.of(map(str, range(length)))

    @classmethod
    def at(cls, tokens: Tokens, positions: tuple[int, ...]) -> "Axis":
        """Create an axis with a cell for each token at these positions, which are kept if they have no gap."""
        edges = np.arange(positions[0], positions[-1] + 2) if is_run(positions) else None
        return cls(tokens.at(positions), edges)

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Edges of the cells, int64, (cells + 1,), also where ``cells`` is None."""
        return np.arange(len(self.tokens) + 1, dtype=np.int64) if self.cells is None else self.cells

    @cached_property
    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last token of each cell, as positions among all tokens of the side, int64, (cells,) each; 0 and −1
        of a span that the text lacks."""
        firsts, ends = self.edges[:-1], self.edges[1:]
        if ranges := self.tokens.ranges:
            begins = firsts - self.start
            firsts = np.minimum.reduceat(np.array([of_span[0][0] if of_span else 0 for of_span in ranges]), begins)
            ends = np.maximum.reduceat(np.array([of_span[-1][1] if of_span else 0 for of_span in ranges]), begins)
        return firsts, ends - 1

    @property
    def start(self) -> int:
        """Position of the first token in the whole input."""
        return int(self.edges[0])

    @property
    def end(self) -> int:
        """Position after the last token."""
        return int(self.edges[-1])

    @cached_property
    def widest(self) -> int:
        """Number of tokens in the widest cell."""
        return int(np.diff(self.edges).max())

    @property
    def is_pooled(self) -> bool:
        """Whether a cell covers more than one token."""
        return self.widest > 1

    @property
    def are_positions(self) -> bool:
        """Whether the text of each token is just its position."""
        return all(text == str(position) for position, text in enumerate(self.tokens.texts, self.start))

    def are_same(self, other: "Axis") -> bool:
        """Whether both axes have the same tokens at the same positions. Cells may differ."""
        return self.start == other.start and self.tokens.texts == other.tokens.texts

    def cell_of(self, position: int) -> int:
        """Return the index of the cell that covers a position."""
        return int(np.searchsorted(self.edges, position, side="right")) - 1

    def places(self, query: int | str) -> list[int]:
        """Return the positions of a token, given as ``named`` or by its position, 3 or "#3". Digits are a position only
        if no token has that text."""
        if isinstance(query, str):
            if places := self.named(query):
                return places
            if not _POSITION.fullmatch(query):
                return []
            query = int(query.strip().removeprefix("#"))
        position = operator.index(query)
        return [position] if self.start <= position < self.end else []

    def named(self, name: str, owners: NDArray[np.int64] | None = None) -> list[int]:
        """Return the positions of a token that is given by its text, or as pictures write it where a text has it more
        than once, "lamp #293" or "lamp₂₉₃"; a span, also with the number of its tokens, "didn't (3)"; blanks, as ␣; a
        long text, as "Rindfl…gesetz".

        Many tokenizers begin a word with a blank, so that a text without one is looked up without blanks at the ends of
        tokens, then without case and punctuation at their ends; a text with one is looked up as it is first.

        ``owners``: the span of each token of the whole input, −1: none, if the axis is of spans and the position in a
        name is of a token.
        """
        return self.exactly(name) or self._labelled(name, owners) or self._loosely(name)

    def exactly(self, name: str) -> list[int]:
        """Return the positions of a token with this text, but perhaps for blanks at its ends, and for the mark of a
        piece that the vocabulary lacks."""
        forms = (str, str.strip, _typed) if name != name.strip() else (str.strip, _typed)
        return next(filter(None, (self._in_form(form, name) for form in forms)), [])

    def _loosely(self, name: str) -> list[int]:
        """Return the positions of a token with this text but for its case, or if none has, for its punctuation, too."""
        return self._in_form(_without_case, name) or self._in_form(_normalised, name)

    def _in_form(self, form: Callable[[str], str], name: str) -> list[int]:
        wanted = form(name)
        return [i for i, text in enumerate(self.tokens.texts, self.start) if form(text) == wanted]

    def _shortened(self, name: str) -> list[int]:
        """Return the positions of tokens that a picture shortens to a name with "…" in the middle."""
        begin, cut, end = name.partition("…")
        if not (cut and begin):
            return []
        texts = ((i, text.strip()) for i, text in enumerate(self.tokens.texts, self.start))
        return [i for i, text in texts if len(text) > len(name) and text.startswith(begin) and text.endswith(end)]

    def _labelled(self, label: str, owners: NDArray[np.int64] | None) -> list[int]:
        """Return the positions of a token that is given as pictures write it; ``owners``: as of ``named``."""
        if (in_quotes := _IN_QUOTES.fullmatch(label)) and (places := self.exactly(in_quotes["label"])):
            return places
        name, number = _unlabelled(label)
        if not name:
            return []
        places = self.exactly(name) or self._loosely(name) or self._shortened(name)
        if not places and not name.strip(BLANK):
            places = self.exactly(name.replace(BLANK, " "))
        if not number:
            return places
        position = int(number.translate(str.maketrans(SUBSCRIPTS, "0123456789")))
        if owners is not None:
            position = int(owners[position]) if position < len(owners) else -1
        return [place for place in places if place == position]

    def position(self, query: int | str | None, option: str = "query", keys: "Axis | None" = None) -> int:
        """Return the single position of ``places``; ``keys``: those of the queries, if the axis has queries.

        Raises:
            PiecesError: none matches, but words of several tokens; named ``option``.
            ArgumentError: none or several match; named ``option``.
        """
        places = [] if query is None else self.places(query)
        require_single(query, places, option)
        if not places:
            if isinstance(query, str):
                self.require_no_pieces(query, option)
            is_key = isinstance(query, str) and keys is not None and bool(keys.named(query))
            raise no_such("token", query, enumerate(self.tokens.texts, self.start), self.end, option, is_key)
        return places[0]

    def require_no_pieces(self, name: str, option: str = "query") -> None:
        """Raise PiecesError, which lists the tokens, or of an axis of words these, if several are a word of this
        name."""
        spans = words_with(name)(self.tokens)
        runs = [span.ranges[0] for span in spans]
        owners = np.repeat(np.arange(-1, len(spans)), [self.start, *(end - start for start, end in runs)])
        words = Axis.of(span.name for span in spans).named(name, owners)
        if not words:
            return
        pieces = [
            ", ".join(f"#{self.start + i} {quoted(self.tokens.texts[i].strip())}" for i in range(*runs[word]))
            for word in words[:_FOUND]
        ]
        (start, end), n_times = runs[words[0]], f"{len(words):,} times"
        if self.tokens.ranges:
            what, which = "word", f"{end - start} words" + f" that occur {n_times}" * (len(words) > 1)
        else:
            what, which = "token", f"a word that occurs {n_times}" if len(words) > 1 else f"a word of {end - start}"
        listed = ", or ".join(pieces) + ", or …" * (len(words) > _FOUND)
        raise PiecesError(
            f"{parameter(option)}: expected a {what}, got {quoted(name)}, {which}: {listed}; give one of these"
        )

    def pooled(self, most: int) -> "Axis":
        """Merge neighbouring cells into at most ``most`` cells of nearly equal width; see ``even_cells``."""
        return self if most >= len(self) else Axis(self.tokens, self.edges[even_edges(len(self), most)])

    def is_same(self, other: "Axis") -> bool:
        """Whether both axes have the same tokens in the same cells."""
        return self.tokens.texts == other.tokens.texts and np.array_equal(self.edges, other.edges)


def require_single(
    query: int | str | None, places: Sequence[int], option: str = "query", where: str = "", is_named: bool = False
) -> None:
    """Raise ArgumentError naming ``option``, with the positions to choose from, if a token has several.

    Args:
        query, places: the token and its positions.
        option: name of the option.
        where: the text that has them, " in sentence 2", as another may have other words there; "": there is no other.
        is_named: whether others have a position, too.
    """
    if len(places) > 1:
        shown = (f"{query} #{i}" if where or is_named else f"#{i}" for i in places[:_FOUND])
        listed = ", ".join(map(quoted, shown)) + ", …" * (len(places) > _FOUND)
        raise ArgumentError(
            f"{parameter(option)}: {quoted(query)} occurs {len(places):,} times{where}; give a position: {listed}"
        )


def no_such(
    what: str,
    query: int | str | None,
    named: Iterable[tuple[int, str]],
    end: int,
    option: str = "query",
    is_key: bool = False,
) -> ArgumentError:
    """Return the error that there is no such token or word, which names ``option`` and what is like it.

    Args:
        what: "token" or "word".
        query: what was asked for.
        named: positions and texts of all, of which the first has the least position.
        end: position after the last.
        option: name of the option.
        is_key: whether a key has this name, though no query.
    """
    names = [(position, text.strip()) for position, text in named]
    near = difflib.get_close_matches(query, {text for _, text in names}) if isinstance(query, str) else ()
    if near and not is_key:
        hint = f"try {', '.join(map(quoted, sorted(near)))}"
    else:
        listed = ", ".join(f"#{i} {quoted(text)}" for i, text in names[:_FOUND])
        hint = f"{'queries' if is_key else 'there'} are {listed}" + ", …" * (len(names) > _FOUND)
    bounds = f"a position from {names[0][0]:,} to {end - 1:,}"
    got = "nothing" if query is None else f"{quoted(query)}{', which is a key' * is_key}"
    return ArgumentError(f"{parameter(option)}: expected a {what}, or {bounds}, got {got}; {hint}")


def words_with(query: int | str) -> SpansOf:
    """Return what finds the words of a text, in which a query that stands between blanks is one, also as pictures write
    it; see ``words_joined``."""
    if not isinstance(query, str) or (_POSITION.fullmatch(query) and "#" in query):
        return words_or_tokens

    def spans_of(tokens: Tokens) -> tuple[Span, ...]:
        words = words_or_tokens(tokens)
        read = (words_joined(tokens, name) for name in dict.fromkeys([query, _unlabelled(query)[0]]))
        return next((joined for joined in read if len(joined) < len(words)), words)

    return spans_of


def _unlabelled(label: str) -> tuple[str, str]:
    """Return the name in a label as pictures write it, and the number beside or below it; "": there is none."""
    if in_quotes := _IN_QUOTES.fullmatch(label):
        label = in_quotes["label"] + (in_quotes["after"] or "")
    match = _LABEL.fullmatch(_COUNT.sub("", label).strip())
    return (match["name"], match["beside"] or match["below"] or "") if match else ("", "")


def _typed(text: str) -> str:
    return as_typed(text)[0]


def _without_case(text: str) -> str:
    return _typed(text).casefold()


def _normalised(text: str) -> str:
    """Remove case, and punctuation at both ends unless there is nothing else. "#3", a position, stays as it is."""
    return text if text.startswith("#") else re.sub(r"^\W+|\W+$", "", text).casefold() or text
