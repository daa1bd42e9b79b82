"""What to learn from: the built-in grammar, or a file."""

from pathlib import Path
from typing import TYPE_CHECKING

from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.training.corpus import Corpus, Task

BUILT_IN = "translation"


def read_corpus(name: str, task: "Task", seed: int) -> "Corpus":
    """The corpus of that name, its held-out part chosen by the seed.

    Raises:
        ArgumentError: a language is to be learnt from the built-in grammar.
        MhavizError: the file cannot be read; see ``mhaviz.training.corpus``.
    """
    from mhaviz.training.corpus import read_pairs, read_text
    from mhaviz.training.grammar import translation_corpus

    if name == BUILT_IN and not Path(name).is_file():
        if task == "language":
            raise ArgumentError("the built-in grammar is for --task translation; name a text to learn a language from")
        return translation_corpus(seed)
    return read_text(Path(name), seed) if task == "language" else read_pairs(Path(name), seed)
