"""A page for the browser of texts and tables alone, without a script: what a result says, and its text, shaded.

The page fetches nothing and runs nothing: its Content-Security-Policy allows only the style sheet in the file, by its
hash. Shades are classes of that style sheet, one for each colour that the page has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatchmethod
from html import escape

import numpy as np

from mhaviz.pages.blocks import Block, Drawn, Page, Shaded, Table, Text, leaves
from mhaviz.pages.labels import visible
from mhaviz.views.colours import needs_dark_text, palette, places
from mhaviz.views.html.policy import hash_of
from mhaviz.views.scales import resolve
from mhaviz.views.style import Style

_PLAIN = """
:root { color-scheme: light; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1.5rem; font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a;
  font-variant-numeric: tabular-nums; }
h1 { font-size: 1.25rem; line-height: 1.35; }
p { margin: 0.4rem 0; }
h2 { font-size: 1rem; margin-bottom: 0; }
progress { accent-color: #c43608; width: 8rem; }
.quiet, .subtitle, .key, th { color: #666; font-weight: normal; }
.text { font-size: 1.1rem; line-height: 1.9; margin: 0.6rem 0 0.2rem; overflow-wrap: anywhere; }
.text span { padding: 0.1em 0.15em; border-radius: 2px; }
.key { font-size: 0.85rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: 0.15rem 1.2rem 0.15rem 0; text-align: right; }
.left { text-align: left; }
"""


def write_text_page(page: Page, style: Style) -> str:
    """Return the HTML of a page whose blocks are texts, shaded texts and tables."""
    writer = _Writer(page, style)
    body = "".join(writer.lines())
    policy = f"default-src 'none'; style-src {hash_of(writer.styles)}; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{writer.title} · mhaviz</title>\n<style>{writer.styles}</style>\n</head>\n"
        f"<body>\n{body}</body>\n</html>\n"
    )


@dataclass
class _Writer:
    page: Page
    style: Style

    def __post_init__(self) -> None:
        self._scales = resolve(self.page, {}, self.style)
        self._classes: dict[str, str] = {}

    @property
    def title(self) -> str:
        """The title, escaped."""
        return escape(visible(self.style.title or str(self.page.title)))

    @property
    def styles(self) -> str:
        """The style sheet, with the shades that have been written."""
        shades = "".join(f".{name} {{ {rule} }}\n" for rule, name in self._classes.items())
        return f"{_PLAIN}{shades}"

    def lines(self) -> Iterator[str]:
        """Yield the elements of the body."""
        yield f"<h1>{self.title}</h1>\n"
        for block in leaves(self.page.blocks):
            yield from self._block(block)
        for text in (self.page.reading(Drawn()), self.page.footnote):
            yield f'<p class="quiet">{escape(visible(text))}</p>\n'

    @singledispatchmethod
    def _block(self, block: Block) -> Iterator[str]:
        raise NotImplementedError(type(block).__name__)

    @_block.register
    def _(self, block: Text) -> Iterator[str]:
        tag = "h2" if block.heading else "p"
        for line in block.lines:
            yield f'<{tag} class="{block.style}">{escape(visible(line))}</{tag}>\n'

    @_block.register
    def _(self, block: Shaded) -> Iterator[str]:
        block = self._scales.shaded(block)
        known = np.array([word.share or 0.0 for word in block.words], np.float32)
        colours = palette(block.scale.colormap)[places(known, block.scale)]
        dark = needs_dark_text(colours)
        words = list[str]()
        for word, colour, is_dark in zip(block.words, colours, dark, strict=True):
            blank, text = " " * (bool(words) and word.after_blank), escape(word.text)
            if word.share is None:
                words.append(f'{blank}<span class="quiet">{text}</span>')
                continue
            rule = f"background: #{bytes(colour).hex()}; color: {'#1a1a1a' if is_dark else 'white'}"
            name = self._classes.setdefault(rule, f"shade{len(self._classes)}")
            said = escape(block.table.columns[1].write(word.share))
            words.append(f'{blank}<span class="{name}" title="{escape(block.name)}: {said}">{text}</span>')
        yield f'<p class="text">{"".join(words)}</p>\n'
        yield f'<p class="key">{escape(block.name)}, from {block.ends[0]} to {block.ends[1]}</p>\n'

    @_block.register
    def _(self, block: Table) -> Iterator[str]:
        table, more = block.limited()

        def cell(tag: str, number: int, content: str) -> str:
            side = ' class="left"' * (table.columns[number].align == "left")
            return f"<{tag}{side}>{content}</{tag}>"

        headings = "".join(cell("th", i, escape(column.heading)) for i, column in enumerate(table.columns))
        yield f"<table>\n<tr>{headings}</tr>\n"
        for row, texts in zip(table.rows, table.texts(), strict=True):
            contents = (
                f'<progress value="{value:.4f}"></progress>' if column.bar else escape(text)
                for column, value, text in zip(table.columns, row, texts, strict=True)
            )
            yield f"<tr>{''.join(cell('td', i, content) for i, content in enumerate(contents))}</tr>\n"
        yield "</table>\n"
        if more:
            yield f'<p class="quiet">{escape(more)}</p>\n'
