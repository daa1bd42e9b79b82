"""Limits that several modules share. Nothing is imported for them, so that help texts can name them at once."""

from mhaviz.errors import ArgumentError, counted

MOST_CELLS = 512
"""Most rows and columns of a map by default. Few pictures have pixels for more."""

MOST_LOOKED_INTO = 512
"""Most tokens of a text in studies that show single rows and hidden keys."""

MOST_COMPARED = 4096
"""Most tokens or positions of which every two are compared. No picture shows more, and they would fill memory."""

LEAST_DPI = 20
"""Fewest pixels per inch. With fewer, letters are less than one pixel high."""


def require_few_tokens(study: str, number: int) -> None:
    """Raise ArgumentError if there are more tokens than ``study`` shows one by one."""
    if number > MOST_LOOKED_INTO:
        raise ArgumentError(
            f"{study}: expected at most {MOST_LOOKED_INTO:,} tokens, got {number:,}; mhaviz heatmap draws the weights "
            f"of longer texts"
        )


def require_comparable(number: int, things: str) -> None:
    """Raise ArgumentError if there are too many things to compare every two of them."""
    if number > MOST_COMPARED:
        raise ArgumentError(
            f"expected at most {MOST_COMPARED:,} {things}, as every two of them are compared, got {counted(number)}; "
            f"take fewer"
        )
