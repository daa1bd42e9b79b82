"""The order and length of a table of heads."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from mhaviz.cli.shared.parsing import parsed, whole
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.inputs.probes import Probe
    from mhaviz.pages.head_numbers import Order

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
    "layer",
]
"""What heads can be ranked by; "layer" is the order of the model."""


def _top(text: str) -> int | None:
    """ "20" → 20; "all" → None."""
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
    """Which heads stand first in a table of what they look at, and how many."""

    sort: Annotated[
        SortColumn | None,
        typer.Option(metavar="COLUMN", help=f"Rank by {', '.join(get_args(SortColumn))}. \\[default: entropy]"),
    ] = None
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The other end first. \\[default: low entropy, high distance and weights]")
    ] = False
    top: Top = 16

    def order(self, probe: "Probe | None") -> "Order":
        """How the table is ordered: unasked, by the number that the texts were made for.

        Raises:
            ArgumentError: what heads read of a needle is asked for, and there is none.
        """
        from mhaviz.inputs.probes import Needle, RandomRepeats
        from mhaviz.pages.head_numbers import Order
        from mhaviz.results.head_statistics import OF_A_NEEDLE

        if self.sort in OF_A_NEEDLE and not isinstance(probe, Needle):
            raise ArgumentError(
                f"--sort {self.sort} ranks heads by what they read of a needle, and none was in the sentences"
            )
        usual = "entropy" if probe is None else "induction" if isinstance(probe, RandomRepeats) else "retrieval"
        return Order(self.sort or usual, self.reverse, self.top)
