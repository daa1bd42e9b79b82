"""Probes: specifications of texts that are generated to find heads of a certain kind."""

import msgspec

from mhaviz.errors import ArgumentError, parameter, shortened


class RandomRepeats(msgspec.Struct, frozen=True, tag_field="kind", tag="random repeats"):
    """Sequences of random tokens that are repeated once, on which induction heads are defined.

    The next token can be predicted only from an earlier copy of the current one: Olsson et al. 2022 (arXiv 2209.11895,
    "Defining induction heads"). Where heads are zeroed, only the repeat is scored, from its second token on, as neither
    x₁ … x_N nor the place where it begins again can be predicted.

    Attributes:
        n_tokens: number of tokens of a sequence before it is repeated.
        sequences: number of sequences.
        seed: seed of the tokens.

    Examples:
        >>> mhaviz.RandomRepeats(20).sequences
        32
    """

    n_tokens: int
    sequences: int = 32
    seed: int = 0


class Needle(msgspec.Struct, frozen=True, tag_field="kind", tag="needle"):
    """A sentence that is put into each text at several depths, and repeated at the end of the text.

    Attributes:
        text: needle.
        question: text before the needle at the end; "": none.
        depths: places of the needle, from 0, before the text, to 1, after it. Each depth gives one text.

    Raises:
        ArgumentError: an empty needle; no depth, or one outside 0 to 1.

    Examples:
        >>> needle = mhaviz.Needle("The best thing to do here is to eat a sandwich.", depths=(0.5,))
        >>> needle.depths
        (0.5,)
    """

    text: str
    question: str = ""
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ArgumentError(f"{parameter('needle')}: expected a text, got an empty one")
        if not self.depths or not all(0 <= depth <= 1 for depth in self.depths):
            got = shortened(", ".join(f"{depth:g}" for depth in self.depths)) or "none"
            raise ArgumentError(f"`depths`: expected numbers from 0 to 1, got {got}")


Probe = RandomRepeats | Needle
