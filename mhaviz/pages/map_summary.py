"""Table of what each head of a long map attends to."""

from collections.abc import Sequence
from functools import partial

from mhaviz.pages.blocks import NOTHING, Column, Table
from mhaviz.pages.words import position_text
from mhaviz.results.quantity import WEIGHT
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.units import with_minus

_MOST = 32  # rows of the table


def summary_table(heads: Sequence[str], summary: MapSummary, name: str) -> Table:
    """Return the table of all heads; ``heads``: their names; ``name``: name of the map's quantity."""
    columns = (
        Column("head", align="left", is_key=True),
        Column("mean entropy", _entropy),
        Column(f"within {summary.near}", _share),
        Column("strongest sinks", partial(_sinks, summary.queries), "left"),
        Column(f"largest {name}", _link, "left"),
        Column("farthest strong link", _farthest, "left"),
    )
    rows = [
        (title, head, head.local, head.sinks, head.strongest, head)
        for title, head in zip(heads, summary.heads, strict=True)
    ]
    return Table(columns, tuple(rows), most=_MOST, notes=_notes(summary, name))


def _notes(summary: MapSummary, name: str) -> str:
    """Return what the columns mean."""
    queries = "query" if summary.queries == 1 else "queries"
    of, share, of_query = "", "weight", ""
    if name != WEIGHT.name:
        of, share, of_query = " of the weights,", f"share of a query's {name}s", f" of its query's {name}s"
    return (
        f"means over {summary.queries:,} {queries}, on all keys; entropy{of} in nats and as a share of that of equal "
        f"weights; within: {share} on keys up to {summary.near} positions away; sinks: keys by the {name} they "
        f"receive, a share of all; farthest: of each query's strongest key, if it has {summary.strong:g}{of_query} or "
        f"more"
    )


def _entropy(head: HeadSummary) -> str:
    ratio = f" ({head.entropy / head.uniform_entropy:.0%})" if head.uniform_entropy else ""
    return f"{head.entropy:.2f}{ratio}"


def _sinks(queries: int, sinks: Sequence[Sink]) -> str:
    return ", ".join(f"{position_text(sink.key, sink.token)} ({_share(sink.received / queries)})" for sink in sinks[:2])


def _link(link: Link) -> str:
    query = position_text(link.query, link.query_token)
    return f"{query} → {position_text(link.key, link.key_token)} ({with_minus(f'{link.weight:.2g}')})"


def _farthest(head: HeadSummary) -> str:
    if head.local is None:  # between two texts there are no distances
        return NOTHING
    return _link(head.farthest) if head.farthest else "none"


def _share(share: float) -> str:
    """Return "59.8%", or two digits of a small share, "0.0056%", down to "<0.0001%"."""
    if share >= 0.001:
        return f"{share:.1%}"
    return with_minus(f"{100 * share:.2g}%") if share >= 1e-6 or share == 0 else "<0.0001%"
