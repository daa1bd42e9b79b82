from dataclasses import replace

import numpy as np
import pytest
from made import Edges, made_map

from mhaviz.pages.map_summary import summary_table
from mhaviz.pages.panels import tile_titles
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink


@pytest.fixture
def window():
    """Queries 1,000 to 1,003, keys 0 to 3 of a longer input."""
    cells = Edges(np.array([1000, 1002, 1004]), np.array([0, 2, 4]))
    heads = (
        HeadSummary(
            1.0,
            4.0,
            (Sink(2, "y", 2.0), Sink(50_000, "far", 0.0004)),
            0.5,
            Link(1001, "b", 3, "z", 0.75),
            Link(1003, "d", 0, "w", 0.1),
        ),
        HeadSummary(0.0, 0.0, (Sink(0, "w", 4.0),), 4e-37, Link(1000, "a", 0, "w", 1.0), None),
    )
    weights = np.full((2, 2, 2), 0.5, np.float32)
    summary = MapSummary(heads, 4, 32, 0.1)
    return made_map(("a", "b", "c", "d"), ("w", "x", "y", "z"), weights, cells=cells, summary=summary, heads=(5, 2))


def table(m):
    return summary_table(tile_titles(m), m.summary, m.quantity.name)


def test_rows_name_tokens_by_their_position_in_the_whole_input(window):
    assert table(window).texts() == [
        (
            "L0 H5",
            "1.00 (25%)",
            "50.0%",
            "2 y (50.0%), 50,000 far (0.01%)",
            "1,001 b → 3 z (0.75)",
            "1,003 d → 0 w (0.1)",
        ),
        ("L0 H2", "0.00", "<0.0001%", "0 w (100.0%)", "1,000 a → 0 w (1)", "none"),
    ]


def test_headings_and_notes(window):
    assert "within 32" in table(window).headings()
    assert "4 queries" in table(window).notes
    assert "0.1 or more" in table(window).notes
    assert table(window).limited()[1] == ""


def test_heads_that_are_left_out_are_counted(window):
    first, left_out = replace(table(window), most=1).limited()
    assert left_out == "and 1 more; .json has all"
    assert [row[0] for row in first.texts()] == ["L0 H5"]
