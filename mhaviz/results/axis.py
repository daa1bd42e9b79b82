"""One side of a map: its tokens, and which of them each cell stands for."""

import difflib
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.result import ShortRepr

_POSITION = re.compile(r"\s*[-#]?[0-9]{1,9}\s*")
_FOUND = 8  # tokens that an error lists
_WIDE = 32  # tokens of a cell; one more is 3 % more weight, less than a step of most scales


def cell_edges(length: int, cells: int) -> NDArray[np.int64]:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells), (cells + 1,)."""
    return np.arange(cells + 1, dtype=np.int64) * length // cells


def even_cells(length: int, most: int) -> int:
    """The largest number of cells, at most ``most``, that are as good as equally wide.

    In a map by mass a cell of three keys beside one of two has half as much weight again for no other reason: such a
    map is striped. As many cells as are needed when each is as wide as the widest must be: then few are narrower, by
    one. Where one key more or less in a cell is too little to be seen, it is ``most``.
    """
    widest = -(-length // max(most, 1))
    return max(most, 1) if widest > _WIDE else -(-length // widest)


def even_edges(length: int, most: int) -> NDArray[np.int64]:
    """Where each of at most ``most`` cells begins, and where the last ends; they are those of ``even_cells``."""
    return cell_edges(length, even_cells(length, most))


@dataclass(frozen=True, eq=False)
class Axis(ShortRepr):
    """The queries or the keys of a map, and the cells that they fall into.

    Attributes:
        tokens: from the first one in a cell to the last.
        cells: int64, (cells + 1,): the position in the whole input where each cell begins, and where the last one
            ends, of a part of an input or of pooled cells; None: a cell for every token of the whole input.
    """

    tokens: Tokens
    cells: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Axis":
        """A cell for each of these tokens, none of them special."""
        return cls(Tokens(tuple(texts)))

    def __len__(self) -> int:
        """How many cells."""
        return len(self.edges) - 1

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """``cells``, or the positions of all tokens and the end."""
        return np.arange(len(self.tokens) + 1, dtype=np.int64) if self.cells is None else self.cells

    @property
    def start(self) -> int:
        """The position of the first token in the whole input."""
        return int(self.edges[0])

    @property
    def end(self) -> int:
        """The position after the last token."""
        return int(self.edges[-1])

    @cached_property
    def widest(self) -> int:
        """The most tokens that a cell stands for."""
        return int(np.diff(self.edges).max())

    @property
    def is_pooled(self) -> bool:
        """Whether a cell stands for more than one token."""
        return self.widest > 1

    @property
    def are_positions(self) -> bool:
        """Whether the tokens are nothing but their positions."""
        return all(text == str(position) for position, text in enumerate(self.tokens.texts, self.start))

    def are_same(self, other: "Axis") -> bool:
        """Whether both have the same tokens at the same positions."""
        return self.start == other.start and self.tokens.texts == other.tokens.texts

    def cell_of(self, position: int) -> int:
        """The cell that the token at a position falls into."""
        return int(np.searchsorted(self.edges, position, side="right")) - 1

    def places(self, query: int | str) -> list[int]:
        """The positions of a token, which is named by its text or by its position, 3 or "#3".

        Blanks at its ends do not count unless two tokens differ in them, nor do case and punctuation. A text of digits
        is the token of that text, if there is one.
        """
        if isinstance(query, str):
            for form in (str, str.strip, _plain):
                name = form(query)
                if places := [i for i, text in enumerate(self.tokens.texts, self.start) if form(text) == name]:
                    return places
            if not _POSITION.fullmatch(query):
                return []
            query = int(query.strip().removeprefix("#"))
        position = operator.index(query)
        return [position] if self.start <= position < self.end else []

    def position(self, query: int | str | None, option: str = "query") -> int:
        """The one of ``places``. Raises ArgumentError, which names this option, if there is none, or several."""
        places, name = [] if query is None else self.places(query), parameter(option)
        if len(places) > 1:
            listed = ", ".join(f"#{i}" for i in places[:_FOUND]) + ", …" * (len(places) > _FOUND)
            raise ArgumentError(f"{name}: {quoted(query)} occurs {len(places):,} times; give a position: {listed}")
        if not places:
            shown = [text.strip() for text in self.tokens.texts]
            if near := difflib.get_close_matches(query, set(shown)) if isinstance(query, str) else ():
                hint = f"try {', '.join(map(quoted, sorted(near)))}"
            else:
                listed = ", ".join(f"#{i} {quoted(text)}" for i, text in enumerate(shown[:_FOUND], self.start))
                hint = f"there are {listed}" + ", …" * (len(shown) > _FOUND)
            places_there = f"a position from {self.start:,} to {self.end - 1:,}"
            raise ArgumentError(f"{name}: expected a token, or {places_there}, got {quoted(query)}; {hint}")
        return places[0]

    def pooled(self, most: int) -> "Axis":
        """The same tokens in at most so many cells, each of equally many of these cells; see ``even_cells``."""
        return self if most >= len(self) else Axis(self.tokens, self.edges[even_edges(len(self), most)])

    def is_same(self, other: "Axis") -> bool:
        """Whether both have the same tokens in the same cells."""
        return self.tokens.texts == other.tokens.texts and np.array_equal(self.edges, other.edges)


def _plain(text: str) -> str:
    """Without case, and without punctuation at its ends, unless it is nothing else; "#3" is always a position."""
    return text if text.startswith("#") else re.sub(r"^\W+|\W+$", "", text).casefold() or text
