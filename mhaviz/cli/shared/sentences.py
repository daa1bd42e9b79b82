"""Where sentences come from: arguments, a file, standard input."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files import texts
from mhaviz.layer.tokens import tokenize
from mhaviz.models.corpus_batches import Sentence
from mhaviz.views.labels import cut, visible

_MANY = 20  # sentences; few people want a picture of each


def read_sentences(
    arguments: Sequence[str] | None, file: Path | None, whole: bool = False, any_text: bool = False
) -> list[str]:
    """All sentences, in the order of the arguments, then those of the file; ``whole``: all of the file as one.

    ``any_text``: they need not have words, for a model that makes tokens of anything.

    Raises:
        ArgumentError: an argument without words, or ``whole`` without a file or standard input.
        MhavizError: a file that cannot be read, is not UTF-8 or holds no sentence.
    """
    if whole and file is None and "-" not in (arguments or ()):
        raise ArgumentError("--whole reads a file as one input; add --file, or - for standard input")
    sentences: list[str] = []
    for given in _given(arguments, file):
        if isinstance(given, str):
            if _is_file(given):
                raise ArgumentError(f"{given} is a file; to read it, use --file {given}")
            if not (given.strip() if any_text else tokenize(given)):
                raise ArgumentError(f"expected a sentence with at least one word, got {_quoted(given)}")
            sentences.append(given)
        elif whole:
            text, name = texts.read_text(given), texts.name_of(given)
            if not text.strip():
                raise MhavizError(f"{name} is empty: expected text")
            if not any_text and not any(map(tokenize, text.split())):
                raise MhavizError(f"{name}: expected at least one word, got {_quoted(text.strip())}")
            sentences.append(text)
        else:
            for line in texts.read_lines(given):
                if not any_text and not tokenize(line.text):
                    where = f"{texts.name_of(given)}, line {line.number}"
                    raise MhavizError(f"{where}: expected at least one word, got {_quoted(line.text)}")
                sentences.append(line.text)
    return sentences


def stream_sentences(arguments: Sequence[str] | None, file: Path | None) -> Iterator[Sentence]:
    """All sentences, in the same order, one by one, as the file may be larger than memory.

    Raises:
        ArgumentError: there are none, or a blank argument.
        MhavizError: a file that cannot be opened; when it comes to it, one that is not UTF-8 or holds no sentence.
    """
    parts: list[Iterable[Sentence]] = []
    for given in _given(arguments, file):
        if isinstance(given, Path):
            parts.append(Sentence(line.text, line.done) for line in texts.stream_lines(given))
        elif given.strip():
            parts.append([Sentence(given, 0.0)])
        else:
            raise ArgumentError("expected a sentence with at least one word, got an empty one")
    require_some(parts)
    return chain.from_iterable(parts)


def _is_file(sentence: str) -> bool:
    """Whether somebody has given a file where a sentence is expected."""
    try:
        return " " not in sentence and Path(sentence).suffix != "" and Path(sentence).is_file()
    except (OSError, ValueError):  # a sentence of many letters, or with NUL, is no file
        return False


def _given(arguments: Sequence[str] | None, file: Path | None) -> list[str | Path]:
    """Sentences, and files to read them from."""
    given: list[str | Path] = [texts.STANDARD_INPUT if argument == "-" else argument for argument in arguments or ()]
    return given if file is None else [*given, file]


def require_some(sentences: Sequence[object]) -> None:
    """Raise ArgumentError if there is no sentence."""
    if not sentences:
        raise ArgumentError("no sentence: give one in quotes, or use --file, or - for standard input")


def require_one(command: str, sentences: Sequence[str]) -> None:
    """Raise ArgumentError if there are several sentences."""
    if len(sentences) > 1:
        quotes = "put it in quotes" if _forgot_quotes(sentences) else "give one of them"
        raise ArgumentError(f"{command} takes one sentence, got {len(sentences)}; {quotes}")


def quotes_notice(arguments: Sequence[str] | None) -> str | None:
    """A hint for whoever left out the quotes, so that each word of a sentence came as a sentence."""
    if not arguments or not _forgot_quotes(arguments):
        return None
    return f"drew {len(arguments)} sentences of one word each; if they are one sentence, put it in quotes"


def lines_notice(file: Path | None, whole: bool, sentences: Sequence[str]) -> str | None:
    """A hint for whoever wanted one picture of a text, and got one of each line."""
    if file is None or whole or len(sentences) <= _MANY:
        return None
    return f"drew {len(sentences):,} sentences, one a line; --whole reads a file as one input"


def _forgot_quotes(sentences: Sequence[str]) -> bool:
    return len(sentences) > 1 and all(len(tokenize(sentence)) == 1 for sentence in sentences)


def require_words(option: str, sentence: str | None) -> None:
    """Raise ArgumentError if the option's sentence is given but has no words."""
    if sentence is not None and not tokenize(sentence):
        raise ArgumentError(f"{option}: expected a sentence with at least one word, got {_quoted(sentence)}")


def require_at_most(max_tokens: int, texts: Iterable[str]) -> int:
    """The tokens of the longest text. Raises ArgumentError if they are more than ``max_tokens``."""
    require_length(0, max_tokens)
    longest = 0
    for text in texts:
        beginning = text[: 64 * max_tokens]  # of a text that is far too long, all need not be read
        length = len(tokenize(beginning))
        if length <= max_tokens and len(beginning) < len(text):
            beginning, length = text, len(tokenize(text))
        require_length(length, max_tokens, whole=beginning is text)
        longest = max(longest, length)
    return longest


def require_length(length: int, max_tokens: int, whole: bool = True) -> None:
    """Raise ArgumentError if these are more than ``max_tokens``; ``whole``: whether all of them have been counted."""
    if max_tokens < 1:
        raise ArgumentError(f"--max-tokens: expected at least 1, got {max_tokens}")
    if length > max_tokens:
        got = f"{length:,}" if whole else "more"
        raise ArgumentError(
            f"--max-tokens: expected an input of at most {max_tokens:,} tokens, got {got}; cut it, or raise the limit"
        )


def _quoted(sentence: str) -> str:
    return f'"{cut(visible(sentence), 40)}"' if sentence.strip() else "an empty one"
