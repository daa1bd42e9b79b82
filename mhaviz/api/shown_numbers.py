"""Which numbers maps and statistics are of: weights, or the norms of what they weigh."""

from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

from mhaviz.attention.model import Model
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.records import NORM, WEIGHT, Quantity

ShownNumbers = Literal["weights", "norms"]
"""What is shown of each query and key: A_ij, or ‖A_ij · v_j W_O‖ (Kobayashi et al. 2020, arXiv 2004.10102)."""

QUANTITY_OF: Mapping[ShownNumbers, Quantity] = {"weights": WEIGHT, "norms": NORM}

_M = TypeVar("_M", bound=Model)


def require_shown(show: str, of_weights: Mapping[str, bool]) -> None:
    """Raise ArgumentError unless there are such numbers, and what is given goes with them.

    ``of_weights``: the names of options that have a meaning for weights alone, and whether they are given.
    """
    if show not in get_args(ShownNumbers):
        raise ArgumentError(f"{parameter('show')}: expected {' or '.join(get_args(ShownNumbers))}, got {quoted(show)}")
    given = [parameter(name) for name, is_given in of_weights.items() if is_given]
    if given and show != "weights":
        raise ArgumentError(
            f"{' and '.join(given)} goes with weights, whose rows sum to 1, as those of {parameter('show')} {show} do "
            f"not; leave out one of them"
        )


def showing(model: _M, show: ShownNumbers) -> _M:
    """The model, whose calls know what these numbers need. Raises MhavizError where its W_O cannot be found."""
    return model.with_norms() if show == "norms" else model
