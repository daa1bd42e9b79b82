"""Passage: a text, and the places of its tokens."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Passage:
    """A text, and the places of its tokens.

    Attributes:
        text: the text.
        offsets: start and end of each token in the text, in characters; both are the same for a token that is not in
            the text, such as [CLS].
        n_given: number of characters from the start that a user or a chat template has written; the rest is joined from
            labels.
    """

    text: str
    offsets: tuple[tuple[int, int], ...]
    n_given: int = 0

    @classmethod
    def given(cls, text: str, offsets: Iterable[tuple[int, int]]) -> "Passage":
        """Return a text that was given, with the places of its tokens."""
        return cls(text, tuple((start, end) for start, end in offsets), len(text))

    @classmethod
    def joined(cls, labels: Sequence[str], special: Sequence[int]) -> "Passage":
        """Return the text that labels make, without those of special tokens."""
        aside, text, offsets = set(special), "", list[tuple[int, int]]()
        for i, label in enumerate(labels):
            start = len(text)
            text += "" if i in aside else label
            offsets.append((start, len(text)))
        return cls(text, tuple(offsets))

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.offsets)

    def __getitem__(self, part: slice) -> "Passage":
        """Return the passage of a part of the tokens, with all of the text."""
        return Passage(self.text, self.offsets[part], self.n_given)

    def __add__(self, after: "Passage") -> "Passage":
        """Return the passage of both texts, one after the other; ``n_given`` ends where one is not wholly given."""
        end = len(self.text)
        moved = tuple((start + end, stop + end) for start, stop in after.offsets)
        n_given = self.n_given + after.n_given * (self.n_given == end)
        return Passage(self.text + after.text, self.offsets + moved, n_given)

    def place(self, token: int) -> tuple[int, int]:
        """Return start and end of a token in the text, without the blanks around it."""
        start, end = self.offsets[token]
        piece = self.text[start:end]
        if not piece.strip():
            return start, start
        return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())

    def tokens_in(self, start: int, end: int) -> list[int]:
        """Return the tokens whose first letter is from ``start`` to ``end`` in the text, in its order."""
        first, last = (bisect_left(self._letters, (place, -1)) for place in (start, end))
        return [token for _, token in self._letters[first:last]]

    def with_blanks(self, tokens: Collection[int], special: Collection[int]) -> list[int]:
        """Return tokens in order, with the blank ones between them that are not special."""
        inside = set(tokens)
        between = range(min(inside), max(inside) + 1) if inside else ()
        blanks = (i for i in between if i not in inside and i not in special and not self._has_letter(i))
        return sorted([*inside, *blanks])

    def _has_letter(self, token: int) -> bool:
        start, end = self.place(token)
        return start < end

    @cached_property
    def _letters(self) -> list[tuple[int, int]]:
        """Place of the first letter of each token that has one, and the token, in order."""
        places = ((i, self.place(i)) for i in range(len(self)))
        return sorted((start, i) for i, (start, end) in places if start < end)
