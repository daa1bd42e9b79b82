"""Limits that several parts keep to. Nothing in here needs a library, so that help can name them at once."""

from mhaviz.errors import ArgumentError, counted, parameter

MAX_TOKENS = 2**18
"""Longer inputs take longer than most people would wait; they can be had by asking for them."""

MOST_CELLS = 512
"""Rows and columns of a map for which nobody has asked for others: with more, few pictures have pixels for all."""

MOST_LOOKED_INTO = 512
"""Tokens of a text of which single rows and what is hidden are to be seen."""

MOST_COMPARED = 4096
"""Tokens, or positions, of which every two are compared: no picture shows more, and their numbers would fill memory."""

LEAST_DPI = 20
"""Pixels an inch: with fewer, letters are less than a pixel high."""


def require_length(length: int, max_tokens: int, whole: bool = True) -> None:
    """Raise ArgumentError if these are more than ``max_tokens``; ``whole``: whether all of them have been counted."""
    if max_tokens < 1:
        raise ArgumentError(f"{parameter('max_tokens')}: expected at least 1, got {max_tokens}")
    if length > max_tokens:
        got = f"{length:,}" if whole else "more"
        raise ArgumentError(
            f"{parameter('max_tokens')}: expected an input of at most {max_tokens:,} tokens, got {got}; cut it, "
            f"or raise the limit"
        )


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
