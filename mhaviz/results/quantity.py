"""Quantities that a map may show: weights, norms, rollout and others, and how they are pooled to cells."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.results.axis import Axis

Reduction = Literal["mass", "max"]


@dataclass(frozen=True)
class Quantity:
    """Meaning of the numbers of a map, and how they are pooled to cells.

    Attributes:
        key: name in files and in the names of maps.
        name: name of one number in a picture.
        title_prefix: start of a title, before the kind of attention: "rollout of ". What it is a mean over stands
            before it.
        remark: explanation that is printed beside a picture, with its source.
        is_distribution: whether the numbers of a row of all keys sum to 1, so that rows can be compared.
        reduction: "mass": the sum over the keys of a cell, averaged over its queries, so that a row of all keys still
            sums to 1; "max": the largest single number in the cell.
        is_ratio: whether the numbers are ratios, of which 1 is neutral, as 0 is of changes.
        of_all_heads: whether there is one matrix for each layer, not for each head.
        through_layers: whether it covers a layer and all layers before it.
        is_signed: whether the numbers may be negative, as changes are, and those of ``RELEVANCE``.
        is_change: whether the numbers are changes of the quantity.
        row: what a row of the matrix is: a query, or, in pictures of one query, a head or a layer.
    """

    key: str = "weight"
    reduction: Reduction = "mass"
    name: str = "weight"
    title_prefix: str = ""
    remark: str = ""
    is_distribution: bool = True
    is_ratio: bool = False
    of_all_heads: bool = False
    through_layers: bool = False
    is_signed: bool = False
    is_change: bool = False
    row: Literal["query", "head", "layer"] = "query"

    @property
    def drawn_name(self) -> str:
        """Name of the numbers at a colour scale."""
        return "change" if self.is_change else self.name

    @property
    def rows_are_shares(self) -> bool:
        """Whether rows are shares of 1, or changes of such shares. Cells of largest numbers are not."""
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
"""Attention rollout: share of a row's token that comes from each token, through a layer and all layers before it. It is
the product of the layers' mean weights, each with the residual connection added (arXiv 2005.00928, section 3)."""

NORM = Quantity(
    "norm",
    name="norm",
    title_prefix="norms of ",
    remark="norms: ‖weight · v W_O‖, the length of what a key adds to a query's output (Kobayashi et al. 2020)",
    is_distribution=False,
)
"""Norm of what a key adds to a query's output, ‖A_ij · v_j W_O‖: the weight times the norm of the key's value after the
output projection (arXiv 2004.10102, section 2.2). Rows have no fixed sum."""

UNIFORM = Quantity(
    "uniform",
    name="ratio",
    title_prefix="× uniform, ",
    remark="ratio: weight × number of keys that the query sees, 1 where it gives all of them the same",
    is_distribution=False,
    is_ratio=True,
)
"""Ratio of a weight to that of uniform attention: A_ij · n_i, where query i sees n_i keys. The first rows of a masked
map have large weights only because they have few keys; their ratios can be compared with those of other rows."""

RELEVANCE = Quantity(
    "relevance",
    name="weight × gradient",
    title_prefix="relevance of ",
    remark="relevance: weight × ∂y/∂weight, what a weight adds to y to first order; an estimate, no proof of cause",
    is_distribution=False,
    is_signed=True,
)
"""A_ij ∂y/∂A_ij for a scalar y of the model's output, such as a logit (Chefer et al. 2021, arXiv 2103.15679, equation
5, before heads are averaged): positive where the weight raises y."""

RAISES, LOWERS = (
    replace(RELEVANCE, key=f"relevance_{key}", title_prefix=f"{prefix} y, ", remark=remark, is_signed=False)
    for key, prefix, remark in (
        ("positive", "raises", RELEVANCE.remark),
        ("negative", "lowers", f"{RELEVANCE.remark}; of weights that lower y, without the sign"),
    )
)
"""Positive and negative parts of ``RELEVANCE``, each pooled by itself; the latter without their sign."""

MEANS = {
    WEIGHT.key: replace(WEIGHT, key="mean", of_all_heads=True),
    UNIFORM.key: replace(UNIFORM, key="mean_uniform", of_all_heads=True),
    NORM.key: replace(NORM, key="mean_norm", of_all_heads=True),
    RELEVANCE.key: replace(RELEVANCE, key="mean_relevance", of_all_heads=True),
    RAISES.key: replace(RAISES, key="mean_relevance_positive", of_all_heads=True),
    LOWERS.key: replace(LOWERS, key="mean_relevance_negative", of_all_heads=True),
}
"""Mean over heads, Ā_ij = Σ_h A_hij / n_heads, by the key of the quantity that is averaged."""

QUANTITIES = (ROLLOUT, *MEANS.values(), UNIFORM, NORM, RELEVANCE, RAISES, LOWERS, WEIGHT)
"""Quantities that files may hold. Weights are last, as a file that names no quantity holds weights. To add a quantity,
add it here, and pass it as ``quantity=`` to the maps of the analysis that computes it."""

ShownMaps = Literal["weights", "norms", "uniform", "rollout", "relevance"]
"""Number shown for each query and key."""


def require_shown(show: str) -> None:
    """Raise ArgumentError unless ``show`` is one of ``ShownMaps``."""
    if show not in get_args(ShownMaps):
        raise ArgumentError(f"{parameter('show')}: expected {' or '.join(get_args(ShownMaps))}, got {quoted(show)}")


class Cells(NamedTuple):
    """Axes and quantity of a map, without its numbers."""

    rows: Axis
    columns: Axis
    quantity: Quantity

    @property
    def are_tokens(self) -> bool:
        """Whether each cell is a single query and a single key."""
        return not (self.rows.is_pooled or self.columns.is_pooled)

    def pooled(self, rows: int, columns: int) -> "Cells":
        """Merge into at most ``rows`` × ``columns`` cells by the quantity's reduction, or by the largest number where
        each cell is one token."""
        if rows >= len(self.rows) and columns >= len(self.columns):
            return self
        quantity = replace(self.quantity, reduction="max") if self.are_tokens else self.quantity
        return Cells(self.rows.pooled(rows), self.columns.pooled(columns), quantity)
