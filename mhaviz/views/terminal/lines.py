"""Lines between words in the terminal: a line of text each."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.style import Style as RichStyle
from rich.text import Text as Line

from mhaviz.errors import counted
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import LinkPanel, Links
from mhaviz.pages.colormaps import HEADS
from mhaviz.pages.labels import counts_note, cut, placed, token_labels
from mhaviz.results.lines import HeadLinks, Link
from mhaviz.views.terminal.grid import DIM, Abilities
from mhaviz.views.text import isolated

_LABEL = 24  # most cells of a word
_MOST_LINES = 20  # of a panel
_FEW_PANELS, _MOST_OF_MANY = 5, 3  # panels that have these lines each, and most lines of a panel among more
_AROUND = len(" ─   0.00 ─ ")  # cells of a line beside words and the name of its head


def links_lines(block: Links, abilities: Abilities, width: int, positions: bool) -> Iterator[Line]:
    """Yield the strongest lines of each panel, "it ─ L2 H1 0.71 ─ tired", in the order of the words or, of a single
    query, of the heads, with what special tokens and sinks get; then what is said of all lines. Many panels are brief,
    as they are read on one screen."""
    text, are_many = block.text, len(block.panels) > _FEW_PANELS
    names = max(len(name.name) for panel in block.panels for name in panel.heads)
    most = max(min(_LABEL, (width - _AROUND - names) // 2), 1)
    queries, keys = (
        token_labels(placed(tokens, text.has_spans, positions), most, positions=positions, counts=tokens.counts or ())
        for tokens in (text.queries, text.keys)
    )
    shown = [_strongest(panel, _MOST_OF_MANY if are_many else _MOST_LINES) for panel in block.panels]
    links = [link for of_panel in shown for _, link in of_panel]
    wide = max(cell_len(queries[link.query]) for link in links)
    left_out = 0
    for i, (panel, of_panel) in enumerate(zip(block.panels, shown, strict=True)):
        heading, asides = f"{panel.captions[0]}: {panel.note}" if panel.note else "", _asides(block, panel)
        if are_many and cell_len(beside := "; ".join([heading, *asides])) <= width:
            heading, asides = beside, []
        if heading:
            yield from [Line()] * (i > 0 and not are_many)
            yield Line(isolated(cut(heading, width)))
        for number, link in of_panel:
            query, key = queries[link.query], keys[link.key]
            line = Line(" " * (wide - cell_len(query)) + isolated(query))
            line.append(" ─ ").append(panel.heads[number].name.ljust(names), _style(panel, number, abilities))
            yield line.append(f" {link.weight:.2f} ─ ").append(isolated(key))
        left_out += (weaker := panel.n_links - len(of_panel))
        if weaker and not are_many:
            yield Line(f"and {counted(weaker, 'weaker line')}; .json has all", DIM)
        yield from (Line(isolated(aside), DIM) for aside in asides)
    if left_out and are_many:
        yield Line(
            f"and {counted(left_out, 'weaker line')}; fewer heads have more, -o page.png and .json have all", DIM
        )
    of_queries = _counted(queries, text.queries, {link.query for link in links})
    of_keys = _counted(keys, text.keys, {link.key for link in links})
    yield from (Line(said, DIM) for said in (block.said, counts_note([*of_queries, *of_keys])) if said)


def _counted(labels: Sequence[str], words: Tokens, shown: Iterable[int]) -> Iterator[tuple[str, int]]:
    """Yield the labels of the words that are shown, each with its number of tokens."""
    if counts := words.counts:
        yield from ((labels[word], counts[word]) for word in shown)


def _strongest(panel: LinkPanel, most: int) -> list[tuple[int, Link]]:
    """Return the link that a panel names and its strongest, each with the number of its head, in their order."""
    links = [(number, link) for number, one in enumerate(panel.heads) for link in one.links]
    strongest = {
        id(link) for _, link in sorted(links, key=lambda one: (one[1] is not panel.named, -one[1].weight))[:most]
    }
    return [one for one in links if id(one[1]) in strongest]


def _asides(block: Links, panel: LinkPanel) -> list[str]:
    """Return what special tokens and sinks get from a head, "aside: [CLS] 54%, [SEP] 4%", or each from several."""
    if len(panel.heads) == 1:
        return [f"{block.aside}: {', '.join(name for name, _ in panel.asides)}"] * bool(panel.asides)
    return [
        f"{block.aside}: {name} ({', '.join(map(_of_head, panel.heads, weights))})" for name, weights in panel.asides
    ]


def _of_head(head: HeadLinks, weight: float) -> str:
    return f"{head.name} {weight:.0%}"


def _style(panel: LinkPanel, head: int, abilities: Abilities) -> RichStyle:
    return RichStyle(color=HEADS[panel.colours[head]]) if abilities.colours else RichStyle()
