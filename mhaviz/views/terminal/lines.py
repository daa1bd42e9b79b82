"""Lines between words in the terminal: a line of text each."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.style import Style as RichStyle
from rich.text import Text as Line

from mhaviz.errors import counted
from mhaviz.pages.blocks import LinkPanel, Links
from mhaviz.pages.colormaps import HEADS
from mhaviz.pages.labels import cut, placed, token_labels
from mhaviz.views.terminal.grid import DIM, Abilities
from mhaviz.views.text import isolated

_LABEL = 24  # most cells of a word
_MOST_LINES = 20  # of a panel
_AROUND = len(" ─   0.00 ─ ")  # cells of a line beside words and the name of its head


def links_lines(block: Links, abilities: Abilities, width: int, positions: bool) -> Iterator[Line]:
    """Yield the strongest lines of each panel, "it ─ L2 H1 0.71 ─ tired", in the order of the words or, of a single
    query, of the heads; then what special tokens and sinks get, and what is said of all lines."""
    text = block.text
    names = max(len(name.name) for panel in block.panels for name in panel.heads)
    most = max(min(_LABEL, (width - _AROUND - names) // 2), 1)
    queries, keys = (
        token_labels(placed(tokens, text.has_spans, positions), most, positions=positions, counts=tokens.counts or ())
        for tokens in (text.queries, text.keys)
    )
    wide = max(cell_len(queries[link.query]) for panel in block.panels for one in panel.heads for link in one.links)
    for i, panel in enumerate(block.panels):
        names = max(len(one.name) for one in panel.heads)
        if panel.note:
            yield from [Line()] * (i > 0)
            yield Line(isolated(cut(f"{panel.captions[0]}: {panel.note}", width)))
        links = [(number, link) for number, one in enumerate(panel.heads) for link in one.links]
        shown = {id(link) for _, link in sorted(links, key=lambda one: -one[1].weight)[:_MOST_LINES]}
        for number, link in links:
            if id(link) in shown:
                query, key = queries[link.query], keys[link.key]
                line = Line(" " * (wide - cell_len(query)) + isolated(query))
                line.append(" ─ ").append(panel.heads[number].name.ljust(names), _style(panel, number, abilities))
                yield line.append(f" {link.weight:.2f} ─ ").append(isolated(key))
        if len(links) > len(shown):
            yield Line(f"and {counted(len(links) - len(shown), 'weaker line')}; .json has all", DIM)
        for name, weights in panel.asides:
            each = ", ".join(f"{one.name} {weight:.0%}" for one, weight in zip(panel.heads, weights, strict=True))
            of_heads = f" ({each})" * (len(weights) > 1)
            yield Line(isolated(f"{block.aside}: {name}{of_heads}"), DIM)
    yield Line(block.said, DIM)


def _style(panel: LinkPanel, head: int, abilities: Abilities) -> RichStyle:
    return RichStyle(color=HEADS[panel.colours[head]]) if abilities.colours else RichStyle()
