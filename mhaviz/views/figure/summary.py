"""What each head of a long map does, as a table beside its picture."""

from mhaviz.pages.map_summary import summary_table
from mhaviz.records import AttentionMap
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.table import TableLayout as SummaryTable
from mhaviz.views.figure.table import decide_table
from mhaviz.views.figure.table import draw_table as draw_summary
from mhaviz.views.labels import quoting

__all__ = ["MOST_HEADS", "SummaryTable", "decide_summary", "draw_summary"]

MOST_HEADS = 32  # rows; a longer table is no picture any more


def decide_summary(attention_map: AttentionMap, lettering: Lettering) -> SummaryTable | None:
    """The table of a map that has a summary: a row a head, or, of a single head, a line a number."""
    m = attention_map
    if m.summary is None:
        return None
    table = summary_table(m.heads, m.summary, quoting(lettering.shown), MOST_HEADS)
    return decide_table(table, lettering, card=len(m.heads) == 1)
