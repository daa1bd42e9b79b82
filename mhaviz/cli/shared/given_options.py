"""Options for what a model of transformers can read beside a sentence, or in its place."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.console import option_name
from mhaviz.errors import ArgumentError
from mhaviz.models.pretrained.folder import is_file

if TYPE_CHECKING:
    from mhaviz.records import Given

read_option = partial(typer.Option, rich_help_panel="What a model of transformers reads", hidden=True)

SourceLanguage = Annotated[
    str | None, read_option(metavar="CODE", help="Of SENTENCE, where a model knows many: eng_Latn.")
]
TargetLanguage = Annotated[str | None, read_option(metavar="CODE", help="Of what its decoder writes: fra_Latn.")]


@dataclass(frozen=True, eq=False, repr=False)
class GivenOptions:
    """A pair, a chat, ids, and languages. Few people need them: they show in --help-all."""

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
    source_language: SourceLanguage = None
    target_language: TargetLanguage = None

    @property
    def takes_the_place(self) -> bool:
        """Whether no sentence is needed."""
        return self.chat is not None or self.ids is not None

    @property
    def files_given(self) -> list[Path]:
        """Those that are read."""
        of_ids = Path(self.ids) if self.ids is not None and is_file(self.ids) else None
        return [path for path in (self.chat, of_ids) if path is not None]

    def require_tokenizer(self, has_tokenizer: bool) -> None:
        """Raise ArgumentError if one of these is given, and the model makes tokens by words alone."""
        names = ("pair", "chat", "ids", "source_language", "target_language")
        given = [option_name(name) for name in names if getattr(self, name) is not None]
        if given and not has_tokenizer:
            raise ArgumentError(f"{', '.join(given)} goes with a model of transformers; name one by --model")

    def given(self, sentences: "list[str] | tuple[str, ...]", target: str | None) -> "Given":
        """All of what the model is to read; files are read for it.

        Raises:
            ArgumentError: what does not go together.
            MhavizError: a file that cannot be read, or holds no chat, or no ids.
        """
        from mhaviz.files.chats import read_chat
        from mhaviz.files.ids import parse_ids, read_ids
        from mhaviz.records import Given

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
            self.source_language,
            self.target_language,
        )
