"""Reads sentences from arguments, a file or standard input."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files import texts
from mhaviz.files.errors import STANDARD_INPUT, name_of
from mhaviz.layer.tokens import tokenize
from mhaviz.models.pretrained.folder import is_file
from mhaviz.views.formats import RECORD_SUFFIXES
from mhaviz.views.labels import cut, visible

if TYPE_CHECKING:
    from mhaviz.cli.shared.models import ModelOptions
    from mhaviz.models.corpus_batches import Sentence
    from mhaviz.records.given import Given

_MANY = 20  # sentences; few people want a picture of each


Sentences = Annotated[
    list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentences, in quotes; - reads them from standard input.")
]

CorpusFile = Annotated[
    Path | None,
    typer.Option(help="Read sentences from a UTF-8 file of any size, one a line; - is standard input."),
]


@dataclass(frozen=True, eq=False, repr=False)
class OneSentence:
    """Options of a command that reads one sentence."""

    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help="One sentence, in quotes; - reads it from standard input."),
    ] = None

    has_one: ClassVar[bool] = True

    @property
    def file(self) -> Path | None:
        """Holds a sentence a line, for a command that reads several."""
        return None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [] if self.file is None else [self.file]

    def read(self, whole: bool = False, any_text: bool = False) -> list[str]:
        """All sentences, in the order of the arguments, then those of the file; ``whole``: all of the file as one.

        ``any_text``: they need not have words, for a model that makes tokens of anything.

        Raises:
            ArgumentError: an argument without words, several sentences where one is read, or ``whole`` without a file
                or standard input.
            MhavizError: a file that cannot be read, is not UTF-8 or holds no sentence.
        """
        if whole and self.file is None and "-" not in (self.sentences or ()):
            raise ArgumentError("--whole reads a file as one input; add --file, or - for standard input")
        read: list[str] = []
        for given in _given(self.sentences, self.file):
            if isinstance(given, str):
                read.append(_checked(given, any_text, self.has_one))
            elif whole:
                read.append(_read_whole(given, any_text))
            else:
                read += _read_lines(given, any_text)
        if self.has_one and len(read) > 1:
            quotes = "put it in quotes" if _forgot_quotes(read) else "give one of them"
            raise ArgumentError(f"expected one sentence, got {len(read)}; {quotes}")
        return read


@dataclass(frozen=True, eq=False, repr=False)
class OneText(OneSentence):
    """The same with --target: the translation, or another sentence whose words are the queries."""

    target: Annotated[
        str | None,
        typer.Option(help="Queries come from this sentence; of a translator, what it writes."),
    ] = None

    def given_to(
        self,
        model: "ModelOptions",
        delivery: Delivery,
        suffixes: Sequence[str] = RECORD_SUFFIXES,
        *,
        generate: int = 0,
        whole: bool = False,
        has_example: bool = False,
    ) -> "Given":
        """All that the model is to read, after it has been found out whether results can be written.

        Args:
            model: whose tokenizer tells what is a text, and whose --input may take the place of a sentence.
            delivery: where results are written, as files with one of these suffixes.
            generate: so many tokens are written after them.
            whole: read all of a file as one text.
            has_example: without a sentence a layer with random weights reads the worked example.

        Raises:
            ArgumentError: there is no sentence; as ``read`` and ``Delivery.check``.
            MhavizError: as these.
        """
        delivery.check([*model.files, *self.files], suffixes)
        sentences = self.read(whole, model.takes_any_text)
        if self.target is not None and not tokenize(self.target):
            raise ArgumentError(f"--target: expected a sentence with at least one word, got {_quoted(self.target)}")
        if not (sentences or model.has_input or self.takes_the_place):
            if self.target is not None:
                raise ArgumentError("--target goes with one sentence, got none; give the source sentence")
            if not (has_example and model.is_random):
                require_some(sentences, has_file=not self.has_one)
        return replace(self.given(sentences, self.target), generate=generate)

    @property
    def takes_the_place(self) -> bool:
        """Whether no sentence is needed."""
        return False

    def given(self, sentences: Sequence[str], target: str | None) -> "Given":
        """All of what the model is to read."""
        from mhaviz.records.given import Given

        return Given(tuple(sentences), target)


@dataclass(frozen=True, eq=False, repr=False)
class Several(OneSentence):
    """Options of a command that reads several sentences."""

    sentences: Sentences = None
    file: Annotated[Path | None, typer.Option(help="Read sentences from a UTF-8 file, one a line.")] = None

    has_one: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, repr=False)
class ManyTexts(Several, OneText):
    """Several sentences, and a target."""


def _checked(sentence: str, any_text: bool, has_one: bool) -> str:
    if " " not in sentence and Path(sentence).suffix and is_file(sentence):
        raise ArgumentError(f"{sentence} is a file; to read it, use {'- <' if has_one else '--file'} {sentence}")
    if not (sentence.strip() if any_text else tokenize(sentence)):
        raise ArgumentError(f"expected a sentence with at least one word, got {_quoted(sentence)}")
    return sentence


def _read_whole(path: Path, any_text: bool) -> str:
    text, name = texts.read_text(path), name_of(path)
    if not text.strip():
        raise MhavizError(f"{name} is empty: expected text")
    if not any_text and not any(map(tokenize, text.split())):
        raise MhavizError(f"{name}: expected at least one word, got {_quoted(text.strip())}")
    return text


def _read_lines(path: Path, any_text: bool) -> Iterator[str]:
    for line in texts.read_lines(path):
        if not any_text and not tokenize(line.text):
            where = f"{name_of(path)}, line {line.number}"
            raise MhavizError(f"{where}: expected at least one word, got {_quoted(line.text)}")
        yield line.text


def stream_sentences(arguments: Sequence[str] | None, file: Path | None) -> Iterator["Sentence"]:
    """All sentences, in the same order, one by one, as the file may be larger than memory.

    Raises:
        ArgumentError: there are none, or a blank argument.
        MhavizError: a file that cannot be opened; when it comes to it, one that is not UTF-8 or holds no sentence.
    """
    from mhaviz.models.corpus_batches import Sentence

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


def _given(arguments: Sequence[str] | None, file: Path | None) -> list[str | Path]:
    """Sentences, and files to read them from."""
    given: list[str | Path] = [STANDARD_INPUT if argument == "-" else argument for argument in arguments or ()]
    return given if file is None else [*given, file]


def require_some(sentences: Sequence[object], has_file: bool = True) -> None:
    """Raise ArgumentError if there is no sentence."""
    if not sentences:
        more = ", --file sentences.txt" if has_file else ""
        raise ArgumentError(f"no sentence: give one in quotes{more}, or - for standard input")


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


def _quoted(sentence: str) -> str:
    return f'"{cut(visible(sentence), 40)}"' if sentence.strip() else "an empty one"
