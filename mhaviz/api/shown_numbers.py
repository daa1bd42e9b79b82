"""Which numbers maps and statistics are of: weights, or the norms of what they weigh."""

from typing import Any, Literal, TypeVar, get_args

from mhaviz.attention.model import Model
from mhaviz.errors import ArgumentError, parameter, quoted

ShownNumbers = Literal["weights", "norms"]
"""What is shown of each query and key: A_ij, or ‖A_ij · v_j W_O‖ (Kobayashi et al. 2020, arXiv 2004.10102)."""

ShownMaps = Literal["weights", "norms", "rollout"]
"""The same of maps; or attention rollout up to each layer (Abnar and Zuidema 2020, arXiv 2005.00928)."""

_M = TypeVar("_M", bound=Model)


def require_shown(show: str, known: Any) -> None:
    """Raise ArgumentError unless ``show`` is one of the literals of a type."""
    if show not in get_args(known):
        raise ArgumentError(f"{parameter('show')}: expected {' or '.join(get_args(known))}, got {quoted(show)}")


def showing(model: _M, show: ShownMaps) -> _M:
    """The model, whose calls know what these numbers need. Raises MhavizError where its W_O cannot be found."""
    return model.with_norms() if show == "norms" else model
