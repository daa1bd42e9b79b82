"""Limits that several parts keep to. Nothing in here needs a library, so that help can name them at once."""

from mhaviz.errors import ArgumentError, counted

MOST_CELLS = 512
"""Rows and columns of a map for which nobody has asked for others: with more, few pictures have pixels for all."""

MOST_LOOKED_INTO = 512
"""Tokens of a text of which single rows and what is hidden are to be seen."""

MOST_COMPARED = 4096
"""Tokens, or positions, of which every two are compared: no picture shows more, and their numbers would fill memory."""

LEAST_DPI = 20
"""Pixels an inch: with fewer, letters are less than a pixel high."""


def require_few_tokens(study: str, number: int) -> None:
    """Raise ArgumentError if these are more than a study shows one by one."""
    if number > MOST_LOOKED_INTO:
        raise ArgumentError(
            f"{study}: expected at most {MOST_LOOKED_INTO:,} tokens, got {number:,}; mhaviz heatmap draws the weights "
            f"of longer texts"
        )


def require_comparable(number: int, things: str) -> None:
    """Raise ArgumentError if these are more than can be compared, each with each."""
    if number > MOST_COMPARED:
        raise ArgumentError(
            f"expected at most {MOST_COMPARED:,} {things}, as every two of them are compared, got {counted(number)}; "
            f"take fewer"
        )
