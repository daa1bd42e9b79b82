"""A sentence of a corpus."""

from dataclasses import dataclass

from mhaviz.inputs.tokens import Text


@dataclass(frozen=True)
class Sentence:
    """A sentence of a corpus.

    Attributes:
        text: the sentence.
        done: the share of the corpus that has been read with it, from 0 to 1.
        tokens: what is read in its place, and is not cut; None: what the model's tokenizer makes of it.
    """

    text: str
    done: float
    tokens: Text | None = None
