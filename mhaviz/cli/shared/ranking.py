"""Options of tables of heads: probes, and the ranking."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from mhaviz.cli.shared.parsing import parsed, whole
from mhaviz.errors import ArgumentError
from mhaviz.inputs.probes import Needle, Probe, RandomRepeats

if TYPE_CHECKING:
    from mhaviz.pages.head_numbers import Order


@dataclass(frozen=True, eq=False, repr=False)
class RepeatOptions:
    """Option for repeated random tokens in place of sentences."""

    random_repeat: Annotated[
        int | None,
        typer.Option(metavar="N", help="Instead of sentences: N random tokens, repeated, to find induction heads."),
    ] = None

    def probe(self, sentences: list[str] | None, file: Path | None) -> Probe | None:
        """Return the probe; None: the sentences are read. Raises ArgumentError if both are given."""
        if self.random_repeat is None:
            return None
        if sentences or file is not None:
            raise ArgumentError("--random-repeat takes the place of sentences; leave out one of them")
        return RandomRepeats(self.random_repeat)


@dataclass(frozen=True, eq=False, repr=False)
class ProbeOptions(RepeatOptions):
    """Options for repeated random tokens, or for a needle in the sentences."""

    needle: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Insert a text into each sentence at several depths, to find heads that retrieve it.",
        ),
    ] = None

    def probe(self, sentences: list[str] | None, file: Path | None) -> Probe | None:
        """Return the probe; None: the sentences are read. Raises ArgumentError if options contradict each other."""
        if self.random_repeat is not None and self.needle is not None:
            raise ArgumentError("--random-repeat and --needle are two kinds of texts; leave out one")
        return super().probe(sentences, file) if self.needle is None else Needle(self.needle)


SortColumn = Literal[
    "entropy",
    "distance",
    "itself",
    "previous",
    "next",
    "first",
    "separators",
    "copies",
    "induction",
    "sink",
    "retrieval",
    "needle",
]
"""Numbers by which heads can be ranked."""


def _top(text: str) -> int | None:
    """Parse a number of rows: "20" → 20; "all" → None."""
    if text.strip().lower() == "all":
        return None
    if (most := whole(text)) < 1:
        raise ValueError
    return most


Top = Annotated[
    Any,
    typer.Option(
        metavar="N|all",
        parser=parsed(_top, "a number of heads such as 20, or all"),
        help="Rows of the table.",
    ),
]


@dataclass(frozen=True, eq=False, repr=False)
class RankingOptions:
    """Options for the ranking of heads in a table, and for its length."""

    sort: Annotated[
        SortColumn | None,
        typer.Option(
            metavar="COLUMN",
            help=f"Rank by {', '.join(get_args(SortColumn))}. \\[default: entropy]",
        ),
    ] = None
    top: Top = 16

    def order(self, probe: Probe | None) -> "Order":
        """Return the order of the table, by default by the number that the probe measures.

        Raises:
            ArgumentError: heads are to be ranked by what they read of a needle, and there is none.
        """
        from mhaviz.pages.head_numbers import Order
        from mhaviz.results.head_statistics import OF_A_NEEDLE

        if self.sort in OF_A_NEEDLE and not isinstance(probe, Needle):
            raise ArgumentError(
                f"--sort {self.sort} ranks heads by what they read of a needle, and none was in the sentences"
            )
        usual = "entropy" if probe is None else "induction" if isinstance(probe, RandomRepeats) else "retrieval"
        return Order(self.sort or usual, self.top)
