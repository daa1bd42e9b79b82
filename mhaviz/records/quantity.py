"""What the numbers of a map are."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mhaviz.records.axis import Axis

Reduction = Literal["mass", "max"]


@dataclass(frozen=True)
class Quantity:
    """What the numbers of a map are, and how several become the number of one cell.

    Attributes:
        of: "weight": that of a head; "rollout": no weight of a head, but what the weights come to through this layer
            and all before it (Abnar and Zuidema 2020, arXiv 2005.00928, section 3), a single matrix.
        reduction: "mass": the mean over a cell's queries of what goes to the cell's keys, so that a row of all keys
            sums to 1; "max": the largest single number in the cell.
    """

    of: Literal["weight", "rollout"] = "weight"
    reduction: Reduction = "mass"

    @property
    def is_rollout(self) -> bool:
        """Whether the numbers are those of a rollout."""
        return self.of == "rollout"

    @property
    def name(self) -> str:
        """Of a number: what comes through several layers is a share of the row's token, no weight."""
        return "share" if self.is_rollout else "weight"

    @property
    def has_row_sums(self) -> bool:
        """Whether the sum of a row means something: largest weights have none."""
        return self.reduction == "mass"


WEIGHT = Quantity()
ROLLOUT = Quantity("rollout")


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
