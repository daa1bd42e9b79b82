"""What the numbers of a map are."""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.results.axis import Axis

Reduction = Literal["mass", "max"]


@dataclass(frozen=True)
class Quantity:
    """What the numbers of a map are, and how several become the number of one cell.

    Attributes:
        key: what it is called in files and in the names of maps.
        name: what one of the numbers is called in a picture.
        title_prefix: what a title says before the kind of attention: "rollout of ".
        remark: what has to be said of it beside a picture, with its source.
        is_distribution: whether the numbers of a row of all keys are shares of 1, so that rows can be compared.
        reduction: "mass": the mean over a cell's queries of what goes to the cell's keys, so that a row of all keys
            sums to 1; "max": the largest single number in the cell.
        of_all_heads: whether there is one matrix a layer, not one a head.
        through_layers: whether it is of a layer and all before it.
        is_signed: whether the numbers are changes of it, and may be below 0.
        row: what a row of the matrix is: a query, or, in pictures of one query, a head or a layer.
    """

    key: str = "weight"
    reduction: Reduction = "mass"
    name: str = "weight"
    title_prefix: str = ""
    remark: str = ""
    is_distribution: bool = True
    of_all_heads: bool = False
    through_layers: bool = False
    is_signed: bool = False
    row: Literal["query", "head", "layer"] = "query"

    @property
    def drawn_name(self) -> str:
        """Of a number, over a scale."""
        return "change" if self.is_signed else self.name

    @property
    def rows_are_shares(self) -> bool:
        """Whether rows are shares of 1, or changes of shares: the largest numbers of cells are not."""
        return self.is_distribution and self.reduction == "mass"

    @property
    def has_row_sums(self) -> bool:
        """Whether each row of all keys sums to 1."""
        return self.rows_are_shares and not self.is_signed


WEIGHT = Quantity()
ROLLOUT = Quantity(
    "rollout",
    name="share",
    title_prefix="rollout of ",
    remark="rollout: through this layer and all before it (Abnar and Zuidema 2020)",
    of_all_heads=True,
    through_layers=True,
)
"""The share of the row's token that comes from each other token, through a layer and all layers before it: the product
of their mean weights, each with the residual connection added (arXiv 2005.00928, section 3)."""

NORM = Quantity(
    "norm",
    name="norm",
    title_prefix="norms of ",
    remark="norms: ‖weight · v W_O‖, the length of what a key adds to a query's output (Kobayashi et al. 2020)",
    is_distribution=False,
)
"""The length of what a query's output gets from a key, ‖A_ij · v_j W_O‖: a weight times the norm of the key's value
after the output projection (arXiv 2004.10102, section 2.2). A row sums to no number in particular."""

UNIFORM = Quantity(
    "uniform",
    name="ratio",
    title_prefix="× uniform, ",
    remark="ratio: weight × number of keys that the query sees, 1 where it gives all of them the same",
    is_distribution=False,
)
"""How many times as much as an even share: A_ij · n_i, where n_i keys are hidden from query i by no mask. In the first
rows of a masked map, whose few keys share all weight, weights are large for no other reason."""

MEANS = {
    WEIGHT.key: replace(WEIGHT, key="mean", title_prefix="mean over heads of ", of_all_heads=True),
    UNIFORM.key: replace(UNIFORM, key="mean_uniform", title_prefix="mean over heads, × uniform, ", of_all_heads=True),
    NORM.key: replace(NORM, key="mean_norm", title_prefix="mean over heads of norms of ", of_all_heads=True),
}
"""The mean over the heads of a layer, of the numbers of this key: Ā_ij = Σ_h A_hij / n_heads."""

QUANTITIES = (ROLLOUT, *MEANS.values(), UNIFORM, NORM, WEIGHT)
"""Those that files may hold, weights last: what a file does not name is a weight. A new quantity is a row here, and the
analysis that computes it and gives its maps ``quantity=``."""


ShownNumbers = Literal["weights", "norms"]
"""What is shown of each query and key: A_ij, or ‖A_ij · v_j W_O‖."""

ShownMaps = Literal["weights", "norms", "uniform", "rollout"]


def require_shown(show: str, known: Any) -> None:
    """Raise ArgumentError unless ``show`` is one of the literals of a type."""
    if show not in get_args(known):
        raise ArgumentError(f"{parameter('show')}: expected {' or '.join(get_args(known))}, got {quoted(show)}")


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
