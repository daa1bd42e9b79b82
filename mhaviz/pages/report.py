"""Page of a report on one sentence: its heads, the shapes of all tensors, and the effect of scaling."""

from dataclasses import replace

from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Page, Table, Text
from mhaviz.pages.registry import PAGE_SUFFIXES, shown
from mhaviz.pages.scaling import scaling_blocks, scaling_lesson
from mhaviz.pages.trace import costs_text, steps_table
from mhaviz.results.attention import head_name
from mhaviz.results.report import Report
from mhaviz.results.trace import ShapeTrace

_SHOWN = ("step", "equation", "shape", "FLOPs", "bytes")  # columns of the table of steps


@shown(Report, PAGE_SUFFIXES)
def report_page(report: Report) -> Page:
    """Return the page: the heads, a table of shapes, and one head without scaling beside the same with it."""
    page, scaling = attention_page(report.attention), report.scaling
    blocks = (
        *page.blocks,
        Text(("the shapes on the way",), "heading"),
        _shapes(report.trace),
        Text((f"altogether {costs_text(report.trace.steps)}", "")),
        *scaling_blocks(scaling, f"{head_name(scaling.layer, scaling.heads[0])}: {scaling_lesson(scaling)}"),
    )
    return replace(page, blocks=blocks)


def _shapes(trace: ShapeTrace) -> Table:
    table = steps_table(trace)
    places = [i for i, column in enumerate(table.columns) if column.heading in _SHOWN]
    rows = tuple(tuple(row[i] for i in places) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in places), rows=rows)
