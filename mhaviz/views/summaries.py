"""What each head of a long map does, in words: the same in the terminal and in figures."""

from collections.abc import Callable

from mhaviz.pages.map_summary import summary_table
from mhaviz.records import AttentionMap, MapSummary
from mhaviz.views.labels import quoting, visible


def summary_rows(
    attention_map: AttentionMap, summary: MapSummary, shown: Callable[[str], str] = visible
) -> list[tuple[str, ...]]:
    """All texts of the table, a row a head; ``shown`` makes a token fit to be shown."""
    return summary_table(attention_map.heads, summary, quoting(shown)).texts()
