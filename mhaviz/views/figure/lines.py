"""Lines between two columns of words, in panels side by side, with a colour for each head."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from rich.cells import cell_len

from mhaviz.inputs.spans import unit_of
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import LinkPanel, Links
from mhaviz.pages.colormaps import HEADS
from mhaviz.pages.labels import LEAST_COUNTED, count_text, counts_note, cut, placed, places
from mhaviz.results.lines import TextLinks
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import HAIR, fit, fit_text, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import FAINT, FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL
from mhaviz.views.style import Style
from mhaviz.views.tiles.lines import Line, LinesLayout, Row, lay_out

_ROW, _CAPTION, _UNDER_CAPTIONS = 0.155, 0.16, 0.06  # inches: a row of words, a line of captions, a gap below these
_SQUARE, _BESIDE, _BETWEEN = 0.08, 0.05, 0.16  # inches: colour of a head; beside words and squares; between captions
_GUTTER, _OVER_ROW, _OVER_NOTES = 0.22, 0.22, 0.08  # inches between panels, across and down; above notes
_LEAST, _SNUG, _USUAL, _ALONE = 0.55, 0.8, 1.5, 2.6  # inches of lines: least in a given width and in any, usual, alone
_LEAST_LABEL, _LEAST_OF_CUT = 0.45, 0.5  # inches: words of a side that are cut, and lines beside these, at least
_LEAST_ASIDE = 8  # least cells of the name of a special token or sink
_OF_LABELS = 0.36  # most share of a panel's width for the words of a side, if they do not need more
_MOST_LABEL = 1.1  # most inches of the words of a side, where panels stand below each other
_OVER_BARS, _BAR, _BETWEEN_BARS, _BETWEEN_KEYS = 0.05, 0.04, 0.012, 0.04  # inches of bars of special tokens and sinks
_GROUND, _OF_BARS = "#f1eeea", 0.55  # colour of the rest of a bar, and opacity of bars
_THIN, _THICKER = 0.5, 3.2  # points of a line's width: at weight 0, and more at weight 1
_PALE, _DARKER = 0.25, 0.75  # opacity of a line: at weight 0, and more at weight 1
_BEND = 0.45  # control points of a line: share of its way from its ends


@dataclass(frozen=True)
class _Label:
    """A text beside lines or bars whose name may be shortened, but no number.

    Attributes:
        name: the name.
        end: text after it, which is always whole.
        more: text after both, whole or left out: it has room where the name keeps ``LEAST_COUNTED`` cells.
        least: least cells of the name.
        size: font size.
    """

    name: str
    end: str
    more: str = ""
    least: int = 2
    size: float = BODY

    @property
    def whole(self) -> str:
        """The whole text."""
        return self.name + self.end + self.more

    def needed(self, fonts: Fonts) -> float:
        """Return the inches that the text needs at least."""
        return fonts.width(cut(self.name, self.least) + self.end, self.size) * DRAWN_WIDER + _BESIDE

    def fitted(self, side: float, fonts: Fonts) -> str:
        """Return the text in the inches of its side."""
        room = (side - _BESIDE) / DRAWN_WIDER
        end = self.end + self.more
        if fonts.width(cut(self.name, LEAST_COUNTED) + end, self.size) > room + HAIR:
            end = self.end
        return fit(lambda cells: cut(self.name, cells) + end, cell_len(self.name), room, self.size, fonts.families)


@dataclass(frozen=True, eq=False)
class _Panel:
    """A panel that has been laid out.

    Attributes:
        panel: the panel.
        layout: places of words and lines.
        lefts, rights: texts of the rows.
        asides: texts of special tokens and sinks, which have bars, and the name of all.
        sides: inches of the words at the left and at the right.
    """

    panel: LinkPanel
    layout: LinesLayout
    lefts: tuple[str, ...]
    rights: tuple[str, ...]
    asides: tuple[str, ...]
    aside: str
    sides: tuple[float, float]

    @property
    def bars_height(self) -> float:
        """Height of the bars in inches."""
        return sum(_OVER_BARS * (not i) + self.key_height for i in range(len(self.asides)))

    @property
    def key_height(self) -> float:
        """Height of the bars of a special token or sink."""
        return max(len(self.panel.heads) * (_BAR + _BETWEEN_BARS) + _BETWEEN_KEYS, _ROW)

    @property
    def height(self) -> float:
        """Height in inches without captions."""
        return _ROW * self.layout.rows + self.bars_height


@dataclass(frozen=True, eq=False)
class LinesPart(Part):
    """Panels of lines that have been measured.

    Attributes:
        panels: the panels.
        across: number of panels side by side.
        inches: width of a panel.
        fonts: fonts of the figure.
        notes: texts below the panels.
        beside: inches of captions at the right of the only panel; 0: they are above each.
        least: inches that a panel needs.
    """

    panels: tuple[_Panel, ...]
    across: int
    inches: float
    fonts: Fonts
    notes: tuple[str, ...]
    beside: float = 0.0
    least: float = 0.0

    after = 0.08
    is_picture = True

    @property
    def width(self) -> float:
        """Width in inches, or what a panel needs, if that is more."""
        return self.across * max(self.inches, self.least) + (self.across - 1) * _GUTTER + self.beside

    def height(self, room: float) -> float:
        """Return the height in inches."""
        rows = list(self._rows())
        of_panels = sum(self._row_height(row) for row in rows) + _OVER_ROW * (len(rows) - 1)
        return of_panels + _OVER_NOTES + FOOT_LINE * len(self._notes(room))

    def _notes(self, room: float) -> list[str]:
        return [line for note in self.notes for line in wrap(note, room / DRAWN_WIDER, SMALL)]

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the panels with the top left corner at (x, y)."""
        for row in self._rows():
            above = max(map(self._above, row))
            for i, panel in enumerate(row):
                left = x + i * (self.inches + _GUTTER)
                self._draw_captions(sheet, panel, left + (self.inches + _GUTTER if self.beside else 0.0), y)
                self._draw_panel(sheet, panel, left, y + above)
            y += self._row_height(row) + _OVER_ROW
        y += _OVER_NOTES - _OVER_ROW
        for i, line in enumerate(self._notes(room)):
            sheet.write(x, y + FOOT_LINE * (i + 0.5), line, SMALL, colour=QUIET)

    def _rows(self) -> Iterator[tuple[_Panel, ...]]:
        for i in range(0, len(self.panels), self.across):
            yield self.panels[i : i + self.across]

    def _row_height(self, row: Sequence[_Panel]) -> float:
        of_captions = len(self._captions(row[0].panel)) * _CAPTION if self.beside else 0.0
        return max(map(self._above, row)) + max(of_captions, *(panel.height for panel in row))

    def _captions(self, panel: LinkPanel) -> list[list[tuple[int, float, str]]]:
        """Return the lines of the captions: of each, the number of its head, its place and its text."""
        lines, x = [list[tuple[int, float, str]]()], 0.0
        for i, caption in enumerate(panel.captions):
            most = (self.beside or self.inches - _SQUARE - _BESIDE) / DRAWN_WIDER
            text = fit_text(self.fonts.shown(caption), most, SMALL, self.fonts.families)
            wide = _SQUARE + _BESIDE + self.fonts.width(text, SMALL) * DRAWN_WIDER
            if lines[-1] and (self.beside or x + wide > self.inches):
                lines.append([])
                x = 0.0
            lines[-1].append((i, x, text))
            x += wide + _BETWEEN
        return lines

    def _note(self, panel: LinkPanel) -> list[str]:
        room = self.inches / DRAWN_WIDER
        return wrap(self.fonts.shown(panel.note), room, SMALL, self.fonts.families) if panel.note else []

    def _above(self, panel: _Panel) -> float:
        """Return the inches of captions above a panel."""
        if self.beside:
            return 0.0
        lines = len(self._captions(panel.panel)) * _CAPTION + len(self._note(panel.panel)) * FOOT_LINE
        return lines + _UNDER_CAPTIONS

    def _draw_captions(self, sheet: Sheet, panel: _Panel, x: float, y: float) -> None:
        for captions in self._captions(panel.panel):
            middle = y + _CAPTION / 2
            for i, left, text in captions:
                square = (x + left, middle - _SQUARE / 2), _SQUARE, _SQUARE
                sheet.page.add_patch(Rectangle(*square, facecolor=_colour(panel.panel, i), linewidth=0))
                sheet.write(x + left + _SQUARE + _BESIDE, middle, text, SMALL, vertical="center_baseline")
            y += _CAPTION
        for line in self._note(panel.panel):
            sheet.write(x, y + FOOT_LINE / 2, line, SMALL, colour=QUIET, vertical="center_baseline")
            y += FOOT_LINE

    def _draw_panel(self, sheet: Sheet, panel: _Panel, x: float, y: float) -> None:
        begin, end = x + panel.sides[0], x + self.inches - panel.sides[1]
        is_alone = len({line.link.query for line in panel.layout.lines}) == 1
        for row, text in zip(panel.layout.left, panel.lefts, strict=True):
            self._write(sheet, row, begin - _BESIDE, y, text, is_right=True, bold=is_alone and row.has_line)
        for row, text in zip(panel.layout.right, panel.rights, strict=True):
            self._write(sheet, row, end + _BESIDE, y, text)
        for line in panel.layout.lines:
            self._draw_line(sheet, line, begin, end, y, _colour(panel.panel, line.head))
        top = y + _ROW * panel.layout.rows + _OVER_BARS
        for i, (text, (_, weights)) in enumerate(zip(panel.asides, panel.panel.asides, strict=True)):
            self._draw_bars(sheet, panel, (begin, end, top), ("" if i else panel.aside, text), weights)
            top += panel.key_height

    def _write(
        self, sheet: Sheet, row: Row, x: float, y: float, text: str, is_right: bool = False, bold: bool = False
    ) -> None:
        colour = INK if row.has_line else QUIET if row.is_folded else FAINT
        size = SMALL if row.is_folded else BODY
        where = x, y + _ROW * row.y, text, size
        align = "right" if is_right else "left"
        sheet.write(*where, colour=colour, bold=bold, align=align, vertical="center_baseline")  # type: ignore[arg-type]

    def _draw_line(self, sheet: Sheet, line: Line, begin: float, end: float, y: float, colour: str) -> None:
        """Draw a line as a Bézier curve that is level at both ends."""
        bend, first, last = _BEND * (end - begin), y + _ROW * line.begin, y + _ROW * line.end
        points = [(begin, first), (begin + bend, first), (end - bend, last), (end, last)]
        path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        weight = min(line.link.weight, 1.0)
        width, alpha = (_THIN + _THICKER * weight) * sheet.zoom, _PALE + _DARKER * weight
        sheet.page.add_patch(
            PathPatch(path, facecolor="none", edgecolor=colour, linewidth=width, alpha=alpha, capstyle="round")
        )

    def _draw_bars(
        self,
        sheet: Sheet,
        panel: _Panel,
        place: tuple[float, float, float],
        texts: tuple[str, str],
        weights: Sequence[float],
    ) -> None:
        """Draw what each head gives a special token or sink as a bar from the right; all of the line is 1."""
        begin, end, top = place
        room = panel.key_height
        y = top + (room - _BETWEEN_KEYS - len(weights) * (_BAR + _BETWEEN_BARS)) / 2
        for i, weight in enumerate(weights):
            across = (end - begin) * min(weight, 1.0)
            sheet.page.add_patch(Rectangle((begin, y), end - begin, _BAR, facecolor=_GROUND, linewidth=0))
            bar = (end - across, y), across, _BAR
            sheet.page.add_patch(Rectangle(*bar, facecolor=_colour(panel.panel, i), alpha=_OF_BARS, linewidth=0))
            y += _BAR + _BETWEEN_BARS
        middle = top + (room - _BETWEEN_KEYS) / 2
        before, after = texts
        sheet.write(end + _BESIDE, middle, after, SMALL, colour=QUIET, vertical="center_baseline")
        sheet.write(begin - _BESIDE, middle, before, SMALL, colour=QUIET, align="right", vertical="center_baseline")


def _colour(panel: LinkPanel, head: int) -> str:
    return HEADS[panel.colours[head]]


def decide_lines(block: Links, style: Style, fonts: Fonts) -> LinesPart:
    """Measure panels in the width of the page: as many side by side as have room for their words and lines."""
    n_panels, is_free, room = len(block.panels), math.isinf(style.most_across), style.across
    drawn = [(panel, lay_out(block.text, panel.heads)) for panel in block.panels]
    columns = [(*_labels(block, layout, fonts), _asides(panel, fonts)) for panel, layout in drawn]
    lefts = [one for left, _, _ in columns for one in left]
    rights = [one for _, right, bars in columns for one in (*right, *bars)]
    wide = [
        max(fonts.width(text, BODY, bold=True) for text in side) * DRAWN_WIDER + _BESIDE
        for side in ([block.aside, *(one.whole for one in lefts)], [one.whole for one in rights])
    ]
    lines, beside = _SNUG if is_free else _LEAST, 0.0
    if n_panels * (sum(wide) + lines + _GUTTER) > room + _GUTTER:  # not all stand side by side
        wide = [min(side, _MOST_LABEL) for side in wide]
    most = max(int((room + _GUTTER) / (sum(wide) + lines + _GUTTER)), 1)
    across = math.ceil(n_panels / math.ceil(n_panels / most))
    inches = (room - (across - 1) * _GUTTER) / across
    if is_free:
        inches = min(inches, sum(wide) + (_ALONE if n_panels == 1 else _USUAL))
    elif n_panels == 1 and len(captions := block.panels[0].captions) > 1:
        texts_wide = max(fonts.width(fonts.shown(text), SMALL) for text in captions) * DRAWN_WIDER
        of_captions = _GUTTER + _SQUARE + _BESIDE + texts_wide
        beside = of_captions if inches - of_captions >= sum(wide) + _ALONE else 0.0
        inches -= beside
    needed = [
        max(min(side, _LEAST_LABEL), *(one.needed(fonts) for one in labels))
        for side, labels in zip(wide, (lefts, rights), strict=True)
    ]
    sides = wide[0], wide[1]
    if sum(wide) > inches - _LEAST:
        most_of_side = _OF_LABELS * inches
        sides = min(wide[0], max(needed[0], most_of_side)), min(wide[1], max(needed[1], most_of_side))
    panels = []
    for (panel, layout), labels in zip(drawn, columns, strict=True):
        left, right, bars = (
            tuple(one.fitted(side, fonts) for one in column)
            for column, side in zip(labels, (*sides, sides[1]), strict=True)
        )
        panels.append(_Panel(panel, layout, left, right, bars, block.aside, sides))
    counts = counts_note(pair for panel in panels for pair in _counted(block.text, panel))
    notes = "; ".join(filter(None, [block.notes, counts]))
    return LinesPart(tuple(panels), across, inches, fonts, (notes, block.said), beside, sum(needed) + _LEAST_OF_CUT)


def _counted(text: TextLinks, panel: _Panel) -> Iterator[tuple[str, int]]:
    """Yield the words that a panel writes, each with its number of tokens."""
    sides = (panel.layout.left, panel.lefts, text.queries), (panel.layout.right, panel.rights, text.keys)
    for rows, labels, words in sides:
        if counts := words.counts:
            pairs = zip(rows, labels, strict=True)
            yield from ((label, counts[row.word]) for row, label in pairs if not row.is_folded)


def _labels(block: Links, layout: LinesLayout, fonts: Fonts) -> tuple[list[_Label], list[_Label]]:
    """Return the texts of the rows of both columns."""
    text = block.text
    left, right = (
        [_row_label(row, tokens, of_words, of_places) for row in rows]
        for rows, tokens in ((layout.left, text.queries), (layout.right, text.keys))
        for of_words in [fonts.labels(placed(tokens, text.has_spans, fonts.positions), 0, tokens.counts)]
        for of_places in [places(tokens, text.has_spans)]
    )
    return left, right


def _row_label(row: Row, tokens: Tokens, labels: Sequence[str], of_places: Sequence[str]) -> _Label:
    """Return "didn't #4 (3)", with its position and its number of tokens, or "⋮ 38 words" of a row that is folded."""
    if row.is_folded:
        return _Label("", f"⋮ {row.n_words:,}", f" {unit_of(tokens)}s", size=SMALL)
    name, more = _split(labels[row.word], count_text(tokens.counts[row.word] if tokens.counts else 1))
    name, end = _split(name, of_places[row.word])
    return _Label(name, end, more)


def _asides(panel: LinkPanel, fonts: Fonts) -> list[_Label]:
    """Return "[CLS] 36%" of each special token and sink that has bars."""
    parted = (fonts.shown(text).rpartition(" ") for text, _ in panel.asides)
    return [_Label(name, f" {share}", least=_LEAST_ASIDE, size=SMALL) for name, _, share in parted]


def _split(text: str, end: str) -> tuple[str, str]:
    """Return the text without an end, and this end; "" if the text does not have it."""
    return text.removesuffix(end), end if text.endswith(end) else ""
