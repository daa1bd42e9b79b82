"""What the tokens of a recorded program are called."""

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from mhaviz.errors import MhavizError
from mhaviz.recording.inputs import SeenInputs
from mhaviz.records import Tokens
from mhaviz.records.tokens import patch_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TOKENIZERS = "transformers.tokenization_utils_base"


class TokenNames:
    """Names tokens: as the user has, or by the program's tokenizer, or by the patches of an image, or by positions.

    Args:
        inputs: what the program's models have read.
        given: the user's own names, of one length; None: others.
        grid: (rows, columns) of an image's patches, where the program does not tell; None: as it tells.
        miss: is told, in a line, what could not be named.
    """

    def __init__(
        self,
        inputs: SeenInputs,
        given: Sequence[str] | None,
        grid: tuple[int, int] | None,
        miss: Callable[[str], None],
    ) -> None:
        self._inputs, self._given, self._grid, self._miss = inputs, given, grid, miss
        self._tokenizer: PreTrainedTokenizerBase | None = None
        self._looked = False
        self._given_fits = False
        self._forward = -1
        self._sides: dict[tuple[tuple[int, int], tuple[int, ...], int], _Sides] = {}

    def sides(self, forward: int, lengths: tuple[int, int], examples: Sequence[int], first: int) -> "_Sides":
        """The tokens of the queries and of the keys of some examples, the same object for all layers of a forward pass.

        Args:
            forward: counts the forward passes.
            lengths: how many queries and keys there are.
            examples: their places in the batch.
            first: where the queries begin, of a step of a decoder that writes.
        """
        if forward != self._forward:
            self._forward = forward
            self._sides.clear()
        key = lengths, tuple(examples), first
        if key not in self._sides:
            queries, keys = (
                tuple(self._of(length, example, start) for example in examples)
                for length, start in zip(lengths, (first, 0), strict=True)
            )
            self._sides[key] = queries, keys
        return self._sides[key]

    def name(self, tokens: Tokens) -> Tokens:
        """The same with the user's names, if there are as many, or those that the tokenizer has for their numbers."""
        if self._given is not None and len(tokens) == len(self._given):
            self._given_fits = True
            return replace(tokens, texts=tuple(self._given))
        if not tokens.ids or len(tokens.ids) != len(tokens) or self._tokenizer is None or tokens.grid is not None:
            return tokens
        from mhaviz.models.pretrained.reading import name_tokens

        try:
            return name_tokens(self._tokenizer, tokens.ids)
        except MhavizError as error:
            self._miss(str(error))
            return tokens

    def finish(self) -> None:
        """Say so if the user's names were of no attention."""
        if self._given is not None and not self._given_fits:
            self._miss(
                f"tokens: got {len(self._given):,} names, and no attention has so many tokens; they are not used"
            )

    def _patches(self, length: int) -> Tokens | None:
        if self._grid is not None:
            rows, columns = self._grid
            extra = length - rows * columns
            return patch_tokens(rows, columns, extra) if 0 <= extra < max(rows, 2) else None
        found = self._inputs.grid_of(length)
        return None if found is None else patch_tokens(*found[0], found[1])

    def _of(self, length: int, example: int, first: int) -> Tokens:
        if not first and (patches := self._patches(length)) is not None:
            return patches
        positions = Tokens(tuple(str(first + place) for place in range(length)))
        ids = self._ids(length, example)
        return positions if ids is None else replace(positions, ids=ids, special=self._special(ids))

    def _ids(self, length: int, example: int) -> tuple[int, ...] | None:
        """The numbers of the tokens that were read last; neither their positions nor their types."""
        if not self._looked and _TOKENIZERS in sys.modules:
            self._tokenizer, self._looked = _find_tokenizer(), True
        least = 0 if self._tokenizer is None else self._tokenizer.vocab_size
        for ids, vocabulary in reversed(self._inputs.ids):
            if vocabulary < least or ids.shape[1] != length:
                continue
            read = tuple(ids[min(example, len(ids) - 1)].tolist())
            if self._tokenizer is not None or (len(set(read)) > 1 and any(b - a != 1 for a, b in pairwise(read))):
                return read
        return None

    def _special(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        if self._tokenizer is None:
            return ()
        from mhaviz.models.pretrained.reading import special_of

        return special_of(self._tokenizer, ids)


_Sides = tuple[tuple[Tokens, ...], tuple[Tokens, ...]]


def _find_tokenizer() -> "PreTrainedTokenizerBase | None":
    """The tokenizer that the program has made, if it has made one: no program hands it to anybody."""
    base = sys.modules[_TOKENIZERS].PreTrainedTokenizerBase
    classes = {base}
    while more := {one for each in classes for one in each.__subclasses__()} - classes:
        classes |= more
    found = [one for one in gc.get_referrers(*classes) if type(one) in classes]  # isinstance would ask each object
    sizes = {(type(one), len(one)) for one in found}
    return found[-1] if len(sizes) == 1 else None
