"""What holds where nobody says otherwise, and has to be known before anything heavy is loaded."""

MOST_CELLS = 512
"""Rows and columns of a map: with more, few pictures have pixels for all."""
