"""What every source of attention can be asked for, whatever its weights are and wherever they come from."""

from collections.abc import Sequence
from typing import Protocol

from mhaviz.records import Attention, LayerInputs, MapInputs, ShapeTrace


class AttentionSource(Protocol):
    """Sentences in, records out. ``target``: for source-target attention, of one sentence.

    Raises:
        ArgumentError: sentences that it cannot take.
        MhavizError: the input does not fit into memory.
    """

    @property
    def n_heads(self) -> int:
        """Of each attention."""
        ...

    @property
    def attentions(self) -> int:
        """How many maps ``attend`` gives of each sentence."""
        ...

    def longest(self, sentences: Sequence[str], target: str | None = None) -> int:
        """Tokens of the longest input, or about so many where the model is yet to write some of them."""
        ...

    def attend(self, sentences: Sequence[str], target: str | None = None) -> Attention:
        """All weights of every attention, for each sentence."""
        ...

    def queries_and_keys(
        self, sentences: Sequence[str], target: str | None = None, heads: Sequence[int] | None = None
    ) -> MapInputs:
        """The queries and keys of these heads, or of all, for maps of any length."""
        ...

    def head_inputs(
        self, sentences: Sequence[str], target: str | None = None, studied_heads: int | None = None
    ) -> LayerInputs:
        """The queries, keys and values of every head of one attention, for studies that make scores of them."""
        ...

    def trace(self, sentences: Sequence[str], target: str | None = None, values: bool = False) -> ShapeTrace:
        """Every step of the way through one attention; with ``values``, the numbers of small tensors too."""
        ...
