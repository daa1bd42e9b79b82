"""The tokens of a text, and which of them are the queries and the keys of an attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["self", "masked", "cross"]
"""Of attention: "self"; "masked", where a query sees no later key; "cross", where the keys are another sentence's."""

Special = Literal["shown", "apart", "left out"]
"""What becomes of special tokens: "shown", as any other; "apart", the keys together in a column of their own, so that
weights are what they are; "left out", so that weights are renormalised to shares of the other keys."""

KIND_NAMES: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "source-target attention",
}
"""What titles and messages call each."""


@dataclass(frozen=True)
class Tokens:
    """The tokens along one side of an attention.

    Attributes:
        texts: what each is called: "The", " token", "izer"; empty texts where nobody will read them.
        special: the positions of those that are not of the text, as [CLS] is not; counted from 0, in order.
        ids: their numbers in the model's vocabulary; empty where it has none.
    """

    texts: tuple[str, ...]
    special: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, part: slice) -> "Tokens":
        """Those of a part; special tokens are counted from its start."""
        start, end, _ = part.indices(len(self))
        special = tuple(i - start for i in self.special if start <= i < end)
        return Tokens(self.texts[start:end], special, self.ids[start:end])

    def __add__(self, after: "Tokens") -> "Tokens":
        special = (*self.special, *(i + len(self) for i in after.special))
        return Tokens(self.texts + after.texts, special, self.ids + after.ids)

    @property
    def of_text(self) -> tuple[int, ...]:
        """The positions of those that are of the text."""
        special = set(self.special)
        return tuple(i for i in range(len(self)) if i not in special)

    def at(self, positions: tuple[int, ...]) -> "Tokens":
        """Those at these positions, none of which counts as special any more."""
        return Tokens(tuple(self.texts[i] for i in positions), (), tuple(self.ids[i] for i in positions if self.ids))


def is_run(positions: Sequence[int]) -> bool:
    """Whether these positions, in order, have no gap."""
    return positions[-1] - positions[0] + 1 == len(positions)


@dataclass(frozen=True)
class Text:
    """What a model reads for one sentence.

    Attributes:
        source: the sentence.
        target: what a decoder beside an encoder reads; of a single layer, the sentence that the queries are of.
        produced: what the decoder makes of ``target``: the same, a token later. Rows of cross attention are called
            after it.
        prompt: how many tokens were given, where a decoder has gone on writing; else 0.
    """

    source: Tokens
    target: Tokens | None = None
    produced: Tokens | None = None
    prompt: int = 0

    def sides(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """The queries and the keys of an attention of this kind."""
        if self.target is None or kind == "self":
            return self.source, self.source
        return (self.target, self.target) if kind == "masked" else (self.produced or self.target, self.source)
