"""What each head of a long map does, in words: the same in the terminal and in figures."""

from collections.abc import Callable

from mhaviz.records import AttentionMap, HeadSummary, MapSummary
from mhaviz.views.labels import position_text, visible


def summary_headings(summary: MapSummary) -> tuple[str, ...]:
    """Of the columns of ``summary_rows``."""
    return (
        "head",
        "mean entropy",
        f"within {summary.near}",
        "strongest sinks",
        "largest weight",
        "farthest strong link",
    )


def summary_notes(summary: MapSummary) -> str:
    """What the columns mean."""
    queries = "query" if summary.queries == 1 else "queries"
    return (
        f"means over {summary.queries:,} {queries}, on all keys; entropy in nats and as a share of that of equal "
        f"weights; within: weight on keys up to {summary.near} positions away; sinks: keys by the weight they receive, "
        f"a share of all; farthest: of each query's strongest key, if it has {summary.strong:g} or more"
    )


def summary_rows(
    attention_map: AttentionMap, summary: MapSummary, shown: Callable[[str], str] = visible, stacked: bool = False
) -> list[tuple[str, ...]]:
    """A row a head; ``shown`` makes a token fit to be shown; ``stacked``: one token a line."""
    return [
        _row(summary, f"{number}", head, shown, stacked)
        for number, head in zip(attention_map.heads, summary.heads, strict=True)
    ]


def _row(
    summary: MapSummary, number: str, head: HeadSummary, shown: Callable[[str], str], stacked: bool
) -> tuple[str, ...]:
    sinks = ("\n" if stacked else ", ").join(
        f"{position_text(sink.key, sink.token, shown)} ({_share(sink.received / summary.queries)})"
        for sink in head.sinks[:2]
    )
    between = "\n" if stacked else " "
    links = [
        f"{position_text(link.query, link.query_token, shown)}{between}→ "
        f"{position_text(link.key, link.key_token, shown)} ({link.weight:.2g})"
        if link
        else "none"
        for link in (head.strongest, head.farthest)
    ]
    ratio = f" ({head.entropy / head.uniform_entropy:.0%})" if head.uniform_entropy else ""
    local = "–" if head.local is None else _share(head.local)
    return (number, f"{head.entropy:.2f}{ratio}", local, sinks, *(links if head.local is not None else [links[0], "–"]))


def _share(share: float) -> str:
    """ "59.8%", "0.0056%": two digits of small shares, as far as they are not nothing."""
    if share >= 0.001:
        return f"{share:.1%}"
    return f"{100 * share:.2g}%" if share >= 1e-6 or share == 0 else "<0.0001%"
