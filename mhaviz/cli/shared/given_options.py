"""Options for what a model of transformers can read beside a sentence, or in its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.shared.sentences import OneText, Several
from mhaviz.errors import ArgumentError, quoted
from mhaviz.models.pretrained.folder import is_file

if TYPE_CHECKING:
    from mhaviz.records.given import Given

read_option = partial(typer.Option, rich_help_panel="What a model of transformers reads", hidden=True)

Languages = Annotated[
    str | None,
    read_option(
        metavar="SOURCE,TARGET",
        help="Of SENTENCE and of what the decoder writes, of a model of many: eng_Latn,fra_Latn.",
    ),
]


def parse_languages(text: str | None) -> dict[str, Any]:
    """ "eng_Latn,fra_Latn" → the arguments of Python's functions; either may be left out before or after the comma.

    Raises ArgumentError if it cannot be read.
    """
    source, comma, target = (part.strip() for part in ("," if text is None else text).partition(","))
    if not comma or "," in target:
        raise ArgumentError(f"--languages: expected two codes such as eng_Latn,fra_Latn, got {quoted(text)}")
    return {"source_language": source or None, "target_language": target or None}


_BESIDE = "Or --pair, --chat, --ids, as --help-all says."


@dataclass(frozen=True, eq=False, repr=False)
class OneInput(OneText):
    """One sentence, or what a model of transformers can read beside it, or in its place: few people need that, and it
    shows in --help-all.
    """

    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help=f"One sentence, in quotes; - reads it from standard input. {_BESIDE}"),
    ] = None
    pair: Annotated[
        str | None,
        read_option(metavar="TEXT", help="Second text of a pair, for a model that compares SENTENCE with it."),
    ] = None
    chat: Annotated[
        Path | None,
        read_option(
            metavar="FILE",
            help='In place of SENTENCE: messages, \\[{"role": "user", "content": "Hello"}, …], in JSON, through the '
            "chat template of the model; - is standard input.",
        ),
    ] = None
    ids: Annotated[
        str | None,
        read_option(
            metavar="N,N,…|FILE", help="In place of SENTENCE: exactly these tokens; of a file a sequence a line."
        ),
    ] = None
    languages: Languages = None

    @property
    def takes_the_place(self) -> bool:
        """Whether no sentence is needed."""
        return self.chat is not None or self.ids is not None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        of_ids = Path(self.ids) if self.ids is not None and is_file(self.ids) else None
        return [*super().files, *(path for path in (self.chat, of_ids) if path is not None)]

    def given(self, sentences: Sequence[str], target: str | None) -> "Given":
        """All of what the model is to read; files are read for it.

        Raises:
            ArgumentError: what does not go together.
            MhavizError: a file that cannot be read, or holds no chat, or no ids.
        """
        from mhaviz.files.given import parse_ids, read_chat, read_ids
        from mhaviz.records.given import Given

        ids = None
        if self.ids is not None:
            in_file = self.ids == "-" or is_file(self.ids)
            ids = read_ids(Path(self.ids)) if in_file else (parse_ids(self.ids, "--ids"),)
        return Given(
            tuple(sentences),
            target,
            self.pair,
            None if self.chat is None else read_chat(self.chat),
            ids,
            **parse_languages(self.languages),
        )


@dataclass(frozen=True, eq=False, repr=False)
class ManyInputs(Several, OneInput):
    """The same of several sentences."""

    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help=f"Sentences, in quotes; - reads them from standard input. {_BESIDE}"),
    ] = None
