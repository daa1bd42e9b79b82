"""Options for what a model reads: sentences from arguments, a file or standard input, or a pair, a chat or ids."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import ModelOptions, split_model
from mhaviz.cli.shared.parsing import parsed
from mhaviz.errors import ArgumentError, MhavizError, is_accepted, quoted
from mhaviz.files.errors import STANDARD_INPUT, name_of
from mhaviz.files.texts import read_json, read_lines, read_text, stream_lines
from mhaviz.inputs.given import Given, Message, require_messages
from mhaviz.inputs.tokens import Sentence
from mhaviz.layer.tokens import tokenize
from mhaviz.models.load import RANDOM
from mhaviz.models.transformers.folder import has_image_processor, is_file, is_folder, without_processor
from mhaviz.pages.registry import RESULT_SUFFIXES
from mhaviz.training import TRANSLATION

_PHOTOS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")

_MANY = 20  # sentences of a file up to which no notice explains --whole

Sentences = Annotated[
    list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentences in quotes; - reads them from standard input.")
]
CorpusFile = Annotated[
    Path | None,
    typer.Option(help="Read sentences from a UTF-8 file of any size, one per line; - is standard input."),
]
Target = Annotated[str | None, typer.Option(help="Sentence of the queries; for a translator, the translation.")]

instead_option = partial(typer.Option, rich_help_panel="Inputs of transformers models", hidden=True)


def _languages(text: str) -> dict[str, str | None]:
    """Parse "eng_Latn,fra_Latn" to arguments of ``mhaviz.api``. Either code may be left out."""
    source, target = (part.strip() for part in text.split(","))
    return {"source_language": source or None, "target_language": target or None}


Languages = Annotated[
    Any,
    instead_option(
        metavar="SOURCE,TARGET",
        parser=parsed(_languages, "two codes such as eng_Latn,fra_Latn"),
        help="For multilingual models: languages of the texts and of what the decoder writes.",
    ),
]


@dataclass(frozen=True, eq=False, repr=False)
class OneSentence:
    """Option for a single sentence."""

    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help="One sentence in quotes; - reads it from standard input."),
    ] = None

    file: ClassVar[Path | None] = None


@dataclass(frozen=True, eq=False, repr=False)
class Several:
    """Options for several sentences."""

    sentences: Sentences = None
    file: Annotated[Path | None, typer.Option(help="Read sentences from a UTF-8 file, one per line.")] = None


@dataclass(frozen=True, eq=False, repr=False)
class Instead:
    """Rare options for what transformers models read beside a sentence, or in its place."""

    pair: Annotated[
        str | None,
        instead_option(metavar="TEXT", help="Second text of a pair, for a model that compares SENTENCE with it."),
    ] = None
    chat: Annotated[
        Path | None,
        instead_option(
            metavar="FILE",
            help='In place of SENTENCE: JSON file of messages, \\[{"role": "user", "content": "Hello"}, …], for the '
            "model's chat template; - is standard input.",
        ),
    ] = None
    ids: Annotated[
        str | None,
        instead_option(
            metavar="N,N,…|FILE", help="In place of SENTENCE: exactly these token ids; in a file, a sequence per line."
        ),
    ] = None
    languages: Languages = None

    @property
    def files(self) -> list[Path]:
        """Files that are read for these options."""
        return [Path(name) for name in (self.chat, self.ids) if name is not None and is_file(name)]

    def read(self) -> dict[str, Any]:
        """Return arguments of ``Given``. Raises MhavizError if a file holds no chat or no ids."""
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
    images: Sequence[Path] = (),
) -> Given:
    """Check that results can be written, then return everything that a model reads.

    Args:
        model: the model, whose --input may take the place of a sentence.
        delivery: where results are written.
        given, target, instead: options for what is read.
        suffixes: suffixes of the files that can be written.
        generate: number of tokens that a decoder writes.
        whole: read all of a file as one text.
        has_example: without a sentence, a layer with random weights reads the worked example.
        images: images, beside which there may be no sentence.

    Raises:
        ArgumentError: there is no sentence, or several where one is expected; as ``Delivery.check``.
        MhavizError: a file cannot be read; as ``Delivery.check``.
    """
    files = [*([given.file] if given.file else []), *instead.files, *images]
    delivery.check([*model.files, *files], suffixes)
    require_no_photo(given.sentences or (), model)

    read = Given(
        tuple(read_sentences(given, whole)), target, generate=generate, image=tuple(images) or None, **instead.read()
    )
    is_example = has_example and model.model == RANDOM and target is None
    if not (model.options.get("input") or is_example or read.instead or images):
        require_some(read.sentences, has_file=isinstance(given, Several))
    return read


def require_no_photo(sentences: Sequence[str], model: ModelOptions) -> None:
    """Raise ArgumentError if a sentence is the name of an image, which is given by another option."""
    photo = next((one for one in sentences if Path(one).suffix.lower() in _PHOTOS and is_file(one)), None)
    if photo is None:
        return
    name, _ = split_model(model.model)
    if is_folder(name) and is_file(os.path.join(name, "config.json")) and not has_image_processor(Path(name)):  # noqa: PTH118
        raise without_processor(name, Path(name), photo)
    if not is_accepted("image"):
        advice = f"mhaviz heatmap --image {photo} draws attention over it"
    elif name in (RANDOM, TRANSLATION):
        advice = f"to draw attention over it, use --model FOLDER --image {photo}, with a folder of transformers"
    else:
        advice = f"to draw attention over it, use --image {photo}"
    raise ArgumentError(f"{photo} is an image, and no sentence; {advice}")


def read_sentences(given: OneSentence | Several, whole: bool = False) -> list[str]:
    """Read all sentences: those of the arguments, then those of the file. ``whole``: read the file as one sentence.

    Raises:
        ArgumentError: there are several sentences where one is expected, or ``whole`` without a file or standard input.
        MhavizError: a file cannot be read, is not UTF-8, or holds no sentence.
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


def read_wholes(arguments: Sequence[str] | None, files: Sequence[Path]) -> list[str]:
    """Read texts: the sentences of the arguments, then each file as one text.

    Raises:
        ArgumentError: there is no text, or standard input is named twice.
        MhavizError: a file cannot be read, is not UTF-8, or holds no text.
    """
    given = [*_arguments(arguments, None), *files]
    if [str(one) for one in given].count(str(STANDARD_INPUT)) > 1:
        raise ArgumentError("standard input can be read once, got - twice; leave out one")
    require_some(given)
    return [_whole(one) if isinstance(one, Path) else one for one in given]


def _whole(path: Path) -> str:
    text = read_text(path)
    if not text.strip():
        raise MhavizError(f"{name_of(path)} is empty: expected text")
    return text


def stream_sentences(arguments: Sequence[str] | None, file: Path | None) -> Iterator[Sentence]:
    """Iterate over all sentences: those of the arguments, then those of the file, which may be larger than memory.

    Raises:
        ArgumentError: there is no sentence.
        MhavizError: the file cannot be opened; when it is read, it is not UTF-8, or holds no sentence.
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
    """Return sentences, and files to read them from. Raises ArgumentError if a sentence is blank."""
    if blank := [one for one in sentences or () if not one.strip()]:
        raise ArgumentError(f"expected a sentence with at least one word, got {quoted(blank[0])}")
    given: list[str | Path] = [STANDARD_INPUT if one == "-" else one for one in sentences or ()]
    return given if file is None else [*given, file]


def require_some(sentences: Sequence[object], has_file: bool = True) -> None:
    """Raise ArgumentError if there is no sentence."""
    if not sentences:
        more = ", --file sentences.txt" if has_file else ""
        more += ", --image photo.png for a model of images" if is_accepted("image") else ""
        raise ArgumentError(f"no sentence: give one in quotes{more}, or - for standard input")


def quotes_notice(arguments: Sequence[str] | None) -> str | None:
    """Return a notice if each sentence is one word, as when the quotes were left out; None: no notice."""
    if not arguments or not _forgot_quotes(arguments):
        return None
    return f"drew {len(arguments)} sentences of one word each; if they are one sentence, put it in quotes"


def lines_notice(file: Path | None, whole: bool, sentences: Sequence[str]) -> str | None:
    """Return a notice on --whole if a file gave many sentences, one per line; None: no notice."""
    if file is None or whole or len(sentences) <= _MANY:
        return None
    return f"drew {len(sentences):,} sentences, one per line; --whole reads a file as one input"


def _forgot_quotes(sentences: Sequence[str]) -> bool:
    return len(sentences) > 1 and all(len(tokenize(sentence)) == 1 for sentence in sentences)


_BETWEEN = re.compile(r"[\s,]+")


def parse_ids(text: str, of: str) -> tuple[int, ...]:
    """Parse token ids: "101,2023 102" → (101, 2023, 102). Raises ArgumentError, beginning with ``of``, if it cannot."""
    parts = _BETWEEN.split(text.strip(" \t,[]"))
    for part in parts:
        if not part.isdecimal() or len(part) > 18:  # no vocabulary has more, and Python reads 4,300 digits at most
            raise ArgumentError(f"{of}: expected numbers such as 101,2023,102, or a file of them, got {quoted(part)}")
    return tuple(map(int, parts))


def read_ids(path: Path) -> tuple[tuple[int, ...], ...]:
    """Read the token ids of each line that is not blank; "-" is standard input. Raises MhavizError if it cannot."""
    try:
        lines = read_lines(path, "the ids of one sequence a line")
        return tuple(parse_ids(line.text, f"{name_of(path)}, line {line.number}") for line in lines)
    except ArgumentError as error:
        raise MhavizError(str(error)) from error


def read_chat(path: Path) -> tuple[Message, ...]:
    """Read the messages of a chat; "-" is standard input. Raises MhavizError if the file is unreadable or no chat."""
    document = read_json(path)
    if isinstance(document, dict) and "messages" in document:
        document = document["messages"]
    try:
        return require_messages(document, f"{path}: ")
    except ArgumentError as error:
        raise MhavizError(str(error)) from error
