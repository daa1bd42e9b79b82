"""Texts that are made to find heads of a certain kind."""

import msgspec

from mhaviz.errors import ArgumentError, parameter, shortened


class RandomRepeats(msgspec.Struct, frozen=True, tag_field="kind", tag="random repeats"):
    """Sequences of random tokens, each of which is repeated once: where induction heads are defined.

    What follows a token can be known from its earlier copy alone: Olsson et al. 2022 (arXiv 2209.11895, "Defining
    induction heads"). Where heads are zeroed, the repeat alone is scored, from its second token on: x₁ … x_N is random,
    and so is where it begins again.

    Attributes:
        n_tokens: of a sequence, before it is repeated.
        sequences: how many.
        seed: of the tokens.

    Examples:
        >>> mhaviz.RandomRepeats(20).sequences
        32
    """

    n_tokens: int
    sequences: int = 32
    seed: int = 0


class Needle(msgspec.Struct, frozen=True, tag_field="kind", tag="needle"):
    """A sentence that is put into each text at several depths, and that stands at the end of the text once more.

    Attributes:
        text: the needle.
        question: stands before the needle at the end; "" for none.
        depths: where in a text the needle is put, from 0, before it, to 1, after it; a text for each.

    Raises:
        ArgumentError: no needle, or depths that are none.

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
