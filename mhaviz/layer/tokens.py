"""Tokenization: from a sentence to words, and from words to the numbers that represent them."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

# Each character is first put into one of these classes; the words are then found among the classes.
#   W word character    D digit           M mark, joined to what stands before it
#   I ideograph, kana   S symbol, emoji   R half of a flag   Z zero-width joiner
#   ' apostrophe        . decimal sign    (blank) separates words and is dropped
_WORD = re.compile(
    r"I M*"  # Chinese and Japanese are written without spaces: a character is a word
    r"| R R? M*"
    r"| S M* (?: Z S M* )*"  # an emoji of several code points is one word
    r"| [WDMZ] (?: [WDMZ] | '(?=W) | (?<=D)\.(?=D) )*",  # don't, 3.14
    re.VERBOSE,
)
_IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA LETTER", "KATAKANA LETTER")


def tokenize(sentence: str, keep_case: bool = False) -> list[str]:
    """Split a sentence into words without punctuation, in lower case unless ``keep_case`` is set.

    >>> tokenize("Hello, what is a basic split?")
    ['hello', 'what', 'is', 'a', 'basic', 'split']
    >>> tokenize("Der Hund bellt.", keep_case=True)
    ['Der', 'Hund', 'bellt']

    All scripts are supported: marks stay with their letters, and an emoji, a Chinese character or a kana is a word.
    Invisible characters, such as ESC, are kept; the views make them visible.

    Args:
        sentence: any text, from one word to a book. It may contain lone surrogates.
        keep_case: leave capitals as they are.

    Returns:
        The words in order; empty if there are none.
    """
    words = [sentence[start:end] for start, end in word_places(sentence)]
    return words if keep_case else [word.lower() for word in words]


def word_places(sentence: str) -> list[tuple[int, int]]:
    """Return start and end of each word of ``tokenize`` in a sentence, in characters."""
    classes = "".join(map(_character_class, sentence))
    return [match.span() for match in _WORD.finditer(classes)]


def _character_class(character: str) -> str:
    category = unicodedata.category(character)
    if character in "'’":
        return "'"
    if character in ".,":
        return "."
    if character == "\N{ZERO WIDTH JOINER}":
        return "Z"
    if category[0] in "PZ" or character.isspace() or (category[0] == "S" and character.isascii()):
        return " "
    if category == "Nd":
        return "D"
    if category[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff":  # marks, and skin tones of an emoji
        return "M"
    if "\U0001f1e6" <= character <= "\U0001f1ff":
        return "R"
    if category[0] == "S":
        return "S"
    if category == "Lo" and unicodedata.name(character, "").startswith(_IDEOGRAPHS):
        return "I"
    return "W"


class Vocabulary:
    """The words of some sentences, numbered in the order in which they first occur.

    Number 0 is reserved for the padding of shorter sentences in a batch.
    """

    PADDING = 0

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self.words = tuple(dict.fromkeys(word for sentence in sentences for word in sentence))
        self._ids = {word: number for number, word in enumerate(self.words, start=self.PADDING + 1)}

    def __len__(self) -> int:
        """Number of rows of an embedding table: one for each word, and one for the padding."""
        return len(self.words) + 1

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def ids(self, words: Sequence[str], length: int | None = None) -> list[int]:
        """Return the numbers of ``words``, padded to ``length``.

        Raises:
            KeyError: a word is not in the vocabulary.
        """
        padding = [self.PADDING] * ((length or 0) - len(words))
        return [self._ids[word] for word in words] + padding

    def word(self, number: int) -> str:
        """Return the word of a number, which must not be the padding's."""
        return self.words[number - 1]
