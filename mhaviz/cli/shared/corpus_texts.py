"""How the texts of a corpus are read: cut where they are too long, and in which language."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mhaviz.cli.shared.given_options import SourceLanguage, TargetLanguage


@dataclass(frozen=True, eq=False, repr=False)
class CorpusTexts:
    """Options of commands that read a corpus."""

    overlap: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            min=0,
            hidden=True,
            help="What two pieces share of a text that is too long for the model. \\[default: a quarter of a piece]",
        ),
    ] = None
    source_language: SourceLanguage = None
    target_language: TargetLanguage = None

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of Python's functions for these options."""
        return {
            "overlap": self.overlap,
            "source_language": self.source_language,
            "target_language": self.target_language,
        }
