"""What every head looks at, as a figure: a layers × heads panel of each number, a block for each kind of attention."""

from dataclasses import dataclass

from mhaviz.records import HeadAverages, HeadStatistics
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import BESIDE, MosaicLayout, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.sheet import (
    MARGIN,
    QUIET,
    SMALL,
    TITLE,
    Sheet,
    foot_height,
    redraw_coarser,
    snap,
    text_width,
    wrap,
)
from mhaviz.views.head_statistics import (
    COLUMNS,
    counts_text,
    known_columns,
    left_out_text,
    named_scales,
    notes,
    panels,
    reading_text,
    scales,
    title,
)
from mhaviz.views.look import Look
from mhaviz.views.panels import Panel

_TITLE, _LINE, _BETWEEN = 0.3, 0.15, 0.25  # inches: over a block, of its notes, after it
_SCALE_WIDTH = 0.85  # inches, the numbers and the name beside the bar included
_LEAST_BAR, _MOST_BAR = 0.6, 2.5
_SCALE_NAME = 0.4  # inches, for the name over a bar and the gap to the one above
_MOST_WIDTH, _LEAST_WIDTH = 15.0, 5.5  # inches; what is narrower has no room for the notes
_COLUMNS = 5  # tiles side by side where several kinds are to have cells of one size
_PITCH = 1.1 * max(text_width(column.name, SMALL, bold=True) for column in COLUMNS)  # inches, for titles over tiles


@dataclass(frozen=True)
class _Block:
    """A kind of attention: its panels, how they stand, and what is said of them."""

    title: str
    note: str
    panels: list[Panel]
    layout: MosaicLayout

    @property
    def height(self) -> float:
        """In inches, with its title and its note."""
        return _TITLE + self.layout.height + 0.1 + _LINE * bool(self.note)


def head_statistics_figure(statistics: HeadStatistics, look: Look | None = None) -> Sheet:
    """Draw the means of all numbers; weights share one scale, from 0 to 1, entropy and distance have their own."""
    return redraw_coarser(lambda coarser: _sheet(statistics, coarser), look or Look())


def _sheet(s: HeadStatistics, look: Look) -> Sheet:
    blocks = [_block(s, kind, look) for kind in s.kinds]
    bars = named_scales(s, look.cmap)
    remark = "; ".join(filter(None, [reading_text(s), left_out_text(s)]))

    mosaics = max(block.layout.width for block in blocks)
    texts = max(text_width(block.title, TITLE, bold=True) for block in blocks)
    width = 2 * MARGIN + max(mosaics + BESIDE + _SCALE_WIDTH, texts, _LEAST_WIDTH)
    lines = wrap(notes(known_columns(s.kinds)), width - 2 * MARGIN, SMALL)
    blocks_height = sum(block.height + _BETWEEN for block in blocks)
    bar = min(max(blocks_height / len(bars) - _SCALE_NAME, _LEAST_BAR), _MOST_BAR)
    pictures = max(blocks_height, _TITLE + len(bars) * (bar + _SCALE_NAME))
    foot = foot_height(width, s.source.footnote, remark)
    height = 2 * MARGIN + pictures + _LINE * len(lines) + 0.1 + foot
    sheet = Sheet(snap(width, look.dpi), snap(height, look.dpi), look.dpi)

    y = MARGIN + _TITLE + blocks[0].layout.tile(0)[1]
    for name, scale in bars.items():
        draw_scale(sheet, MARGIN + mosaics + BESIDE, y, bar, scale, name)
        y += bar + _SCALE_NAME
    y = MARGIN
    for block in blocks:
        sheet.write(MARGIN, y + 0.1, block.title, TITLE, bold=True)
        draw_mosaic(sheet, MARGIN, y + _TITLE, block.layout, block.panels)
        if block.note:
            sheet.write(MARGIN, y + block.height - _LINE / 2, block.note, SMALL, colour=QUIET)
        y += block.height + _BETWEEN
    y = MARGIN + pictures
    for line in lines:
        sheet.write(MARGIN, y, line, SMALL, colour=QUIET)
        y += _LINE
    sheet.foot(s.source.footnote, remark)
    return sheet


def _block(s: HeadStatistics, kind: HeadAverages, look: Look) -> _Block:
    shown = panels(kind, known_columns(s.kinds), scales(s, look.cmap))
    layout = decide_mosaic(
        len(shown),
        [f"{layer}" for layer in kind.layers],
        [f"{head}" for head in range(kind.entropy.mean.shape[1])],
        Lettering(),
        look.dpi,
        _COLUMNS if len(s.kinds) > 1 else None,
        _MOST_WIDTH,
        text_length=max(panel.text_length for panel in shown),
    )
    return _Block(title(kind), counts_text(kind), shown, layout.spread(_PITCH))
