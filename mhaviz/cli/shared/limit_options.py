"""Options of commands whose exit status says whether attention has changed by more than is allowed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mhaviz.records.limits import Limits


@dataclass(frozen=True, eq=False, repr=False)
class LimitOptions:
    """The largest divergences that are allowed."""

    fail_above: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="Exit with 3 if the mean divergence of a head is above this, 0 to 1."),
    ] = None
    fail_above_row: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="Exit with 3 if the divergence of a row is above this, 0 to 1."),
    ] = None

    @property
    def limits(self) -> "Limits":
        """Raises ArgumentError for bits that are not from 0 to 1."""
        from mhaviz.records.limits import Limits

        return Limits(self.fail_above, self.fail_above_row)
