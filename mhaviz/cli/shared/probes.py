"""Options of texts that are made to find heads of a certain kind, and of the intervals of what is found."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.inputs.probes import Probe


@dataclass(frozen=True, eq=False, repr=False)
class RepeatOptions:
    """Random tokens, repeated, in place of sentences; and the bootstrap of the intervals."""

    random_repeat: Annotated[
        int | None,
        typer.Option(metavar="N", help="Instead of sentences: N random tokens, repeated, to find induction heads."),
    ] = None
    seed: Annotated[
        int, typer.Option(metavar="N", hidden=True, help="Of random tokens, and of the bootstrap's draws.")
    ] = 0
    replicates: Annotated[
        int,
        typer.Option(metavar="N", hidden=True, help="Of the bootstrap that 95 % intervals are of; 0: no intervals."),
    ] = 1000

    def probe(self, sentences: list[str] | None, file: Path | None) -> "Probe | None":
        """What texts are made for, if they are. Raises ArgumentError for what does not go together."""
        from mhaviz.inputs.probes import RandomRepeats

        if self.random_repeat is None:
            return None
        if sentences or file is not None:
            raise ArgumentError("--random-repeat takes the place of sentences; leave out one of them")
        return RandomRepeats(self.random_repeat, seed=self.seed)


@dataclass(frozen=True, eq=False, repr=False)
class ProbeOptions(RepeatOptions):
    """The same, or a needle in the sentences."""

    needle: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Text put into each sentence at several depths, to find the heads that retrieve it."
        ),
    ] = None

    def probe(self, sentences: list[str] | None, file: Path | None) -> "Probe | None":
        """As ``RepeatOptions.probe``."""
        from mhaviz.inputs.probes import Needle

        if self.random_repeat is not None and self.needle is not None:
            raise ArgumentError("--random-repeat and --needle make two kinds of texts; leave out one")
        return super().probe(sentences, file) if self.needle is None else Needle(self.needle)
