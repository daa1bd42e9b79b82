"""What the numbers of a map are."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mhaviz.records.axis import Axis

Reduction = Literal["mass", "max"]


@dataclass(frozen=True)
class Quantity:
    """What the numbers of a map are, and how several become the number of one cell.

    Attributes:
        of: what it is called in files.
        name: of a number, in a picture.
        over: what a title says before the kind of attention.
        remark: what has to be said of it beside a picture, with its source.
        reduction: "mass": the mean over a cell's queries of what goes to the cell's keys, so that a row of all keys
            sums to 1; "max": the largest single number in the cell.
        through_layers: whether it is of a layer and all before it: one matrix a layer, not one a head.
        is_signed: whether the numbers are changes of it, and may be below 0.
    """

    of: str = "weight"
    reduction: Reduction = "mass"
    name: str = "weight"
    over: str = ""
    remark: str = ""
    through_layers: bool = False
    is_signed: bool = False

    @property
    def drawn_name(self) -> str:
        """Of a number, over a scale."""
        return "change" if self.is_signed else self.name

    @property
    def has_row_sums(self) -> bool:
        """Whether the sum of a row means something: largest numbers have none."""
        return self.reduction == "mass"


WEIGHT = Quantity()
ROLLOUT = Quantity(
    "rollout",
    name="share",
    over="rollout of ",
    remark="rollout: through this layer and all before it (Abnar and Zuidema 2020)",
    through_layers=True,
)
"""Of the row's token: what the weights come to through a layer and all before it (arXiv 2005.00928, section 3)."""

QUANTITIES = (ROLLOUT, WEIGHT)
"""Those that files may hold, weights last: what a file does not name is a weight. A new quantity is a row here, and the
analysis that computes it."""


class Cells(NamedTuple):
    """What the cells of a map stand for, without their numbers."""

    rows: Axis
    columns: Axis
    quantity: Quantity

    @property
    def are_tokens(self) -> bool:
        """Whether each cell is the number between one query and one key."""
        return not (self.rows.is_pooled or self.columns.is_pooled)

    def pooled(self, rows: int, columns: int) -> "Cells":
        """At most so many equally large cells, by their own rule; of single numbers the largest stays."""
        if rows >= len(self.rows) and columns >= len(self.columns):
            return self
        quantity = replace(self.quantity, reduction="max") if self.are_tokens else self.quantity
        return Cells(self.rows.pooled(rows), self.columns.pooled(columns), quantity)
