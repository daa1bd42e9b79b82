"""What to learn from: the built-in grammar, or a file."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mhaviz.training.corpus import Corpus

BUILT_IN = "translation"


def read_corpus(name: str, seed: int) -> "Corpus":
    """The corpus of that name, its held-out part chosen by the seed.

    Raises:
        MhavizError: the file cannot be read; see ``mhaviz.training.corpus``.
    """
    from mhaviz.training.corpus import read_pairs
    from mhaviz.training.grammar import translation_corpus

    if name == BUILT_IN and not Path(name).is_file():
        return translation_corpus(seed)
    return read_pairs(Path(name), seed)
