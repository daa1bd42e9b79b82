"""Texts that are made to find heads of a certain kind."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RandomRepeats:
    """Sequences of random tokens, each of which is repeated once: where induction heads are defined.

    What follows a token can be known from its earlier copy alone: Olsson et al. 2022 (arXiv 2209.11895, "Defining
    induction heads").

    Attributes:
        n_tokens: of a sequence, before it is repeated.
        sequences: how many.
        seed: of the tokens.
    """

    n_tokens: int
    sequences: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Needle:
    """A sentence that is put into each text at several depths, and that stands at the end of the text once more.

    Attributes:
        text: the needle.
        question: stands before the needle at the end; "" for none.
        depths: where in a text the needle is put, from 0, before it, to 1, after it; a text for each.
    """

    text: str
    question: str = ""
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


Probe = RandomRepeats | Needle
