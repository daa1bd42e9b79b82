"""Options of texts that are made to find heads of a certain kind, and of the intervals of what is found."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from mhaviz.records.probes import Probe


@dataclass(frozen=True, eq=False, repr=False)
class RepeatOptions:
    """Random tokens, repeated, in place of sentences; and the bootstrap of the intervals."""

    random_repeat: Annotated[
        int | None,
        typer.Option(metavar="N", help="Instead of sentences: N random tokens, repeated, to find induction heads."),
    ] = None
    sequences: Annotated[
        int | None,
        typer.Option(metavar="N", hidden=True, help="So many random sequences. \\[default: 32]", show_default=False),
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
        from mhaviz.records.probes import RandomRepeats

        if self.random_repeat is None:
            if self.sequences is not None:
                raise ArgumentError("--sequences goes with --random-repeat")
            return None
        if sentences or file is not None:
            raise ArgumentError("--random-repeat takes the place of sentences; leave out one of them")
        return RandomRepeats(self.random_repeat, 32 if self.sequences is None else self.sequences, self.seed)


@dataclass(frozen=True, eq=False, repr=False)
class ProbeOptions(RepeatOptions):
    """The same, or a needle in the sentences."""

    needle: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Put this into each sentence at several depths, and see who reads it again."),
    ] = None
    question: Annotated[
        str | None,
        typer.Option(hidden=True, help="Stands before the needle where it is read again."),
    ] = None
    depths: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            hidden=True,
            help="Where in a sentence the needle is put, from 0 to 1. \\[default: 0,0.25,0.5,0.75,1]",
            show_default=False,
        ),
    ] = None

    def probe(self, sentences: list[str] | None, file: Path | None) -> "Probe | None":
        """As ``RepeatOptions.probe``."""
        from mhaviz.records.probes import Needle

        if self.random_repeat is not None and self.needle is not None:
            raise ArgumentError("--random-repeat and --needle make two kinds of texts; leave out one")
        for name, value in (("question", self.question), ("depths", self.depths)):
            if value is not None and self.needle is None:
                raise ArgumentError(f"--{name} goes with --needle")
        if self.needle is None:
            return super().probe(sentences, file)
        usual = Needle(self.needle, self.question or "")
        return usual if self.depths is None else replace(usual, depths=_parse_depths(self.depths))


def _parse_depths(text: str) -> tuple[float, ...]:
    """ "0,0.5" → (0.0, 0.5). Raises ArgumentError if it cannot be read."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"--depths: expected numbers from 0 to 1 such as 0,0.5,1, got {quoted(text)}") from None
