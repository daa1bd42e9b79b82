"""A page says the same in every medium."""

import re

import pytest
from drawn import texts

from mhaviz.analyses.scaling import sweep_scaling
from mhaviz.errors import MhavizError
from mhaviz.pages.blocks import Column, Curves, Table, Text
from mhaviz.pages.registry import PAGES, page_of
from mhaviz.records import (
    AlignmentErrors,
    Attention,
    Complexity,
    CostTerm,
    Difference,
    Evaluation,
    HeadStatistics,
    Implementation,
    ImplementationComparison,
    LearningPoint,
    LongestInput,
    Source,
    Timing,
    Training,
)
from mhaviz.views.figure.page import draw_page
from mhaviz.views.terminal.page import PageView

SOURCE, TIMES = Source("made by hand"), (Timing(0.1, 3, 2**20), Timing(0.4, 3, 2**22))
TERMS = (
    CostTerm("O", "H Wo", "projections", "8·N·d_model²", "4·N", (1000, 4000), (64, 256)),
    CostTerm("A", "softmax(S)", "attention", "5·n_heads·N²", "4·n_heads·N²", (500, 8000), (512, 8192)),
)
RECORDS = [
    Complexity(
        SOURCE,
        8,
        2,
        (16, 64),
        TERMS,
        4096,
        TIMES,
        TIMES,
        TIMES,
        8,
        16,
        None,
        None,
        (LongestInput("cpu", 2**20, 9),),
        5.0,
    ),
    Evaluation(SOURCE, "translation", "exact match", 0.75, 1.5, 20, True, AlignmentErrors((0.5, 0.25), 0.125, 40)),
    ImplementationComparison(
        SOURCE, (16, 64), (Implementation("loops", "for, for", True, TIMES, (1e-7, 1e-7), (1.0, 1.0)),), "float64", 5.0
    ),
    sweep_scaling(["one", "two"], 0, (2, 8), draws=2),
    Training(SOURCE, "translation", "exact match", (LearningPoint(10, 4.0, 0.5),), 10, 7500, 500, 50, 105_213),
]


def test_every_page_is_tried():
    with_maps = {Attention, Difference, HeadStatistics}  # of which pictures are tested by what they show
    assert {type(record) for record in RECORDS} == set(PAGES) - with_maps
    with pytest.raises(MhavizError, match=r"expected a record that is shown in blocks, one of .*Training, got Source"):
        page_of(SOURCE)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_paper_and_terminal_say_what_the_page_says(show, record):
    page = page_of(record)
    drawn = texts(draw_page(page))
    listed = re.sub(r"\x1b\[[0-9;]*m", "", show(PageView(page), 200))
    assert page.title in drawn
    assert (page.title in listed) == (page.title_where == "everywhere")
    assert page.footnote in drawn
    assert page.footnote in listed
    for block in page.blocks:
        if isinstance(block, Curves):
            continue
        rows = block.texts() if isinstance(block, Table) else []
        words = block.lines if isinstance(block, Text) else [text for row in rows for text in row]
        for text in filter(None, words):
            assert block.where == "drawn" or text in listed
            assert block.where == "listed" or text in drawn


def test_a_narrow_place_does_without_extra_columns(show):
    columns = (
        Column("head", is_key=True),
        Column("entropy", "{:.2f} ± 0.10".format, short="entr", stacked="{:.2f}\n±0.10".format),
        Column("", align="left", bar=20, is_extra=True),
    )
    table = Table(columns, ((0, 1.5, 0.5), (1, None, 0.0)), notes="entropy: in nats", short_notes="entr: in nats")

    class View:
        def __rich_console__(self, console, options):
            from mhaviz.views.terminal.tables import table_lines

            yield from table_lines(table, console, options)

    wide, narrow = show(View(), 60), show(View(), 16)
    assert "1.50 ± 0.10" in wide
    assert "█" * 10 in wide
    assert "entropy: in nats" in wide
    assert "±0.10" in narrow
    assert "█" not in narrow
    assert "entr: in nats" in narrow
    assert "–" in wide
    assert "–" in narrow
