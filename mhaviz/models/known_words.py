"""Sentences that a trained model can take: of words that it knows, and not longer than any that it was trained on."""

import difflib
from collections.abc import Sequence

from mhaviz.errors import ArgumentError
from mhaviz.layer.tokens import END, START, Vocabulary
from mhaviz.training.corpus import MOST_WORDS

_NAMED = 8  # unknown words, in an error


def require_known(words: Sequence[str], vocabulary: Vocabulary, side: str = "") -> None:
    """Raise ArgumentError, with words that are near, if one is not known, or if there are too many.

    ``side``: "source ", "target " or nothing.
    """
    if len(words) > MOST_WORDS:
        raise ArgumentError(
            f"expected a sentence of at most {MOST_WORDS} words, as a trained model takes them, got {len(words)}; "
            f"split it"
        )
    unknown = [word for word in dict.fromkeys(words) if word not in vocabulary]
    if unknown:
        known = [word for word in vocabulary.words if word not in (START, END)]
        named = ", ".join(f'"{word:.40}"{_near(word, known)}' for word in unknown[:_NAMED])
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        some = ", ".join(f"{word:.20}" for word in known[:5])
        raise ArgumentError(
            f"the checkpoint has not learnt {named}{more}: expected {side}words that it knows, such as {some} "
            f"({len(known):,} in all)"
        )


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word[:40], known, n=3)
    return f" (near: {', '.join(near)})" if near else ""
