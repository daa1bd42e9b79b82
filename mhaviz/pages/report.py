"""Page of a report on one sentence: its heads, the shapes of all tensors, and the effect of scaling."""

from dataclasses import replace

from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Block, Drawn, Matrices, Page, Stacks, Table, Text
from mhaviz.pages.panels import WEIGHT
from mhaviz.pages.registry import PAGE_SUFFIXES, shown
from mhaviz.pages.scaling import outlined_text, scale_remark, scaling_blocks, scaling_lesson
from mhaviz.pages.trace import costs_text, steps_table
from mhaviz.results.attention import head_name
from mhaviz.results.report import Report
from mhaviz.results.scaling import ScalingComparison
from mhaviz.results.trace import ShapeTrace

_SHOWN = ("step", "equation", "shape")  # columns of the table of steps


@shown(Report, PAGE_SUFFIXES)
def report_page(report: Report) -> Page:
    """Return the page: the heads, a table of shapes, and the weights of one head without scaling beside those with
    it."""
    page = attention_page(report.attention)
    shapes = Text(("the shapes on the way",), "heading"), _shapes(report.trace)
    blocks = *page.blocks, Stacks(shapes, _scaling(report.scaling))

    def reading(drawn: Drawn) -> str:
        return "; ".join(filter(None, [page.reading(drawn), outlined_text(drawn)]))

    return replace(page, blocks=blocks, remark=reading, fits_paper=True)


def _scaling(c: ScalingComparison) -> tuple[Block, ...]:
    """Return the weights of one head, unscaled and scaled, with their numbers."""
    panels, table = scaling_blocks(c, "")
    assert isinstance(panels, Matrices), "and a table of its numbers"
    of_weights = tuple(panel for panel in panels.panels if panel.scale.name == WEIGHT)
    heading = Text((f"{head_name(c.layer, c.heads[0])}: {scaling_lesson(c)}",), "heading")
    remark = [Text((text,), "quiet")] if (text := scale_remark(c)) else []
    return heading, *remark, replace(panels, panels=of_weights), table


def _shapes(trace: ShapeTrace) -> Table:
    table = steps_table(trace)
    places = [i for i, column in enumerate(table.columns) if column.heading in _SHOWN]
    rows = tuple(tuple(row[i] for i in places) for row in table.rows)
    notes = f"altogether {costs_text(trace.steps)}"
    return replace(table, columns=tuple(table.columns[i] for i in places), rows=rows, notes=notes)
