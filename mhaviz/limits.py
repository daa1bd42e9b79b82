"""Limits that several parts keep to. Nothing in here needs a library, so that help can name them at once."""

MOST_CELLS = 512
"""Rows and columns of a map for which nobody has asked for others: with more, few pictures have pixels for all."""

LEAST_DPI = 20
"""Pixels an inch: with fewer, letters are less than a pixel high."""
