"""What a model is to read: sentences, from arguments, a file or standard input, or what stands in their place."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import ModelOptions
from mhaviz.cli.shared.parsing import parsed
from mhaviz.errors import ArgumentError, MhavizError, quoted
from mhaviz.files.errors import STANDARD_INPUT, name_of
from mhaviz.files.texts import read_json, read_lines, read_text, stream_lines
from mhaviz.inputs.given import Given, Message, require_messages
from mhaviz.inputs.tokens import Sentence
from mhaviz.layer.tokens import tokenize
from mhaviz.models.load import RANDOM
from mhaviz.models.transformers.folder import is_file
from mhaviz.pages.registry import RESULT_SUFFIXES

_MANY = 20  # sentences; few people want a picture of each

Sentences = Annotated[
    list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentences, in quotes; - reads them from standard input.")
]
CorpusFile = Annotated[
    Path | None,
    typer.Option(help="Read sentences from a UTF-8 file of any size, one a line; - is standard input."),
]
Target = Annotated[str | None, typer.Option(help="Queries come from this sentence; a translator writes it.")]

instead_option = partial(typer.Option, rich_help_panel="What a model of transformers reads", hidden=True)


def _languages(text: str) -> dict[str, str | None]:
    """ "eng_Latn,fra_Latn" → the arguments of Python's functions; either may be left out."""
    source, target = (part.strip() for part in text.split(","))
    return {"source_language": source or None, "target_language": target or None}


Languages = Annotated[
    Any,
    instead_option(
        metavar="SOURCE,TARGET",
        parser=parsed(_languages, "two codes such as eng_Latn,fra_Latn"),
        help="Of the texts and of what the decoder writes, of a model of many: eng_Latn,fra_Latn.",
    ),
]


@dataclass(frozen=True, eq=False, repr=False)
class OneSentence:
    """A single sentence."""

    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help="One sentence, in quotes; - reads it from standard input."),
    ] = None

    file: ClassVar[Path | None] = None


@dataclass(frozen=True, eq=False, repr=False)
class Several:
    """Several sentences."""

    sentences: Sentences = None
    file: Annotated[Path | None, typer.Option(help="Read sentences from a UTF-8 file, one a line.")] = None


@dataclass(frozen=True, eq=False, repr=False)
class Instead:
    """What a model of transformers can read beside a sentence, or in its place; few people need it."""

    pair: Annotated[
        str | None,
        instead_option(metavar="TEXT", help="Second text of a pair, for a model that compares SENTENCE with it."),
    ] = None
    chat: Annotated[
        Path | None,
        instead_option(
            metavar="FILE",
            help='In place of SENTENCE: messages, \\[{"role": "user", "content": "Hello"}, …], in JSON, through the '
            "chat template of the model; - is standard input.",
        ),
    ] = None
    ids: Annotated[
        str | None,
        instead_option(
            metavar="N,N,…|FILE", help="In place of SENTENCE: exactly these tokens; of a file a sequence a line."
        ),
    ] = None
    languages: Languages = None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [Path(name) for name in (self.chat, self.ids) if name is not None and is_file(name)]

    def read(self) -> dict[str, Any]:
        """The arguments of ``Given``. Raises MhavizError for a file that holds no chat, or no ids."""
        ids = None
        if self.ids is not None:
            in_file = self.ids == "-" or is_file(self.ids)
            ids = read_ids(Path(self.ids)) if in_file else (parse_ids(self.ids, "--ids"),)
        chat = None if self.chat is None else read_chat(self.chat)
        return {"pair": self.pair, "chat": chat, "ids": ids, **(self.languages or {})}


def given_to(
    model: ModelOptions,
    delivery: Delivery,
    given: OneSentence | Several,
    target: str | None = None,
    instead: Instead = Instead(),
    suffixes: Sequence[str] = RESULT_SUFFIXES,
    *,
    generate: int = 0,
    whole: bool = False,
    has_example: bool = False,
) -> Given:
    """All that a model is to read, after it has been found out whether results can be written.

    Args:
        model: whose --input may take the place of a sentence.
        delivery: where results are written, as files with one of these suffixes.
        given, target, instead: what the user says.
        generate: so many tokens are written after them.
        whole: read all of a file as one text.
        has_example: without a sentence a layer with random weights reads the worked example.

    Raises:
        ArgumentError: there is no sentence, or several where one is read; as ``Delivery.check``.
        MhavizError: a file that cannot be read; as ``Delivery.check``.
    """
    delivery.check([*model.files, *([given.file] if given.file else []), *instead.files], suffixes)

    read = Given(tuple(read_sentences(given, whole)), target, generate=generate, **instead.read())
    is_example = has_example and model.model == RANDOM and target is None
    if not (model.options.get("input") or is_example or read.instead):
        require_some(read.sentences, has_file=isinstance(given, Several))
    return read


def read_sentences(given: OneSentence | Several, whole: bool = False) -> list[str]:
    """All sentences, in the order of the arguments, then those of the file; ``whole``: all of the file as one.

    Raises:
        ArgumentError: several sentences where one is read, or ``whole`` without a file or standard input.
        MhavizError: a file that cannot be read, is not UTF-8 or holds no sentence.
    """
    if whole and given.file is None and "-" not in (given.sentences or ()):
        raise ArgumentError("--whole reads a file as one input; add --file, or - for standard input")
    read: list[str] = []
    for one in _arguments(given.sentences, given.file):
        if isinstance(one, Path):
            read += [_whole(one)] if whole else [line.text for line in read_lines(one)]
        elif " " not in one and Path(one).suffix and is_file(one):
            option = "--file" if isinstance(given, Several) else "- <"
            raise ArgumentError(f"{one} is a file; to read it, use {option} {one}")
        else:
            read.append(one)
    if isinstance(given, OneSentence) and len(read) > 1:
        quotes = "put it in quotes" if _forgot_quotes(read) else "give one of them"
        raise ArgumentError(f"expected one sentence, got {len(read)}; {quotes}")
    return read


def _whole(path: Path) -> str:
    text = read_text(path)
    if not text.strip():
        raise MhavizError(f"{name_of(path)} is empty: expected text")
    return text


def stream_sentences(arguments: Sequence[str] | None, file: Path | None) -> Iterator[Sentence]:
    """All sentences, in the same order, one by one, as the file may be larger than memory.

    Raises:
        ArgumentError: there are none.
        MhavizError: a file that cannot be opened; when it comes to it, one that is not UTF-8 or holds no sentence.
    """
    parts: list[Iterable[Sentence]] = []
    for one in _arguments(arguments, file):
        if isinstance(one, Path):
            parts.append(Sentence(line.text, line.done) for line in stream_lines(one))
        else:
            parts.append([Sentence(one, 0.0)])
    require_some(parts)
    return chain.from_iterable(parts)


def _arguments(sentences: Sequence[str] | None, file: Path | None) -> list[str | Path]:
    """Sentences, and files to read them from. Raises ArgumentError for a sentence that is blank."""
    if blank := [one for one in sentences or () if not one.strip()]:
        raise ArgumentError(f"expected a sentence with at least one word, got {quoted(blank[0])}")
    given: list[str | Path] = [STANDARD_INPUT if one == "-" else one for one in sentences or ()]
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


_BETWEEN = re.compile(r"[\s,]+")


def parse_ids(text: str, of: str) -> tuple[int, ...]:
    """ "101,2023 102" → (101, 2023, 102). Raises ArgumentError, which begins with ``of``, if they cannot be read."""
    parts = _BETWEEN.split(text.strip(" \t,[]"))
    for part in parts:
        if not part.isdecimal() or len(part) > 18:  # no vocabulary has more, and Python reads 4,300 digits at most
            raise ArgumentError(f"{of}: expected numbers such as 101,2023,102, or a file of them, got {quoted(part)}")
    return tuple(map(int, parts))


def read_ids(path: Path) -> tuple[tuple[int, ...], ...]:
    """Those of each line that is not blank; "-" is standard input. Raises MhavizError if a line holds another thing."""
    try:
        lines = read_lines(path, "the ids of one sequence a line")
        return tuple(parse_ids(line.text, f"{name_of(path)}, line {line.number}") for line in lines)
    except ArgumentError as error:
        raise MhavizError(str(error)) from error


def read_chat(path: Path) -> tuple[Message, ...]:
    """The messages of a file; "-" is standard input. Raises MhavizError if it cannot be read, or holds no chat."""
    document = read_json(path)
    if isinstance(document, dict) and "messages" in document:
        document = document["messages"]
    try:
        return require_messages(document, f"{path}: ")
    except ArgumentError as error:
        raise MhavizError(str(error)) from error
